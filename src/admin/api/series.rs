//! `api/series`: a metric over time, oldest first.

use serde::Serialize;

use super::super::Admin;
use super::super::answer_size::AnswerSize;
use super::super::params::Params;
use super::super::response::ApiError;
use super::metric::{METRICS, SeriesMetric, Value};
use super::resolution::{Bounds, Resolution, SliceSource};
use super::window::{Asked, Covered};
use super::{kind, of_kind};
use crate::model::context::{ALL, ContextId, Kind};
use crate::model::window::WindowSlices;
use crate::query::Span;
use crate::store::CounterQuery;

/// A metric of a context, or of all requests, over time.
#[derive(Serialize)]
pub(in crate::admin) struct Series<'a> {
    context: Option<&'a str>,
    metric: &'static str,
    precision: u32,
    /// The window that was asked for.
    #[serde(flatten)]
    window: Option<Covered>,
    /// The largest relative error of the points, if a window was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// The start and the value of each slice that has data.
    points: Vec<(i64, Value)>,
}

pub(in crate::admin) async fn series<'a>(
    admin: &Admin,
    params: &'a Params,
    size: AnswerSize<'_>,
) -> Result<Series<'a>, ApiError> {
    let (context, kind) = (params.name("context")?, kind(params)?);
    let now = admin.source.clock.now_seconds();
    let (name, metric) = params.choice("metric", &METRICS.map(|named| (named.0, named)))?;
    let bounds = Asked::read(params, now)?.map(|asked| Bounds::new(asked.window(), now));
    let precisions = &admin.source.precisions;
    let mut resolutions = Resolution::all(precisions, !metric.counters().is_empty());
    let given = params.digits("precision")?;
    if given.is_none() && bounds.is_some() && !admin.source.store.has_context_counters() {
        resolutions.retain(|one| matches!(one.source, SliceSource::Records(_)));
    }
    let resolution = Resolution::choose(&resolutions, given, bounds, now)?;

    let whose = context.unwrap_or(ALL);
    let (mut points, mut error) = match resolution.source {
        SliceSource::Counters(_) => {
            let names = metric.counters().iter().map(|of| of.counter(whose));
            let query = CounterQuery::new(names, resolution.precision);
            (
                metric.of_counters(&admin.reader.counters(&query).await?),
                0.0,
            )
        }
        SliceSource::Records(_) => {
            let id = ContextId::new(kind_of(admin, whose, kind).await?, whose);
            of_records(admin, &id, metric, resolution.precision).await?
        }
    };
    let slices = bounds.map(|bounds| resolution.slices(bounds));
    let mut window = None;
    if let Some(slices) = slices {
        let oldest = points.first().map(|(start, _)| *start);
        let span = admin.reader.recorded_span().await?;
        window = Some(covered(slices, resolution.precision, span, oldest));
        points.retain(|(start, _)| slices.contains(*start));
    }
    size.add_points(points.len())?;
    if points.is_empty() {
        error = 0.0;
    }
    Ok(Series {
        context,
        metric: name,
        precision: resolution.precision,
        error: window.map(|_| error),
        window,
        points,
    })
}

/// The points of the records of a context, and their largest relative error.
async fn of_records(
    admin: &Admin,
    context: &ContextId,
    metric: SeriesMetric,
    width: u32,
) -> Result<(Vec<(i64, Value)>, f64), ApiError> {
    let records = admin.reader.records(context, width).await?;
    let points = records.iter();
    let points = points.map(|slice| (slice.start, metric.of_record(context.kind, &slice.sums)));
    let errors = records.iter().map(|slice| metric.error(&slice.sums));
    Ok((points.collect(), errors.fold(0.0, f64::max)))
}

/// What the slices of a window cover. There may be slices from before the store was created; of the one within which it
/// was created, only the part since then was recorded.
fn covered(slices: WindowSlices, precision: u32, span: Span, oldest: Option<i64>) -> Covered {
    let before = oldest.filter(|start| start.saturating_add(i64::from(precision)) <= span.created);
    Covered::new(slices, before.unwrap_or(span.created), span)
}

/// The kind of the context of this name, of which the request may say the kind.
async fn kind_of(admin: &Admin, context: &str, kind: Option<Kind>) -> Result<Kind, ApiError> {
    if context == ALL {
        return Ok(Kind::All);
    }
    if let Some(kind) = kind {
        return Ok(kind);
    }
    let contexts = admin.reader.contexts(context).await?;
    Ok(of_kind(&contexts, None).map_or(Kind::Http, |context| context.kind))
}
