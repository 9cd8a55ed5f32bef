//! Cached rows and their schedule, in the book's keys. `cache` is the name of a cache, `""` for the unnamed cache.
//!
//! A call whose future is dropped may have taken effect.

use std::collections::HashSet;

use redis::{Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::{LARGE_ROW, Role};
use super::keys::RowKeys;
use super::script::{Invocation, ROWS_DROP, ROWS_FINISH, ROWS_LEASE, ROWS_SCHEDULE, or_empty};
use super::value::{bytes, count, float, int, items, pairs, shown, text, unix_seconds};
use tower_pulse_core::error::Result;
use tower_pulse_core::row_lists::{RowInfo, RowList, RowsQuery};
use tower_pulse_model::context::is_hidden;
use tower_pulse_model::order::InOrder;

/// The most rows that one call schedules, so that no call blocks a server for long.
pub const ROWS_AT_ONCE: usize = 200;

/// The longest stored reason of a failure, in bytes.
const MAX_REASON: usize = 200;

/// The most ids of the schedule that one command reads.
const IDS_AT_ONCE: isize = 2_000;

/// The maximum number of failing rows at the head of a list.
const MAX_FAILING: isize = 1_000;

/// A row to schedule: its id, and the seconds between two refreshes. 0 or less removes the row.
pub type RowDelay = (String, f64);

/// The rows to lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOf<'a> {
    /// At most this many due rows.
    Due(usize),
    /// One row, due or not. Ends an existing lease, because its holder may load an older row.
    Row(&'a str),
    /// One row, unless it is leased or cached already.
    Free {
        /// The id of the row.
        id: &'a str,
        /// The largest row that can be read. A larger row counts as not cached, and is replaced.
        max_bytes: usize,
    },
}

/// A leased row.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedRow {
    /// The id of the row.
    pub id: String,
    /// The time at which the row was due, in Unix seconds, as the store writes it; `None` for a row without a schedule.
    pub due: Option<String>,
    /// The number of consecutive failed loads.
    pub failures: u32,
}

/// Leased rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeasedRows {
    /// The rows.
    pub rows: Vec<LeasedRow>,
    /// The seconds until another row can be leased, because it becomes due, or because the lease of a due row ends.
    /// `None` if there is no such row, and for [`LeaseOf::Row`] and [`LeaseOf::Free`].
    pub next: Option<f64>,
    /// The entries of the schedule that are not rows, each as (key and entry, reason). They are skipped for a minute.
    pub problems: Vec<(String, String)>,
}

/// A row in JSON, `None` if the row does not exist, or the reason why it could not be loaded.
pub type LoadedRow = Result<Option<Vec<u8>>, String>;

/// The result with which a lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRow {
    /// The row that was leased.
    pub leased: LeasedRow,
    /// The result of the load.
    pub loaded: LoadedRow,
    /// Whether a row that does not exist leaves the schedule.
    pub drop_missing: bool,
    /// The seconds for which a cached row lives, if it has a maximum age or no schedule.
    pub ttl: Option<f64>,
    /// A random factor, 0 to 1, for the first delay of a row that was scheduled together with other rows. The factor
    /// spreads their refreshes.
    pub spread: f64,
    /// The seconds until the next attempt, if the row could not be loaded.
    pub backoff: f64,
}

/// The outcome of ending a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FinishReport {
    /// Whether the result was written. The result is dropped if the lease has passed to another holder, or if the row
    /// was scheduled again or removed meanwhile.
    pub is_written: bool,
    /// The seconds until the row is due; `None` without a schedule, or if another holder has the lease.
    pub next: Option<f64>,
}

/// A cached row.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedRow {
    /// The row, in JSON.
    pub json: Vec<u8>,
    /// The seconds since the row was loaded; `None` if the row has no schedule, or if another program has cached the
    /// row.
    pub age: Option<f64>,
    /// The seconds until the row is removed; `None` if the row stays.
    pub ttl: Option<f64>,
}

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

#[doc(hidden)] // Only the row cache calls this.
impl RedisStore {
    /// Schedules or removes at most [`ROWS_AT_ONCE`] rows. Scheduled rows are due at once, even while they are being
    /// loaded. If there would be too many rows, schedules none, and returns how many rows are already scheduled.
    pub async fn schedule_rows(
        &self,
        cache: &str,
        rows: &[RowDelay],
        max_rows: usize,
    ) -> Result<Result<(), usize>> {
        let keys = self.keys.rows(cache);
        let mut script = self.row_script(&keys);
        script.arg((max_rows, u8::from(rows.len() > 1)));
        for (id, seconds) in rows {
            script.key(keys.row(id.as_bytes()));
            script.arg((id, format!("{seconds:?}")));
        }
        let reply = self.connections.run(Role::Write, &ROWS_SCHEDULE, &script);
        let reply = reply.await?;
        match items(&reply) {
            [word, rows] if text(word) == Some("FULL") => Ok(Err(count(rows).unwrap_or(max_rows))),
            [_, _] => Ok(Ok(())),
            _ => Err(self.not_understood("rows_schedule.lua")),
        }
    }

