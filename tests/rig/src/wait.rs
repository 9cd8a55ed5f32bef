//! Waiting for a condition, never for a time that may or may not be enough.

use std::time::{Duration, Instant};

/// How long anything that must happen may take, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(5);

/// Waits until `condition` holds. Panics with `what` when it does not within [`PATIENCE`].
pub async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, condition).await;
}

/// Lets all tasks of a runtime of one thread go on until each waits for something: for the next second
/// of a manual clock, for instance.
pub async fn let_tasks_run() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Waits until `condition` holds. Panics with `what` when it takes more than `most`.
pub async fn until_within(most: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let what = || format!("not within {most:?}: {what}");
    look_until(most, async || {
        condition().await.then_some(()).ok_or_else(what)
    })
    .await;
}

/// Looks until there is a value, and returns it. Panics with what the last look found instead when
/// there is none within `most`.
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
