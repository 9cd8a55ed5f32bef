//! The cache that the daemon and the handles share: refreshes leased rows, and reads cached rows. The futures that a
//! handle awaits are boxed, so that only this crate compiles them: see [`BoxFuture`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::error::RowError;
use super::events::{Event, Events};
use super::loader::AnyLoader;
use super::local::{Local, ReadRow};
use super::permits::{Permit, Permits};
use super::single_flight::SingleFlight;
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::Result;
use tower_pulse_core::random::short_random_name;
use tower_pulse_core::recorder::ContextHandle;
use tower_pulse_core::row_lists::{RowList, RowsQuery};
use tower_pulse_core::store::StoreFuture;
use tower_pulse_core::task::BoxFuture;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_redis::RedisStore;
use tower_pulse_redis::rows::{
    CachedRow, FinishReport, FinishedRow, LeaseOf, LeasedRow, LeasedRows, LoadedRow,
};

/// While another process loads a row, a caller checks at this interval whether the row is cached.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The longest wait until a row is tried again after a failure, in seconds.
const MAX_BACKOFF: f64 = 60.0;

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) concurrency: usize,
    pub(super) deadline: Duration,
    pub(super) max_age: Option<Duration>,
    pub(super) unscheduled_age: Duration,
    pub(super) max_bytes: usize,
    pub(super) max_rows: usize,
    pub(super) drop_missing: bool,
    pub(super) local_fallback: bool,
    pub(super) read_through: Option<Duration>,
    pub(super) local_bytes: usize,
}

impl Options {
    /// The duration of a lease: longer than the deadline of a load, so that the row is written before the lease ends.
    pub(super) fn lease(&self) -> Duration {
        const MARGIN: Duration = Duration::from_secs(2);
        self.deadline + MARGIN
    }
}

pub(super) struct Cache {
    pub(super) options: Options,
    pub(super) store: Arc<RedisStore>,
    pub(super) clock: Clock,
    pub(super) loader: AnyLoader,
    /// Each load holds a permit until its row is written.
    pub(super) permits: Permits,
    pub(super) local: Local,
    /// The context that times loads.
    pub(super) loading: Arc<ContextHandle>,
    pub(super) events: Events,
    /// Notified when this process schedules a row.
    pub(super) scheduled: Notify,
    pub(super) loads: SingleFlight<Answer>,
    /// Rows that are being read from the store for callers, with `read_through`.
    pub(super) fetches: SingleFlight<Answer>,
}

/// A row that several callers may share; `None` if the row does not exist, or is not cached.
pub(super) type Answer = Result<Option<ReadRow>, RowError>;

pub(super) struct Refreshed {
    pub(super) row: Answer,
    /// Whether the store accepted the result.
    pub(super) finished: Result<FinishReport>,
}

impl Cache {
    pub(super) async fn lease(&self, token: &str, which: LeaseOf<'_>) -> Result<LeasedRows> {
        let seconds = self.options.lease().as_secs_f64();
        let leasing = (self.store).lease_rows(&self.options.name, token, which, seconds);
        leasing.await
    }

    pub(super) async fn refresh(&self, token: &str, row: LeasedRow, permit: Permit) -> Refreshed {
        let options = &self.options;
        let (id, is_scheduled) = (row.id.clone(), row.due.is_some());
        let ttl = match is_scheduled {
            true => options.max_age,
            false => Some(options.unscheduled_age),
        };
        let row = FinishedRow {
            loaded: self.load(&id, &permit).await,
            drop_missing: options.drop_missing,
            ttl: ttl.map(|ttl| ttl.as_secs_f64()),
            spread: fastrand::f64().max(0.01),
            backoff: backoff(row.failures),
            leased: row,
        };
        let finished = self.store.finish_row(&options.name, token, &row).await;
        let is_written = finished.as_ref().is_ok_and(|report| report.is_written);
        match &row.loaded {
            Ok(_) if is_written => self.events.count(Event::Refresh),
            Ok(_) => {}
            // The schedule lists this failure, so this process need not remember it.
            Err(_) if is_written && is_scheduled => self.local.forget_failure(&id),
            Err(reason) => self.local.remember_failure(&id, reason),
        }
        let row = answer(&id, row.loaded);
        if let Ok(row) = &row
            && is_written
        {
            self.remember(&id, row.clone());
        }
        Refreshed { row, finished }
    }

