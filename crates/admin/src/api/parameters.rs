//! The parameters of the questions.

use super::super::params::Params;
use super::super::response::ApiError;
#[cfg(feature = "row-cache")]
use tower_pulse_core::query::RowsQuery;
use tower_pulse_core::query::{
    ChangesQuery, CountersQuery, DeployQuery, HeatMapQuery, InstanceQuery, InstancesQuery, Kind,
    ListedHours, MAX_ROWS, PathQuery, PathsQuery, ProfileQuery, RowMetric, RowStatus, SeriesMetric,
    SeriesQuery, SlowestRequestsQuery, Sort, Window, most_rows,
};
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_model::slow_request::SLOW_OF_ALL;

/// Number of rows, unless the request sets a limit.
const DEFAULT_ROWS: usize = 100;

/// The largest offset: nothing has so many rows.
const MAX_OFFSET: usize = 1_000_000_000;

/// Reads `window`, or `from` and `to`. `None` if the request has none of them.
pub(super) fn window(params: &Params, now: i64) -> Result<Option<Window>, ApiError> {
    let (from, to) = (params.time("from")?, params.time("to")?);
    let window = match params.name("window")? {
        Some(name) => Some(name.parse::<Window>()?),
        None => None,
    };
    let Some(from) = from else {
        return match to {
            Some(_) => Err(ApiError::parameter("to", "to needs from")),
            None => Ok(window),
        };
    };
    if window.is_some() {
        let message = "from and window exclude each other";
        return Err(ApiError::parameter("from", message));
    }
    let to = to.unwrap_or(now.saturating_add(1));
    if from >= to || from > now {
        let message = "from must be before to, and not in the future";
        return Err(ApiError::parameter("from", message));
    }
    Ok(Some(Window::between(from, to)?))
}

/// The kind of the context that a request is about, if it says so.
fn kind(params: &Params) -> Result<Option<Kind>, ApiError> {
    let kinds = [
        ("any", None),
        ("http", Some(Kind::Http)),
        ("timer", Some(Kind::Timer)),
    ];
    params.choice("kind", &kinds)
}

/// How many rows are asked for, of so many at most.
pub(super) fn limit(params: &Params, most: usize) -> Result<usize, ApiError> {
    let limit = params.number("limit", 0..=most)?;
    Ok(limit.unwrap_or(DEFAULT_ROWS))
}

fn offset(params: &Params) -> Result<usize, ApiError> {
    Ok(params.number("offset", 0..=MAX_OFFSET)?.unwrap_or(0))
}

/// The length of slices. What is no number counts as 0, which no slice has.
fn precision(params: &Params) -> Result<Option<u32>, ApiError> {
    let given = params.digits("precision")?;
    Ok(given.map(Option::unwrap_or_default))
}

fn name(params: &Params, parameter: &'static str) -> Result<Option<String>, ApiError> {
    Ok(params.name(parameter)?.map(str::to_owned))
}

pub(super) fn paths(params: &Params, now: i64) -> Result<PathsQuery, ApiError> {
    let kinds = [
        ("http", Some(Kind::Http)),
        ("timer", Some(Kind::Timer)),
        ("all", None),
    ];
    let statuses = [
        ("any", None),
        ("new", Some(RowStatus::New)),
        ("gone", Some(RowStatus::Gone)),
        ("up", Some(RowStatus::Up)),
        ("down", Some(RowStatus::Down)),
    ];
    let series = [
        ("none", None),
        ("hits", Some(RowMetric::Hits)),
        ("mean", Some(RowMetric::Mean)),
        ("p95", Some(RowMetric::P95)),
    ];
    let mut query = PathsQuery::default();
    query.window = window(params, now)?.unwrap_or(query.window);
    query.kind = params.choice("kind", &kinds)?;
    query.sort = params.choice("sort", &Sort::NAMED)?;
    query.descending = params.choice("order", &[("desc", true), ("asc", false)])?;
    query.status = params.choice("status", &statuses)?;
    query.contains = params.text("q")?.to_owned();
    query.series = params.choice("series", &series)?;
    query.limit = limit(params, most_rows(query.series.is_some()))?;
    query.offset = offset(params)?;
    Ok(query)
}

pub(super) fn path(params: &Params, now: i64) -> Result<PathQuery, ApiError> {
    let mut query = PathQuery::new(params.required("context")?);
    query.kind = kind(params)?;
    query.window = window(params, now)?;
    Ok(query)
}

