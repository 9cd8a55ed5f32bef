//! Remembers, for this process, recently read rows, failed loads, and the hits, misses and failed loads of each row.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::events::Event;
use tower_pulse_core::clock::{Clock, Tick};
use tower_pulse_core::row_lists::FailedRow;
use tower_pulse_core::task::lock;
use tower_pulse_redis::rows::short_reason;

/// A row as it was read or loaded: the JSON, and the age of the row at that time, if known.
#[derive(Clone, Debug)]
pub(super) struct ReadRow {
    pub(super) json: Arc<[u8]>,
    pub(super) age: Option<Duration>,
}

/// The most rows with separate counts.
const MAX_COUNTED: usize = 10_000;

/// The most rows whose failure is remembered.
const MAX_FAILED: usize = 100;

#[derive(Debug)]
pub(super) struct Local {
    clock: Clock,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The rows, each with its number in `order` and the time of its read.
    rows: HashMap<Arc<str>, (u64, Tick, ReadRow)>,
    /// The ids of the rows, least recently read from the store first.
    order: BTreeMap<u64, Arc<str>>,
    next: u64,
    bytes: usize,
    /// The hits, misses and failed loads of each row.
    counts: HashMap<String, [u64; 3]>,
    /// The failed rows, newest last, each with the time of the failure.
    failed: VecDeque<(Tick, FailedRow)>,
}

impl Local {
    pub(super) fn new(clock: Clock, max_bytes: usize) -> Self {
        Self {
            clock,
            max_bytes,
            state: Mutex::default(),
        }
    }

    /// The row as it was last read, if the read was less than `age` ago. The age of the row includes the time since the
    /// read.
    pub(super) fn last(&self, id: &str, age: Duration) -> Option<ReadRow> {
        let state = lock(&self.state);
        let (_, read, row) = state.rows.get(id)?;
        let since = self.clock.since(*read);
        (since < age).then(|| ReadRow {
            json: row.json.clone(),
            age: row.age.map(|age| age + since),
        })
    }

    /// Remembers a row, or forgets the row if it does not exist. If there are too many bytes, evicts the rows that were
    /// least recently read from the store.
    pub(super) fn remember(&self, id: &str, row: Option<ReadRow>) {
        let mut state = lock(&self.state);
        state.forget(id);
        let Some(row) = row else { return };
        let bytes = size_of_row(id, &row);
        if bytes > self.max_bytes {
            return;
        }
        while state.bytes + bytes > self.max_bytes
            && let Some(oldest) = state.order.values().next().cloned()
        {
            state.forget(&oldest);
        }
        let (id, number) = (Arc::<str>::from(id), state.next);
        state.next += 1;
        state.bytes += bytes;
        state.order.insert(number, id.clone());
        state.rows.insert(id, (number, self.clock.tick(), row));
    }

    pub(super) fn count(&self, id: &str, event: Event) {
        let counts = &mut lock(&self.state).counts;
        // Half of the room is reserved for rows with hits, because clients may make up ids.
        let most = match event {
            Event::Hit => MAX_COUNTED,
            _ => MAX_COUNTED / 2,
        };
        if counts.len() < most || counts.contains_key(id) {
            counts.entry(id.to_owned()).or_default()[event as usize] += 1;
        }
    }

    pub(super) fn counts(&self, id: &str) -> [u64; 3] {
        let state = lock(&self.state);
        state.counts.get(id).copied().unwrap_or_default()
    }

    /// Remembers why a row could not be loaded. If there are too many failed rows, evicts the row with the oldest
    /// failure.
    pub(super) fn remember_failure(&self, id: &str, reason: &str) {
        let mut state = lock(&self.state);
        let mut row = state.take_failure(id).unwrap_or_default();
        row.id = id.to_owned();
        row.failures = row.failures.saturating_add(1);
        row.last_error = short_reason(reason);
        if state.failed.len() >= MAX_FAILED {
            state.failed.pop_front();
        }
        state.failed.push_back((self.clock.tick(), row));
    }

