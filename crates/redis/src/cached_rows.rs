//! Reads cached rows in parts, so that each reply has a bounded size.
//!
//! The first command for each row asks for so few bytes that many rows fit into one reply. A longer row is requested
//! again, together with fewer other rows. One command returns the whole row, so that a concurrent write never mixes two
//! versions of the row. Rows above [`LARGE_ROW`] use a separate connection.

use redis::{Value, cmd, pipe};

use super::RedisStore;
use super::connection::{LARGE_ROW, Role};
use super::keys::RowKeys;
use super::rows::{CachedRow, RowState};
use super::value::{int, items, shown, text, unix_seconds};
use tower_pulse_core::condition::Condition;
use tower_pulse_core::error::Result;

/// The most bytes of several rows in one reply.
const REPLY_BYTES: usize = 1 << 20;
/// The fewest bytes of a row that the first command asks for.
const LEAST_BYTES: usize = 1 << 10;
/// The factor by which the requested bytes grow when a row is longer.
const GROWTH: usize = 16;

/// A row to request: its index among the ids, and the most bytes to read.
type RowRequest = (usize, usize);

struct RowsRead<'a> {
    keys: &'a RowKeys,
    ids: &'a [String],
    max_bytes: usize,
    rows: Vec<Option<CachedRow>>,
}

/// The number of rows that one pipeline asks for: as many as fit into one reply, at least one.
fn fitting(unread: &[RowRequest]) -> usize {
    let mut sum = 0;
    let fit = unread.iter().take_while(|(_, bytes)| {
        sum += bytes;
        sum <= REPLY_BYTES
    });
    fit.count().max(1)
}

#[doc(hidden)] // Only the row cache calls this.
impl RedisStore {
    /// Returns the cached row of each of `ids`; `None` for a row that is missing or has more than `max_bytes`. All
    /// returned rows are in memory at once.
    pub async fn cached_rows(
        &self,
        cache: &str,
        ids: &[String],
        max_bytes: usize,
    ) -> Result<Vec<Option<CachedRow>>> {
        let bytes = (REPLY_BYTES / ids.len().max(1)).max(LEAST_BYTES);
        let bytes = bytes.min(max_bytes);
        let mut read = RowsRead {
            keys: &self.keys.rows(cache),
            ids,
            max_bytes,
            rows: vec![None; ids.len()],
        };
        let mut unread: Vec<RowRequest> = (0..ids.len()).map(|at| (at, bytes)).collect();
        while !unread.is_empty() {
            let later = unread.split_off(fitting(&unread));
            let longer = self.read_group(&mut read, &unread).await?;
            unread = [later, longer].concat();
        }
        Ok(read.rows)
    }

    /// Reads a group of rows. Returns the rows that are longer than requested, with the bytes to request next.
    async fn read_group(
        &self,
        read: &mut RowsRead<'_>,
        group: &[RowRequest],
    ) -> Result<Vec<RowRequest>> {
        let mut pipeline = pipe();
        let ids: Vec<_> = group.iter().map(|(at, _)| &read.ids[*at]).collect();
        pipeline.hmget(&read.keys.states, ids);
        for (at, bytes) in group {
            let key = read.key(*at);
            // The range has `bytes + 1` bytes. If all are returned, the row is longer than `bytes`.
            pipeline.cmd("GETRANGE").arg(&key).arg(0).arg(*bytes);
            pipeline.cmd("PTTL").arg(&key);
        }
        pipeline.cmd("TIME");
        let replies = if group.iter().any(|(_, bytes)| *bytes > LARGE_ROW) {
            let _large = self.connections.large().await;
            (self.connections.pipeline(Role::Large, &pipeline)).await?
        } else {
            self.connections.connect_soon().await?;
            self.read(&mut pipeline).await?
        };
        let mut replies = replies.into_iter().map(|reply| reply.unwrap_or(Value::Nil));
        let states = replies.next().unwrap_or(Value::Nil);
        let now = replies.next_back();
        let now = (self.manual_now()).or(now.as_ref().map(unix_seconds));
        let mut longer = Vec::new();
        for (number, (at, bytes)) in group.iter().enumerate() {
            let (value, ttl) = (replies.next(), replies.next());
            // A key of another type, an empty value and a missing value count as no row.
            let json = match value {
                Some(Value::BulkString(json)) => json,
                _ => Vec::new(),
            };
            if json.len() > *bytes {
                longer.extend(self.ask_for_more(read, *at, *bytes));
                continue;
            }
            if !self.large_keys.is_empty() {
                self.note_row(read, *at, false);
            }
            let state = items(&states).get(number).and_then(text);
            let state = state.and_then(RowState::from_text);
            let ttl = ttl.as_ref().and_then(int).filter(|ttl| *ttl >= 0);
            read.rows[*at] = (!json.is_empty()).then(|| CachedRow {
                json,
                age: state.and_then(|state| state.age(now.unwrap_or(0.0))),
                ttl: ttl.map(|ttl| ttl as f64 / 1e3),
            });
        }
        Ok(longer)
    }

    /// Returns the next request for a row that is longer than `bytes`; `None` if the cache does not allow so large a
    /// row.
    fn ask_for_more(&self, read: &RowsRead<'_>, at: usize, bytes: usize) -> Option<RowRequest> {
        if self.note_row(read, at, bytes >= read.max_bytes) {
            return None;
        }
        let more = match bytes < LARGE_ROW {
            true => (bytes * GROWTH).min(LARGE_ROW),
            false => read.max_bytes,
        };
        Some((at, more.min(read.max_bytes)))
    }

    /// Begins the warning about a row that is larger than the cache allows, or ends the warning. Returns `is_large`.
    fn note_row(&self, read: &RowsRead<'_>, at: usize, is_large: bool) -> bool {
        let (key, most) = (read.key(at), read.max_bytes);
        let question = cmd("GETRANGE").arg(&key).arg(most).arg(most).clone();
        self.large_keys.note(&question, most, is_large, || {
            Condition::LargeRow.warning(format!(
                "a cached row is not read: {} is larger than `max_bytes` of its cache, {most}; delete the key, or \
                 raise `max_bytes`",
                shown(key.as_bytes())
            ))
        })
    }
}

impl RowsRead<'_> {
    fn key(&self, at: usize) -> String {
        format!("{}{}", self.keys.cached, self.ids[at])
    }
}
