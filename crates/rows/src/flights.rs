//! Reads and loads under way in this process: callers that ask for the same row share one answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tower_pulse_core::task::lock;

/// The last answer of a row, and when it came. The task that holds the lock does the work.
type Lane<T> = Arc<tokio::sync::Mutex<Option<(Instant, T)>>>;

/// Work under way, by row.
#[derive(Debug)]
pub(super) struct Flights<T>(Mutex<HashMap<String, Lane<T>>>);

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Flights<T> {
    /// Does the work for a row, or waits for the answer of another task that does it. If that task is dropped, this
    /// task does the work.
    pub(super) async fn join(&self, id: &str, work: impl Future<Output = T>) -> T {
        let called = Instant::now();
        let lane = lock(&self.0).entry(id.to_owned()).or_default().clone();
        // Declared before the guard, and therefore dropped after it.
        let _landing = Landing { flights: self, id };
        let mut last = lane.lock_owned().await;
        match &*last {
            Some((came, answer)) if *came >= called => answer.clone(),
            _ => {
                let answer = work.await;
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

/// Removes the lane of a row when its last task leaves.
struct Landing<'a, T> {
    flights: &'a Flights<T>,
    id: &'a str,
}

impl<T> Drop for Landing<'_, T> {
    fn drop(&mut self) {
        let mut lanes = lock(&self.flights.0);
        // The map holds one reference. Any other reference belongs to a waiting task.
        let is_last = |lane: &Lane<T>| Arc::strong_count(lane) == 1;
        if lanes.get(self.id).is_some_and(is_last) {
            lanes.remove(self.id);
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
    async fn tasks_share_the_answer_of_one() {
        let flights = Flights::default();
        let (sender, receiver) = oneshot::channel();
        let mut first = pin!(flights.join("a", receiver));
        let mut second = pin!(flights.join("a", async { panic!("the first one works") }));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        let other = flights.join("b", ready(Ok(2))).now_or_never();
        assert_eq!(other, Some(Ok(2)));
        sender.send(1).expect("the first one waits");
        assert_eq!(first.await, Ok(1));
        assert_eq!(second.await, Ok(1));
        assert_eq!(flights.join("a", ready(Ok(3))).await, Ok(3), "a later call");
    }

    #[tokio::test]
    async fn a_dropped_task_leaves_its_work_to_another() {
        let flights = Flights::default();
        let mut first = Box::pin(flights.join("a", pending()));
        let mut second = Box::pin(flights.join("a", ready(2)));
        let mut third = Box::pin(flights.join("a", ready(3)));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        drop(first);
        assert_eq!(second.await, 2);
        assert!(lock(&flights.0).is_empty());
    }
}
