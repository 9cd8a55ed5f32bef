//! `api/path`: the data of one context.

use http::StatusCode;
use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::changes::{ChangeRow, changes_of};
use super::slow_requests::{ListedRequests, listed_requests};
use super::timers::RequestTimers;
use super::window::{Asked, WindowOf};
use super::{Hour, Name, Outcomes, kind, of_kind, outcomes};
use crate::model::aggregate::Aggregate;
use crate::model::context::ContextId;
use crate::model::histogram::{Histogram, lower_bound};
use crate::model::outcome::OutcomeCounts;
use crate::model::snapshot::HourSnapshot;
use crate::query::book::added_hours;

#[derive(Serialize)]
pub(in crate::admin) struct Path<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    hour: Option<Started>,
    last_hour: Option<Started>,
    /// Lower bound, upper bound and count of each bucket that is not empty.
    histogram: Vec<(f64, f64, u64)>,
    outcomes: Outcomes,
    #[serde(flatten)]
    listed: ListedRequests,
    changes: Vec<ChangeRow>,
    #[serde(flatten)]
    timers: RequestTimers,
    /// The window, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<HistogramOf>,
}

/// A window with its histogram, and that of the window before.
#[derive(Serialize)]
struct HistogramOf {
    #[serde(flatten)]
    window: WindowOf,
    histogram: Vec<(f64, f64, u64)>,
    histogram_before: Vec<(f64, f64, u64)>,
    #[serde(flatten)]
    timers: RequestTimers,
    /// The timers of the window before.
    timers_before: RequestTimers,
}

#[derive(Serialize)]
struct Started {
    start: i64,
    #[serde(flatten)]
    hour: Hour,
}

pub(in crate::admin) async fn path<'a>(
    admin: &Admin,
    params: &'a Params,
) -> Result<Path<'a>, ApiError> {
    let context = params.required("context")?;
    let kind = kind(params)?;
    let asked = Asked::read(params, admin.source.clock.now_seconds())?;
    let snapshots = admin.reader.contexts(context).await?;
    let snapshot = of_kind(&snapshots, kind).ok_or_else(|| {
        let message = "there is no context of this name";
        ApiError::new(StatusCode::NOT_FOUND, message)
    })?;
    let id = ContextId::new(snapshot.kind, context);
    let window = match asked {
        Some(asked) => {
            let window = asked.window();
            let sums = admin.reader.window(window).await?;
            // The book has statistics of hours.
            let added = match asked {
                Asked::Hour | Asked::LastHour => added_hours(snapshot),
                Asked::Records(_) => Vec::new(),
            };
            let [now, before] = admin.reader.window_of(window, &id).await?;
            Some(HistogramOf {
                window: WindowOf::new(&sums, &id, &added),
                histogram: buckets(&now.histogram),
                histogram_before: buckets(&before.histogram),
                timers: RequestTimers::new(admin, id.kind, &now).await?,
                timers_before: RequestTimers::new(admin, id.kind, &before).await?,
            })
        }
        None => None,
    };
    let started = |hour: &HourSnapshot| Started {
        start: hour.start,
        hour: Hour::from(hour),
    };
    let listed = listed_requests(admin, &id).await?;
    let aggregate = aggregate(snapshot.hour.as_ref(), snapshot.last_hour.as_ref());
    let timers = match aggregate {
        Some(aggregate) => RequestTimers::new(admin, snapshot.kind, aggregate).await?,
        None => RequestTimers::default(),
    };
    Ok(Path {
        window,
        timers,
        name: Name::new(context, snapshot.kind),
        hour: snapshot.hour.as_ref().map(started),
        last_hour: snapshot.last_hour.as_ref().map(started),
        histogram: aggregate.map_or_else(Vec::new, |aggregate| buckets(&aggregate.histogram)),
        outcomes: outcomes(
            snapshot.kind,
            aggregate.map_or_else(OutcomeCounts::default, |s| s.outcomes),
        ),
        listed,
        changes: changes_of(admin, context).await?,
    })
}

/// The current hour's aggregate, or the last hour's while the current one has no samples.
fn aggregate<'a>(
    hour: Option<&'a HourSnapshot>,
    last_hour: Option<&'a HourSnapshot>,
) -> Option<&'a Aggregate> {
    let happened =
        |hour: &&HourSnapshot| hour.times.count > 0.0 || !hour.aggregate.histogram.is_empty();
    let hour = hour.filter(happened).or(last_hour).or(hour);
    hour.map(|hour| &hour.aggregate)
}

fn buckets(histogram: &Histogram) -> Vec<(f64, f64, u64)> {
    let scale = histogram.scale();
    let bucket = |(index, n): &(u16, u64)| {
        let (low, high) = (
            lower_bound(*index, scale),
            lower_bound(index.saturating_add(1), scale),
        );
        (low, high, *n)
    };
    histogram.buckets().iter().map(bucket).collect()
}
