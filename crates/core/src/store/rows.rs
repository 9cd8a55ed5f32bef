//! Rows: cached rows, and the schedule by which they are refreshed.

use crate::error::StoreError;
use crate::task::BoxFuture;
use tower_pulse_model::context::is_hidden;

/// The most rows that one call schedules, so that no call keeps a server busy for long.
pub const ROWS_AT_ONCE: usize = 200;

/// The longest reason of a failure that is stored, in bytes.
const MAX_REASON: usize = 200;

/// The beginning of a reason, on one line.
pub fn short_reason(reason: &str) -> String {
    let mut short = String::new();
    for c in reason.chars() {
        let c = if is_hidden(c) { ' ' } else { c };
        if short.len() + c.len_utf8() > MAX_REASON {
            break;
        }
        short.push(c);
    }
    short
}

/// A row to schedule, or to remove.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDelay {
    /// The id of the row.
    pub id: String,
    /// Seconds between two refreshes; 0 or less removes the row.
    pub seconds: f64,
}

/// Whether rows were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// They were.
    Done,
    /// There would be too many rows. None was scheduled.
    Full {
        /// Number of scheduled rows.
        rows: usize,
    },
}

/// Which rows to lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOf<'a> {
    /// This many rows that are due.
    Due(usize),
    /// One row, due or not, even if it is leased already: what its other holder loads is older.
    Row(&'a str),
    /// One row, unless it is leased or cached already.
    Free {
        /// The id of the row.
        id: &'a str,
        /// The largest row that can be read. What is larger counts as not cached, and is replaced.
        max_bytes: usize,
    },
}

/// A leased row.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedRow {
    /// The id of the row.
    pub id: String,
    /// When the row was due, in Unix seconds, as the store has it; `None` for a row without a schedule.
    pub due: Option<String>,
    /// Consecutive failures of its loader.
    pub failures: u32,
}

/// Leased rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeasedRows {
    /// The rows.
    pub rows: Vec<LeasedRow>,
    /// Seconds until the next row is due that is not leased; `None` if there is none.
    pub next: Option<f64>,
    /// Entries of the schedule that are no rows: the entry with its key, and what is wrong. They are skipped for a
    /// minute.
    pub problems: Vec<(String, String)>,
}

/// The result of loading a row.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadedRow {
    /// The row, in JSON.
    Row(Vec<u8>),
    /// There is no such row.
    Missing {
        /// Whether the row stays scheduled.
        is_scheduled: bool,
    },
    /// It could not be loaded.
    Failed {
        /// Why.
        reason: String,
        /// Seconds until the next attempt.
        backoff: f64,
    },
}

/// The end of a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRow {
    /// The row that was leased.
    pub leased: LeasedRow,
    /// The result.
    pub loaded: LoadedRow,
    /// Seconds for which a cached row lives, if it has a maximum age or no schedule.
    pub ttl: Option<f64>,
    /// The part of the delay until the next turn, 0 to 1, if this is the first one of a row that was scheduled
    /// together with others.
    pub spread: f64,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FinishReport {
    /// Whether the result was written. It is not if the lease has passed to somebody else, or the row was scheduled
    /// again or removed meanwhile: then nothing is changed.
    pub is_written: bool,
    /// Seconds until the row is due, as far as this call knows; `None` for a row without a schedule.
    pub next: Option<f64>,
}

/// A cached row.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedRow {
    /// The row, in JSON.
    pub json: Vec<u8>,
    /// Seconds since it was loaded; `None` for a row without a schedule, or of another program.
    pub age: Option<f64>,
    /// Seconds until it is removed; `None` if it stays.
    pub ttl: Option<f64>,
}

/// Asks for some scheduled rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowQuery {
    /// A part of their ids; empty for all rows.
    pub contains: String,
    /// How many rows to leave out.
    pub offset: usize,
    /// How many rows to return after these.
    pub limit: usize,
}

/// Some scheduled rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowPage {
    /// The number of all rows whose ids match.
    pub total: usize,
    /// The rows.
    pub rows: Vec<RowState>,
}

/// A scheduled row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowState {
    /// The id of the row.
    pub id: String,
    /// Seconds between two refreshes.
    pub every: f64,
    /// Seconds until the row is due; negative for a row that is late.
    pub due_in: f64,
    /// Seconds since it was loaded; `None` if it is not cached.
    pub age: Option<f64>,
    /// Consecutive failures of its loader.
    pub failures: u32,
    /// Why its loader failed last.
    pub last_error: Option<String>,
}

/// Cached rows and their schedule. `cache` is the name of a cache, `""` for the unnamed one.
///
/// # Cancel safety
/// A call whose future is dropped may have taken effect.
pub trait Rows: Send + Sync {
    /// Schedules rows, which are due now, and removes rows. Rows that are being loaded are due again. At most
    /// [`ROWS_AT_ONCE`] rows.
    fn schedule_rows<'a>(
        &'a self,
        cache: &'a str,
        rows: &'a [RowDelay],
        max_rows: usize,
    ) -> BoxFuture<'a, Result<Scheduled, StoreError>>;

    /// Leases rows for `seconds` to the holder of `token`, and removes due rows without a delay.
    fn lease_rows<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        which: LeaseOf<'a>,
        seconds: f64,
    ) -> BoxFuture<'a, Result<LeasedRows, StoreError>>;

    /// Ends a lease.
    fn finish_row<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        row: &'a FinishedRow,
    ) -> BoxFuture<'a, Result<FinishReport, StoreError>>;

    /// Cached rows, in the order of `ids`. Rows of more than `max_bytes` are left out. All rows that are returned are in
    /// memory at once.
    fn cached_rows<'a>(
        &'a self,
        cache: &'a str,
        ids: &'a [String],
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<Option<CachedRow>>, StoreError>>;

    /// The number of scheduled rows, and some of them: first those that fail, then the latest due.
    fn list_rows<'a>(
        &'a self,
        cache: &'a str,
        query: &'a RowQuery,
    ) -> BoxFuture<'a, Result<RowPage, StoreError>>;
}
