//! `api/series`: a metric over time, oldest first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::{kind, of_kind};
use crate::model::context::{ALL, ContextId, Kind, Metric};
use crate::model::records::SliceSums;
use crate::model::slice::Precisions;
use crate::model::tier::WIDTHS;
use crate::store::CounterQuery;

/// The default precision, if it is configured.
const DEFAULT_PRECISION: u32 = 60;

#[derive(Serialize)]
pub(in crate::admin) struct Series<'a> {
    context: Option<&'a str>,
    metric: &'static str,
    precision: u32,
    points: Vec<(i64, Point)>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Point {
    Count(i64),
    Seconds(Option<f64>),
}

#[derive(Clone, Copy)]
enum Of {
    Counter(Metric),
    Mean,
    Quantile(&'static str, f64),
}

const METRICS: [(&str, Of); 6] = [
    ("hits", Of::Counter(Metric::Hits)),
    ("errors", Of::Counter(Metric::Errors)),
    ("mean", Of::Mean),
    ("p50", Of::Quantile("p50", 0.50)),
    ("p95", Of::Quantile("p95", 0.95)),
    ("p99", Of::Quantile("p99", 0.99)),
];

pub(in crate::admin) async fn series<'a>(
    admin: &Admin,
    params: &'a Params,
) -> Result<Series<'a>, ApiError> {
    let (context, kind) = (params.name("context")?, kind(params)?);
    let of = params.choice("metric", &METRICS)?;
    let precisions = &admin.source.precisions;
    let precision = match of {
        Of::Quantile(..) => precision(params, &WIDTHS, "histograms")?,
        Of::Counter(_) | Of::Mean => precision(params, &counter_widths(precisions), "counters")?,
    };
    let whose = context.unwrap_or(ALL);
    let (metric, points) = match of {
        Of::Counter(metric) => {
            let query = CounterQuery::new([metric.counter(whose)], precision);
            let counters = admin.reader.counters(&query).await?;
            let slices = counters.iter().flat_map(|counter| &counter.slices);
            let points = slices.map(|slice| (slice.start, Point::Count(slice.count)));
            (metric.as_str(), points.collect())
        }
        Of::Mean => ("mean", means(admin, whose, precision).await?),
        Of::Quantile(name, q) => {
            let id = ContextId::new(kind_of(admin, whose, kind).await?, whose);
            let records = admin.reader.records(&id, precision).await?;
            let point = |slice: &SliceSums| {
                let quantile = slice.sums.histogram.quantile(q);
                (slice.start, Point::Seconds(quantile))
            };
            (name, records.iter().map(point).collect())
        }
    };
    Ok(Series {
        context,
        metric,
        precision,
        points,
    })
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

/// Microseconds by hits; `null` where there were no hits.
async fn means(
    admin: &Admin,
    context: &str,
    precision: u32,
) -> Result<Vec<(i64, Point)>, ApiError> {
    let metrics = [Metric::Hits, Metric::Micros].map(|metric| metric.counter(context));
    let query = CounterQuery::new(metrics, precision);
    let counters = admin.reader.counters(&query).await?;
    let mut slices: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (at, counter) in counters.iter().enumerate() {
        for slice in &counter.slices {
            let (hits, micros) = slices.entry(slice.start).or_default();
            let sum = if at == 0 { hits } else { micros };
            *sum = slice.count;
        }
    }
    let mean = |(hits, micros): (i64, i64)| (hits > 0).then(|| micros as f64 / hits as f64 / 1e6);
    let points = slices.into_iter();
    Ok(points
        .map(|(slice, both)| (slice, Point::Seconds(mean(both))))
        .collect())
}

/// The precisions of all counters, in seconds.
pub(super) fn counter_widths(precisions: &Precisions) -> Vec<u32> {
    precisions.counters.iter().map(|p| p.seconds).collect()
}

/// The requested precision, which must be one of `widths`.
pub(super) fn precision(params: &Params, widths: &[u32], of: &str) -> Result<u32, ApiError> {
    let asked = match params.digits("precision")? {
        None => {
            let default = widths.iter().find(|width| **width == DEFAULT_PRECISION);
            default.or(widths.first()).copied()
        }
        Some(asked) => asked.filter(|asked| widths.contains(asked)),
    };
    asked.ok_or_else(|| {
        let widths: Vec<_> = widths.iter().map(u32::to_string).collect();
        let widths = widths.join(", ");
        ApiError::parameter(
            "precision",
            format!("precision must be one that {of} are kept at, in seconds: {widths}"),
        )
    })
}
