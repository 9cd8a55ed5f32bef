//! The additions of a step to counters, to the exported statistics, which other programs may add to as well, and to the
//! time at which each context was last seen.

use std::sync::Arc;

use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::slice::Precision;

/// The additions of a step, and the samples that it refuses of the round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// Additions to counters: of contexts and of the user.
    pub counters: Vec<CounterAdditions>,
    /// The contexts of the step, with the additions to their statistics.
    pub statistics: Vec<StatisticsAdditions>,
    /// Number of samples that were late when they were flushed.
    pub late: u64,
    /// Number of samples that lie too far in the future, and are refused.
    pub skewed: u64,
}

/// Additions to a slice of some counters. Grouped by slice, so that a store decides once per slice, not once per
/// counter, what a new slice requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterAdditions {
    /// The precision, which says how many slices a counter keeps.
    pub precision: Precision,
    /// The start of the slice, in Unix seconds.
    pub slice: i64,
    /// By the name of the counter. A number that an `i64` cannot hold is refused as an overflow is.
    pub added: Vec<(Arc<str>, i128)>,
}

/// A context that was seen, and additions to its exported statistics. A store that exports none leaves those out.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticsAdditions {
    /// The context.
    pub context: ContextId,
    /// When it was seen last, in Unix seconds.
    pub last_seen: i64,
    /// The statistics of each hour by its start, ascending.
    pub hours: Vec<(i64, AccessTimeStats)>,
}