    /// Leases rows for `seconds` to the holder of `token`, and removes due rows that have no positive delay.
    pub async fn lease_rows(
        &self,
        cache: &str,
        token: &str,
        which: LeaseOf<'_>,
        seconds: f64,
    ) -> Result<LeasedRows> {
        let keys = self.keys.rows(cache);
        let mut script = self.row_script(&keys);
        script.arg((token, format!("{seconds:.6}")));
        let (kind, target, max_bytes) = match which {
            LeaseOf::Due(rows) => ("DUE", rows.to_string(), 0),
            LeaseOf::Row(id) => ("ROW", id.to_owned(), 0),
            LeaseOf::Free { id, max_bytes } => ("FREE", id.to_owned(), max_bytes),
        };
        if kind != "DUE" {
            script.key(keys.row(target.as_bytes()));
        }
        script.arg((kind, target, max_bytes));
        let reply = self.connections.run(Role::Write, &ROWS_LEASE, &script);
        let reply = reply.await?;
        let [leased, next, garbage, gone] = items(&reply) else {
            return Err(self.not_understood("rows_lease.lua"));
        };
        self.drop_rows(&keys, items(gone)).await;
        let row = |row: &[Value]| {
            let due = text(&row[1]).filter(|due| !due.is_empty());
            Some(LeasedRow {
                id: text(&row[0])?.to_owned(),
                due: due.map(str::to_owned),
                failures: int(&row[2]).map_or(0, |n| u32::try_from(n).unwrap_or(0)),
            })
        };
        let problem = |(id, reason): (&Value, &Value)| {
            let id = shown(bytes(id).unwrap_or_default());
            let reason = text(reason).unwrap_or("it is no row").to_owned();
            (format!("{} {id}", keys.schedule), reason)
        };
        Ok(LeasedRows {
            rows: items(leased).chunks_exact(3).filter_map(row).collect(),
            next: float(next),
            problems: pairs(garbage).map(problem).collect(),
        })
    }

    async fn drop_rows(&self, keys: &RowKeys, gone: &[Value]) {
        if gone.is_empty() {
            return;
        }
        let mut script = with_shared_keys(keys);
        for id in gone.iter().filter_map(bytes) {
            script.key(keys.row(id));
            script.arg(id);
        }
        // After an error, the rows stay in the schedule, and a later call finds them again. The error must not discard
        // the leased rows.
        let _ = self.connections.run(Role::Write, &ROWS_DROP, &script).await;
    }

    /// Ends a lease.
    pub async fn finish_row(
        &self,
        cache: &str,
        token: &str,
        row: &FinishedRow,
    ) -> Result<FinishReport> {
        // Waits for the right to a large call before copying the row, so that only one large row is copied at a time.
        let (role, _large_call) = match &row.loaded {
            Ok(Some(json)) if json.len() > LARGE_ROW => {
                (Role::Large, Some(self.connections.large().await))
            }
            _ => (Role::Write, None),
        };
        let keys = self.keys.rows(cache);
        let mut script = self.row_script(&keys);
        script.key(keys.row(row.leased.id.as_bytes()));
        let LeasedRow { id, due, .. } = &row.leased;
        script.arg((token, id, or_empty(due.as_deref())));
        match &row.loaded {
            Ok(Some(json)) => script.arg(("ROW", json)),
            Ok(None) if row.drop_missing => script.arg(("DROPPED", "")),
            Ok(None) => script.arg(("MISSING", "")),
            Err(reason) => script.arg(("FAILED", short_reason(reason))),
        }
        let millis = row.ttl.map(|ttl| (ttl * 1e3).ceil().max(1.0) as i64);
        let [spread, backoff] = [row.spread, row.backoff].map(|part| format!("{part:.6}"));
        script.arg((or_empty(millis), spread, backoff));
        let reply = self.connections.run(role, &ROWS_FINISH, &script).await?;
        match items(&reply) {
            [is_written, next] => Ok(FinishReport {
                is_written: int(is_written) == Some(1),
                next: float(next),
            }),
            _ => Err(self.not_understood("rows_finish.lua")),
        }
    }

    /// Returns the number of matching rows, and some of them. Failing rows come first, then the others by due time.
    pub async fn list_rows(&self, cache: &str, query: &RowsQuery) -> Result<RowList> {
        let keys = self.keys.rows(cache);
        let mut pipeline = pipe();
        pipeline.cmd("ZCARD").arg(&keys.schedule);
        pipeline.zrevrange_withscores(&keys.failing, 0, MAX_FAILING - 1);
        let replies = self.values(&mut pipeline).await?;
        let failing = self.most_failures_first(&keys, &replies[1]).await?;

        let is_asked = |id: &String| id.contains(&*query.contains);
        let mut ids: Vec<String> = failing.iter().filter(|id| is_asked(id)).cloned().collect();
        // A row may move while the pages are read, but must be listed only once.
        let mut seen: HashSet<String> = failing.into_iter().collect();
        let limit = query.limit.unwrap_or(100);
        let needed = query.offset.saturating_add(limit);
        let mut start = 0;
        // A search by a part of the id looks through all rows.
        while !query.contains.is_empty() || ids.len() < needed {
            let mut pipeline = pipe();
            pipeline.zrange(&keys.schedule, start, start + IDS_AT_ONCE - 1);
            let replies = self.values(&mut pipeline).await?;
            let page = items(&replies[0]);
            let more = page.iter().filter_map(text).map(str::to_owned);
            ids.extend(more.filter(|id| is_asked(id) && seen.insert(id.clone())));
            start += IDS_AT_ONCE;
            if page.len() < IDS_AT_ONCE.unsigned_abs() {
                break;
            }
        }
        let mut list = RowList::default();
        list.total = match query.contains.is_empty() {
            true => count(&replies[0]).unwrap_or(0),
            false => ids.len(),
        };
        let ids = ids.into_iter().skip(query.offset).take(limit);
        list.rows = self.states(&keys, ids.collect()).await?;
        Ok(list)
    }

