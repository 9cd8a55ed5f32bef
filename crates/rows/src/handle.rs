//! The cache as the application uses it.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::cache::Cache;
use super::error::RowError;
use super::local::ReadRow;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::row_lists::{RowList, RowsQuery};
use tower_pulse_core::task::BoxFuture;
use tower_pulse_redis::rows::{ROWS_AT_ONCE, RowDelay};

const MAX_ID: usize = 256;
/// The longest interval, in seconds.
const YEAR: f64 = 365.0 * 86_400.0;

/// A cache of rows. Cheap to clone; serves as axum state.
#[derive(Clone)]
pub struct RowCache(pub(super) Arc<Cache>);

/// A cached row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row<T> {
    /// The row.
    pub value: T,
    /// The time since the row was loaded; `None` if another program has cached the row.
    pub age: Option<Duration>,
}

impl std::fmt::Debug for RowCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCache")
            .field("name", &self.0.options.name)
            .finish_non_exhaustive()
    }
}

impl RowCache {
    /// Schedules a row: the row is refreshed now, and then at this interval. An interval of 0 removes the row.
    ///
    /// # Errors
    /// [`RowError::NotAllowed`], [`RowError::Full`] or [`RowError::Store`].
    pub async fn schedule(&self, id: &str, every: Duration) -> Result<(), RowError> {
        self.schedule_many([(id, every)]).await
    }

    /// Schedules several rows. The first interval of each row is shortened at random, so that later refreshes are
    /// spread.
    ///
    /// # Errors
    /// Fails like [`schedule`](Self::schedule). Rows are scheduled in groups of 200; the groups before the failed one
    /// stay scheduled.
    pub async fn schedule_many<I: Into<String>>(
        &self,
        rows: impl IntoIterator<Item = (I, Duration)>,
    ) -> Result<(), RowError> {
        let row = |(id, every): (I, Duration)| {
            let (id, seconds): (String, _) = (id.into(), every.as_secs_f64());
            checked(&id)?;
            match seconds <= YEAR {
                true => Ok((id, seconds)),
                false => Err(RowError::NotAllowed(format!(
                    "an interval of {seconds} s: at most a year is allowed, and 0 removes the row"
                ))),
            }
        };
        let rows: Vec<RowDelay> = rows.into_iter().map(row).collect::<Result<_, _>>()?;
        self.schedule_all(&rows).await
    }

    /// Boxed, so that only this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    fn schedule_all<'a>(&'a self, rows: &'a [RowDelay]) -> BoxFuture<'a, Result<(), RowError>> {
        Box::pin(async move {
            let Cache { options, store, .. } = &*self.0;
            let max_rows = options.max_rows;
            for part in rows.chunks(ROWS_AT_ONCE) {
                let scheduling = store.schedule_rows(&options.name, part, max_rows);
                if let Err(rows) = scheduling.await? {
                    let first = part.iter().find(|(_, seconds)| *seconds > 0.0);
                    let id = first.map_or_else(String::new, |(id, _)| id.clone());
                    return Err(RowError::Full(format!(
                        "row {id:?} would be one more than `max_rows` allows: {rows} are scheduled, and {max_rows} allowed"
                    )));
                }
                for (id, _) in part.iter().filter(|(_, seconds)| *seconds <= 0.0) {
                    self.0.local.remember(id, None);
                }
                self.0.scheduled.notify_one();
            }
            Ok(())
        })
    }

    /// Removes a row from the schedule and from the cache.
    ///
    /// # Errors
    /// Fails like [`schedule`](Self::schedule).
    pub async fn unschedule(&self, id: &str) -> Result<(), RowError> {
        self.schedule(id, Duration::ZERO).await
    }

    /// Loads a row now. Call this after a write to the source of the row: an older load still in progress is discarded.
    /// Returns whether the row exists.
    ///
    /// # Errors
    /// [`RowError::NotAllowed`], [`RowError::Load`] or [`RowError::Store`].
    pub async fn refresh_now(&self, id: &str) -> Result<bool, RowError> {
        let Some(refreshed) = self.0.refresh_in_task(checked(id)?, true).await? else {
            return Ok(false);
        };
        let row = refreshed.row?;
        refreshed.finished?;
        Ok(row.is_some())
    }

    /// Returns the cached row; `None` if the row is not cached.
    ///
    /// # Errors
    /// [`RowError::NotAllowed`], [`RowError::Type`], or [`RowError::Store`] if the store fails and
    /// [`local_fallback`](super::RowCacheBuilder::local_fallback) does not have the row. A wait for the store ends
    /// after the response timeout (500 ms by default), or after 10 s for a row above 4 MiB.
    pub async fn get<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Row<T>>, RowError> {
        let row = self.0.read(checked(id)?).await?;
        row.map(|row| parsed(id, &row)).transpose()
    }

    /// Returns the cached rows of some ids, in the order of the ids. Up to a thousand small rows take one round trip;
    /// more rows, or larger ones, take several. All rows are in memory at once.
    ///
    /// # Errors
    /// Fails like [`get`](Self::get).
    pub async fn get_many<T: DeserializeOwned>(
        &self,
        ids: &[impl AsRef<str>],
    ) -> Result<Vec<Option<Row<T>>>, RowError> {
        let ids = ids.iter().map(|id| Ok(checked(id.as_ref())?.to_owned()));
        let ids: Vec<String> = ids.collect::<Result<_, RowError>>()?;
        let rows = self.0.read_many(&ids).await?;
        let rows = ids.iter().zip(rows);
        rows.map(|(id, row)| row.map(|row| parsed(id, &row)).transpose())
            .collect()
    }

    /// Returns the cached row. Loads the row first if it is not cached. `None` if the row does not exist. One task of
    /// one process loads the row for all concurrent callers.
    ///
    /// A row without a schedule stays cached for [`unscheduled_age`](super::RowCacheBuilder::unscheduled_age). While
    /// the store is unreachable, the row is loaded and not cached.
    ///
    /// Waits while [`concurrency`](super::RowCacheBuilder::concurrency) loads of other rows are in progress. Dropping
    /// the future stops the wait. A load that has begun continues, unless the store is unreachable.
    ///
    /// # Errors
    /// [`RowError::NotAllowed`], [`RowError::Load`] or [`RowError::Type`].
    pub async fn get_or_load<T: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<Row<T>>, RowError> {
        let row = match self.0.read(checked(id)?).await {
            Ok(Some(row)) => Some(row),
            Ok(None) => self.0.load_once(id, true).await?,
            Err(_) => self.0.load_once(id, false).await?,
        };
        row.map(|row| parsed(id, &row)).transpose()
    }

    /// The name of the cache; empty for the unnamed cache.
    pub fn name(&self) -> &str {
        &self.0.options.name
    }
}

/// Lists some matching rows of a cache, and counts all matching rows. Failing rows come first, then the others by due
/// time.
pub async fn list(cache: &RowCache, query: &RowsQuery) -> Result<RowList, StoreError> {
    cache.0.list(query).await
}

fn checked(id: &str) -> Result<&str, RowError> {
    match id.len() {
        0..=MAX_ID => Ok(id),
        bytes => Err(RowError::NotAllowed(format!(
            "an id of a row has {bytes} bytes, and at most {MAX_ID} are allowed"
        ))),
    }
}

fn parsed<T: DeserializeOwned>(id: &str, row: &ReadRow) -> Result<Row<T>, RowError> {
    let value = serde_json::from_slice(&row.json);
    let value = value.map_err(|source| RowError::Type(id.to_owned(), Arc::new(source)))?;
    Ok(Row {
        value,
        age: row.age,
    })
}
