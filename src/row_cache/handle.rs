//! The cache as the application uses it.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::Host;
use super::builder::{Options, RowCacheBuilder};
use super::daemon::new_token;
use super::error::RowError;
use super::loader::{AnyLoader, Loaded};
use super::local::Local;
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::model::outcome::Outcome;
use crate::recorder::{Counter, Entry};
use crate::store::Store;
use crate::store::rows::{
    CachedRow, FinishedRow, LeaseOf, LeasedRow, LeasedRows, LoadedRow, RowDelay, Scheduled,
};

/// The longest id of a row, in bytes.
const MAX_ID: usize = 256;
/// The longest delay, in seconds.
const YEAR: f64 = 365.0 * 86_400.0;
/// How long a read may take.
const READ_DEADLINE: Duration = Duration::from_millis(500);
/// How often a row is looked for that another process is loading.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait after a failure.
const MAX_BACKOFF: f64 = 60.0;

/// A cache of rows. Cheap to clone; serves as axum state. See [`row_cache`](crate::row_cache).
#[derive(Clone)]
pub struct RowCache(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Clock,
    pub(super) loader: AnyLoader,
    pub(super) local: Local,
    /// The context of the times of loading.
    pub(super) loading: Arc<Entry>,
    pub(super) hits: Counter,
    pub(super) misses: Counter,
    pub(super) stale: Counter,
    pub(super) refreshes: Counter,
    pub(super) failures: Counter,
    /// Notified when this process has scheduled a row.
    pub(super) scheduled: Notify,
}

/// Seconds between two refreshes of a row. Made from a [`Duration`], or from a number of seconds, of which 0 and
/// less remove the row, as in the book.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay(f64);

impl From<Duration> for Delay {
    fn from(every: Duration) -> Self {
        Self(every.as_secs_f64())
    }
}

impl From<f64> for Delay {
    fn from(seconds: f64) -> Self {
        Self(seconds)
    }
}

/// A cached row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row<T> {
    /// The row.
    pub value: T,
    /// How long ago it was loaded; `None` if another program has cached it.
    pub age: Option<Duration>,
}

/// A scheduled row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowInfo {
    /// The id of the row.
    pub id: String,
    /// Seconds between two refreshes.
    pub every: f64,
    /// Seconds until it is due; negative for a row that is late.
    pub due_in: f64,
    /// How long ago it was loaded; `None` if it is not cached.
    pub age: Option<Duration>,
    /// Failures of its loader in a row.
    pub failures: u32,
    /// Why its loader failed last; `None` after a success.
    pub last_error: Option<String>,
    /// How often this process has read it from the cache.
    pub hits: u64,
    /// How often this process has looked for it in vain.
    pub misses: u64,
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCache")
            .field("name", &self.0.options.name)
            .finish_non_exhaustive()
    }
}

impl RowCache {
    /// Configures a cache that uses the store, the clock and the recorder of a [`Pulse`](crate::Pulse).
    pub fn builder(pulse: &impl Host) -> RowCacheBuilder {
        RowCacheBuilder::new(pulse)
    }

    /// Refreshes a row every so often, beginning now. A delay of 0 or less removes the row.
    ///
    /// # Errors
    /// [`RowError::Id`], [`RowError::Delay`], [`RowError::Full`] or [`RowError::Store`].
    pub async fn schedule(&self, id: &str, every: impl Into<Delay>) -> Result<(), RowError> {
        self.schedule_many([(id, every)]).await
    }

    /// Schedules several rows. Their first intervals are shortened by chance, so that later turns are spread.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule). Of more than 200 rows, some may be scheduled then.
    pub async fn schedule_many<I, D>(
        &self,
        rows: impl IntoIterator<Item = (I, D)>,
    ) -> Result<(), RowError>
    where
        I: Into<String>,
        D: Into<Delay>,
    {
        let delay = |(id, delay): (I, D)| {
            let (id, Delay(seconds)) = (checked(id.into())?, delay.into());
            if !seconds.is_finite() || seconds > YEAR {
                return Err(RowError::Delay { seconds });
            }
            Ok(RowDelay { id, seconds })
        };
        let rows: Vec<RowDelay> = rows.into_iter().map(delay).collect::<Result<_, _>>()?;
        let Inner { options, store, .. } = &*self.0;
        let max_rows = options.max_rows;
        let scheduling = store.rows().schedule_rows(&options.name, &rows, max_rows);
        match scheduling.await? {
            Scheduled::Done => {
                for row in rows.iter().filter(|row| row.seconds <= 0.0) {
                    self.0.local.remember(&row.id, None);
                }
                self.0.scheduled.notify_one();
                Ok(())
            }
            Scheduled::Full { rows: scheduled } => Err(RowError::Full {
                id: rows
                    .into_iter()
                    .next()
                    .map_or_else(String::new, |row| row.id),
                rows: scheduled,
                max_rows,
            }),
        }
    }

