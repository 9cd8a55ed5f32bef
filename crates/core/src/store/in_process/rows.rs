//! Cached rows and their schedule.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::rows::{
    CachedRow, FinishReport, FinishedRow, LeaseOf, LeasedRow, LeasedRows, LoadedRow, RowDelay,
    RowPage, RowQuery, RowState, Rows, Scheduled, short_reason,
};
use crate::task::{BoxFuture, lock};

/// The rows of a cache.
#[derive(Clone, Debug, Default)]
struct RowCache {
    rows: HashMap<String, Row>,
    /// The scheduled rows, ordered by when they are due.
    due: BTreeSet<(Due, String)>,
    /// Number of rows without a schedule at which the expired ones are forgotten.
    forget_at: usize,
}

/// A time in Unix seconds, which has an order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Due(f64);

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// The delay in seconds, and when the row is due, in Unix seconds; `None` for a row without a schedule.
    schedule: Option<(f64, f64)>,
    is_spread: bool,
    /// The token of the lease, and until when it lasts.
    lease: Option<(String, f64)>,
    cached: Option<Cached>,
    failures: u32,
    last_error: Option<String>,
}

#[derive(Clone, Debug)]
struct Cached {
    json: Vec<u8>,
    loaded: f64,
    expires: Option<f64>,
}

impl Row {
    fn is_leased(&self, now: f64) -> bool {
        self.lease.as_ref().is_some_and(|(_, until)| *until > now)
    }

    fn lease(&mut self, id: &str, token: &str, until: f64) -> LeasedRow {
        self.lease = Some((token.to_owned(), until));
        LeasedRow {
            id: id.to_owned(),
            due: self.schedule.map(|(_, due)| due.to_string()),
            failures: self.failures,
        }
    }

    /// The row as it is listed; `None` for a row without a schedule.
    fn state(&self, id: &str, now: f64) -> Option<RowState> {
        let (every, due) = self.schedule?;
        Some(RowState {
            id: id.to_owned(),
            every,
            due_in: due - now,
            age: self
                .cached(now)
                .map(|cached| (now - cached.loaded).max(0.0)),
            failures: self.failures,
            last_error: self.last_error.clone(),
        })
    }

    fn cached(&self, now: f64) -> Option<&Cached> {
        let cached = self.cached.as_ref();
        cached.filter(|cached| cached.expires.is_none_or(|expires| expires > now))
    }

    fn cached_within(&self, max_bytes: usize, now: f64) -> Option<&Cached> {
        let cached = self.cached(now);
        cached.filter(|cached| cached.json.len() <= max_bytes)
    }
}

impl RowCache {
    fn schedule(&mut self, rows: &[RowDelay], max_rows: usize, now: f64) -> Scheduled {
        let scheduled = self.due.len();
        let is_new = |row: &&RowDelay| {
            let known = self.rows.get(&row.id);
            row.seconds > 0.0 && known.is_none_or(|known| known.schedule.is_none())
        };
        let new: HashSet<&str> = rows.iter().filter(is_new).map(|row| &*row.id).collect();
        if !new.is_empty() && scheduled + new.len() > max_rows {
            return Scheduled::Full { rows: scheduled };
        }
        for row in rows {
            if row.seconds <= 0.0 {
                self.remove(&row.id);
                continue;
            }
            self.set_schedule(&row.id, row.seconds, now);
            let known = self.rows.entry(row.id.clone()).or_default();
            known.is_spread = rows.len() > 1;
            (known.lease, known.failures, known.last_error) = (None, 0, None);
        }
        Scheduled::Done
    }

    fn remove(&mut self, id: &str) {
        if let Some((_, due)) = self.rows.remove(id).and_then(|row| row.schedule) {
            self.due.remove(&(Due(due), id.to_owned()));
        }
    }

    fn set_schedule(&mut self, id: &str, delay: f64, due: f64) {
        let known = self.rows.entry(id.to_owned()).or_default();
        if let Some((_, before)) = known.schedule.replace((delay, due)) {
            self.due.remove(&(Due(before), id.to_owned()));
        }
        self.due.insert((Due(due), id.to_owned()));
    }

    fn lease(&mut self, token: &str, which: LeaseOf<'_>, seconds: f64, now: f64) -> LeasedRows {
        let mut leased = LeasedRows::default();
        let until = now + seconds;
        let most = match which {
            LeaseOf::Due(most) => most,
            LeaseOf::Row(id) => {
                let row = self.rows.entry(id.to_owned()).or_default();
                leased.rows.push(row.lease(id, token, until));
                return leased;
            }
            LeaseOf::Free { id, max_bytes } => {
                let row = self.rows.entry(id.to_owned()).or_default();
                if !row.is_leased(now) && row.cached_within(max_bytes, now).is_none() {
                    leased.rows.push(row.lease(id, token, until));
                }
                return leased;
            }
        };
        let mut wait_until = |time: f64| {
            let next = leased.next.get_or_insert(f64::INFINITY);
            *next = next.min((time - now).max(0.0));
        };
        for (Due(due), id) in &self.due {
            if *due > now {
                wait_until(*due);
                break;
            }
            if leased.rows.len() >= most {
                break;
            }
            // Every entry of `due` is a row.
            let Some(row) = self.rows.get_mut(id) else {
                continue;
            };
            match &row.lease {
                Some((_, other)) if *other > now => wait_until(*other),
                _ => leased.rows.push(row.lease(id, token, until)),
            }
        }
        leased
    }

