//! `api/counters` and `api/series`: values over time, oldest first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use crate::model::context::{ALL, Metric};
use crate::model::slice::Precisions;
use crate::model::tier::WIDTHS;

/// The default precision, if it is configured.
const DEFAULT_PRECISION: u32 = 60;

#[derive(Serialize)]
pub(in crate::admin) struct Counter<'a> {
    name: &'a str,
    precision: u32,
    samples: Vec<(i64, i64)>,
}

pub(in crate::admin) async fn counters<'a>(
    admin: &Admin,
    params: &'a Params,
) -> Result<Counter<'a>, ApiError> {
    let name = params.required("name")?;
    let precision = precision(params, &widths(&admin.source.precisions), "counters")?;
    let samples = admin.reader.counter(name, precision).await?;
    Ok(Counter {
        name,
        precision,
        samples: samples.to_vec(),
    })
}

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
    let context = params.name("context")?;
    let of = params.choice("metric", &METRICS)?;
    let precisions = &admin.source.precisions;
    let precision = match of {
        Of::Quantile(..) => precision(params, &WIDTHS, "histograms")?,
        Of::Counter(_) | Of::Mean => precision(params, &widths(precisions), "counters")?,
    };
    let whose = context.unwrap_or(ALL);
    let (metric, points) = match of {
        Of::Counter(metric) => {
            let samples = admin
                .reader
                .counter(&metric.counter(whose), precision)
                .await?;
            let points = samples.iter().map(|(slice, n)| (*slice, Point::Count(*n)));
            (metric.as_str(), points.collect())
        }
        Of::Mean => ("mean", means(admin, whose, precision).await?),
        Of::Quantile(name, q) => {
            let records = admin.reader.histograms(whose, precision).await?;
            let point = |aggregate: &_| Point::Seconds(quantile(aggregate, q));
            let points = records
                .iter()
                .map(|(slice, aggregate)| (*slice, point(aggregate)));
            (name, points.collect())
        }
    };
    Ok(Series {
        context,
        metric,
        precision,
        points,
    })
}

fn quantile(aggregate: &crate::model::batch::Aggregate, q: f64) -> Option<f64> {
    aggregate.histogram.quantile(q)
}

/// Microseconds by hits; `null` where there were no hits.
async fn means(
    admin: &Admin,
    context: &str,
    precision: u32,
) -> Result<Vec<(i64, Point)>, ApiError> {
    let (hits, micros) = (
        Metric::Hits.counter(context),
        Metric::Micros.counter(context),
    );
    let (hits, micros) = tokio::try_join!(
        admin.reader.counter(&hits, precision),
        admin.reader.counter(&micros, precision),
    )?;
    let mut slices: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (slice, n) in hits.iter() {
        slices.entry(*slice).or_default().0 = *n;
    }
    for (slice, n) in micros.iter() {
        slices.entry(*slice).or_default().1 = *n;
    }
    let mean = |(hits, micros): (i64, i64)| (hits > 0).then(|| micros as f64 / hits as f64 / 1e6);
    let points = slices.into_iter();
    Ok(points
        .map(|(slice, both)| (slice, Point::Seconds(mean(both))))
        .collect())
}

/// The precisions of all counters, in seconds.
fn widths(precisions: &Precisions) -> Vec<u32> {
    precisions.counters.iter().map(|p| p.seconds).collect()
}

/// The requested precision, which must be one of `widths`.
fn precision(params: &Params, widths: &[u32], of: &str) -> Result<u32, ApiError> {
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
