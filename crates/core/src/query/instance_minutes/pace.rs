//! The time of an instance's requests, compared with requests of the other instances on the same contexts in the same
//! minutes.

use tower_pulse_model::aggregate::Aggregate;

/// The fewest requests on each side of a comparison.
pub(in crate::query) const MIN_REQUESTS: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) count: u64,
    /// The total time, in nanoseconds.
    pub(super) sum: u64,
}

impl Times {
    pub(super) fn of(sums: &Aggregate) -> Self {
        Self {
            count: sums.times.count,
            sum: sums.times.sum,
        }
    }

    pub(super) fn without(self, part: Self) -> Self {
        Self {
            count: self.count.saturating_sub(part.count),
            sum: self.sum.saturating_sub(part.sum),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// The time of an instance's requests, and the time expected from the other instances.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The instance's requests on contexts that others served in the same minute.
    pub(super) own: Times,
    /// The number of the others' requests on the same contexts in the same minutes.
    others: u64,
    /// The time that the instance's requests would take at the means of the others, in nanoseconds.
    pub(super) expected: f64,
    /// The number of minutes in which the instance and others had requests on the same context.
    minutes: u32,
    /// The start of the last of these minutes.
    last: i64,
}

/// The fewest minutes for a ratio. One minute is too few, because a process and its replacement share the minute of the
/// restart.
const FEWEST_MINUTES: u32 = 2;

impl Pace {
    /// Adds the requests of the instance and of the others on a context, in the minute that begins at `start`.
    pub(super) fn add(&mut self, start: i64, own: Times, others: Times) {
        if own.count == 0 || others.count == 0 {
            return;
        }
        if self.minutes == 0 || self.last != start {
            self.minutes += 1;
            self.last = start;
        }
        let mean = others.sum as f64 / others.count as f64;
        self.own.add(own);
        self.others = self.others.saturating_add(others.count);
        self.expected += mean * own.count as f64;
    }

    /// The expected mean duration, in seconds.
    pub(super) fn expected_mean(&self) -> Option<f64> {
        let nanos = (self.own.count > 0).then(|| self.expected / self.own.count as f64);
        nanos.map(|nanos| nanos / 1e9)
    }

    /// The time of the instance's requests, divided by the expected time.
    pub(super) fn so_far(&self) -> f64 {
        self.own.sum as f64 / self.expected.max(1.0)
    }

    /// The result of [`so_far`](Self::so_far), if there are enough requests and minutes.
    pub(super) fn ratio(&self) -> Option<f64> {
        let is_enough = self.own.count.min(self.others) >= MIN_REQUESTS
            && self.minutes >= FEWEST_MINUTES
            && self.expected > 0.0;
        is_enough.then(|| self.so_far())
    }
}
