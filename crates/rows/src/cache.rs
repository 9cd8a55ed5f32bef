//! A cache, which its handles and its task hold: it refreshes leased rows, and reads cached ones.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::error::RowError;
use super::events::Events;
use super::flights::Flights;
use super::loader::{AnyLoader, Loaded};
use super::local::{Count, Local, LocalRow};
use super::places::{Place, Places};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::random::short_random_name;
use tower_pulse_core::recorder::Entry;
use tower_pulse_core::store::Store;
use tower_pulse_core::store::rows::{
    CachedRow, FinishReport, FinishedRow, LeaseOf, LeasedRow, LeasedRows, LoadedRow,
};
use tower_pulse_core::task::BoxFuture;
use tower_pulse_model::outcome::Outcome;

/// How often a row is looked for that another process is loading.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait after a failure.
const MAX_BACKOFF: f64 = 60.0;

/// The configuration that reads and refreshes depend on.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) concurrency: usize,
    /// How long loading a row may take.
    pub(super) deadline: Duration,
    pub(super) max_age: Option<Duration>,
    pub(super) unscheduled_age: Duration,
    pub(super) max_bytes: usize,
    pub(super) max_rows: usize,
    pub(super) drop_missing: bool,
    pub(super) local_fallback: bool,
    pub(super) read_through: Option<Duration>,
}

impl Options {
    /// How long a lease lasts: longer than loading may take, so that the row is written in time.
    pub(super) fn lease(&self) -> Duration {
        const MARGIN: Duration = Duration::from_secs(2);
        self.deadline + MARGIN
    }
}

/// A cache, which its handles and its task hold.
pub(super) struct Cache {
    /// Its configuration.
    pub(super) options: Options,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) loader: AnyLoader,
    /// Taken for each load, until its row is written.
    pub(super) places: Places,
    pub(super) local: Local,
    /// The context of the times of loading.
    pub(super) loading: Arc<Entry>,
    pub(super) events: Events,
    /// Notified when this process has scheduled a row.
    pub(super) scheduled: Notify,
    /// Rows that are being loaded for callers.
    pub(super) loads: Flights<Answer>,
    /// Rows that are being read from the store for callers, with `read_through`.
    pub(super) fetches: Flights<Answer>,
}

/// An answer that several callers share.
type Answer = Result<Option<ReadRow>, AnswerError>;

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum AnswerError {
    Store(StoreError),
    Load(String),
}

impl From<StoreError> for AnswerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl AnswerError {
    fn into_row_error(self, id: &str) -> RowError {
        match self {
            Self::Store(error) => RowError::Store(error),
            Self::Load(reason) => RowError::Load {
                id: id.to_owned(),
                reason,
            },
        }
    }
}

/// The end of a refresh.
pub(super) struct Refreshed {
    /// The row in JSON, unless there is none, or why it could not be loaded.
    pub(super) row: Result<Option<Arc<[u8]>>, String>,
    /// Whether the store has taken it.
    pub(super) finished: Result<FinishReport, StoreError>,
}

/// A row as it was read or loaded.
#[derive(Clone, Debug)]
pub(super) struct ReadRow {
    pub(super) json: Arc<[u8]>,
    pub(super) age: Option<Duration>,
}

impl Cache {
    pub(super) async fn lease(
        &self,
        token: &str,
        which: LeaseOf<'_>,
    ) -> Result<LeasedRows, StoreError> {
        let seconds = self.options.lease().as_secs_f64();
        let rows = self.store.rows();
        rows.lease_rows(&self.options.name, token, which, seconds)
            .await
    }

    /// Loads a leased row and writes it.
    pub(super) async fn refresh(&self, token: &str, leased: LeasedRow, place: Place) -> Refreshed {
        let id = leased.id.clone();
        let loaded = self.load(&id, &place).await;
        let options = &self.options;
        // Moved there and back, as a row may be large.
        let result = match loaded {
            Ok(Some(json)) => LoadedRow::Row(json),
            Ok(None) => LoadedRow::Missing {
                is_scheduled: !options.drop_missing,
            },
            Err(reason) => LoadedRow::Failed {
                reason,
                backoff: backoff(leased.failures),
            },
        };
        let ttl = match leased.due {
            Some(_) => options.max_age,
            None => Some(options.unscheduled_age),
        };
        let finished = FinishedRow {
            leased,
            loaded: result,
            ttl: ttl.map(|ttl| ttl.as_secs_f64()),
            spread: fastrand::f64().max(0.01),
        };
        let rows = self.store.rows();
        let finished_row = rows.finish_row(&options.name, token, &finished).await;
        let is_written = finished_row.as_ref().is_ok_and(|report| report.is_written);
        let is_scheduled = finished.leased.due.is_some();
        let row = match finished.loaded {
            LoadedRow::Row(json) => Ok(Some(Arc::from(json))),
            LoadedRow::Missing { .. } => Ok(None),
            LoadedRow::Failed { reason, .. } => Err(reason),
        };
        match &row {
            Ok(row) if is_written => {
                self.events.refreshes.count();
                self.remember(&id, row.as_ref(), Some(Duration::ZERO));
            }
            Ok(_) => {}
            // The schedule tells of it.
            Err(_) if is_written && is_scheduled => self.local.forget_failure(&id),
            Err(reason) => self.local.remember_failure(&id, reason),
        }
        Refreshed {
            row,
            finished: finished_row,
        }
    }

