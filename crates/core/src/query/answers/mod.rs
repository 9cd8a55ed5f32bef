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
mod outcome;
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
pub use self::counters::{
    CounterRow, CounterSamples, CounterSamplesQuery, Counters, CountersQuery,
};
pub use self::deploy::{Deploy, DeployQuery, DeployRow};
pub use self::deploy_verdict::{DeployVerdict, Verdict};
pub use self::fix_first::{FixFirst, FixFirstQuery, FixReason, FixRow};
pub use self::health::{FullHealth, HistoryHealth};
pub use self::heat_map::{HeatMap, HeatMapQuery, HeatSlice};
pub use self::instance::{Instance, InstancePath, InstancePoint, InstanceQuery, MachinePoint};
pub use self::instance_verdict::{InstanceVerdict, Spread};
pub use self::instances::{InstanceRow, Instances, InstancesQuery};
pub use self::marks::{Marks, MarksQuery};
pub use self::measured::{ContextName, Measured, Outcomes, PollTimes, Times};
pub use self::metric::{SeriesMetric, SeriesValue, SliceTimes};
pub use self::outcome::{OutcomePaths, OutcomeQuery, OutcomeRow};
pub use self::overview::{HourTotal, Overview, OverviewQuery};
pub use self::path::{Bucket, ContextHour, Path, PathQuery, PathWindow};
pub use self::path_targets::{Burn, BurningPath, TargetBudget, TargetBurn};
pub use self::paths::{Order, PathRow, Paths, PathsQuery, Repeated, RowStatus, Sort};
pub use self::profile::{HourOfWeek, Profile, ProfileQuery};
#[cfg(feature = "rankings")]
pub use self::rankings::{
    RankedRow, RankingHead, RankingPart, RankingQuery, RankingRow, Rankings, RankingsQuery,
};
pub use self::row_series::{PointValue, RowMetric, SeriesSpan};
#[cfg(feature = "row-cache")]
pub use self::rows::Rows;
pub use self::series::{Series, SeriesQuery};
pub use self::slow_requests::{BothHours, ListedRequest};
pub use self::slowest::{SlowContext, Slowest, SlowestQuery};
pub use self::slowest_requests::{
    ListedHours, RequestStatus, SlowestRequests, SlowestRequestsQuery,
};
pub use self::timers::{QueueWait, RequestTimer, RequestTimers, TimerPath};
pub use self::worst_requests::WorstRequests;
pub use super::error::QueryError;
#[doc(hidden)]
pub use super::question::Answered;
pub use super::question::Question;
pub use super::reader::{Answer, Answering, Reader};
pub use super::span::Covered;
pub use super::window::Window;
pub use crate::advice::Advice;
#[cfg(feature = "row-cache")]
pub use crate::row_lists::RowsQuery;
pub use tower_pulse_detect::detector::{Sight, Watched};
pub use tower_pulse_detect::side_by_side::{Side, SideBySide};
pub use tower_pulse_model::context::Kind;

pub(super) use self::health::{HealthStatus, health, status};

use std::ops::RangeInclusive;

use super::error::MAX_POINTS;
use super::reader::source;
use tower_pulse_model::snapshot::ContextSnapshot;

/// Number of rows, unless a question sets a limit.
const DEFAULT_ROWS: usize = 100;

/// The most rows of an answer: a question with an offset gets further rows.
const MAX_ROWS: usize = 1_000;

/// The length of slices, in seconds, if a question does not say it and they are kept.
const DEFAULT_PRECISION: u32 = 60;

/// Refuses a number of a question that is not allowed.
fn check_number(
    name: &'static str,
    given: usize,
    allowed: RangeInclusive<usize>,
) -> Result<usize, QueryError> {
    let (least, most) = (allowed.start(), allowed.end());
    let message = || format!("{name} is {given}: allowed are {least} to {most}");
    let number = Some(given).filter(|given| allowed.contains(given));
    number.ok_or_else(|| QueryError::parameter(name, message()))
}

/// The limit of a question, or the default. Refuses one of more rows than an answer may have.
fn check_limit(limit: Option<usize>, most: usize) -> Result<usize, QueryError> {
    check_number("limit", limit.unwrap_or(DEFAULT_ROWS), 0..=most)
}

/// Refuses a question without the name that it needs.
fn check_given(name: &'static str, given: &str) -> Result<(), QueryError> {
    match given {
        "" => Err(QueryError::parameter(name, format!("{name} is missing"))),
        _ => Ok(()),
    }
}

/// To be called before so many values of series are computed.
fn check_points(points: usize) -> Result<(), QueryError> {
    let most = MAX_POINTS;
    match points > most {
        true => Err(QueryError::TooLarge { points, most }),
        false => Ok(()),
    }
}

macro_rules! answered {
    ($(
        $(#[$when:meta])*
        $name:literal $(with $given:literal)? => $query:ident, $function:path, $answer:ident
        $(, less $parameter:literal $remedy:literal)?
        $(, points $points:expr)?;
    )+) => {
        $(
            $(#[$when])*
            impl Answered for $query {
                type Answer = $answer;
                $(const LESS: (&'static str, &'static str) = ($parameter, $remedy);)?

                fn ask<'a>(&'a self, reader: &'a Reader) -> Answering<'a, $answer> {
                    reader.answer($function(source(reader), self))
                }

                $(fn points(answer: &$answer) -> usize {
                    ($points)(answer)
                })?
            }
        )+
    };
}
super::question::questions!(answered);

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

/// The context of this kind among those of one name. Unless the kind is given, HTTP requests come first.
fn of_kind(contexts: &[ContextSnapshot], kind: Option<Kind>) -> Option<&ContextSnapshot> {
    let contexts = contexts.iter();
    contexts
        .filter(|context| kind.is_none_or(|kind| kind == context.kind))
        .max_by_key(|context| context.kind)
}
