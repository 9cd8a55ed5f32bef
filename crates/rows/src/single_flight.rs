//! Reads and loads in progress: callers in this process that ask for the same row share one answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tower_pulse_core::task::lock;

/// The last answer for a row, and when the answer came. The task that holds the lock does the work.
type LastAnswer<T> = Arc<tokio::sync::Mutex<Option<(Instant, T)>>>;

#[derive(Debug)]
pub(super) struct SingleFlight<T>(Mutex<HashMap<String, LastAnswer<T>>>);

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Does the work for a row, or waits for the answer if another task does the work. If the other task is dropped,
    /// a waiting task does the work.
    pub(super) async fn join(&self, id: &str, work: impl Future<Output = T>) -> T {
        let called_at = Instant::now();
        let last = lock(&self.0).entry(id.to_owned()).or_default().clone();
        // Declared before the guard of the lock, and therefore dropped after the guard.
        let _cleanup = Cleanup { flights: self, id };
        let mut last = last.lock_owned().await;
        match &*last {
            Some((answered_at, answer)) if *answered_at >= called_at => answer.clone(),
            _ => {
                let answer = work.await;
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

/// Removes the last answer for a row once no task waits for this row.
struct Cleanup<'a, T> {
    flights: &'a SingleFlight<T>,
    id: &'a str,
}

impl<T> Drop for Cleanup<'_, T> {
    fn drop(&mut self) {
        let mut answers = lock(&self.flights.0);
        // The map holds one reference. Any other reference belongs to a waiting task.
        let is_unused = |answer: &LastAnswer<T>| Arc::strong_count(answer) == 1;
        if answers.get(self.id).is_some_and(is_unused) {
            answers.remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn tasks_share_the_answer_of_the_first_task() {
        let work = SingleFlight::default();
        let (sender, receiver) = oneshot::channel();
        let mut first = pin!(work.join("a", receiver));
        let mut second = pin!(work.join("a", async { panic!("the first task works") }));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        let other = work.join("b", ready(Ok(2))).now_or_never();
        assert_eq!(other, Some(Ok(2)));
        sender.send(1).expect("the first task waits");
        assert_eq!(first.await, Ok(1));
        assert_eq!(second.await, Ok(1));
        assert_eq!(work.join("a", ready(Ok(3))).await, Ok(3), "a later call");
    }

    #[tokio::test]
    async fn after_a_dropped_task_another_task_does_the_work() {
        let work = SingleFlight::default();
        let mut first = Box::pin(work.join("a", pending()));
        let mut second = Box::pin(work.join("a", ready(2)));
        let mut third = Box::pin(work.join("a", ready(3)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        drop(first);
        assert_eq!(second.await, 2);
        assert!(lock(&work.0).is_empty());
    }
}