pub(super) fn profile(params: &Params) -> Result<ProfileQuery, ApiError> {
    let mut query = ProfileQuery::default();
    query.context = name(params, "context")?;
    query.kind = kind(params)?;
    Ok(query)
}

pub(super) fn changes(params: &Params) -> Result<ChangesQuery, ApiError> {
    let kinds = ChangeKind::ALL.map(|kind| (kind.as_str(), Some(kind)));
    let mut query = ChangesQuery::default();
    query.kind = params.choice("kind", &[&[("any", None)], &kinds[..]].concat())?;
    query.limit = limit(params, MAX_ROWS)?;
    query.offset = offset(params)?;
    Ok(query)
}

pub(super) fn deploy(params: &Params) -> Result<DeployQuery, ApiError> {
    let mut query = DeployQuery::default();
    query.mark = name(params, "mark")?;
    query.limit = limit(params, MAX_ROWS)?;
    query.offset = offset(params)?;
    Ok(query)
}

pub(super) fn instance(params: &Params, now: i64) -> Result<InstanceQuery, ApiError> {
    let mut query = InstanceQuery::new(params.required("instance")?);
    query.window = window(params, now)?.unwrap_or(query.window);
    query.limit = limit(params, MAX_ROWS)?;
    Ok(query)
}

pub(super) fn instances(params: &Params, now: i64) -> Result<InstancesQuery, ApiError> {
    let mut query = InstancesQuery::default();
    query.context = name(params, "context")?;
    query.window = window(params, now)?.unwrap_or(query.window);
    query.limit = limit(params, MAX_ROWS)?;
    query.offset = offset(params)?;
    Ok(query)
}

/// The counter that is asked for, or else which ones.
pub(super) fn counters(
    params: &Params,
    now: i64,
) -> Result<(Option<String>, CountersQuery), ApiError> {
    let (name, mut query) = (name(params, "name")?, CountersQuery::default());
    query.precision = precision(params)?;
    if name.is_none() {
        query.contains = params.text("q")?.to_owned();
        query.series = params.choice("series", &[("false", false), ("true", true)])?;
        query.window = window(params, now)?;
        query.limit = limit(params, most_rows(query.series))?;
        query.offset = offset(params)?;
    }
    Ok((name, query))
}

/// The ranking that is asked for, with offset and limit; `None` if the list of all is.
#[cfg(feature = "rankings")]
pub(super) fn ranking(params: &Params) -> Result<Option<(String, usize, usize)>, ApiError> {
    let Some(name) = name(params, "name")? else {
        return Ok(None);
    };
    Ok(Some((name, offset(params)?, limit(params, MAX_ROWS)?)))
}

pub(super) fn slowest_requests(params: &Params) -> Result<SlowestRequestsQuery, ApiError> {
    let status = params.name("status")?;
    let mut query = SlowestRequestsQuery::default();
    query.hours = params.choice("window", &ListedHours::NAMED)?;
    query.context = name(params, "context")?;
    query.contains = params.text("q")?.to_owned();
    query.instance = name(params, "instance")?;
    query.status = status.map(str::parse).transpose()?;
    query.per_path = params.number("per_path", 1..=MAX_ROWS)?;
    query.limit = limit(params, SLOW_OF_ALL)?;
    Ok(query)
}

#[cfg(feature = "row-cache")]
pub(super) fn rows(params: &Params) -> Result<RowsQuery, ApiError> {
    let mut query = RowsQuery::default();
    query.name = name(params, "name")?;
    query.contains = params.text("q")?.to_owned();
    query.limit = limit(params, MAX_ROWS)?;
    query.offset = offset(params)?;
    Ok(query)
}

pub(super) fn series(params: &Params, now: i64) -> Result<SeriesQuery, ApiError> {
    let metrics = SeriesMetric::ALL.map(|metric| (metric.as_str(), metric));
    let mut query = SeriesQuery::default();
    query.context = name(params, "context")?;
    query.kind = kind(params)?;
    query.metric = params.choice("metric", &metrics)?;
    query.window = window(params, now)?;
    query.precision = precision(params)?;
    Ok(query)
}

pub(super) fn heat_map(params: &Params, now: i64) -> Result<HeatMapQuery, ApiError> {
    let mut query = HeatMapQuery::default();
    query.context = name(params, "context")?;
    query.kind = kind(params)?;
    query.window = window(params, now)?.unwrap_or(query.window);
    query.precision = precision(params)?;
    Ok(query)
}