    fn finish(&mut self, token: &str, row: &FinishedRow, now: f64) -> FinishReport {
        let id = &row.leased.id;
        let Some(known) = self.rows.get_mut(id) else {
            return FinishReport::default();
        };
        if known.lease.take_if(|(mine, _)| mine == token).is_none() {
            return FinishReport::default();
        }
        let mut report = FinishReport {
            is_written: true,
            next: None,
        };
        match &row.loaded {
            LoadedRow::Row(json) => {
                known.cached = Some(Cached {
                    json: json.clone(),
                    loaded: now,
                    expires: row.ttl.map(|ttl| now + ttl),
                });
                (known.failures, known.last_error) = (0, None);
            }
            LoadedRow::Missing { is_scheduled } => {
                (known.cached, known.failures, known.last_error) = (None, 0, None);
                if !is_scheduled {
                    self.remove(id);
                    return report;
                }
            }
            LoadedRow::Failed { reason, .. } => {
                known.failures = known.failures.saturating_add(1);
                known.last_error = Some(short_reason(reason));
            }
        }
        let Some((delay, due)) = known.schedule else {
            if known.cached.is_none() {
                self.remove(id);
            }
            return report;
        };
        let part = match std::mem::take(&mut known.is_spread) {
            true => row.spread,
            false => 1.0,
        };
        let next = match row.loaded {
            LoadedRow::Failed { backoff, .. } => now + backoff,
            // It was refreshed before it is due.
            _ if now < due => due,
            _ => {
                let next = due + delay * (((now - due) / delay).floor() + part);
                let is_ahead = next > now && next <= now + delay;
                if is_ahead { next } else { now + delay }
            }
        };
        self.set_schedule(id, delay, next);
        report.next = Some((next - now).max(0.0));
        report
    }

    /// Removes rows without a schedule that have expired, once there are twice as many as after the last time.
    fn forget_expired(&mut self, now: f64) {
        if self.rows.len() - self.due.len() < self.forget_at {
            return;
        }
        self.rows.retain(|_, row| {
            row.schedule.is_some() || row.is_leased(now) || row.cached(now).is_some()
        });
        self.forget_at = 2 * (self.rows.len() - self.due.len()) + 64;
    }
}

/// The caches of a process.
#[derive(Debug)]
pub struct RowCaches {
    clock: Clock,
    by_name: Mutex<HashMap<String, RowCache>>,
}

impl RowCaches {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            by_name: Mutex::default(),
        }
    }

    fn with_rows<T>(&self, cache: &str, with: impl FnOnce(&mut RowCache, f64) -> T) -> T {
        let now = self.clock.now_nanos() as f64 / 1e9;
        let mut caches = lock(&self.by_name);
        match caches.get_mut(cache) {
            Some(rows) => with(rows, now),
            None => with(caches.entry(cache.to_owned()).or_default(), now),
        }
    }
}

/// A future that is ready at once.
fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Rows for RowCaches {
    fn schedule_rows<'a>(
        &'a self,
        cache: &'a str,
        rows: &'a [RowDelay],
        max_rows: usize,
    ) -> BoxFuture<'a, Result<Scheduled, StoreError>> {
        ready(self.with_rows(cache, |known, now| known.schedule(rows, max_rows, now)))
    }

    fn lease_rows<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        which: LeaseOf<'a>,
        seconds: f64,
    ) -> BoxFuture<'a, Result<LeasedRows, StoreError>> {
        ready(self.with_rows(cache, |rows, now| {
            rows.forget_expired(now);
            rows.lease(token, which, seconds, now)
        }))
    }

    fn finish_row<'a>(
        &'a self,
        cache: &'a str,
        token: &'a str,
        row: &'a FinishedRow,
    ) -> BoxFuture<'a, Result<FinishReport, StoreError>> {
        ready(self.with_rows(cache, |rows, now| rows.finish(token, row, now)))
    }

    fn cached_rows<'a>(
        &'a self,
        cache: &'a str,
        ids: &'a [String],
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<Option<CachedRow>>, StoreError>> {
        ready(self.with_rows(cache, |rows, now| {
            let row = |id: &String| {
                let row = rows.rows.get(id)?;
                let cached = row.cached_within(max_bytes, now)?;
                Some(CachedRow {
                    json: cached.json.clone(),
                    age: row.schedule.map(|_| (now - cached.loaded).max(0.0)),
                    ttl: cached.expires.map(|expires| expires - now),
                })
            };
            ids.iter().map(row).collect()
        }))
    }

    fn list_rows<'a>(
        &'a self,
        cache: &'a str,
        query: &'a RowQuery,
    ) -> BoxFuture<'a, Result<RowPage, StoreError>> {
        ready(self.with_rows(cache, |rows, now| {
            let mut states: Vec<RowState> = (rows.rows.iter())
                .filter(|(id, _)| id.contains(&*query.contains))
                .filter_map(|(id, row)| row.state(id, now))
                .collect();
            states.sort_by(|a, b| {
                let order = b.failures.cmp(&a.failures);
                let order = order.then_with(|| a.due_in.total_cmp(&b.due_in));
                order.then_with(|| a.id.cmp(&b.id))
            });
            let (total, states) = (states.len(), states.into_iter());
            RowPage {
                total,
                rows: states.skip(query.offset).take(query.limit).collect(),
            }
        }))
    }
}
