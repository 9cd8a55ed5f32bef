//! `api/overview`: the fleet's main numbers.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::window::{Asked, WindowOf};
use super::{Times, count};
use crate::model::context::ContextId;
use crate::model::slice::hour_of;
use crate::model::snapshot::{HourSnapshot, Snapshot};

/// Number of complete seconds that the rate is a mean of.
const SECONDS: i64 = 10;

#[derive(Serialize)]
pub(in crate::admin) struct Overview {
    hour: Total,
    last_hour: Option<Total>,
    in_flight: i64,
    requests_per_second: f64,
    contexts: usize,
    instances: u64,
    /// The window that was asked for, unless it is an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowOf>,
}

#[derive(Serialize)]
struct Total {
    start: i64,
    requests: u64,
    errors: u64,
    #[serde(flatten)]
    times: Times,
}

impl From<&HourSnapshot> for Total {
    fn from(hour: &HourSnapshot) -> Self {
        Self {
            start: hour.start,
            requests: count(hour),
            errors: hour.aggregate.outcomes.errors,
            times: Times::from(hour),
        }
    }
}

impl Total {
    fn none(start: i64) -> Self {
        Self {
            start,
            requests: 0,
            errors: 0,
            times: Times::default(),
        }
    }
}

pub(in crate::admin) async fn overview(
    admin: &Admin,
    params: &Params,
) -> Result<Overview, ApiError> {
    let window = match Asked::read(params, admin.source.clock.now_seconds())? {
        Some(Asked::Records(window)) => {
            let sums = admin.reader.window(window).await?;
            Some(WindowOf::new(&sums, &ContextId::all()))
        }
        _ => None,
    };
    let snapshot = admin.reader.snapshot().await?;
    let (hour, last_hour) = (&snapshot.all.hour, &snapshot.all.last_hour);
    let finest = admin.source.precisions.counters.first();
    Ok(Overview {
        hour: match hour {
            Some(hour) => Total::from(hour),
            None => Total::none(hour_of(snapshot.taken_at)),
        },
        last_hour: last_hour.as_ref().map(Total::from),
        in_flight: snapshot.in_flight,
        requests_per_second: rate(&snapshot, finest.map_or(1, |p| i64::from(p.seconds))),
        contexts: snapshot.contexts.len(),
        instances: snapshot.instances,
        window,
    })
}

/// Requests per second over the last ten complete seconds, or over the last complete slice if that is
/// longer. A missing slice had no requests. The slice that has just ended is left out: it has usually not
/// been flushed yet, and a steady rate would appear a tenth too low.
fn rate(snapshot: &Snapshot, precision: i64) -> f64 {
    let precision = precision.max(1);
    let slices = (SECONDS + precision - 1) / precision;
    let end = (snapshot.taken_at - 1).div_euclid(precision) * precision;
    let window = end.saturating_sub(slices * precision)..end;
    let recent = snapshot.recent.iter();
    let within = recent.filter(|slice| window.contains(&slice.start));
    let requests = within.fold(0i64, |sum, slice| sum.saturating_add(slice.count));
    requests as f64 / (slices * precision) as f64
}
