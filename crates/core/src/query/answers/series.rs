//! A metric over time, oldest first.

use serde::{Deserialize, Serialize};

use super::metric::{SeriesMetric, SeriesValue};
use super::resolution::Resolution;
use super::{check_points, of_kind};
use crate::query::question::or_any;
use crate::query::window::WindowSlices;
use crate::query::{Covered, QueryError, Source, Window};
use crate::store::CounterQuery;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::records::SliceSums;

/// A metric of a context, or of all requests, over time.
///
/// The answer to [`SeriesQuery`](crate::query::SeriesQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Series {
    /// The context; `None` stands for all requests.
    pub context: Option<String>,
    /// The metric.
    pub metric: SeriesMetric,
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The time that the window covers, if the question has a window.
    #[serde(flatten)]
    pub window: Option<Covered>,
    /// The largest relative error of the points; `None` without a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The start and the end, in Unix seconds, of each time in which the service was not running, oldest first; `None`
    /// without a window. The end is excluded.
    ///
    /// Slices in these times have no points because nothing was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_running: Option<Vec<(i64, i64)>>,
    /// The start, in Unix seconds, and the value of each slice with data, oldest first.
    pub points: Vec<(i64, SeriesValue)>,
}

/// Asks for a metric over time.
/// The answer is [`Series`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SeriesQuery {
    /// The context; `None` stands for all requests.
    pub context: Option<String>,
    /// The kind of the context. Without a kind, a page is preferred to a timer.
    #[serde(deserialize_with = "or_any")]
    pub kind: Option<Kind>,
    /// The metric.
    pub metric: SeriesMetric,
    /// The window. By default, all slices that are kept.
    pub window: Option<Window>,
    /// The length of the slices in seconds: a length at which counters or records are kept. The default is the finest
    /// that covers the window with at most 200 points.
    pub precision: Option<u32>,
}

pub(in crate::query) async fn series(
    source: &Source,
    query: &SeriesQuery,
) -> Result<Series, QueryError> {
    let (context, kind) = (query.context.as_deref(), query.kind);
    let now = source.clock.now_seconds();
    let metric = query.metric;
    let bounds = (query.window).map(|window| window.bounds(now));
    let has_counters = !metric.counters().is_empty();
    let tiers = source.tiers().await?;
    let mut resolutions = Resolution::all(source.store.precisions(), has_counters, tiers);
    let given = query.precision;
    if given.is_none() && bounds.is_some() && !source.store.has_context_counters() {
        resolutions.retain(|one| !one.is_counter);
    }
    let resolution = Resolution::choose(&resolutions, given, bounds.as_ref(), now)?;

    // For each slice: its start, the value, and the relative error of the value.
    let mut points: Vec<(i64, SeriesValue, f64)> = match resolution.is_counter {
        true => {
            let whose = context.unwrap_or(ALL);
            let names = metric.counters().iter().map(|c| c.counter(whose));
            let query = CounterQuery::new(names, resolution.precision);
            let counters = source.counters(&query).await?;
            let points = metric.of_counters(&counters).into_iter();
            points.map(|(start, value)| (start, value, 0.0)).collect()
        }
        false => {
            let id = context_id(source, context, kind).await?;
            let records = source.records(&id, resolution.precision, resolution.tier);
            let point = |slice: &SliceSums| {
                let value = metric.of_record(id.kind, &slice.sums);
                (slice.start, value, metric.error(&slice.sums))
            };
            records.await?.iter().map(point).collect()
        }
    };
    let slices = bounds.map(|bounds| resolution.slices(&bounds));
    let (mut window, mut not_running, mut error) = (None, None, None);
    if let Some(slices) = slices {
        let oldest = points.first().map(|(start, ..)| *start);
        let (covered, missing) = recorded(source, slices, resolution.precision, oldest).await?;
        (window, not_running) = (Some(covered), Some(missing));
        points.retain(|(start, ..)| slices.contains(*start));
        error = Some(points.iter().fold(0.0, |most, (.., error)| error.max(most)));
    }
    check_points::<SeriesQuery>(points.len())?;
    let points = points.into_iter();
    Ok(Series {
        context: query.context.clone(),
        metric,
        precision: resolution.precision,
        error,
        window,
        not_running,
        points: points.map(|(start, value, _)| (start, value)).collect(),
    })
}

/// The time that slices cover, and the times in which the service was not running. `oldest` is the start of the first
/// slice with data. This slice may be older than the recorded time of the store.
pub(super) async fn recorded(
    source: &Source,
    slices: WindowSlices,
    precision: u32,
    oldest: Option<i64>,
) -> Result<(Covered, Vec<(i64, i64)>), QueryError> {
    let mut span = source.recorded_span().await?;
    let since = span.recorded.since();
    // The slice in which the recorded time begins is recorded only in part.
    let before = oldest.filter(|start| start.saturating_add(i64::from(precision)) <= since);
    span.recorded = span.recorded.extended_to(before.unwrap_or(since));
    let missing = slices.not_running(&span.recorded, span.recorded_until, span.now);
    Ok((Covered::read(source, slices, &span).await?, missing))
}

/// The context with this name and, if given, this kind. Without a name, the context of all requests.
pub(super) async fn context_id(
    source: &Source,
    context: Option<&str>,
    kind: Option<Kind>,
) -> Result<ContextId, QueryError> {
    let Some(context) = context.filter(|name| *name != ALL) else {
        return Ok(ContextId::all());
    };
    if let Some(kind) = kind {
        return Ok(ContextId::new(kind, context));
    }
    let contexts = source.contexts(context).await?;
    let kind = of_kind(&contexts, None).map_or(Kind::Http, |context| context.kind);
    Ok(ContextId::new(kind, context))
}