    /// Removes a row from the schedule and from the cache.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    pub async fn unschedule(&self, id: &str) -> Result<(), RowError> {
        self.schedule(id, 0.0).await
    }

    /// Loads a row now, after it was written: an older answer that is still being loaded is dropped. Returns whether
    /// there is such a row.
    ///
    /// # Errors
    /// [`RowError::Id`], [`RowError::Load`] or [`RowError::Store`].
    pub async fn refresh_now(&self, id: &str) -> Result<bool, RowError> {
        let (id, token) = (checked(id.to_owned())?, new_token());
        let leased = self.0.lease(&token, LeaseOf::Row(&id)).await?;
        match leased.rows.into_iter().next() {
            Some(row) => Ok(self.0.refresh_in_task(token, row).await?.is_some()),
            None => Ok(false),
        }
    }

    /// The cached row; `None` if it is not cached.
    ///
    /// # Errors
    /// [`RowError::Store`] within 500 ms when the store does not answer, unless
    /// [`local_fallback`](RowCacheBuilder::local_fallback) has the row; [`RowError::Type`].
    pub async fn get<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Row<T>>, RowError> {
        let row = self.0.read(id).await?;
        row.map(|row| parsed(id, &row)).transpose()
    }

    /// The cached rows of some ids, in their order, by one round trip.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_many<T: DeserializeOwned>(
        &self,
        ids: &[impl AsRef<str>],
    ) -> Result<Vec<Option<Row<T>>>, RowError> {
        let ids: Vec<String> = ids.iter().map(|id| id.as_ref().to_owned()).collect();
        let rows = self.0.read_many(&ids).await?;
        let rows = ids.iter().zip(rows);
        rows.map(|(id, row)| row.map(|row| parsed(id, &row)).transpose())
            .collect()
    }

    /// The cached row, which is loaded first if it is not cached: by one task of one process, for all that ask
    /// meanwhile. `None` if there is no such row.
    ///
    /// A row without a schedule stays cached for [`unscheduled_age`](RowCacheBuilder::unscheduled_age). While the
    /// store is away, the row is loaded and not cached.
    ///
    /// # Errors
    /// [`RowError::Id`], [`RowError::Load`] or [`RowError::Type`].
    pub async fn get_or_load<T: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<Row<T>>, RowError> {
        let id = checked(id.to_owned())?;
        let row = match self.0.read(&id).await {
            Ok(Some(row)) => Some(row),
            Ok(None) => self.0.load_once(&id).await?,
            Err(_) => self.0.load_uncached(&id).await?,
        };
        row.map(|row| parsed(&id, &row)).transpose()
    }

    /// Some of the scheduled rows, the latest due first, and the number of all.
    ///
    /// # Errors
    /// [`RowError::Store`].
    pub async fn list(
        &self,
        offset: usize,
        limit: usize,
    ) -> Result<(usize, Vec<RowInfo>), RowError> {
        let Inner { options, store, .. } = &*self.0;
        let listing = store.rows().list_rows(&options.name, offset, limit);
        let (total, rows) = listing.await?;
        let rows = rows.into_iter().map(|row| {
            let reads = self.0.local.reads(&row.id);
            RowInfo {
                every: row.every,
                due_in: row.due_in,
                age: row.age.map(seconds),
                failures: row.failures,
                last_error: row.last_error,
                hits: reads.hits,
                misses: reads.misses,
                id: row.id,
            }
        });
        Ok((total, rows.collect()))
    }

    /// The name of the cache; empty for the unnamed one.
    pub fn name(&self) -> &str {
        &self.0.options.name
    }
}

