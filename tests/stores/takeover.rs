//! Another instance takes over when the folder is gone.

use std::time::Duration;

use tower_pulse::{Pulse, Task};

use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;
use crate::rig::wait::{until, until_within};

fn instance(server: &RedisServer) -> (Pulse, Vec<Task>) {
    Pulse::builder()
        .redis(server.url())
        .flush_interval(Duration::from_millis(200))
        .build_with_tasks()
        .unwrap()
}

/// How many runs of a timer can be read.
async fn runs(pulse: &Pulse) -> i64 {
    let slices = pulse.backend().counter("hits:job", 3_600).await.unwrap();
    slices.iter().map(|(_, n)| n).sum()
}

/// Starts two instances, the first of which is the folder.
async fn pair(server: &RedisServer) -> (Pulse, Vec<tokio::task::JoinHandle<()>>, Pulse) {
    let (first, tasks) = instance(server);
    let tasks = tasks.into_iter().map(tokio::spawn).collect();
    first.timer("job").stop();
    first.flush().await.unwrap();
    assert!(first.health().fold.journal.unwrap().is_folder);
    let (second, others) = instance(server);
    others.into_iter().for_each(|task| drop(tokio::spawn(task)));
    second.timer("job").stop();
    // The first instance folds this call.
    second.flush().await.unwrap();
    assert!(!second.health().fold.journal.unwrap().is_folder);
    assert_eq!(runs(&second).await, 2);
    (first, tasks, second)
}

#[tokio::test]
async fn a_folder_that_shuts_down_is_replaced_at_once() {
    let server = RedisServer::start().await;
    let (first, _tasks, second) = pair(&server).await;
    first.shutdown().await.unwrap();
    second.timer("job").stop();
    // Two flushes and a look, long before a lease of 5 s would end.
    let most = Duration::from_secs(4);
    let took = until_within(most, "the third run can be read", async || {
        runs(&second).await == 3
    })
    .await;
    assert!(second.health().fold.journal.is_some(), "after {took:?}");
    second.flush().await.unwrap();
    assert!(second.health().fold.journal.unwrap().is_folder);
}

#[tokio::test]
async fn a_folder_that_dies_is_replaced_when_its_lease_ends() {
    let server = RedisServer::start().await;
    let (first, tasks, second) = pair(&server).await;
    tasks.iter().for_each(|task| task.abort());
    second.timer("job").stop();
    let most = Duration::from_secs(8);
    until_within(most, "the third run can be read", async || {
        runs(&second).await == 3
    })
    .await;
    second.flush().await.unwrap();
    let journal = second.health().fold.journal.unwrap();
    assert!(journal.is_folder);
    assert_eq!((journal.bytes, journal.oldest_age_seconds), (0, None));
    // Samples that the first instance still held are flushed when its tasks run again.
    first.timer("job").stop();
    first.flush().await.unwrap();
    assert_eq!(runs(&second).await, 4);
}

#[tokio::test]
async fn a_journal_without_a_folder_waits_for_the_next_instance() {
    let server = RedisServer::start().await;
    let (first, tasks) = instance(&server);
    let tasks: Vec<_> = (tasks.into_iter())
        .filter(|task| task.name() != "fold")
        .map(tokio::spawn)
        .collect();
    first.timer("job").stop();
    until("it is appended", async || {
        first
            .health()
            .fold
            .journal
            .is_some_and(|journal| journal.entries > 0)
    })
    .await;
    assert_eq!(runs(&first).await, 0);
    let journal = first.health().fold.journal.unwrap();
    // At the turn of a minute the instance also tells of its machine, in an entry of its own.
    assert!(journal.entries > 0 && journal.bytes > 0, "{journal:?}");
    assert_eq!(journal.folder, None);
    tasks.iter().for_each(|task| task.abort());
    drop(first);
    let (second, tasks) = instance(&server);
    tasks.into_iter().for_each(|task| drop(tokio::spawn(task)));
    second.timer("job").stop();
    second.flush().await.unwrap();
    assert_eq!(runs(&second).await, 2);
}
