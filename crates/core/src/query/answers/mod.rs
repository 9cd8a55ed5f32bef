//! The answers: a file for each question, and the types that answers share. This file reexports the types that are
//! public; [`dashboard`](super::dashboard) has the other types.

pub(super) mod changes;
pub(super) mod compared;
pub(super) mod counters;
pub(super) mod deploy;
pub(super) mod deploy_verdict;
pub(super) mod errors;
pub(super) mod fix_first;
pub(super) mod hanging;
pub(super) mod health;
pub(super) mod heat_map;
pub(super) mod instance;
pub(super) mod instance_verdict;
pub(super) mod instances;
pub(super) mod marks;
pub(super) mod measured;
pub(super) mod metric;
pub(super) mod outcome;
pub(super) mod overview;
pub(super) mod path;
pub(super) mod path_targets;
pub(super) mod paths;
pub(super) mod profile;
#[cfg(feature = "rankings")]
pub(super) mod rankings;
pub(super) mod resolution;
pub(super) mod row_series;
#[cfg(feature = "row-cache")]
pub(super) mod rows;
pub(super) mod series;
pub(super) mod slow_requests;
pub(super) mod slowest;
pub(super) mod slowest_requests;
pub(super) mod timers;
pub(super) mod worst_requests;

pub use self::changes::{ChangeRow, Changes, ChangesQuery};
pub use self::compared::{Before, ComparedWindow, ENOUGH_FOR_P99, ENOUGH_REQUESTS, Ratios};
pub use self::counters::{CounterRow, Counters, CountersQuery};
pub use self::deploy_verdict::{DeployVerdict, Verdict};
pub use self::errors::{ErrorRow, Errors, ErrorsQuery};
pub use self::hanging::HangingPath;
pub use self::marks::{Marks, MarksQuery};
pub use self::measured::{CodeCount, ContextName, KindCount, Measured, Outcomes, PollTimes, Times};
pub use self::metric::{SeriesMetric, SeriesValue, SliceTimes};
pub use self::outcome::{OutcomePaths, OutcomeQuery, OutcomeRow};
pub use self::path::{Path, PathQuery, PathWindow};
pub use self::paths::{PathRow, Paths, PathsQuery, Sort};
#[cfg(feature = "rankings")]
pub use self::rankings::{RankedRow, RankingPart, RankingQuery};
pub use self::series::{Series, SeriesQuery};
pub use self::slow_requests::{ListedRequest, ListedTimer};
pub use self::slowest_requests::{RequestStatus, SlowestRequests, SlowestRequestsQuery};
pub use super::against::Against;
pub use super::error::QueryError;
#[doc(hidden)]
pub use super::question::Answered;
pub use super::question::Question;
pub use super::reader::{Answer, Reader};
pub use super::span::Covered;
pub use super::window::Window;
pub use tower_pulse_model::context::Kind;

pub(super) use self::health::{health, status};

use std::ops::RangeInclusive;

use super::json::check_points;
use tower_pulse_model::snapshot::ContextSnapshot;

/// Number of rows if a question sets no limit.
const DEFAULT_ROWS: usize = 100;

/// The maximum number of rows of an answer. Questions with an offset get later rows.
const MAX_ROWS: usize = 1_000;

/// The length of slices, in seconds, if a question sets no length and slices of this length are kept.
const DEFAULT_PRECISION: u32 = 60;

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

/// The limit of a question, or the default. Refuses a limit above `most`.
fn check_limit(limit: Option<usize>, most: usize) -> Result<usize, QueryError> {
    check_number("limit", limit.unwrap_or(DEFAULT_ROWS), 0..=most)
}

fn check_given(name: &'static str, given: &str) -> Result<(), QueryError> {
    match given {
        "" => Err(QueryError::parameter(name, format!("{name} is missing"))),
        _ => Ok(()),
    }
}

/// A filter for names that contain a text, in upper or lower case.
struct NameFilter(String);

impl NameFilter {
    fn new(contains: &str) -> Self {
        Self(contains.to_lowercase())
    }

    fn matches(&self, name: &str) -> bool {
        self.0.is_empty() || name.to_lowercase().contains(&self.0)
    }
}

/// Chooses the context of a kind among the contexts of one name. Without a kind, prefers a page to a timer.
fn of_kind(contexts: &[ContextSnapshot], kind: Option<Kind>) -> Option<&ContextSnapshot> {
    let contexts = contexts.iter();
    contexts
        .filter(|context| kind.is_none_or(|kind| kind == context.kind))
        .max_by_key(|context| context.kind)
}
