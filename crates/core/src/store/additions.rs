//! A step's additions to counters and exported statistics, and when each context was last seen. Other programs may add
//! to the exported statistics too.

use std::sync::Arc;

use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::slice::Precision;
use tower_pulse_model::sorted::Map;

/// The additions of a step, and the numbers of late and of skewed samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// Additions to the counters of contexts and to the user's counters. Additions are grouped by slice, so that a
    /// store handles the start of a new slice once for all counters.
    pub counters: Map<CounterSlice, CounterAdditions>,
    /// The contexts of the step, with the additions to their statistics.
    pub statistics: Vec<StatisticsAdditions>,
    /// Number of samples that were late when they were flushed.
    pub late: u64,
    /// Number of samples that are refused, because their time is more than an hour ahead of the store's.
    pub skewed: u64,
}

/// A slice of counters: its precision, and its start in Unix seconds. The precision also says how many slices a counter
/// keeps.
pub type CounterSlice = (Precision, i64);

/// The numbers to add, by the name of the counter. A number is refused if the number or the resulting count does not
/// fit into an `i64`.
pub type CounterAdditions = Vec<(Arc<str>, i128)>;

/// A context that was seen, and additions to its exported statistics. A store without exports ignores the additions.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticsAdditions {
    /// The context.
    pub context: ContextId,
    /// When the context was last seen, in Unix seconds.
    pub last_seen: i64,
    /// The start of each hour in Unix seconds, ascending, with the statistics of the hour.
    pub hours: Vec<(i64, AccessTimeStats)>,
}
