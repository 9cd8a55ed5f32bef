//! The JSON API: a file for each endpoint, or for two similar ones, and the types that they share.
//!
//! Times are in seconds, moments in Unix seconds. A value that is not available is `null`.

mod changes;
mod counters;
mod deploy;
mod health;
mod instances;
pub(super) mod marks;
mod metric;
mod overview;
mod path;
mod paths;
pub(super) mod question;
mod rankings;
mod resolution;
mod row_series;
#[cfg(feature = "row-cache")]
mod rows;
pub(super) mod screen;
mod series;
mod slow_requests;
mod slowest;
mod timers;
mod window;

use serde::{Serialize, Serializer};

use super::params::Params;
use super::response::ApiError;
use crate::model::context::{Kind, method_and_path};
use crate::model::outcome::{Outcome, OutcomeCounts};
use crate::model::snapshot::{ContextSnapshot, HourSnapshot};
use crate::model::sorted;
use crate::query::window_sums::Summary;

/// Number of rows, unless the request sets a limit.
const DEFAULT_ROWS: usize = 100;

/// Maximum number of rows. A larger limit counts as this one; a request with an offset gets further rows.
const MAX_ROWS: usize = 1_000;

/// The largest offset. A larger one counts as this one: nothing has so many rows.
const MAX_OFFSET: usize = 1_000_000_000;

/// The length of slices, in seconds, if a request does not say it and they are kept.
const DEFAULT_PRECISION: u32 = 60;

/// The names that a request asks for: those that contain `q`, whatever the case of letters.
struct NameFilter(String);

impl NameFilter {
    fn read(params: &Params) -> Result<Self, ApiError> {
        Ok(Self(params.text("q")?.to_lowercase()))
    }

    fn matches(&self, name: &str) -> bool {
        self.0.is_empty() || name.to_lowercase().contains(&self.0)
    }
}

/// Statistics of access times, in seconds.
#[derive(Clone, Debug, Serialize, Default)]
struct Times {
    mean: Option<f64>,
    stddev: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

impl From<&HourSnapshot> for Times {
    fn from(hour: &HourSnapshot) -> Self {
        Self {
            mean: hour.times.mean(),
            stddev: hour.times.stddev(),
            min: hour.times.smallest(),
            max: hour.times.largest(),
            p50: hour.quantile(0.50),
            p95: hour.quantile(0.95),
            p99: hour.quantile(0.99),
        }
    }
}

impl From<&Summary> for Times {
    fn from(summary: &Summary) -> Self {
        let times = &summary.times;
        Self {
            mean: times.mean(),
            stddev: times.stddev(),
            min: times.smallest(),
            max: times.largest(),
            p50: summary.p50,
            p95: summary.p95,
            p99: summary.p99,
        }
    }
}

/// The context of an object.
#[derive(Serialize)]
struct Name<'a> {
    context: &'a str,
    kind: &'static str,
    method: Option<&'a str>,
    path: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn new(context: &'a str, kind: Kind) -> Self {
        let (method, path) = match kind {
            Kind::Http => method_and_path(context),
            Kind::Timer | Kind::All => (None, None),
        };
        Self {
            context,
            kind: kind.as_str(),
            method,
            path,
        }
    }
}

/// A context's hour, in `api/path`.
#[derive(Serialize)]
struct Hour {
    count: u64,
    #[serde(flatten)]
    times: Times,
    /// Sum of all access times.
    total: f64,
    errors: u64,
}

impl From<&HourSnapshot> for Hour {
    fn from(hour: &HourSnapshot) -> Self {
        Self {
            count: count(hour),
            times: Times::from(hour),
            total: hour.times.sum,
            errors: hour.aggregate.outcomes.errors,
        }
    }
}

/// A count. Stores hold counts as floats; an invalid one, below zero or NaN, counts as 0.
fn count(hour: &HourSnapshot) -> u64 {
    hour.times.count as u64
}

/// The kind of the context that a request is about, if it says so: `http` or `timer`.
fn kind(params: &Params) -> Result<Option<Kind>, ApiError> {
    let kinds = [
        ("any", None),
        ("http", Some(Kind::Http)),
        ("timer", Some(Kind::Timer)),
    ];
    params.choice("kind", &kinds)
}

/// The context of this kind among those of one name. Unless the kind is given, HTTP requests come first.
fn of_kind(contexts: &[ContextSnapshot], kind: Option<Kind>) -> Option<&ContextSnapshot> {
    let contexts = contexts.iter();
    contexts
        .filter(|context| kind.is_none_or(|kind| kind == context.kind))
        .max_by_key(|context| context.kind)
}

/// Counts by the names of outcomes, an object in JSON.
#[derive(Clone, Debug, PartialEq)]
struct Outcomes(Vec<(&'static str, u64)>);

impl Outcomes {
    /// The count of an outcome; 0 if a context of this kind cannot have it.
    fn count(&self, name: &str) -> u64 {
        let counts = self.0.iter();
        counts
            .filter(|(other, _)| *other == name)
            .map(|(_, n)| n)
            .sum()
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// Counts of the outcomes that a context of this kind can have, including zero counts, sorted by name.
fn outcomes(kind: Kind, outcomes: OutcomeCounts) -> Outcomes {
    let possible = |outcome| match outcome {
        Outcome::Failed | Outcome::Cancelled | Outcome::Panicked => true,
        Outcome::Completed => kind == Kind::Timer,
        _ => kind != Kind::Timer,
    };
    let mut counts = Vec::new();
    for outcome in Outcome::ALL {
        let count = outcomes.count(outcome);
        if possible(outcome) || count > 0 {
            sorted::entry(&mut counts, outcome.as_str(), || count);
        }
    }
    Outcomes(counts)
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    params.number("limit", DEFAULT_ROWS, MAX_ROWS)
}

fn offset(params: &Params) -> Result<usize, ApiError> {
    params.number("offset", 0, MAX_OFFSET)
}
