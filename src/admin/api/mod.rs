//! The JSON API: one file for each endpoint, or for two that are alike, and the shapes that they
//! share.
//!
//! Times are in seconds, moments in Unix seconds. What cannot be known is `null`.

pub(super) mod health;
pub(super) mod overview;
pub(super) mod path;
pub(super) mod paths;
pub(super) mod series;
pub(super) mod slowest;

use serde::Serialize;

use super::params::Params;
use super::response::ApiError;
use crate::model::context::{Kind, method_and_path};
use crate::model::snapshot::HourSnapshot;

/// How many rows are sent unless asked for otherwise.
const DEFAULT_ROWS: usize = 100;

/// How many rows are sent at most. Who asks for more gets these, and may ask for the next.
const MAX_ROWS: usize = 1_000;

/// How access times lie, in seconds.
#[derive(Serialize, Default)]
struct Times {
    mean: Option<f64>,
    stddev: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

impl Times {
    fn of(hour: &HourSnapshot) -> Self {
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

/// Whose figures they are.
#[derive(Serialize)]
struct Name<'a> {
    context: &'a str,
    kind: &'static str,
    method: Option<&'a str>,
    path: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn of(context: &'a str, kind: Kind) -> Self {
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

/// A context's hour, as `api/paths` and `api/path` show it.
#[derive(Serialize)]
struct Hour {
    count: u64,
    #[serde(flatten)]
    times: Times,
    /// All access times together.
    total: f64,
    errors: u64,
}

impl Hour {
    fn of(hour: &HourSnapshot) -> Self {
        Self {
            count: count(hour),
            times: Times::of(hour),
            total: hour.times.sum,
            errors: hour.aggregate.outcomes.errors,
        }
    }
}

/// Stores keep counts as floats; a garbled one, below zero or no number, is 0.
fn count(hour: &HourSnapshot) -> u64 {
    hour.times.count as u64
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    params.number("limit", DEFAULT_ROWS, MAX_ROWS)
}
