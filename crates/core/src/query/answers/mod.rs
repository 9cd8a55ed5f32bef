//! The answers: a file for each question, and the types that they share.

mod changes;
mod compared;
mod counters;
mod deploy;
mod deploy_verdict;
mod fix_first;
mod health;
mod heat_map;
mod instance;
mod instance_verdict;
mod instances;
mod marks;
mod measured;
mod metric;
mod overview;
mod path;
mod path_targets;
mod paths;
mod profile;
#[cfg(feature = "rankings")]
mod rankings;
mod resolution;
mod row_series;
#[cfg(feature = "row-cache")]
mod rows;
mod series;
mod slow_requests;
mod slowest;
mod slowest_requests;
mod timers;
mod worst_requests;

pub use self::changes::{ChangeRow, Changes, ChangesQuery, WatchedRow};
pub use self::compared::{Before, ComparedWindow, ENOUGH_FOR_P99, ENOUGH_REQUESTS, Ratios};
pub use self::counters::{CounterRow, CounterSamples, Counters, CountersQuery};
pub use self::deploy::{Deploy, DeployQuery, DeployRow};
pub use self::deploy_verdict::{DeployVerdict, Verdict};
pub use self::fix_first::{FixFirst, FixReason, FixRow};
pub use self::health::{
    FlushLosses, FoldLosses, FullHealth, HealthStatus, HistoryHealth, OwnHealth, ProcessHealth,
    ReadingHealth, RecordingLosses,
};
pub use self::heat_map::{HeatMap, HeatMapQuery, HeatSlice};
pub use self::instance::{Instance, InstancePath, InstancePoint, InstanceQuery, MachinePoint};
pub use self::instance_verdict::{InstanceVerdict, Spread};
pub use self::instances::{InstanceRow, Instances, InstancesQuery};
pub use self::marks::Marks;
pub use self::measured::{ContextName, Covered, Measured, Outcomes, PollTimes, Times};
pub use self::metric::{SeriesMetric, SeriesValue, SliceTimes};
pub use self::overview::{HourTotal, Overview};
pub use self::path::{Bucket, ContextHour, Path, PathQuery, PathWindow};
pub use self::path_targets::{Burn, BurningPath, TargetBudget, TargetBurn};
pub use self::paths::{PathRow, Paths, PathsQuery, Repeated, RowStatus, Sort};
pub use self::profile::{HourOfWeek, Profile, ProfileQuery};
#[cfg(feature = "rankings")]
pub use self::rankings::{RankedRow, RankingHead, RankingPart, RankingRow, Rankings};
pub use self::row_series::{PointValue, RowMetric, SeriesSpan, most_rows};
#[cfg(feature = "row-cache")]
pub use self::rows::Rows;
pub use self::series::{Series, SeriesQuery};
pub use self::slow_requests::{BothHours, ListedRequest, ListedRequests};
pub use self::slowest::{SlowContext, Slowest};
pub use self::slowest_requests::{
    ListedHours, RequestStatus, SlowestRequests, SlowestRequestsQuery,
};
pub use self::timers::{QueueWait, RequestTimer, RequestTimers, TimerPath};
pub use self::worst_requests::WorstRequests;

pub(super) use self::changes::changes;
pub(super) use self::counters::{counter, counters};
pub(super) use self::deploy::deploy;
pub(super) use self::fix_first::fix_first;
pub(super) use self::health::{health, status};
pub(super) use self::heat_map::heat_map;
pub(super) use self::instance::instance;
pub(super) use self::instances::instances;
pub(super) use self::marks::marks;
pub(super) use self::overview::overview;
pub(super) use self::path::path;
pub(super) use self::paths::paths;
pub(super) use self::profile::profile;
#[cfg(feature = "rankings")]
pub(super) use self::rankings::{ranking, rankings};
#[cfg(feature = "row-cache")]
pub(super) use self::rows::rows;
pub(super) use self::series::series;
pub(super) use self::slowest::slowest;
pub(super) use self::slowest_requests::slowest_requests;
pub(super) use self::worst_requests::worst_requests;

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use super::error::{QueryError, out_of_range};
use tower_pulse_model::context::Kind;
use tower_pulse_model::snapshot::ContextSnapshot;

/// Number of rows, unless a question sets a limit.
const DEFAULT_ROWS: usize = 100;

/// The most rows of an answer: a question with an offset gets further rows.
pub const MAX_ROWS: usize = 1_000;

/// The most values of the series of an answer: more than a table of 100 rows has of the slices of any tier.
pub const MAX_POINTS: usize = 16_384;

/// The length of slices, in seconds, if a question does not say it and they are kept.
const DEFAULT_PRECISION: u32 = 60;

/// Refuses a number of a question that is not allowed.
fn check_number(
    name: &'static str,
    given: usize,
    allowed: RangeInclusive<usize>,
) -> Result<(), QueryError> {
    match allowed.contains(&given) {
        true => Ok(()),
        false => Err(out_of_range(name, given, &allowed)),
    }
}

/// Refuses a limit of more rows than an answer may have.
fn check_limit(limit: usize, most: usize) -> Result<(), QueryError> {
    check_number("limit", limit, 0..=most)
}

/// To be called before so many values of series are computed.
fn check_points(points: usize) -> Result<(), QueryError> {
    let most = MAX_POINTS;
    match points > most {
        true => Err(QueryError::TooLarge { points, most }),
        false => Ok(()),
    }
}

/// The names that a question asks for, whatever the case of letters.
struct NameFilter(String);

impl NameFilter {
    fn new(contains: &str) -> Self {
        Self(contains.to_lowercase())
    }

    fn matches(&self, name: &str) -> bool {
        self.0.is_empty() || name.to_lowercase().contains(&self.0)
    }
}

/// Keeps only so many elements, those that come first, in their order. The others are not sorted.
fn keep_first<T>(elements: &mut Vec<T>, count: usize, mut order: impl FnMut(&T, &T) -> Ordering) {
    if count < elements.len() {
        elements.select_nth_unstable_by(count, &mut order);
        elements.truncate(count);
    }
    elements.sort_unstable_by(order);
}

/// The context of this kind among those of one name. Unless the kind is given, HTTP requests come first.
fn of_kind(contexts: &[ContextSnapshot], kind: Option<Kind>) -> Option<&ContextSnapshot> {
    let contexts = contexts.iter();
    contexts
        .filter(|context| kind.is_none_or(|kind| kind == context.kind))
        .max_by_key(|context| context.kind)
}