/// A row as it was read or loaded.
struct ReadRow {
    json: Arc<[u8]>,
    age: Option<Duration>,
}

impl Inner {
    pub(super) async fn lease(
        &self,
        token: &str,
        which: LeaseOf<'_>,
    ) -> Result<LeasedRows, StoreError> {
        let seconds = self.options.lease.as_secs_f64();
        let rows = self.store.rows();
        rows.lease_rows(&self.options.name, token, which, seconds)
            .await
    }

    /// Loads a leased row and writes it. The inner option is the row in JSON, unless there is none.
    pub(super) async fn refresh(
        &self,
        token: &str,
        leased: LeasedRow,
    ) -> Result<Option<Vec<u8>>, RowError> {
        let id = leased.id.clone();
        let loaded = self.load(&id).await;
        let options = &self.options;
        let result = match &loaded {
            Ok(Some(json)) => LoadedRow::Row(json.clone()),
            Ok(None) => LoadedRow::Missing {
                is_scheduled: !options.drop_missing,
            },
            Err(reason) => LoadedRow::Failed {
                reason: reason.clone(),
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
        let is_written = rows.finish_row(&options.name, token, &finished).await;
        match loaded {
            Ok(row) => {
                if is_written? {
                    self.refreshes.increment();
                    let read = row.as_deref().map(|json| (json, Some(Duration::ZERO)));
                    self.remember(&id, read);
                }
                Ok(row)
            }
            Err(reason) => {
                self.failures.increment();
                Err(RowError::Load { id, reason })
            }
        }
    }

    /// Refreshes in a task of its own, which goes on if the caller is dropped.
    async fn refresh_in_task(
        self: &Arc<Self>,
        token: String,
        leased: LeasedRow,
    ) -> Result<Option<Vec<u8>>, RowError> {
        let (cache, id) = (self.clone(), leased.id.clone());
        let task = tokio::spawn(async move { cache.refresh(&token, leased).await });
        let reason = "the runtime shut down".to_owned();
        task.await.unwrap_or(Err(RowError::Load { id, reason }))
    }

    async fn load(&self, id: &str) -> Loaded {
        let start = self.clock.tick();
        let loaded = (self.loader)(id.to_owned()).await;
        let outcome = match loaded {
            Ok(_) => Outcome::Completed,
            Err(_) => Outcome::Failed,
        };
        self.loading.finish(start, outcome, outcome.is_error());
        loaded
    }

    /// Loads a row that is not cached, unless another task or process does: then waits for its row.
    async fn load_once(self: &Arc<Self>, id: &str) -> Result<Option<ReadRow>, RowError> {
        let flight = self.local.flight(id).await;
        let deadline = tokio::time::Instant::now() + self.options.lease;
        loop {
            match self.fetch(id).await {
                Ok(Some(row)) => return Ok(Some(row)),
                Ok(None) => {}
                Err(_) => {
                    drop(flight);
                    return self.load_uncached(id).await;
                }
            }
            let token = new_token();
            let Ok(leased) = self.lease(&token, LeaseOf::Free(id)).await else {
                drop(flight);
                return self.load_uncached(id).await;
            };
            if let Some(row) = leased.rows.into_iter().next() {
                let json = self.refresh_in_task(token, row).await?;
                return Ok(json.map(loaded_now));
            }
            if tokio::time::Instant::now() >= deadline {
                let reason = "another process has not loaded it in time".to_owned();
                let id = id.to_owned();
                return Err(RowError::Load { id, reason });
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Loads a row for this caller while the store is away.
    async fn load_uncached(&self, id: &str) -> Result<Option<ReadRow>, RowError> {
        match self.load(id).await {
            Ok(row) => Ok(row.map(loaded_now)),
            Err(reason) => Err(RowError::Load {
                id: id.to_owned(),
                reason,
            }),
        }
    }

    /// Reads a row, and counts the read.
    async fn read(&self, id: &str) -> Result<Option<ReadRow>, RowError> {
        let row = match self.options.read_through {
            Some(age) => self.read_through(id, age).await,
            None => self.fetch(id).await,
        };
        match &row {
            Ok(row) => self.count(id, row.is_some()),
            Err(_) => self.count(id, false),
        }
        row
    }

    async fn read_through(&self, id: &str, age: Duration) -> Result<Option<ReadRow>, RowError> {
        let recent = || {
            let row = self.local.recent(id, age)?;
            let age = row.age(&self.clock);
            Some(ReadRow {
                json: row.json,
                age,
            })
        };
        if let Some(row) = recent() {
            return Ok(Some(row));
        }
        let _flight = self.local.flight(id).await;
        match recent() {
            Some(row) => Ok(Some(row)),
            None => self.fetch(id).await,
        }
    }

    fn count(&self, id: &str, is_hit: bool) {
        match is_hit {
            true => self.hits.increment(),
            false => self.misses.increment(),
        }
        self.local.count(id, is_hit);
    }

    /// Reads a row from the store, or what this process has seen of it if the store is away.
    async fn fetch(&self, id: &str) -> Result<Option<ReadRow>, RowError> {
        let ids = [id.to_owned()];
        let mut rows = self.fetch_many(&ids).await?;
        Ok(rows.pop().flatten())
    }

    async fn read_many(&self, ids: &[String]) -> Result<Vec<Option<ReadRow>>, RowError> {
        let rows = self.fetch_many(ids).await;
        for (at, id) in ids.iter().enumerate() {
            let is_hit = rows.as_ref().is_ok_and(|rows| rows[at].is_some());
            self.count(id, is_hit);
        }
        rows
    }

    async fn fetch_many(&self, ids: &[String]) -> Result<Vec<Option<ReadRow>>, RowError> {
        let rows = self.store.rows();
        let reading = rows.cached_rows(&self.options.name, ids);
        let rows = match tokio::time::timeout(READ_DEADLINE, reading).await {
            Ok(rows) => rows,
            Err(_) => {
                let message = format!("no answer within {READ_DEADLINE:?}");
                Err(StoreError::new(StoreErrorKind::TimedOut, message))
            }
        };
        match rows {
            Ok(rows) => Ok(ids
                .iter()
                .zip(rows)
                .map(|(id, row)| self.from_store(id, row))
                .collect()),
            Err(error) if self.options.local_fallback => {
                let last: Vec<_> = ids.iter().map(|id| self.local.last(id)).collect();
                if last.iter().all(Option::is_none) {
                    return Err(error.into());
                }
                let row = |row: super::local::LocalRow| {
                    self.stale.increment();
                    ReadRow {
                        age: row.age(&self.clock),
                        json: row.json,
                    }
                };
                Ok(last.into_iter().map(|last| last.map(row)).collect())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn from_store(&self, id: &str, row: Option<CachedRow>) -> Option<ReadRow> {
        let row = match row {
            Some(row) => row,
            None => {
                self.remember(id, None);
                return None;
            }
        };
        let unscheduled = self.options.unscheduled_age.as_secs_f64();
        let age = row.age.or(row.ttl.map(|ttl| (unscheduled - ttl).max(0.0)));
        let age = age.map(seconds);
        self.remember(id, Some((&row.json, age)));
        Some(ReadRow {
            json: row.json.into(),
            age,
        })
    }

    fn remember(&self, id: &str, row: Option<(&[u8], Option<Duration>)>) {
        if self.options.local_fallback || self.options.read_through.is_some() {
            self.local.remember(id, row);
        }
    }
}

/// Seconds until a row is tried again after a number of failures: doubled each time, with jitter.
fn backoff(failures: u32) -> f64 {
    let seconds = 0.5 * f64::from(1u32 << failures.min(10));
    seconds.min(MAX_BACKOFF) * (0.5 + fastrand::f64() / 2.0)
}

fn loaded_now(json: Vec<u8>) -> ReadRow {
    ReadRow {
        json: json.into(),
        age: Some(Duration::ZERO),
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn checked(id: String) -> Result<String, RowError> {
    match id.len() {
        0..=MAX_ID => Ok(id),
        bytes => Err(RowError::Id { bytes }),
    }
}

fn parsed<T: DeserializeOwned>(id: &str, row: &ReadRow) -> Result<Row<T>, RowError> {
    let value = serde_json::from_slice(&row.json).map_err(|source| RowError::Type {
        id: id.to_owned(),
        source,
    })?;
    Ok(Row {
        value,
        age: row.age,
    })
}
