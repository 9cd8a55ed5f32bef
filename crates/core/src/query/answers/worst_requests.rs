//! The requests of a page to look at first.

use serde::{Deserialize, Serialize};
use tower_pulse_model::order::InOrder;

use super::changes::standing_on;
use super::check_given;
use super::slow_requests::{ListedRequest, listed_requests};
use crate::query::error::QueryError;
use crate::query::source::Source;
use crate::query::window::Window;
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_model::context::{ContextId, Kind};

/// The most requests of [`WorstRequests`].
const WORST: usize = 5;

/// The requests to look at: [`WorstRequestsQuery`](crate::query::WorstRequestsQuery).
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct WorstRequests {
    /// Whether the page fails, so that failed requests come first.
    pub failing: bool,
    /// Whether they ended within the window that was asked for; otherwise they are of the last two hours.
    pub in_window: bool,
    /// At most 5: those that failed if the page fails, those since the change that stands, then the slowest.
    pub requests: Vec<ListedRequest>,
}

/// The requests of which page are asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorstRequestsQuery {
    /// The page.
    pub context: String,
    /// The window; the last two hours if there is none.
    pub window: Option<Window>,
}

pub(in crate::query) async fn worst_requests(
    source: &Source,
    query: &WorstRequestsQuery,
) -> Result<WorstRequests, QueryError> {
    check_given("context", &query.context)?;
    worst_of(source, &query.context, query.window).await
}

/// The requests of a page to look at.
pub(super) async fn worst_of(
    source: &Source,
    context: &str,
    window: Option<Window>,
) -> Result<WorstRequests, QueryError> {
    let change = standing_on(source, context).await?;
    let failing = (change.as_ref()).is_some_and(|row| row.change.kind == ChangeKind::Failing);
    let id = ContextId::new(Kind::Http, context);
    let listed = listed_requests(source, &id).await?;
    let mut requests = Vec::new();
    let (slowest, failed) = (listed.slowest_requests, listed.failed_requests);
    let failed = [failed.hour, failed.last_hour].into_iter().flatten();
    for one in
        (failed.filter(|_| failing)).chain([slowest.hour, slowest.last_hour].into_iter().flatten())
    {
        // One of the slowest may be among the failed.
        if !requests.contains(&one) {
            requests.push(one);
        }
    }
    let since = change
        .as_ref()
        .map_or(f64::INFINITY, |row| row.change.since as f64);
    requests.order_by(|a, b| {
        let rank = |one: &ListedRequest| (failing && one.error, one.ended >= since);
        (rank(b).cmp(&rank(a))).then_with(|| b.duration.total_cmp(&a.duration))
    });
    let (tiers, now) = (source.reader.tiers().await?, source.clock.now_seconds());
    let window = window.map(|window| window.slices().slices(tiers, now));
    let is_within = |one: &ListedRequest| {
        window.is_some_and(|slices| (slices.from as f64..slices.to as f64).contains(&one.ended))
    };
    let in_window = requests.iter().any(is_within);
    requests.retain(|one| !in_window || is_within(one));
    requests.truncate(WORST);
    Ok(WorstRequests {
        failing,
        in_window,
        requests,
    })
}
