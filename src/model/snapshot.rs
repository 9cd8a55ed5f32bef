//! What comes up from a store: what is known of each context, ready to be formatted.

use super::access_time::AccessTimeStats;
use super::batch::Aggregate;
use super::context::Kind;

/// A context within one hour.
#[derive(Clone, Debug, PartialEq)]
pub struct HourSnapshot {
    /// Start of the hour in Unix seconds.
    pub start: i64,
    /// Its access times, in seconds.
    pub times: AccessTimeStats,
    /// How they spread, and how the requests ended.
    pub spread: Aggregate,
}

impl HourSnapshot {
    /// The `q`-quantile in seconds, held within the smallest and the largest.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (min, max) = (self.times.smallest(), self.times.largest());
        self.spread.histogram.quantile_within(q, min, max)
    }
}

/// What is known of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextSnapshot {
    /// Its name.
    pub context: String,
    /// What it stands for.
    pub kind: Kind,
    /// This hour, if anything happened in it.
    pub hour: Option<HourSnapshot>,
    /// The hour before this one, if anything happened in it.
    pub last_hour: Option<HourSnapshot>,
}

/// A key that could not be read or written as what it should be. Its figures are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
pub struct Problem {
    /// The key.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

/// All that is needed for an overview.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When it was taken, in Unix seconds.
    pub taken_at: i64,
    /// Every context but `<all>`, by name.
    pub contexts: Vec<ContextSnapshot>,
    /// All HTTP contexts together.
    pub all: ContextSnapshot,
    /// Requests of the last seconds by slice of the finest precision, oldest first.
    pub recent: Vec<(i64, i64)>,
    /// How many instances are alive.
    pub instances: u64,
    /// Requests in flight in all instances.
    pub in_flight: i64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}
