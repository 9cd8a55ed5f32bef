//! How the store is asked: each question at most once a second and once at a time, however many
//! dashboards are open, and never for longer than the deadline.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;

use super::response::ApiError;
use crate::clock::{Clock, Tick};
use crate::error::StoreError;
use crate::model::batch::Aggregate;
use crate::model::snapshot::{ContextSnapshot, Snapshot};
use crate::store::{PassRecord, Store};

/// How long an answer of the store is served again.
const FRESH: Duration = Duration::from_secs(1);

/// How long a snapshot is good enough to name what is unreadable in the store.
const RECENT: Duration = Duration::from_secs(10);

/// How long a request waits for the store.
const DEADLINE: Duration = Duration::from_secs(2);

/// How many contexts, counters or histograms are remembered at once. More are asked for each time.
const MOST_KEYS: usize = 64;

type Samples = Arc<Vec<(i64, i64)>>;
type Spreads = Arc<Vec<(i64, Aggregate)>>;

/// Reads the store for all who look at it.
pub(super) struct Reader {
    store: Arc<dyn Store>,
    clock: Clock,
    snapshot: SingleFlight<Arc<Snapshot>>,
    slowest: SingleFlight<Arc<Vec<(String, f64)>>>,
    last_pass: SingleFlight<Option<PassRecord>>,
    as_of: SingleFlight<i64>,
    contexts: SingleFlightMap<String, Option<Arc<ContextSnapshot>>>,
    counters: SingleFlightMap<(String, u32), Samples>,
    histograms: SingleFlightMap<(String, u32), Spreads>,
}

impl Reader {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            store,
            clock,
            snapshot: SingleFlight::default(),
            slowest: SingleFlight::default(),
            last_pass: SingleFlight::default(),
            as_of: SingleFlight::default(),
            contexts: SingleFlightMap::default(),
            counters: SingleFlightMap::default(),
            histograms: SingleFlightMap::default(),
        }
    }

    /// Everything known of all contexts.
    pub(super) async fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        self.snapshot_of_the_last(FRESH).await
    }

    /// The same as it was within the last ten seconds.
    pub(super) async fn recent_snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        self.snapshot_of_the_last(RECENT).await
    }

    async fn snapshot_of_the_last(&self, age: Duration) -> Result<Arc<Snapshot>, ApiError> {
        let read = async {
            let now = self.clock.now_seconds();
            self.store.snapshot(now).await.map(Arc::new)
        };
        self.snapshot.get(&self.clock, age, read).await
    }

    /// Everything known of one context.
    pub(super) async fn context(
        &self,
        context: &str,
    ) -> Result<Option<Arc<ContextSnapshot>>, ApiError> {
        let read = async {
            let now = self.clock.now_seconds();
            let found = self.store.context(context, now).await;
            found.map(|found| found.map(Arc::new))
        };
        let kept = self.contexts.of(&self.clock, context.to_owned());
        kept.get(&self.clock, FRESH, read).await
    }

    /// The samples of a counter, oldest first.
    pub(super) async fn counter(&self, name: &str, precision: u32) -> Result<Samples, ApiError> {
        let read = async { self.store.counter(name, precision).await.map(Arc::new) };
        let kept = self.counters.of(&self.clock, (name.to_owned(), precision));
        kept.get(&self.clock, FRESH, read).await
    }

    /// The histograms of a context, oldest first.
    pub(super) async fn histograms(
        &self,
        context: &str,
        precision: u32,
    ) -> Result<Spreads, ApiError> {
        let read = async {
            let now = self.clock.now_seconds();
            let found = self.store.records(context, precision, now).await;
            found.map(Arc::new)
        };
        let key = (context.to_owned(), precision);
        let kept = self.histograms.of(&self.clock, key);
        kept.get(&self.clock, FRESH, read).await
    }

    /// The ranking of the slowest contexts.
    pub(super) async fn slowest(&self) -> Result<Arc<Vec<(String, f64)>>, ApiError> {
        let read = async { self.store.slowest().await.map(Arc::new) };
        self.slowest.get(&self.clock, FRESH, read).await
    }

    /// Until when everything that was recorded can be read, in Unix seconds.
    pub(super) async fn as_of(&self) -> Result<i64, ApiError> {
        let read = async {
            let status = self.store.status(self.clock.now_seconds()).await?;
            Ok(status.as_of)
        };
        self.as_of.get(&self.clock, FRESH, read).await
    }

    /// The last pass of any cleaner.
    pub(super) async fn last_pass(&self) -> Result<Option<PassRecord>, ApiError> {
        let read = async { self.store.last_pass().await };
        self.last_pass.get(&self.clock, FRESH, read).await
    }
}

/// One question to the store and its last answer. Who holds the lock asks; the others wait for it
/// and find the answer.
struct SingleFlight<T>(AsyncMutex<Option<Answered<T>>>);

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
    /// Whether it may be served again. A wall clock that was set, perhaps to another hour, ends
    /// it; an error is never served for longer than a second.
    fn is_fresh(&self, clock: &Clock, age: Duration) -> bool {
        let age = if self.answer.is_ok() { age } else { FRESH };
        let wall = clock.now_seconds().saturating_sub(self.wall);
        // A second of the wall begins up to a second before its moment.
        clock.since(self.at) < age && (0..=1 + age.as_secs() as i64).contains(&wall)
    }
}

impl<T: Clone> SingleFlight<T> {
    /// The last answer if it is not older than `age`, else a new one. Together, waiting for those
    /// who ask already and asking end at the deadline.
    ///
    /// Cancel safe: another one who waits asks instead.
    async fn get(
        &self,
        clock: &Clock,
        age: Duration,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        let since = clock.tick();
        let mut kept = within(clock, DEADLINE, self.0.lock()).await?;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_fresh(clock, age)) {
            return kept.answer.clone();
        }
        let left = DEADLINE.saturating_sub(clock.since(since));
        let answer = match within(clock, left, read).await {
            Ok(answer) => answer.map_err(|error| ApiError::store(&error)),
            Err(failure) => Err(failure),
        };
        *kept = Some(Answered {
            at: clock.tick(),
            wall: clock.now_seconds(),
            answer: answer.clone(),
        });
        answer
    }

    fn is_stale(&self, clock: &Clock) -> bool {
        let kept = self.0.try_lock();
        kept.is_ok_and(|kept| {
            !kept
                .as_ref()
                .is_some_and(|kept| kept.is_fresh(clock, FRESH))
        })
    }
}

/// The same questions about many things; the answers that are not fresh any more go.
struct SingleFlightMap<K, T>(Mutex<HashMap<K, Arc<SingleFlight<T>>>>);

impl<K, T> Default for SingleFlightMap<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> SingleFlightMap<K, T> {
    fn of(&self, clock: &Clock, key: K) -> Arc<SingleFlight<T>> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = shared.get(&key) {
            return shared.clone();
        }
        shared.retain(|_, shared| Arc::strong_count(shared) > 1 || !shared.is_stale(clock));
        let new = Arc::default();
        if shared.len() < MOST_KEYS {
            shared.insert(key, Arc::clone(&new));
        }
        new
    }
}

async fn within<T>(
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
