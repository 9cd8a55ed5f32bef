//! Another instance takes over when the folder is gone.

use std::time::{Duration, Instant};

use tower_pulse::{Pulse, Task};

use crate::rig::server::RedisServer;

fn instance(server: &RedisServer) -> (Pulse, Vec<Task>) {
    Pulse::builder()
        .redis(server.url())
        .flush_interval(Duration::from_millis(200))
        .build_with_tasks()
        .unwrap()
}

/// Waits until a condition holds.
async fn until(
    condition_name: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(
            start.elapsed() < deadline,
            "not within {deadline:?}: {condition_name}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    start.elapsed()
}

/// The number of runs of a timer that can be read.
async fn runs(pulse: &Pulse) -> i64 {
    let slices = pulse.store().counter("hits:job", 3_600).await.unwrap();
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
    // Two flushes and a read of the journal take less time than a lease of 5 s needs to expire.
    let took = until("read", Duration::from_secs(4), async || {
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
    let deadline = Duration::from_secs(8);
    until("read", deadline, async || runs(&second).await == 3).await;
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
    until("appended", Duration::from_secs(5), async || {
        first
            .health()
            .fold
            .journal
            .is_some_and(|journal| journal.entries > 0)
    })
    .await;
    assert_eq!(runs(&first).await, 0);
    let journal = first.health().fold.journal.unwrap();
    assert_eq!((journal.entries, journal.folder), (1, None));
    assert!(journal.bytes > 0);
    tasks.iter().for_each(|task| task.abort());
    drop(first);
    let (second, tasks) = instance(&server);
    tasks.into_iter().for_each(|task| drop(tokio::spawn(task)));
    second.timer("job").stop();
    second.flush().await.unwrap();
    assert_eq!(runs(&second).await, 2);
}
