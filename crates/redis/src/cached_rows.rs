//! Reading cached rows in parts, so that each answer is bounded, however large and many the rows are.
//!
//! The first command about a row asks for so many bytes that all rows fit into one answer. A row that is longer is
//! asked for again, together with fewer others. All of a row comes by one command: a row that is written meanwhile is
//! never half of the one and half of the other. A row above [`LARGE_ROW`] has a connection of its own.

use std::collections::VecDeque;

use redis::{Value, cmd, pipe};

use super::RedisStore;
use super::connection::{LARGE_ROW, Role};
use super::keys::RowKeys;
use super::large_keys::Reply;
use super::rows::{CachedRow, State};
use super::value::{int, items, shown, text, unix_seconds};
use tower_pulse_core::condition::Condition;
use tower_pulse_core::error::{StoreError, StoreErrorKind};

/// The most bytes of several rows in one answer.
const ANSWER_BYTES: usize = 1 << 20;
/// The least bytes of a row that the first command asks for.
const LEAST_BYTES: usize = 1 << 10;
/// A row that is longer is asked for so many times as many bytes.
const GROWTH: usize = 16;

/// A row to ask for: its place among the ids, and the most bytes.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: usize,
    bytes: usize,
    /// Whether it is read on a connection of its own.
    is_large: bool,
}

/// A read of rows that is under way.
struct RowsRead<'a> {
    keys: &'a RowKeys,
    ids: &'a [String],
    max_bytes: usize,
    rows: Vec<Option<CachedRow>>,
    groups: VecDeque<Vec<Asked>>,
    /// Rows that are longer than was asked for.
    longer: Vec<Asked>,
    /// The store's time of the first answer.
    now: Option<f64>,
    is_answered: bool,
}

#[doc(hidden)] // Only the row cache calls it.
impl RedisStore {
    /// Cached rows, in the order of `ids`. Rows of more than `max_bytes` are left out. All rows that are returned are in
    /// memory at once.
    pub async fn cached_rows(
        &self,
        cache: &str,
        ids: &[String],
        max_bytes: usize,
    ) -> Result<Vec<Option<CachedRow>>, StoreError> {
        let bytes = (ANSWER_BYTES / ids.len().max(1)).max(LEAST_BYTES);
        let bytes = bytes.min(max_bytes);
        let mut read = RowsRead {
            keys: &self.keys.rows(cache),
            ids,
            max_bytes,
            rows: vec![None; ids.len()],
            groups: VecDeque::new(),
            longer: (0..ids.len())
                .map(|at| Asked {
                    at,
                    bytes,
                    is_large: false,
                })
                .collect(),
            now: self.manual_now(),
            is_answered: false,
        };
        while let Some(group) = read.next_group() {
            self.read_group(&mut read, &group).await?;
        }
        Ok(read.rows)
    }

    /// Asks for some rows by one pipeline.
    async fn read_group(&self, read: &mut RowsRead<'_>, group: &[Asked]) -> Result<(), StoreError> {
        let mut pipeline = pipe();
        let fields = pipeline.cmd("HMGET").arg(&read.keys.states);
        for asked in group {
            fields.arg(&read.ids[asked.at]);
        }
        for asked in group {
            let key = read.key(asked.at);
            // One byte more shows that the row is longer.
            pipeline.cmd("GETRANGE").arg(&key).arg(0).arg(asked.bytes);
            pipeline.cmd("PTTL").arg(&key);
        }
        if read.now.is_none() {
            pipeline.cmd("TIME");
        }
        let mut replies = match group {
            [Asked { is_large: true, .. }] => {
                let _large = self.connections.large().await;
                (self.connections.pipeline(Role::Large, &mut pipeline)).await?
            }
            _ => {
                if !read.is_answered {
                    self.connect_soon().await?;
                }
                self.read(&mut pipeline).await?
            }
        };
        read.is_answered = true;
        if read.now.is_none() {
            let time = replies.pop().and_then(Result::ok);
            read.now = Some(time.as_ref().map_or(0.0, unix_seconds));
        }
        self.take_rows(read, group, replies);
        Ok(())
    }