    /// Leases a row and refreshes the row; `None` if the row is leased or cached already. If `is_forced`, takes the
    /// lease from another holder, and refreshes the row even if it is cached. Waits for a permit before the lease, so a
    /// leased row never waits for a permit. The refresh runs in a separate task. The task continues if the caller is
    /// dropped, because other callers wait for the end of the lease.
    #[inline(never)]
    pub(super) fn refresh_in_task<'a>(
        self: &'a Arc<Self>,
        id: &'a str,
        is_forced: bool,
    ) -> StoreFuture<'a, Option<Refreshed>> {
        Box::pin(async move {
            let permit = self.permits.for_caller().await;
            let (cache, leased) = (self.clone(), id.to_owned());
            let task = tokio::spawn(async move {
                let (id, max_bytes) = (&*leased, cache.options.max_bytes);
                let which = match is_forced {
                    true => LeaseOf::Row(id),
                    false => LeaseOf::Free { id, max_bytes },
                };
                let token = short_random_name();
                let leased = cache.lease(&token, which).await?;
                Ok(match leased.rows.into_iter().next() {
                    Some(row) => Some(cache.refresh(&token, row, permit).await),
                    None => None,
                })
            });
            task.await.unwrap_or_else(|_| {
                Ok(Some(Refreshed {
                    row: answer(id, Err("the runtime shut down".to_owned())),
                    finished: Ok(FinishReport::default()),
                }))
            })
        })
    }

    async fn load(&self, id: &str, permit: &Permit) -> LoadedRow {
        let start = self.clock.tick();
        let loaded = (self.loader)(id.to_owned(), permit).await;
        let outcome = match loaded {
            Ok(_) => Outcome::Completed,
            Err(_) => Outcome::Failed,
        };
        self.loading.finish(start, outcome, None);
        match loaded {
            Ok(_) => self.local.forget_failure(id),
            Err(_) => self.count(id, Event::Failure),
        }
        loaded
    }

    /// Loads a row that is not cached. If another task or process already loads the row, waits for the result. Without
    /// the store, loads the row for this process only.
    #[inline(never)]
    pub(super) fn load_once<'a>(
        self: &'a Arc<Self>,
        id: &'a str,
        has_store: bool,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let load = async {
                match has_store {
                    true => self.load_in_fleet(id).await,
                    false => self.load_uncached(id).await,
                }
            };
            // A nested load that joined another load could deadlock: the other load may wait for the same permit.
            match self.permits.is_nested() {
                true => load.await,
                false => self.loads.join(id, load).await,
            }
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
                // The row is valid even if the store has not accepted it.
                Ok(Some(refreshed)) => return refreshed.row,
                Ok(None) => {}
                Err(_) => return self.load_uncached(id).await,
            }
            // The deadline counts from the first time that another holder has the lease, because the wait for a permit
            // may be long.
            let now = tokio::time::Instant::now();
            if now >= *deadline.get_or_insert(now + self.options.lease()) {
                let reason = "another process has not loaded it in time";
                return answer(id, Err(reason.to_owned()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    async fn load_uncached(&self, id: &str) -> Answer {
        let permit = self.permits.for_caller().await;
        let loaded = self.load(id, &permit).await;
        if let Err(reason) = &loaded {
            self.local.remember_failure(id, reason);
        }
        answer(id, loaded)
    }

    #[inline(never)]
    pub(super) fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let row = match self.options.read_through {
                Some(age) => self.read_through(id, age).await,
                None => self.fetch(id).await,
            };
            self.count_read(id, matches!(row, Ok(Some(_))));
            row
        })
    }

    async fn read_through(&self, id: &str, age: Duration) -> Answer {
        match self.last(id, age) {
            Some(row) => Ok(Some(row)),
            None => self.fetches.join(id, self.fetch(id)).await,
        }
    }

    /// The row that this process has read within `age`, unless the row is older than `max_age`.
    fn last(&self, id: &str, age: Duration) -> Option<ReadRow> {
        let most = self.options.max_age.unwrap_or(Duration::MAX);
        let row = self.local.last(id, age);
        row.filter(|row| row.age.unwrap_or_default() < most)
    }

    fn count_read(&self, id: &str, is_hit: bool) {
        self.count(id, if is_hit { Event::Hit } else { Event::Miss });
    }

    fn count(&self, id: &str, event: Event) {
        self.events.count(event);
        self.local.count(id, event);
    }

    async fn fetch(&self, id: &str) -> Answer {
        let mut rows = self.fetch_many(&[id.to_owned()]).await?;
        Ok(rows.pop().flatten())
    }

    #[inline(never)]
    pub(super) fn read_many<'a>(
        &'a self,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Option<ReadRow>>, RowError>> {
        Box::pin(async move {
            let rows = self.fetch_many(ids).await;
            for (at, id) in ids.iter().enumerate() {
                let is_hit = rows.as_ref().is_ok_and(|rows| rows[at].is_some());
                self.count_read(id, is_hit);
            }
            Ok(rows?)
        })
    }

    /// Reads rows from the store. With `local_fallback`, returns remembered rows if the store fails.
    async fn fetch_many(&self, ids: &[String]) -> Result<Vec<Option<ReadRow>>> {
        let (name, max_bytes) = (&self.options.name, self.options.max_bytes);
        let error = match self.store.cached_rows(name, ids, max_bytes).await {
            Ok(rows) => {
                let rows = ids.iter().zip(rows);
                return Ok(rows.map(|(id, row)| self.note_read(id, row)).collect());
            }
            Err(error) if self.options.local_fallback => error,
            Err(error) => return Err(error),
        };
        let last: Vec<_> = (ids.iter())
            .map(|id| self.last(id, Duration::MAX))
            .collect();
        let stale = last.iter().flatten().count();
        (0..stale).for_each(|_| self.events.count(Event::Stale));
        if stale > 0 { Ok(last) } else { Err(error) }
    }

    fn note_read(&self, id: &str, row: Option<CachedRow>) -> Option<ReadRow> {
        let row = row.map(|row| {
            let unscheduled = self.options.unscheduled_age.as_secs_f64();
            // Without a schedule, a row's age is `unscheduled_age` minus its time to live; unknown if negative.
            let ttl = row.ttl.filter(|ttl| *ttl <= unscheduled);
            let age = row.age.or(ttl.map(|ttl| unscheduled - ttl));
            ReadRow {
                json: row.json.into(),
                age: age.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default()),
            }
        });
        self.remember(id, row.clone());
        row
    }

    fn remember(&self, id: &str, row: Option<ReadRow>) {
        if self.options.local_fallback || self.options.read_through.is_some() {
            self.local.remember(id, row);
        }
    }

    /// Lists scheduled rows, with the counts and failures of this process.
    #[inline(never)]
    pub(super) fn list<'a>(&'a self, query: &'a RowsQuery) -> StoreFuture<'a, RowList> {
        Box::pin(async move {
            let mut list = self.store.list_rows(&self.options.name, query).await?;
            for row in &mut list.rows {
                [row.hits, row.misses, row.failed_loads] = self.local.counts(&row.id);
            }
            (list.failed, list.sums) = (self.local.failed(), self.events.sums());
            Ok(list)
        })
    }
}

/// The seconds until a row is tried again after a number of failures. Each failure doubles this time, and a part of the
/// time is random.
fn backoff(failures: u32) -> f64 {
    let seconds = 0.5 * f64::from(1u32 << failures.min(10));
    seconds.min(MAX_BACKOFF) * (0.5 + fastrand::f64() / 2.0)
}

fn answer(id: &str, loaded: LoadedRow) -> Answer {
    let refused = |reason| RowError::Load(format!("row {id:?} could not be loaded: {reason}"));
    let json = loaded.map_err(refused)?;
    Ok(json.map(|json| ReadRow {
        json: json.into(),
        age: Some(Duration::ZERO),
    }))
}
