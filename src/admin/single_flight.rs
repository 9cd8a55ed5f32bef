//! A question to the store, asked at most once a second and by one task at a time, for all that wait for its answer.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use super::response::ApiError;
use crate::clock::{Clock, Tick};
use crate::error::StoreError;
use crate::task::lock;

/// Age up to which an answer of the store is served again.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// Deadline for an answer of the store.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// Maximum number of keys of each [`SingleFlightMap`] whose answers are cached. Others are read each time.
const MAX_KEYS: usize = 64;

/// One question to the store, with its last answer. The task that holds the lock asks; the others wait for
/// the lock and use its answer.
pub(super) struct SingleFlight<T>(AsyncMutex<Option<Answered<T>>>);

struct Answered<T> {
    at: Tick,
    wall: i64,
    answer: Result<T, ApiError>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(AsyncMutex::new(None))
    }
}

impl<T> Answered<T> {
    /// Whether the answer may be served again. An error is never served for longer than a second. An answer
    /// is not served after a jump of the wall clock, which may be in another hour now.
    fn is_fresh(&self, clock: &Clock, age: Duration) -> bool {
        let age = if self.answer.is_ok() { age } else { FRESH };
        let wall = clock.now_seconds().saturating_sub(self.wall);
        // The clock gives whole seconds, so the difference may be a second too large.
        clock.since(self.at) < age && (0..=1 + age.as_secs() as i64).contains(&wall)
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Forgets the last answer.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }

    /// Returns the last answer if it is not older than `age`, or else a new one. Waiting for the lock and
    /// for the store takes no longer than the deadline together.
    ///
    /// Cancel safe: another waiting task asks instead.
    pub(super) async fn get(
        &self,
        clock: &Clock,
        age: Duration,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        self.get_aged(clock, |_| age, read).await
    }

    /// As [`get`](Self::get), where the answer itself tells how old it may get.
    pub(super) async fn get_aged(
        &self,
        clock: &Clock,
        age: impl Fn(&T) -> Duration,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        let since = clock.tick();
        let mut last = within(clock, DEADLINE, self.0.lock()).await?;
        let is_fresh = |last: &&Answered<T>| {
            let age = last.answer.as_ref().map_or(FRESH, &age);
            last.is_fresh(clock, age)
        };
        if let Some(last) = last.as_ref().filter(is_fresh) {
            return last.answer.clone();
        }
        let remaining = DEADLINE.saturating_sub(clock.since(since));
        let answer = match within(clock, remaining, read).await {
            Ok(answer) => answer.map_err(|error| ApiError::store(&error)),
            Err(failure) => Err(failure),
        };
        *last = Some(Answered {
            at: clock.tick(),
            wall: clock.now_seconds(),
            answer: answer.clone(),
        });
        answer
    }

    fn is_stale(&self, clock: &Clock) -> bool {
        let last = self.0.try_lock();
        last.is_ok_and(|last| {
            !last
                .as_ref()
                .is_some_and(|last| last.is_fresh(clock, FRESH))
        })
    }
}

/// The same question for many keys. Answers that are not fresh any more are removed.
pub(super) struct SingleFlightMap<K, T>(Mutex<HashMap<K, Arc<SingleFlight<T>>>>);

impl<K, T> Default for SingleFlightMap<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> SingleFlightMap<K, T> {
    pub(super) fn of(&self, clock: &Clock, key: K) -> Arc<SingleFlight<T>> {
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(&key) {
            return flight.clone();
        }
        flights.retain(|_, flight| Arc::strong_count(flight) > 1 || !flight.is_stale(clock));
        let new = Arc::default();
        if flights.len() < MAX_KEYS {
            flights.insert(key, Arc::clone(&new));
        }
        new
    }
}

/// Waits for a future, but no longer than `limit`.
pub(super) async fn within<T>(
    clock: &Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Result<T, ApiError> {
    tokio::select! {
        biased;
        value = future => Ok(value),
        () = clock.sleep(limit) => Err(ApiError::unavailable(format!(
            "the store did not answer within {} s",
            DEADLINE.as_secs()
        ))),
    }
}