    /// Leases a row and refreshes it; `None` if it is leased or cached already. A refresh by hand takes the lease from its
    /// holder. It waits for a place first, so that no leased row does. Then it is done in a task of its own, which goes on
    /// if the caller is dropped: others wait for a lease.
    pub(super) async fn refresh_in_task(
        self: &Arc<Self>,
        id: &str,
        is_by_hand: bool,
    ) -> Result<Option<Refreshed>, StoreError> {
        let place = self.places.for_caller().await;
        let task = self.spawn_refresh(id.to_owned(), is_by_hand, place);
        task.await.unwrap_or_else(|_| {
            Ok(Some(Refreshed {
                row: Err("the runtime shut down".to_owned()),
                finished: Ok(FinishReport::default()),
            }))
        })
    }

    /// Not inlined, so that this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    fn spawn_refresh(
        self: &Arc<Self>,
        id: String,
        is_by_hand: bool,
        place: Place,
    ) -> JoinHandle<Result<Option<Refreshed>, StoreError>> {
        let cache = self.clone();
        tokio::spawn(async move {
            let token = short_random_name();
            let which = match is_by_hand {
                true => LeaseOf::Row(&id),
                false => LeaseOf::Free {
                    id: &id,
                    max_bytes: cache.options.max_bytes,
                },
            };
            let leased = cache.lease(&token, which).await?;
            Ok(match leased.rows.into_iter().next() {
                Some(row) => Some(cache.refresh(&token, row, place).await),
                None => None,
            })
        })
    }

    async fn load(&self, id: &str, place: &Place) -> Loaded {
        let start = self.clock.tick();
        let loaded = (self.loader)(id.to_owned(), place).await;
        let outcome = match loaded {
            Ok(_) => Outcome::Completed,
            Err(_) => Outcome::Failed,
        };
        self.loading.finish(start, outcome, outcome.is_error());
        match loaded {
            Ok(_) => self.local.forget_failure(id),
            Err(_) => {
                self.events.failures.count();
                self.local.count(id, Count::Failure);
            }
        }
        loaded
    }

    /// Loads a row that is not cached, unless another task or process does: then waits for its row. Without the store,
    /// loads it for this process.
    ///
    /// Boxed, so that this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    pub(super) fn load_once<'a>(
        self: &'a Arc<Self>,
        id: &'a str,
        has_store: bool,
    ) -> BoxFuture<'a, Result<Option<ReadRow>, RowError>> {
        Box::pin(async move {
            let load = async {
                match has_store {
                    true => self.load_in_fleet(id).await,
                    false => self.load_uncached(id).await,
                }
            };
            // The task that a load joined could wait for the place of this load.
            let row = match self.places.is_nested() {
                true => load.await,
                false => self.loads.join(id, load).await,
            };
            row.map_err(|error| error.into_row_error(id))
        })
    }

    async fn load_in_fleet(self: &Arc<Self>, id: &str) -> Answer {
        let mut deadline = None;
        loop {
            match self.fetch(id).await {
                Ok(Some(row)) => return Ok(Some(row)),
                Ok(None) => {}
                Err(_) => return self.load_uncached(id).await,
            }
            match self.refresh_in_task(id, false).await {
                // The row is good even if the store has not taken it.
                Ok(Some(refreshed)) => {
                    let row = refreshed.row.map(|json| json.map(loaded_now));
                    return row.map_err(AnswerError::Load);
                }
                Ok(None) => {}
                Err(_) => return self.load_uncached(id).await,
            }
            // From the first look on that has found the lease of another process: a place may come late.
            let now = tokio::time::Instant::now();
            if now >= *deadline.get_or_insert(now + self.options.lease()) {
                let reason = "another process has not loaded it in time";
                return Err(AnswerError::Load(reason.to_owned()));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn load_uncached(&self, id: &str) -> Answer {
        let place = self.places.for_caller().await;
        match self.load(id, &place).await {
            Ok(row) => Ok(row.map(|json| loaded_now(json.into()))),
            Err(reason) => {
                self.local.remember_failure(id, &reason);
                Err(AnswerError::Load(reason))
            }
        }
    }

    /// Reads a row, and counts the read.
    pub(super) async fn read(&self, id: &str) -> Result<Option<ReadRow>, RowError> {
        let row = match self.options.read_through {
            Some(age) => self.read_through(id, age).await,
            None => self.fetch(id).await.map_err(AnswerError::Store),
        };
        match &row {
            Ok(row) => self.count(id, row.is_some()),
            Err(_) => self.count(id, false),
        }
        row.map_err(|error| error.into_row_error(id))
    }

    async fn read_through(&self, id: &str, age: Duration) -> Answer {
        let recent = || {
            let row = self.local.recent(id, age);
            let row = row.filter(|row| !self.is_too_old(row))?;
            let age = row.age(&self.clock);
            Some(ReadRow {
                json: row.json,
                age,
            })
        };
        if let Some(row) = recent() {
            return Ok(Some(row));
        }
        let read = async {
            match recent() {
                Some(row) => Ok(Some(row)),
                None => self.fetch(id).await.map_err(AnswerError::Store),
            }
        };
        self.fetches.join(id, read).await
    }

    /// Whether a row that this process remembers is older than `max_age`.
    fn is_too_old(&self, row: &LocalRow) -> bool {
        let age = row.age(&self.clock).unwrap_or_default();
        self.options.max_age.is_some_and(|most| age >= most)
    }

    fn count(&self, id: &str, is_hit: bool) {
        let (event, count) = match is_hit {
            true => (&self.events.hits, Count::Hit),
            false => (&self.events.misses, Count::Miss),
        };
        event.count();
        self.local.count(id, count);
    }

    /// Reads a row from the store, or what this process has seen of it if the store is away.
    async fn fetch(&self, id: &str) -> Result<Option<ReadRow>, StoreError> {
        let ids = [id.to_owned()];
        let mut rows = self.fetch_many(&ids).await?;
        Ok(rows.pop().flatten())
    }

    pub(super) async fn read_many(&self, ids: &[String]) -> Result<Vec<Option<ReadRow>>, RowError> {
        let rows = self.fetch_many(ids).await;
        for (at, id) in ids.iter().enumerate() {
            let is_hit = rows.as_ref().is_ok_and(|rows| rows[at].is_some());
            self.count(id, is_hit);
        }
        Ok(rows?)
    }

    async fn fetch_many(&self, ids: &[String]) -> Result<Vec<Option<ReadRow>>, StoreError> {
        let rows = self.store.rows();
        let Options {
            name, max_bytes, ..
        } = &self.options;
        match rows.cached_rows(name, ids, *max_bytes).await {
            Ok(rows) => Ok(ids
                .iter()
                .zip(rows)
                .map(|(id, row)| self.in_store(id, row))
                .collect()),
            Err(error) if self.options.local_fallback => {
                let last = |id: &String| self.local.last(id).filter(|row| !self.is_too_old(row));
                let last: Vec<_> = ids.iter().map(last).collect();
                if last.iter().all(Option::is_none) {
                    return Err(error);
                }
                let row = |row: LocalRow| {
                    self.events.stale.count();
                    ReadRow {
                        age: row.age(&self.clock),
                        json: row.json,
                    }
                };
                Ok(last.into_iter().map(|last| last.map(row)).collect())
            }
            Err(error) => Err(error),
        }
    }

    fn in_store(&self, id: &str, row: Option<CachedRow>) -> Option<ReadRow> {
        let row = match row {
            Some(row) => row,
            None => {
                self.remember(id, None, None);
                return None;
            }
        };
        let unscheduled = self.options.unscheduled_age.as_secs_f64();
        // The age of a row that lives longer is not known.
        let ttl = row.ttl.filter(|ttl| *ttl <= unscheduled);
        let age = row.age.or(ttl.map(|ttl| unscheduled - ttl));
        let age = age.map(seconds);
        let json = row.json.into();
        self.remember(id, Some(&json), age);
        Some(ReadRow { json, age })
    }

    /// Remembers a row and its age, or that there is none.
    fn remember(&self, id: &str, row: Option<&Arc<[u8]>>, age: Option<Duration>) {
        if self.options.local_fallback || self.options.read_through.is_some() {
            self.local.remember(id, row.map(|json| (json.clone(), age)));
        }
    }
}

/// Seconds until a row is tried again after a number of failures: doubled each time, with jitter.
fn backoff(failures: u32) -> f64 {
    let seconds = 0.5 * f64::from(1u32 << failures.min(10));
    seconds.min(MAX_BACKOFF) * (0.5 + fastrand::f64() / 2.0)
}

fn loaded_now(json: Arc<[u8]>) -> ReadRow {
    ReadRow {
        json,
        age: Some(Duration::ZERO),
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
