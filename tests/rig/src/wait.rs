//! Waiting for a condition, instead of a fixed time, which could be too short.

use std::time::{Duration, Instant};

/// The time within which an expected event must happen, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PERIOD: Duration = Duration::from_millis(5);

/// Waits until `condition` holds. Panics with `what` if this takes longer than [`PATIENCE`].
pub async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, condition).await;
}

/// Yields 16 times, which usually lets all tasks of a single-threaded runtime run until they wait.
pub async fn let_tasks_run() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Waits until `condition` holds. Panics with `what` if this takes longer than `most`.
pub async fn until_within(most: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let what = || format!("not within {most:?}: {what}");
    look_until(most, async || {
        condition().await.then_some(()).ok_or_else(what)
    })
    .await;
}

/// Calls `look` until it returns a value. Panics with the last error if this takes longer than `most`.
pub async fn look_until<T>(most: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(value) => return value,
            Err(found) => assert!(start.elapsed() < most, "{found}"),
        }
        tokio::time::sleep(PERIOD).await;
    }
}