    /// Connects to a store that may be away, no longer than for the response timeout.
    async fn connect_soon(&self) -> Result<(), StoreError> {
        let patience = self.connections.response_timeout();
        let connecting = tokio::time::timeout(patience, self.connections.connected(Role::Read));
        connecting.await.unwrap_or_else(|_| {
            let message = format!("no answer within {patience:?}");
            Err(StoreError::new(StoreErrorKind::TimedOut, message))
        })
    }

    /// Takes the replies about a group: the states, then value and TTL of each row.
    fn take_rows(&self, read: &mut RowsRead<'_>, group: &[Asked], replies: Vec<Reply>) {
        let mut replies = replies.into_iter().map(Result::ok);
        let states = replies.next().flatten();
        let states = states.as_ref().map_or(&[][..], items);
        let now = read.now.unwrap_or(0.0);
        for (number, asked) in group.iter().enumerate() {
            let (value, ttl) = (replies.next().flatten(), replies.next().flatten());
            // A key of another type is no row, and neither is an empty or a missing one.
            let json = match value {
                Some(Value::BulkString(json)) => json,
                _ => Vec::new(),
            };
            if json.len() > asked.bytes {
                self.ask_for_more(read, *asked);
                continue;
            }
            if !self.large_keys.is_empty() {
                self.note_row(read, *asked, false);
            }
            let state = states.get(number).and_then(text).and_then(State::from_text);
            let ttl = ttl.as_ref().and_then(int).filter(|ttl| *ttl >= 0);
            read.rows[asked.at] = (!json.is_empty()).then(|| CachedRow {
                json,
                age: state.and_then(|state| state.age(now)),
                ttl: ttl.map(|ttl| ttl as f64 / 1e3),
            });
        }
    }

    fn ask_for_more(&self, read: &mut RowsRead<'_>, asked: Asked) {
        let Asked { at, bytes, .. } = asked;
        if bytes >= read.max_bytes {
            self.note_row(read, asked, true);
            return;
        }
        let more = match bytes < LARGE_ROW {
            true => (bytes * GROWTH).min(LARGE_ROW),
            false => read.max_bytes,
        };
        let bytes = more.min(read.max_bytes);
        let is_large = bytes > LARGE_ROW;
        read.longer.push(Asked {
            at,
            bytes,
            is_large,
        });
    }

    /// Names a row that is larger than the cache allows, or does so no more.
    fn note_row(&self, read: &RowsRead<'_>, asked: Asked, is_large: bool) {
        let (key, most) = (read.key(asked.at), read.max_bytes);
        let question = cmd("GETRANGE").arg(&key).arg(most).arg(most).clone();
        self.large_keys.note(&question, most, is_large, || {
            Condition::LargeRow.warning(format!(
                "{}: this row is larger than `max_bytes` of its cache, {most}, and is not read: delete the key, or \
                 raise `max_bytes`",
                shown(key.as_bytes())
            ))
        });
    }
}

impl RowsRead<'_> {
    fn key(&self, at: usize) -> String {
        format!("{}{}", self.keys.cached, self.ids[at])
    }

    /// Rows that fit into one answer, or one row that is larger.
    fn next_group(&mut self) -> Option<Vec<Asked>> {
        if self.groups.is_empty() {
            let (mut group, mut bytes) = (Vec::new(), 0);
            for asked in std::mem::take(&mut self.longer) {
                if bytes + asked.bytes > ANSWER_BYTES && !group.is_empty() {
                    self.groups.push_back(std::mem::take(&mut group));
                    bytes = 0;
                }
                bytes += asked.bytes;
                group.push(asked);
            }
            if !group.is_empty() {
                self.groups.push_back(group);
            }
        }
        self.groups.pop_front()
    }
}
