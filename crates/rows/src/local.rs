//! Rows in this process: those that it has read lately, how often rows were hit and missed, and which could not be loaded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower_pulse_core::clock::{Clock, Tick};
use tower_pulse_core::row_lists::FailedRow;
use tower_pulse_core::store::rows::short_reason;
use tower_pulse_core::task::lock;

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

/// Reads of a row in this process, and loads that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) failures: u64,
}

/// What is counted of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Hit,
    Miss,
    Failure,
}

/// A row whose last load failed.
#[derive(Debug)]
struct Failure {
    id: String,
    /// How often in a row.
    failures: u32,
    /// Why it failed last.
    reason: String,
    at: Tick,
}

/// The most rows with counts of their own.
const MAX_COUNTED: usize = 10_000;

/// The most rows whose failure is remembered.
const MAX_FAILED: usize = 100;

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
    counts: HashMap<String, Counts>,
    /// The newest last.
    failed: VecDeque<Failure>,
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

    /// Counts a read, or a load that failed.
    pub(super) fn count(&self, id: &str, count: Count) {
        let mut state = lock(&self.state);
        if !state.counts.contains_key(id) {
            // Rows that were never hit, as of ids that a client invents, leave room for those that are.
            let most = match count {
                Count::Hit => MAX_COUNTED,
                Count::Miss | Count::Failure => MAX_COUNTED / 2,
            };
            if state.counts.len() >= most {
                return;
            }
            state.counts.insert(id.to_owned(), Counts::default());
        }
        if let Some(counts) = state.counts.get_mut(id) {
            *match count {
                Count::Hit => &mut counts.hits,
                Count::Miss => &mut counts.misses,
                Count::Failure => &mut counts.failures,
            } += 1;
        }
    }

    /// What was counted of a row.
    pub(super) fn counts(&self, id: &str) -> Counts {
        let state = lock(&self.state);
        state.counts.get(id).copied().unwrap_or_default()
    }

    /// Remembers why a row could not be loaded. Of too many rows, the one goes that failed first.
    pub(super) fn remember_failure(&self, id: &str, reason: &str) {
        let mut state = lock(&self.state);
        let before = state.take_failure(id).map_or(0, |failure| failure.failures);
        if state.failed.len() >= MAX_FAILED {
            state.failed.pop_front();
        }
        state.failed.push_back(Failure {
            id: id.to_owned(),
            failures: before.saturating_add(1),
            reason: short_reason(reason),
            at: self.clock.tick(),
        });
    }

    /// A row was loaded, or the schedule tells why not.
    pub(super) fn forget_failure(&self, id: &str) {
        lock(&self.state).take_failure(id);
    }

    /// The rows whose last load failed, newest first.
    pub(super) fn failed(&self) -> Vec<FailedRow> {
        let state = lock(&self.state);
        let failed = state.failed.iter().rev();
        let failed = failed.map(|failure| {
            let mut row = FailedRow::default();
            row.id.clone_from(&failure.id);
            row.failures = failure.failures;
            row.last_error.clone_from(&failure.reason);
            row.age = self.clock.since(failure.at).as_secs_f64();
            row
        });
        failed.collect()
    }
}

impl State {
    fn take_failure(&mut self, id: &str) -> Option<Failure> {
        let at = self.failed.iter().position(|failure| failure.id == id)?;
        self.failed.remove(at)
    }

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
    fn reads_and_failures_are_counted_by_row() {
        let local = Local::new(Clock::system(), 10_000);
        for count in [Count::Hit, Count::Miss, Count::Hit, Count::Failure] {
            local.count("a", count);
        }
        let expected = Counts {
            hits: 2,
            misses: 1,
            failures: 1,
        };
        assert_eq!(local.counts("a"), expected);
        assert_eq!(local.counts("b"), Counts::default());
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
        let last = &failed[MAX_FAILED - 1];
        assert_eq!(
            (&*last.id, &*last.last_error, last.age),
            ("2", "away ", 3.0)
        );
        local.forget_failure("1");
        assert_eq!(local.failed().len(), MAX_FAILED - 1);
    }
}
