//! The fleet's main numbers.

use serde::{Deserialize, Serialize};

use super::compared::ComparedWindow;
use super::measured::Times;
use super::path_targets::{BurningPath, burning_paths};
use super::timers::QueueWait;
use crate::advice::Advice;
use crate::query::span::Span;
use crate::query::windows::sums::PartSums;
use crate::query::{Against, QueryError, Source, Window};
use crate::store::RECENT_SLICES;
use tower_pulse_model::context::{ContextId, Kind, UNMATCHED};
use tower_pulse_model::snapshot::FleetSnapshot;

/// The rate is averaged over this many complete seconds.
const SECONDS: i64 = 10;

/// The fleet's main numbers.
///
/// The answer to [`OverviewQuery`](crate::query::dashboard::OverviewQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// All requests of the current hour, UTC.
    pub hour: HourTotal,
    /// All requests of the hour before; `None` without requests.
    pub last_hour: Option<HourTotal>,
    /// Requests in flight in all instances.
    pub in_flight: i64,
    /// Requests per second over the last ten complete seconds, or over the last complete slice of the finest counters
    /// if that slice is longer; `None` if recent requests cannot be read.
    pub requests_per_second: Option<f64>,
    /// Number of pages and timers that the fleet, or another program, has recorded.
    pub contexts: usize,
    /// Number of timers that the fleet has recorded.
    pub timers: usize,
    /// Number of instances that are alive.
    pub instances: u64,
    /// The duration in which requests should end, in seconds; `None` without a target.
    pub target: Option<f64>,
    /// Contexts whose own error budget burns. The context whose budget burned fastest in the last hour comes first.
    pub burning: Vec<BurningPath>,
    /// Advice, if the service uses the layer in a way that hides paths.
    pub advice: Option<Advice>,
    /// All requests of the window, if the question has a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<ComparedWindow>,
    /// The wait in front of the service in the window; `None` without a window, or if no header has the wait.
    pub queue: Option<QueueWait>,
}

/// All requests of an hour.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HourTotal {
    /// When the hour began, in Unix seconds.
    pub start: i64,
    /// Number of requests.
    pub requests: u64,
    /// Number of errors.
    pub errors: u64,
    /// Statistics of the durations.
    #[serde(flatten)]
    pub times: Times,
    /// The share of the requests below the target, 0 to 1.
    pub below_target: Option<f64>,
}

impl HourTotal {
    fn new(hour: &PartSums) -> Self {
        let all = hour.get(&ContextId::all());
        Self {
            start: hour.covered.from,
            requests: all.map_or(0, |all| all.times.count as u64),
            errors: all.map_or(0, |all| all.outcomes.errors),
            times: (all.map(|all| Times::new(&all.times, all.percentiles))).unwrap_or_default(),
            below_target: all.and_then(|all| all.below_target),
        }
    }
}

/// Asks for the fleet's main numbers.
/// The answer is [`Overview`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OverviewQuery {
    /// If set, the answer also has all requests of this window.
    pub window: Option<Window>,
    /// The window with which `window` is compared.
    pub against: Against,
}

pub(in crate::query) async fn overview(
    source: &Source,
    query: &OverviewQuery,
) -> Result<Overview, QueryError> {
    let sums = match query.window {
        Some(window) => Some(source.compared(window, query.against).await?),
        None => None,
    };
    let hours = source.window(Window::HOUR).await?;
    let last_hour = HourTotal::new(&hours.before);
    let fleet = source.fleet().await?;
    let book = source.book().await?;
    let span = source.recorded_span().await?;
    let finest = source.store.precisions().counters.first();
    let precision = finest.map_or(1, |finest| i64::from(finest.seconds));
    Ok(Overview {
        hour: HourTotal::new(&hours.now),
        last_hour: Some(last_hour).filter(|hour| hour.requests > 0),
        in_flight: fleet.in_flight,
        requests_per_second: rate(&fleet, &span, precision),
        contexts: fleet.contexts + book.foreign,
        timers: fleet.timers,
        instances: fleet.instances,
        target: source.targets.seconds(),
        burning: burning_paths(source).await?,
        advice: advice(&sums.as_ref().unwrap_or(&hours).now),
        queue: sums.as_deref().and_then(QueueWait::of_all),
        window: sums.map(|sums| ComparedWindow::new(&sums, &ContextId::all(), &[])),
    })
}

fn advice(sums: &PartSums) -> Option<Advice> {
    let unmatched = sums.get(&ContextId::new(Kind::Http, UNMATCHED))?;
    let all = sums.get(&ContextId::all())?;
    Advice::about_all(all.outcomes.total(), &unmatched.outcomes)
}

/// See [`Overview::requests_per_second`]. A slice without a count had no requests. Time that was not recorded is left
/// out. The slice that has just ended is left out too, because its requests are usually not flushed yet.
fn rate(fleet: &FleetSnapshot, span: &Span, precision: i64) -> Option<f64> {
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
    let seconds = span.recorded.seconds(window.start, end);
    Some(requests as f64 / seconds.max(1) as f64)
}