    /// Forgets the failure of a row that was loaded, or whose failure is in the schedule.
    pub(super) fn forget_failure(&self, id: &str) {
        lock(&self.state).take_failure(id);
    }

    /// Newest first.
    pub(super) fn failed(&self) -> Vec<FailedRow> {
        let state = lock(&self.state);
        let failed = state.failed.iter().rev();
        let failed = failed.map(|(at, row)| {
            let mut row = row.clone();
            row.age = self.clock.since(*at).as_secs_f64();
            row
        });
        failed.collect()
    }
}

impl State {
    fn take_failure(&mut self, id: &str) -> Option<FailedRow> {
        let at = self.failed.iter().position(|(_, row)| row.id == id)?;
        self.failed.remove(at).map(|(_, row)| row)
    }

    fn forget(&mut self, id: &str) {
        if let Some((number, _, row)) = self.rows.remove(id) {
            self.order.remove(&number);
            self.bytes -= size_of_row(id, &row);
        }
    }
}

fn size_of_row(id: &str, row: &ReadRow) -> usize {
    id.len() + row.json.len() + size_of::<(Tick, ReadRow)>() + 96
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_remembered_up_to_a_number_of_bytes() {
        let (clock, manual) = Clock::manual(1_700_000_000);
        let local = Local::new(clock, 10_000);
        let row = |bytes: usize, age: Option<u64>| ReadRow {
            json: vec![b'x'; bytes].into(),
            age: age.map(Duration::from_secs),
        };
        let last = |id: &str| local.last(id, Duration::MAX);
        for number in 0..50 {
            local.remember(&number.to_string(), Some(row(900, Some(number))));
            assert!(lock(&local.state).bytes <= 10_000);
        }
        let rows = lock(&local.state).rows.len();
        assert!((5..=10).contains(&rows), "{rows}");
        let first = 50 - rows;
        assert!((first..50).all(|number| last(&number.to_string()).is_some()));
        let first = first.to_string();
        local.remember(&first, Some(row(900, None)));
        local.remember("new", Some(row(900, None)));
        assert!(last(&first).is_some(), "the row was read again");
        manual.advance(Duration::from_secs(2));
        let row_49 = local.last("49", Duration::from_secs(3));
        let age = row_49.expect("a recent row").age;
        assert_eq!(age, Some(Duration::from_secs(51)));
        assert!(local.last("49", Duration::from_secs(2)).is_none());
        local.remember("49", None);
        assert!(last("49").is_none());
        local.remember("huge", Some(row(10_000, None)));
        assert!(last("huge").is_none());
    }

    #[test]
    fn reads_and_failures_are_counted_by_row() {
        let local = Local::new(Clock::system(), 10_000);
        for event in [Event::Hit, Event::Miss, Event::Hit, Event::Failure] {
            local.count("a", event);
        }
        assert_eq!(local.counts("a"), [2, 1, 1]);
        assert_eq!(local.counts("b"), [0; 3]);
    }

    #[test]
    fn the_newest_failures_are_remembered() {
        let (clock, manual) = Clock::manual(1_700_000_000);
        let local = Local::new(clock, 10_000);
        for number in 0..=MAX_FAILED {
            local.remember_failure(&number.to_string(), "away\n");
        }
        manual.advance(Duration::from_secs(3));
        local.remember_failure("1", "again");
        let failed = local.failed();
        assert_eq!((failed.len(), &*failed[0].id), (MAX_FAILED, "1"));
        assert_eq!((failed[0].failures, failed[0].age), (2, 0.0));
        let oldest = &failed[MAX_FAILED - 1];
        let oldest = (&*oldest.id, &*oldest.last_error, oldest.age);
        assert_eq!(oldest, ("2", "away ", 3.0));
        local.forget_failure("1");
        assert_eq!(local.failed().len(), MAX_FAILED - 1);
    }
}