    /// Orders failing rows by their failures, most first, then by due time. Omits rows that are not scheduled.
    /// `failing` has pairs of id and failures.
    async fn most_failures_first(&self, keys: &RowKeys, failing: &Value) -> Result<Vec<String>> {
        let failing: Vec<_> = (pairs(failing))
            .filter_map(|(id, failures)| Some((float(failures)?, text(id)?)))
            .collect();
        if failing.is_empty() {
            return Ok(Vec::new());
        }
        let (mut pipeline, ids) = (pipe(), failing.iter().map(|(_, id)| *id));
        pipeline.zscore_multiple(&keys.schedule, &ids.collect::<Vec<_>>());
        let dues = self.values(&mut pipeline).await?;
        let rows = failing.into_iter().zip(items(&dues[0]));
        let rows = rows.filter_map(|((failures, id), due)| Some((-failures, float(due)?, id)));
        let mut rows: Vec<_> = rows.collect();
        rows.order_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Ok(rows.into_iter().map(|(_, _, id)| id.to_owned()).collect())
    }

    async fn states(&self, keys: &RowKeys, ids: Vec<String>) -> Result<Vec<RowInfo>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = pipe();
        pipeline.cmd("HMGET").arg(&keys.states).arg(&ids);
        pipeline.cmd("ZMSCORE").arg(&keys.delay).arg(&ids);
        pipeline.cmd("ZMSCORE").arg(&keys.schedule).arg(&ids);
        for id in &ids {
            pipeline.cmd("EXISTS").arg(keys.row(id.as_bytes()));
        }
        pipeline.cmd("TIME");
        let replies = self.values(&mut pipeline).await?;
        let now = self.manual_now();
        let now = now.unwrap_or_else(|| replies.last().map_or(0.0, unix_seconds));
        let value = |reply: usize, row: usize| items(&replies[reply]).get(row);
        let rows = ids.into_iter().enumerate().filter_map(|(at, id)| {
            let state = value(0, at).and_then(text).and_then(RowState::from_text);
            let state = state.unwrap_or_default();
            let is_cached = int(&replies[3 + at]) == Some(1);
            let mut row = RowInfo::default();
            row.id = id;
            row.every = value(1, at).and_then(float).unwrap_or(0.0);
            // The row may have been removed since it was listed.
            row.due_in = value(2, at).and_then(float)? - now;
            row.age = state.age(now).filter(|_| is_cached);
            row.failures = state.failures;
            row.last_error = Some(state.reason).filter(|reason| !reason.is_empty());
            Some(row)
        });
        Ok(rows.collect())
    }

    /// The replies to the commands; an error about a key becomes an empty value.
    async fn values(&self, pipeline: &mut Pipeline) -> Result<Vec<Value>> {
        let mut replies = self.read(pipeline).await?.into_iter();
        let value = |_| replies.next().and_then(Result::ok).unwrap_or(Value::Nil);
        Ok(pipeline.cmd_iter().map(value).collect())
    }

    /// The time that replaces the server's clock in tests.
    pub(super) fn manual_now(&self) -> Option<f64> {
        Some(self.clock.as_ref()?.now_nanos() as f64 / 1e9)
    }

    /// A script call with the keys that all rows of a cache share, and the time.
    fn row_script(&self, keys: &RowKeys) -> Invocation {
        let mut script = with_shared_keys(keys);
        script.arg(or_empty(self.manual_now().map(|now| format!("{now:.6}"))));
        script
    }
}

fn with_shared_keys(keys: &RowKeys) -> Invocation {
    let mut script = Invocation::default();
    script.key((&keys.delay, &keys.schedule, &keys.states, &keys.failing));
    script
}

#[derive(Default)]
pub(super) struct RowState {
    loaded: Option<f64>,
    failures: u32,
    reason: String,
}

impl RowState {
    /// Parses `{leased until} {token} {loaded} {failures} {spread} {reason}`.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let loaded = words.nth(2)?.parse().ok().filter(|at: &f64| at.is_finite());
        let failures = words.next()?.parse().ok()?;
        let reason = words.nth(1)?.to_owned();
        Some(Self {
            loaded,
            failures,
            reason,
        })
    }

    pub(super) fn age(&self, now: f64) -> Option<f64> {
        self.loaded.map(|loaded| (now - loaded).max(0.0))
    }
}
