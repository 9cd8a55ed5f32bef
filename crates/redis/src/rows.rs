//! Cached rows and their schedule, in the book's keys.

use std::collections::HashSet;

use redis::{Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::{LARGE_ROW, Role};
use super::keys::RowKeys;
use super::large_keys::Reply;
use super::script::{Invocation, ROWS_DROP, ROWS_FINISH, ROWS_LEASE, ROWS_SCHEDULE};
use super::value::{bytes, float, int, items, pairs, shown, text, unix_seconds};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::store::rows::{
    CachedRow, FinishReport, FinishedRow, LeaseOf, LeasedRow, LeasedRows, LoadedRow, RowDelay,
    RowPage, RowQuery, RowState, Rows, Scheduled, short_reason,
};
use tower_pulse_core::task::BoxFuture;

/// Ids of the schedule that one command reads.
const IDS_AT_ONCE: usize = 2_000;

/// Failing rows that are listed first.
const MAX_FAILING: usize = 1_000;

impl RedisStore {
    /// The time to use instead of the server's, in tests.
    fn time_arg(&self) -> String {
        let now = self.clock.as_ref().map(Clock::now_nanos);
        now.map_or_else(String::new, |nanos| format!("{:.6}", nanos as f64 / 1e9))
    }

    /// Reads, and tells the store's time in seconds.
    async fn read_at(&self, pipeline: &mut Pipeline) -> Result<(Vec<Reply>, f64), StoreError> {
        if let Some(clock) = &self.clock {
            let now = clock.now_nanos() as f64 / 1e9;
            return Ok((self.read(pipeline).await?, now));
        }
        pipeline.cmd("TIME");
        let mut replies = self.read(pipeline).await?;
        let time = replies.pop().and_then(Result::ok);
        Ok((replies, time.as_ref().map_or(0.0, unix_seconds)))
    }

    async fn schedule(
        &self,
        cache: &str,
        rows: &[RowDelay],
        max_rows: usize,
    ) -> Result<Scheduled, StoreError> {
        let keys = self.keys.rows(cache);
        let spread = if rows.len() > 1 { "1" } else { "0" };
        let mut script = sets(&keys);
        script.arg(self.time_arg());
        script.arg(max_rows.to_string());
        script.arg(spread);
        for row in rows {
            script.key(keys.row(row.id.as_bytes()));
            script.arg(&*row.id);
            script.arg(format!("{:?}", row.seconds));
        }
        let reply = self.connections.run(Role::Write, &ROWS_SCHEDULE, &script);
        let reply = reply.await?;
        match items(&reply) {
            [word, rows] if text(word) == Some("FULL") => {
                let rows = int(rows).and_then(|rows| usize::try_from(rows).ok());
                let rows = rows.unwrap_or(max_rows);
                Ok(Scheduled::Full { rows })
            }
            [_, _] => Ok(Scheduled::Done),
            _ => Err(self.not_understood("rows_schedule.lua")),
        }
    }

    async fn lease(
        &self,
        cache: &str,
        token: &str,
        which: LeaseOf<'_>,
        seconds: f64,
    ) -> Result<LeasedRows, StoreError> {
        let keys = self.keys.rows(cache);
        let mut script = sets(&keys);
        script.arg(self.time_arg());
        script.arg(token);
        script.arg(format!("{seconds:.6}"));
        match which {
            LeaseOf::Due(rows) => {
                script.arg("DUE");
                script.arg(rows.to_string());
            }
            LeaseOf::Row(id) => {
                script.key(keys.row(id.as_bytes()));
                script.arg("ROW");
                script.arg(id);
            }
            LeaseOf::Free { id, max_bytes } => {
                script.key(keys.row(id.as_bytes()));
                script.arg("FREE");
                script.arg(id);
                script.arg(max_bytes.to_string());
            }
        }
        let reply = self.connections.run(Role::Write, &ROWS_LEASE, &script);
        let reply = reply.await?;
        let [leased, next, garbage, gone] = items(&reply) else {
            return Err(self.not_understood("rows_lease.lua"));
        };
        self.drop_rows(&keys, items(gone)).await;
        let row = |row: &[Value]| {
            let failures = int(&row[2]).and_then(|n| u32::try_from(n).ok());
            let due = text(&row[1]).unwrap_or_default();
            Some(LeasedRow {
                id: text(&row[0])?.to_owned(),
                due: (!due.is_empty()).then(|| due.to_owned()),
                failures: failures.unwrap_or(0),
            })
        };
        let problem = |entry: &[Value]| {
            let id = shown(bytes(&entry[0]).unwrap_or_default());
            let reason = text(&entry[1]).unwrap_or("it is no row").to_owned();
            (format!("{} {id}", keys.schedule), reason)
        };
        Ok(LeasedRows {
            rows: items(leased).chunks_exact(3).filter_map(row).collect(),
            next: float(next),
            problems: items(garbage).chunks_exact(2).map(problem).collect(),
        })
    }

    /// Removes rows that have no delay any more.
    async fn drop_rows(&self, keys: &RowKeys, gone: &[Value]) {
        if gone.is_empty() {
            return;
        }
        let mut script = sets(keys);
        for id in gone.iter().filter_map(bytes) {
            script.key(keys.row(id));
            script.arg(id);
        }
        // Without it the rows stay in the schedule, and are found again. Those that are leased are not lost by its error.
        let _ = self.connections.run(Role::Write, &ROWS_DROP, &script).await;
    }

    async fn finish(
        &self,
        cache: &str,
        token: &str,
        row: &FinishedRow,
    ) -> Result<FinishReport, StoreError> {
        // Before the row is copied.
        let large = match &row.loaded {
            LoadedRow::Row(json) if json.len() > LARGE_ROW => Some(self.connections.large().await),
            _ => None,
        };
        let keys = self.keys.rows(cache);
        let mut script = sets(&keys);
        script.key(keys.row(row.leased.id.as_bytes()));
        script.arg(self.time_arg());
        script.arg(token);
        script.arg(&*row.leased.id);
        script.arg(row.leased.due.as_deref().unwrap_or_default());
        let (kind, value, backoff) = match &row.loaded {
            LoadedRow::Row(json) => ("ROW", json.clone(), 0.0),
            LoadedRow::Missing { is_scheduled: true } => ("MISSING", Vec::new(), 0.0),
            LoadedRow::Missing {
                is_scheduled: false,
            } => ("DROPPED", Vec::new(), 0.0),
            LoadedRow::Failed { reason, backoff } => {
                ("FAILED", short_reason(reason).into_bytes(), *backoff)
            }
        };
        script.arg(kind);
        script.arg(value);
        let millis = row.ttl.map(|ttl| (ttl * 1e3).ceil().max(1.0) as i64);
        script.arg(millis.map_or_else(String::new, |millis| millis.to_string()));
        script.arg(format!("{:.6}", row.spread));
        script.arg(format!("{backoff:.6}"));
        let role = large.as_ref().map_or(Role::Write, |_| Role::Large);
        let reply = self.connections.run(role, &ROWS_FINISH, &script);
        match items(&reply.await?) {
            [is_written, next] => Ok(FinishReport {
                is_written: int(is_written) == Some(1),
                next: float(next),
            }),
            _ => Err(self.not_understood("rows_finish.lua")),
        }
    }

    async fn list(&self, cache: &str, query: &RowQuery) -> Result<RowPage, StoreError> {
        let keys = self.keys.rows(cache);
        let mut pipeline = pipe();
        pipeline.cmd("ZCARD").arg(&keys.schedule);
        let failing = pipeline.cmd("ZREVRANGE").arg(&keys.failing);
        failing.arg(0).arg(MAX_FAILING - 1).arg("WITHSCORES");
        let replies = self.read(&mut pipeline).await?;
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let total = reply(0).and_then(int).and_then(|n| usize::try_from(n).ok());
        let failing: Vec<(f64, String)> = (pairs(reply(1).unwrap_or(&Value::Nil)))
            .filter_map(|(id, failures)| Some((float(failures)?, text(id)?.to_owned())))
            .collect();
        let failing = self.latest_due_first(&keys, failing).await?;

        let is_asked = |id: &String| id.contains(&*query.contains);
        let mut ids: Vec<String> = failing.iter().filter(|id| is_asked(id)).cloned().collect();
        // A row may move while the pages are read, and is listed once.
        let mut seen: HashSet<String> = failing.into_iter().collect();
        let needed = query.offset.saturating_add(query.limit);
        let mut start = 0;
        // All rows are looked through for a part of their ids only.
        while !query.contains.is_empty() || ids.len() < needed {
            let mut pipeline = pipe();
            let page = pipeline.cmd("ZRANGE").arg(&keys.schedule);
            page.arg(start).arg(start + IDS_AT_ONCE - 1);
            let replies = self.read(&mut pipeline).await?;
            let page = replies.first().and_then(|reply| reply.as_ref().ok());
            let page = page.map_or(&[][..], items);
            let more = page.iter().filter_map(text).map(str::to_owned);
            ids.extend(more.filter(|id| is_asked(id) && seen.insert(id.clone())));
            start += IDS_AT_ONCE;
            if page.len() < IDS_AT_ONCE {
                break;
            }
        }
        let total = match query.contains.is_empty() {
            true => total.unwrap_or(0),
            false => ids.len(),
        };
        let ids: Vec<String> = (ids.into_iter().skip(query.offset))
            .take(query.limit)
            .collect();
        let rows = match ids.is_empty() {
            true => Vec::new(),
            false => self.states(&keys, ids).await?,
        };
        Ok(RowPage { total, rows })
    }

    /// Failing rows in the order of the list, without those that are not scheduled.
    async fn latest_due_first(
        &self,
        keys: &RowKeys,
        failing: Vec<(f64, String)>,
    ) -> Result<Vec<String>, StoreError> {
        if failing.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = pipe();
        let dues = pipeline.cmd("ZMSCORE").arg(&keys.schedule);
        for (_, id) in &failing {
            dues.arg(id);
        }
        let replies = self.read(&mut pipeline).await?;
        let dues = replies.first().and_then(|reply| reply.as_ref().ok());
        let dues = dues.map_or(&[][..], items);
        let mut rows: Vec<(f64, f64, String)> = (failing.into_iter().zip(dues))
            .filter_map(|((failures, id), due)| Some((failures, float(due)?, id)))
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
        Ok(rows.into_iter().map(|(_, _, id)| id).collect())
    }

    async fn states(&self, keys: &RowKeys, ids: Vec<String>) -> Result<Vec<RowState>, StoreError> {
        let mut pipeline = pipe();
        for (command, key) in [
            ("HMGET", &keys.states),
            ("ZMSCORE", &keys.delay),
            ("ZMSCORE", &keys.schedule),
        ] {
            let fields = pipeline.cmd(command).arg(key);
            for id in &ids {
                fields.arg(id);
            }
        }
        for id in &ids {
            pipeline.cmd("EXISTS").arg(format!("{}{id}", keys.cached));
        }
        let (replies, now) = self.read_at(&mut pipeline).await?;
        let is_cached = |row: usize| match replies.get(3 + row) {
            Some(Ok(exists)) => int(exists) == Some(1),
            _ => false,
        };
        let value = |at: usize, row: usize| {
            let values = replies.get(at)?.as_ref().ok()?;
            items(values).get(row)
        };
        let rows = ids.into_iter().enumerate().filter_map(|(at, id)| {
            let state = value(0, at).and_then(text).and_then(State::from_text);
            let state = state.unwrap_or_default();
            Some(RowState {
                id,
                every: value(1, at).and_then(float).unwrap_or(0.0),
                // It may have been removed since it was listed.
                due_in: value(2, at).and_then(float)? - now,
                age: state.age(now).filter(|_| is_cached(at)),
                failures: state.failures,
                last_error: Some(state.reason).filter(|reason| !reason.is_empty()),
            })
        });
        Ok(rows.collect())
    }
}

/// The call of a script with the sets of a cache.
fn sets(keys: &RowKeys) -> Invocation {
    let mut script = Invocation::default();
    script.key(&*keys.delay);
    script.key(&*keys.schedule);
    script.key(&*keys.states);
    script.key(&*keys.failing);
    script
}

/// A field of `pulse:rows:`.
#[derive(Default)]
pub(super) struct State {
    loaded: Option<f64>,
    failures: u32,
    reason: String,
}

impl State {
    /// Reads `{leased until} {token} {loaded} {failures} {spread} {reason}`.
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

impl Rows for RedisStore {
    fn schedule_rows<'a>(
        &'a self,
        cache: &'a str,
        rows: &'a [RowDelay],
        max_rows: usize,
    ) -> BoxFuture<'a, Result<Scheduled, StoreError>> {
        Box::pin(self.schedule(cache, rows, max_rows))
    }

    fn lease_rows<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        which: LeaseOf<'a>,
        seconds: f64,
    ) -> BoxFuture<'a, Result<LeasedRows, StoreError>> {
        Box::pin(self.lease(cache, token, which, seconds))
    }

    fn finish_row<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        row: &'a FinishedRow,
    ) -> BoxFuture<'a, Result<FinishReport, StoreError>> {
        Box::pin(self.finish(cache, token, row))
    }

    fn cached_rows<'a>(
        &'a self,
        cache: &'a str,
        ids: &'a [String],
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<Option<CachedRow>>, StoreError>> {
        Box::pin(self.cached(cache, ids, max_bytes))
    }

    fn list_rows<'a>(
        &'a self,
        cache: &'a str,
        query: &'a RowQuery,
    ) -> BoxFuture<'a, Result<RowPage, StoreError>> {
        Box::pin(self.list(cache, query))
    }
}
