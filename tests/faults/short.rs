//! Short forms of the scenarios of `make chaos`, and a test of the next folder after a shutdown.

use std::time::Duration;

use crate::faults::scenarios;
use crate::faults::service::{LIGHT, PAGES, PREFIX, Service, Stored, builder};
use crate::rig::fold::JournalKeys;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::{PATIENCE, until};

each_is_exact! {
    a_folder_killed_in_a_round_loses_nothing: scenarios::folders_killed(1, 1, seed());
    a_folder_frozen_beyond_its_lease_loses_nothing: scenarios::folders_frozen(1, 1, seed());
    five_instances_with_clocks_up_to_an_hour_apart_are_exact: scenarios::clocks_apart(3, seed());
    a_full_journal_loses_nothing: scenarios::journal_full(Duration::from_secs(2), seed());
    a_server_killed_in_a_round_loses_nothing: scenarios::servers_killed(2, seed());
    failovers_in_a_round_are_exact: scenarios::failovers(3, seed());
    a_deleted_journal_is_reported_as_a_hole: scenarios::deleted(false, 2, seed());
    a_deleted_state_is_a_reset: scenarios::deleted(true, 2, seed());
    killed_connections_and_a_frozen_server_lose_nothing:
        scenarios::kills_and_freezes(25, 5, 0, LIGHT, seed());
    after_lost_replies_all_numbers_are_exact: scenarios::lost_replies(60, seed());
    sigterm_under_load_loses_nothing: scenarios::sigterm(2, PATIENCE, seed());
}

#[tokio::test]
async fn after_sigkill_at_most_one_flush_interval_is_missing() {
    // Allows twice the flush interval, because the machine may be busy with other tests.
    let report = scenarios::sigkill(2, 500, Duration::from_secs(1), seed()).await;
    assert!(report.faults.is_empty(), "{report:#?}");
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
    second.requests(PAGES).await;
    first.pulse.shutdown().await.unwrap();
    // A shutdown frees the lease, so the other instance need not wait until the lease expires.
    assert_ne!(keys.folder(conn).await, Some(first.health().instance));
    let instance = second.health().instance;
    until("the other instance folds", async || {
        second.requests(PAGES).await;
        keys.folder(&mut conn.clone()).await.as_ref() == Some(&instance)
    })
    .await;
    second.end().await;
    let differences = second.differences(&Stored::read(conn).await);
    assert!(differences.is_empty(), "{differences:#?}");
}
