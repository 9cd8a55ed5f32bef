//! Reading cached rows in parts, so that each answer is bounded, however large and many the rows are.
//!
//! The first command about a row asks for so many bytes that all rows fit into one answer. A row that is longer is
//! asked for again, together with fewer others. All of a row comes by one command: a row that is written meanwhile is
//! never half of the one and half of the other. A row above [`LARGE_ROW`] has a connection of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::{LARGE_ROW, Role};
use super::keys::RowKeys;
use super::oversized::Reply;
use super::rows::{CachedRow, State};
use super::stream::Oversized;
use super::value::{int, items, shown, text, unix_seconds};
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::task::lock;

/// The most bytes of several rows in one answer.
const ANSWER_BYTES: usize = 1 << 20;
/// The least bytes of a row that the first command asks for.
const LEAST_BYTES: usize = 1 << 10;
/// A row that is longer is asked for so many times as many bytes.
const GROWTH: usize = 16;
/// The most answers of one read that may be given up as too large.
const MAX_GIVEN_UP: usize = 16;
/// How long a row that is too large stays among the warnings, and how many there are.
const WARNED_FOR: Duration = Duration::from_secs(60);
const MAX_WARNINGS: usize = 20;

/// The rows that were found to be larger than their cache allows: when, and what it allows, by key.
#[derive(Debug, Default)]
pub(super) struct LargeRows(Mutex<HashMap<String, (Instant, usize)>>);

impl LargeRows {
    fn update(&self, key: &str, max_bytes: Option<usize>) {
        let mut rows = lock(&self.0);
        match max_bytes {
            None if rows.is_empty() => {}
            None => {
                rows.remove(key);
            }
            Some(max_bytes) => {
                rows.retain(|_, (at, _)| at.elapsed() < WARNED_FOR);
                if rows.len() < MAX_WARNINGS || rows.contains_key(key) {
                    rows.insert(key.to_owned(), (Instant::now(), max_bytes));
                }
            }
        }
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let mut rows = lock(&self.0);
        rows.retain(|_, (at, _)| at.elapsed() < WARNED_FOR);
        let warning = |(key, (_, max_bytes)): (&String, &(Instant, usize))| {
            format!(
                "{}: this row is larger than `max_bytes` of its cache, {max_bytes}, and is not read: delete the key, \
                 or raise `max_bytes`",
                shown(key.as_bytes())
            )
        };
        let mut warnings: Vec<_> = rows.iter().map(warning).collect();
        warnings.sort_unstable();
        let warnings = warnings.into_iter();
        warnings
            .map(|text| Condition::LargeRow.warning(text))
            .collect()
    }
}

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
    /// Whether states are read apart from rows: a state of another program may be too large.
    are_states_apart: bool,
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
            are_states_apart: false,
        };
        let mut given_up = 0;
        while let Some(group) = read.next_group() {
            match self.read_group(&mut read, &group).await {
                Ok(()) => {}
                Err(error) if Oversized::caused(&error) && given_up < MAX_GIVEN_UP => {
                    given_up += 1;
                    self.divide(&mut read, group);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(read.rows)
    }

    /// Asks for some rows by one pipeline.
    async fn read_group(&self, read: &mut RowsRead<'_>, group: &[Asked]) -> Result<(), StoreError> {
        let mut states = pipe();
        let fields = states.cmd("HMGET").arg(&read.keys.states);
        for asked in group {
            fields.arg(&read.ids[asked.at]);
        }
        let mut state_replies = Vec::new();
        let mut pipeline = match read.are_states_apart {
            true => {
                state_replies = self.read(&mut states).await?;
                Pipeline::new()
            }
            false => states,
        };
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
                let _turn = self.connections.large().await;
                self.connections
                    .pipeline(Role::Large, &mut pipeline)
                    .await?
            }
            _ if read.is_answered => self.connections.pipeline(Role::Read, &mut pipeline).await?,
            _ => self.read_first(&mut pipeline).await?,
        };
        read.is_answered = true;
        if read.now.is_none() {
            let time = replies.pop().and_then(Result::ok);
            read.now = Some(time.as_ref().map_or(0.0, unix_seconds));
        }
        state_replies.append(&mut replies);
        self.take_rows(read, group, state_replies);
        Ok(())
    }

    /// Asks a store that may be away: it may be silent for the response timeout, also while it is connected to.
    async fn read_first(&self, pipeline: &mut Pipeline) -> Result<Vec<Reply>, StoreError> {
        let reading = self.connections.pipeline(Role::Read, pipeline);
        tokio::pin!(reading);
        let patience = self.connections.response_timeout();
        let mut received = self.connections.received(Role::Read);
        loop {
            if let Ok(replies) = tokio::time::timeout(patience, &mut reading).await {
                return replies;
            }
            // Answers to others come first, or this one is large.
            let before = std::mem::replace(&mut received, self.connections.received(Role::Read));
            if received <= before {
                let message = format!("no answer within {patience:?}");
                return Err(StoreError::new(StoreErrorKind::TimedOut, message));
            }
        }
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
            self.large_rows.update(&read.key(asked.at), None);
            let state = states.get(number).and_then(text).and_then(State::from_text);
            let ttl = ttl.as_ref().and_then(int).filter(|ttl| *ttl >= 0);
            read.rows[asked.at] = (!json.is_empty()).then(|| CachedRow {
                json,
                age: state.and_then(|state| state.age(now)),
                ttl: ttl.map(|ttl| ttl as f64 / 1e3),
            });
        }
    }

    fn ask_for_more(&self, read: &mut RowsRead<'_>, Asked { at, bytes, .. }: Asked) {
        if bytes >= read.max_bytes {
            self.large_rows.update(&read.key(at), Some(read.max_bytes));
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

    /// Asks again for rows whose answer was given up: it takes much memory, as the lines of an answer count, or was
    /// slow.
    fn divide(&self, read: &mut RowsRead<'_>, mut group: Vec<Asked>) {
        if !read.are_states_apart {
            read.are_states_apart = true;
            read.groups.push_front(group);
        } else if group.len() > 1 {
            let others = group.split_off(group.len() / 2);
            read.groups.extend([group, others]);
        } else if let [Asked { at, is_large, .. }] = group[..] {
            match is_large {
                true => self.large_rows.update(&read.key(at), Some(read.max_bytes)),
                false => read.groups.push_back(vec![Asked {
                    at,
                    bytes: read.max_bytes,
                    is_large: true,
                }]),
            }
        }
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
