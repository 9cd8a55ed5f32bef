//! How long the requests of an instance took, next to those of others on the same contexts in the same minutes.

/// Fewest requests on each side of a comparison.
pub(in crate::query) const MIN_REQUESTS: u64 = 10;

/// Requests, and how long they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) count: u64,
    /// In nanoseconds.
    pub(super) sum: u64,
}

impl Times {
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

/// How long requests took, and how long they would have taken on the others.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The requests in those minutes in which others had the same context.
    pub(super) own: Times,
    /// The requests of the others then.
    others: u64,
    /// How long the own requests would have taken, if each had taken the mean of the others, in nanoseconds.
    pub(super) expected: f64,
    /// The number of those minutes, and the start of the last one.
    minutes: u32,
    last: i64,
}

/// A process and the one that replaced it have one minute in common.
const FEWEST_MINUTES: u32 = 2;

impl Pace {
    /// Adds its requests on a context in the minute that begins at `start`, and those of the others.
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

    /// The mean of the others for the same requests, in seconds.
    pub(super) fn expected_mean(&self) -> Option<f64> {
        let nanos = (self.own.count > 0).then(|| self.expected / self.own.count as f64);
        nanos.map(|nanos| nanos / 1e9)
    }

    pub(super) fn ratio(&self) -> Option<f64> {
        let is_enough = self.own.count.min(self.others) >= MIN_REQUESTS
            && self.minutes >= FEWEST_MINUTES
            && self.expected > 0.0;
        is_enough.then(|| self.own.sum as f64 / self.expected)
    }
}
