//! Snapshots: the data of each context as a store returns it.

use std::cmp::Reverse;
use std::sync::Arc;

use super::access_time::AccessTimeStats;
use super::aggregate::Aggregate;
use super::context::{Kind, RecordId};
use super::pack::packed;
use super::slice::SliceCount;
use crate::order::InOrder;

/// A context within one hour.
#[derive(Clone, Debug, PartialEq)]
pub struct HourSnapshot {
    /// The start of the hour, in Unix seconds.
    pub start: i64,
    /// The statistics of the durations, in seconds.
    pub times: AccessTimeStats,
    /// The histogram of the durations, and the counts by outcome.
    pub aggregate: Aggregate,
}

/// The data of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextSnapshot {
    /// The name of the context.
    pub context: String,
    /// The kind of the context.
    pub kind: Kind,
    /// The current hour, if the context has samples in it.
    pub hour: Option<HourSnapshot>,
    /// The hour before, if the context has samples in it.
    pub last_hour: Option<HourSnapshot>,
}

/// A key whose value has the wrong form. The data of the key is left out.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The reason why the value could not be used.
    pub reason: String,
}

packed!(Problem { key, reason });

impl Problem {
    /// A key whose value could not be used, and the reason.
    #[doc(hidden)]
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            reason: reason.into(),
        }
    }
}

/// The current figures of the fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetSnapshot {
    /// The time of the snapshot, in Unix seconds.
    pub taken_at: i64,
    /// The number of recorded contexts, without `<all>`.
    pub contexts: usize,
    /// The number of timers among the contexts.
    pub timers: usize,
    /// Requests per slice of the finest precision, oldest first.
    pub recent: Vec<SliceCount>,
    /// The number of instances that are alive.
    pub instances: u64,
    /// The instances that are alive, by name.
    pub alive: Vec<AliveInstance>,
    /// Requests in flight in all instances.
    pub in_flight: i64,
    /// Keys whose value has the wrong form.
    pub problems: Vec<Problem>,
}

/// An instance that is alive, as of its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliveInstance {
    /// The name of the instance, or its id if it has no name.
    pub instance: Arc<str>,
    /// The time of the heartbeat, in Unix seconds.
    pub last_seen: i64,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// Requests in flight, if they can be read.
    pub in_flight: Option<i64>,
    /// Seconds by which the instance's clock is ahead of the store's, if the instance reports it.
    pub skew: Option<i64>,
    /// Why the instance's cleaning fails or skips a key, if it does.
    pub cleaning: Option<String>,
    /// The paths with requests in flight, at most [`MAX_PATHS_IN_FLIGHT`].
    pub paths: Vec<PathInFlight>,
}

/// The most paths with requests in flight that a heartbeat names: those that hang, then those with the most requests.
pub const MAX_PATHS_IN_FLIGHT: usize = 16;

packed! {
    /// The requests of a path that are in flight in an instance.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PathInFlight {
        /// The id of the path's records.
        pub path: RecordId,
        /// The number of requests.
        pub in_flight: u64,
        /// Seconds during which requests of the path were in flight and none ended.
        pub seconds: u64,
        /// Whether `seconds` is 60 or more, and more than twice the longest request of the path in the process.
        pub hangs: bool,
    }
}

impl AliveInstance {
    /// Merges instances of the same name, and sorts them. The last heartbeat counts, but `in_flight` is the sum, and
    /// `paths` has the paths of all. If the last heartbeat has no version or no `cleaning`, an earlier one fills the
    /// field in.
    pub fn by_name(mut instances: Vec<Self>) -> Vec<Self> {
        instances.order_by_key(|alive| (alive.instance.clone(), Reverse(alive.last_seen)));
        // `dedup_by` removes its first argument, which has the earlier heartbeat.
        instances.dedup_by(|earlier, last| {
            let is_same = earlier.instance == last.instance;
            if is_same {
                let in_flight = [last.in_flight, earlier.in_flight];
                last.in_flight = in_flight.into_iter().flatten().reduce(i64::saturating_add);
                last.version = last.version.take().or(earlier.version.take());
                last.cleaning = last.cleaning.take().or(earlier.cleaning.take());
                last.paths.append(&mut earlier.paths);
            }
            is_same
        });
        instances
    }
}
