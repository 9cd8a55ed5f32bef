//! Rows in this process: those that it has read lately, and how often rows were hit and missed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::{Clock, Tick};
use crate::task::lock;

/// A row as this process has last read it.
#[derive(Clone, Debug)]
pub(super) struct LocalRow {
    pub(super) json: Arc<[u8]>,
    /// How old it was when it was read.
    age: Option<Duration>,
    read: Tick,
}

impl LocalRow {
    /// How old it is now.
    pub(super) fn age(&self, clock: &Clock) -> Option<Duration> {
        self.age.map(|age| age + clock.since(self.read))
    }
}

/// Hits and misses of a row in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// The most rows with counts of their own.
const MAX_COUNTED: usize = 10_000;

/// Rows that this process remembers, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Local {
    clock: Clock,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The rows, each with its number in `order`.
    rows: HashMap<Arc<str>, (u64, LocalRow)>,
    /// The ids of the rows, those that were read from the store last at the end.
    order: BTreeMap<u64, Arc<str>>,
    next: u64,
    bytes: usize,
    reads: HashMap<String, Reads>,
}

impl Local {
    pub(super) fn new(clock: Clock, max_bytes: usize) -> Self {
        Self {
            clock,
            max_bytes,
            state: Mutex::default(),
        }
    }

    /// The row as it was last read.
    pub(super) fn last(&self, id: &str) -> Option<LocalRow> {
        let state = lock(&self.state);
        state.rows.get(id).map(|(_, row)| row.clone())
    }

    /// The row, if it was read within `age`.
    pub(super) fn recent(&self, id: &str, age: Duration) -> Option<LocalRow> {
        let row = self.last(id)?;
        (self.clock.since(row.read) < age).then_some(row)
    }

    /// Remembers a row, or that there is none. When there are too many bytes, forgets those that were not read from the
    /// store for the longest time.
    pub(super) fn remember(&self, id: &str, row: Option<(Arc<[u8]>, Option<Duration>)>) {
        let mut state = lock(&self.state);
        state.forget(id);
        let Some((json, age)) = row else { return };
        let row = LocalRow {
            json,
            age,
            read: self.clock.tick(),
        };
        let bytes = size_of_row(id, &row);
        if bytes > self.max_bytes {
            return;
        }
        while state.bytes + bytes > self.max_bytes {
            let Some(oldest) = state.order.values().next().cloned() else {
                break;
            };
            state.forget(&oldest);
        }
        let (id, number) = (Arc::<str>::from(id), state.next);
        state.next += 1;
        state.bytes += bytes;
        state.order.insert(number, id.clone());
        state.rows.insert(id, (number, row));
    }

    /// Counts a read.
    pub(super) fn count(&self, id: &str, is_hit: bool) {
        let mut state = lock(&self.state);
        if !state.reads.contains_key(id) {
            // Misses alone, as of ids that a client invents, leave room for rows that are hit.
            let most = if is_hit { MAX_COUNTED } else { MAX_COUNTED / 2 };
            if state.reads.len() >= most {
                return;
            }
            state.reads.insert(id.to_owned(), Reads::default());
        }
        if let Some(reads) = state.reads.get_mut(id) {
            let count = if is_hit {
                &mut reads.hits
            } else {
                &mut reads.misses
            };
            *count += 1;
        }
    }

    /// How often a row was hit and missed.
    pub(super) fn reads(&self, id: &str) -> Reads {
        lock(&self.state).reads.get(id).copied().unwrap_or_default()
    }
}

impl State {
    fn forget(&mut self, id: &str) {
        if let Some((number, row)) = self.rows.remove(id) {
            self.order.remove(&number);
            self.bytes -= size_of_row(id, &row);
        }
    }
}

fn size_of_row(id: &str, row: &LocalRow) -> usize {
    id.len() + row.json.len() + size_of::<LocalRow>() + 96
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_remembered_up_to_a_number_of_bytes() {
        let (clock, manual) = Clock::manual(1_700_000_000);
        let local = Local::new(clock.clone(), 10_000);
        for number in 0..50 {
            let age = Some(Duration::from_secs(number));
            local.remember(&number.to_string(), Some(([b'x'; 900].into(), age)));
            assert!(lock(&local.state).bytes <= 10_000);
        }
        let rows = lock(&local.state).rows.len();
        assert!((5..=10).contains(&rows), "{rows}");
        // The last ones.
        let first = 50 - rows;
        assert!((first..50).all(|number| local.last(&number.to_string()).is_some()));
        let first = first.to_string();
        local.remember(&first, Some(([b'x'; 900].into(), None)));
        local.remember("new", Some(([b'x'; 900].into(), None)));
        assert!(local.last(&first).is_some(), "it was read again");
        let row = local.last("49").expect("it was read last");
        manual.advance(Duration::from_secs(2));
        assert_eq!(row.age(&clock), Some(Duration::from_secs(51)));
        assert!(local.recent("49", Duration::from_secs(3)).is_some());
        assert!(local.recent("49", Duration::from_secs(2)).is_none());
        local.remember("49", None);
        assert!(local.last("49").is_none());
        local.remember("huge", Some(([b'x'; 10_000].into(), None)));
        assert!(local.last("huge").is_none());
    }

    #[test]
    fn reads_are_counted_by_row() {
        let local = Local::new(Clock::system(), 10_000);
        for is_hit in [true, false, true] {
            local.count("a", is_hit);
        }
        assert_eq!(local.reads("a"), Reads { hits: 2, misses: 1 });
        assert_eq!(local.reads("b"), Reads::default());
    }
}
