//! The requests of a page to look at first.

use crate::query::{QueryError, Source, Window};
use serde::Serialize;
use tower_pulse_model::order::InOrder;

use super::slow_requests::{ListedRequest, both_hours};
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::slow_request::{SlowRequest, SlowRequests};

const WORST: usize = 5;

/// The requests of a page to look at first.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WorstRequests {
    /// Whether the most urgent ongoing change of the page, or else of all pages, is that requests fail. If so, failed
    /// requests come first.
    pub failing: bool,
    /// Whether the requests ended within the window. If false, the requests ended in the current hour or in the hour
    /// before.
    pub in_window: bool,
    /// At most 5 requests: failed requests first if `failing`, then requests since the ongoing change began, then
    /// the slowest requests.
    pub requests: Vec<ListedRequest>,
}

pub(super) async fn worst_of(
    source: &Source,
    context: &str,
    window: Window,
) -> Result<WorstRequests, QueryError> {
    let log = source.changes().await?;
    // The most urgent ongoing change on the page, or else on all pages.
    let most_urgent = |context: &str| {
        let changes = log.changes.iter();
        let ongoing = changes.filter(|c| *c.context == *context && c.ended.is_none());
        ongoing.min_by(|a, b| a.by_urgency(b))
    };
    let change = most_urgent(context).or_else(|| most_urgent(ALL));
    let failing = change.is_some_and(|change| change.kind == ChangeKind::Failing);
    let lists = both_hours(source, &ContextId::new(Kind::Http, context)).await?;
    let lists = || lists.iter().flat_map(|lists| &**lists);
    let failed = lists().flat_map(SlowRequests::failed);
    let slowest = lists().flat_map(SlowRequests::slowest);
    let mut requests: Vec<&SlowRequest> = Vec::new();
    for request in failed.filter(|_| failing).chain(slowest) {
        // A request may be among the failed and among the slowest requests.
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    let since = change.map_or(f64::INFINITY, |change| change.since as f64);
    requests.order_by_key(|request| {
        let is_since = request.ended as f64 / 1e3 >= since;
        std::cmp::Reverse((failing && request.is_error, is_since, request.nanos))
    });
    let (tiers, now) = (source.tiers().await?, source.clock.now_seconds());
    let slices = window.slices(tiers, now);
    let is_within = |request: &&SlowRequest| slices.contains(request.ended.div_euclid(1_000));
    let in_window = requests.iter().any(is_within);
    requests.retain(|request| !in_window || is_within(request));
    let worst = requests.into_iter().take(WORST);
    Ok(WorstRequests {
        failing,
        in_window,
        requests: ListedRequest::all(source, worst.collect()).await?,
    })
}
