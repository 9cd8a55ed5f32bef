//! `api/overview`: the fleet's main numbers.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::Times;
use super::window::{Asked, WindowOf};
use crate::model::context::ContextId;
use crate::model::snapshot::FleetSnapshot;
use crate::model::window::Window;
use crate::query::Span;
use crate::query::window_sums::PartSums;
use crate::store::RECENT_SLICES;

/// Number of complete seconds that the rate is a mean of.
const SECONDS: i64 = 10;

#[derive(Serialize)]
pub(in crate::admin) struct Overview {
    hour: Total,
    last_hour: Option<Total>,
    in_flight: i64,
    /// `null` if nobody can know it, as what was served lately cannot be read.
    requests_per_second: Option<f64>,
    /// Contexts of any kind.
    contexts: usize,
    /// How many of them are timers.
    timers: usize,
    instances: u64,
    /// The time that requests should stay below, in seconds.
    target: Option<f64>,
    /// The window, if one was asked for.
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
    /// The share of the requests below the target.
    below_target: Option<f64>,
}

impl Total {
    /// All requests of an hour.
    fn new(hour: &PartSums) -> Self {
        let start = hour.slices.from;
        match hour.get(&ContextId::all()) {
            Some(all) => Self {
                start,
                requests: all.times.count as u64,
                errors: all.outcomes.errors,
                times: Times::from(all),
                below_target: all.below_target,
            },
            None => Self {
                start,
                requests: 0,
                errors: 0,
                times: Times::default(),
                below_target: None,
            },
        }
    }
}

pub(in crate::admin) async fn overview(
    admin: &Admin,
    params: &Params,
) -> Result<Overview, ApiError> {
    let now = admin.source.clock.now_seconds();
    let window = match Asked::read(params, now)? {
        Some(asked) => {
            let sums = admin.reader.window(asked.window()).await?;
            Some(WindowOf::new(&sums, &ContextId::all(), &[]))
        }
        None => None,
    };
    let hours = admin.reader.window(Window::HoursAgo(0)).await?;
    let last_hour = Total::new(&hours.before);
    let fleet = admin.reader.fleet().await?;
    let book = admin.reader.book().await?;
    let span = admin.reader.recorded_span().await?;
    let finest = admin.source.precisions.counters.first();
    let precision = finest.map_or(1, |finest| i64::from(finest.seconds));
    Ok(Overview {
        hour: Total::new(&hours.now),
        last_hour: Some(last_hour).filter(|hour| hour.requests > 0),
        in_flight: fleet.in_flight,
        requests_per_second: rate(&fleet, span, precision),
        contexts: fleet.contexts + book.foreign(),
        timers: fleet.timers,
        instances: fleet.instances,
        target: admin.source.target_seconds(),
        window,
    })
}

/// Requests per second over the last ten complete seconds that can be read, or over the last complete slice if that is
/// longer; `None` if these are no recent ones. A missing slice had no requests, and what was before the first sample is
/// left out. So is the slice that has just ended: it has usually not been flushed yet, and a steady rate would appear a
/// tenth too low.
fn rate(fleet: &FleetSnapshot, span: Span, precision: i64) -> Option<f64> {
    let precision = precision.max(1);
    let slice = |second: i64| second.div_euclid(precision) * precision;
    let slices = (SECONDS + precision - 1) / precision;
    let end = slice(span.as_of.min(fleet.taken_at) - 1);
    let window = end.saturating_sub(slices * precision)..end;
    let oldest = slice(fleet.taken_at) - (RECENT_SLICES - 1) * precision;
    if window.start < oldest {
        return None;
    }
    let recent = fleet.recent.iter();
    let within = recent.filter(|slice| window.contains(&slice.start));
    let requests = within.fold(0i64, |sum, slice| sum.saturating_add(slice.count));
    let seconds = end.saturating_sub(window.start.max(span.created));
    Some(requests as f64 / seconds.max(1) as f64)
}
