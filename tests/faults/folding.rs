//! The short forms of what `make chaos` does to folding, and who folds when an instance ends.

use std::time::{Duration, Instant};

use crate::folds;
use crate::rig::fold::JournalKeys;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{Found, PAGES, PREFIX, Service, builder};

#[tokio::test]
async fn the_folder_is_killed_in_the_middle_of_a_round() {
    folds::folders_killed(2, 1, seed()).await.assert_exact();
}

#[tokio::test]
async fn the_folder_is_frozen_beyond_its_lease_and_revived() {
    folds::folders_frozen(2, 1, seed()).await.assert_exact();
}

#[tokio::test]
async fn five_clocks_up_to_an_hour_apart() {
    folds::clocks_apart(5, seed()).await.assert_exact();
}

#[tokio::test]
async fn the_journal_at_its_bound() {
    let time = Duration::from_secs(2);
    folds::journal_full(time, seed()).await.assert_exact();
}

#[tokio::test]
async fn the_server_is_killed_in_the_middle_of_a_round() {
    folds::servers_killed(4, seed()).await.assert_exact();
}

#[tokio::test]
async fn failovers_in_the_middle_of_a_round() {
    folds::failovers(3, seed()).await.assert_exact();
}

#[tokio::test]
async fn the_journal_is_deleted_under_load() {
    folds::journal_deleted(2, seed()).await.assert_exact();
}

#[tokio::test]
async fn the_state_is_deleted_under_load() {
    folds::state_deleted(2, seed()).await.assert_exact();
}

#[tokio::test]
async fn another_instance_folds_soon_after_a_shutdown() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let keys = JournalKeys::below(PREFIX);
    let first = Service::new(builder(&server.url()));
    first.requests(PAGES).await;
    first.settle().await;
    let folder = keys.folder(conn).await;
    assert_eq!(folder, Some(first.health().instance));
    let second = first.join(builder(&server.url()));
    let load = second.load(seed());
    until("both are in the journal", async || {
        second.health().flush.last_flush_age_seconds.is_some()
    })
    .await;
    first.pulse.shutdown().await.unwrap();
    let start = Instant::now();
    let instance = second.health().instance;
    until("the other one folds", async || {
        keys.folder(&mut conn.clone()).await.as_ref() == Some(&instance)
    })
    .await;
    // Much sooner than a lease ends.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    load.stop().await;
    second.settle().await;
    second.pulse.shutdown().await.unwrap();
    let differences = second.differences(&Found::read(conn).await);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A shutdown has done its work when everything is in the journal.
#[tokio::test]
async fn what_nobody_has_folded_waits_for_the_next_instance() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let keys = JournalKeys::below(PREFIX);
    let first = Service::new(builder(&server.url()));
    first.requests(PAGES).await;
    first.settle().await;
    keys.stop_folding(conn).await;
    first.requests(10 * PAGES).await;
    first.pulse.shutdown().await.unwrap();
    assert!(keys.unfolded(conn).await > 0);
    assert_eq!(Found::read(conn).await.by_page(), PAGES as i64);
    keys.free_lease(conn).await;
    let next = first.join(builder(&server.url()));
    until("the next one has folded it", async || {
        keys.unfolded(&mut conn.clone()).await == 0
    })
    .await;
    next.pulse.shutdown().await.unwrap();
    let differences = next.differences(&Found::read(conn).await);
    assert!(differences.is_empty(), "{differences:#?}");
}
