//! The short forms of the folding scenarios of `make chaos`, and which instance folds after another has
//! ended.

use std::time::Duration;

use crate::folds;
use crate::rig::fold::JournalKeys;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{PAGES, PREFIX, Service, Stored, builder};

#[tokio::test]
async fn a_folder_killed_in_a_round_loses_nothing() {
    folds::folders_killed(2, 1, seed()).await.assert_exact();
}

#[tokio::test]
async fn a_folder_frozen_beyond_its_lease_doubles_nothing() {
    folds::folders_frozen(2, 1, seed()).await.assert_exact();
}

#[tokio::test]
async fn five_instances_with_clocks_up_to_an_hour_apart_are_exact() {
    folds::clocks_apart(5, seed()).await.assert_exact();
}

#[tokio::test]
async fn a_full_journal_loses_nothing() {
    let time = Duration::from_secs(2);
    folds::journal_full(time, seed()).await.assert_exact();
}

#[tokio::test]
async fn a_server_killed_in_a_round_loses_nothing() {
    folds::servers_killed(4, seed()).await.assert_exact();
}

#[tokio::test]
async fn failovers_in_a_round_are_exact() {
    folds::failovers(3, seed()).await.assert_exact();
}

#[tokio::test]
async fn a_deleted_journal_is_reported_as_a_hole() {
    folds::journal_deleted(2, seed()).await.assert_exact();
}

#[tokio::test]
async fn a_deleted_state_is_a_reset() {
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
    // Nobody waits for the lease to expire.
    assert_ne!(keys.folder(conn).await, Some(first.health().instance));
    let instance = second.health().instance;
    until("the other one folds", async || {
        keys.folder(&mut conn.clone()).await.as_ref() == Some(&instance)
    })
    .await;
    load.stop().await;
    second.settle().await;
    second.pulse.shutdown().await.unwrap();
    let differences = second.differences(&Stored::read(conn).await);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A shutdown is complete when all calls are in the journal, folded or not.
#[tokio::test]
async fn unfolded_entries_wait_for_the_next_instance() {
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
    assert_eq!(Stored::read(conn).await.by_page(), PAGES as i64);
    keys.free_lease(conn).await;
    let next = first.join(builder(&server.url()));
    until("the next one has folded it", async || {
        keys.unfolded(&mut conn.clone()).await == 0
    })
    .await;
    next.pulse.shutdown().await.unwrap();
    let differences = next.differences(&Stored::read(conn).await);
    assert!(differences.is_empty(), "{differences:#?}");
}
