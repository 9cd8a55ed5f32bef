//! The questions that somebody asks who looks after a service, each with a short answer.

use std::sync::Arc;

use serde::Serialize;

use super::MAX_ROWS;
use super::changes::{ChangeRow, standing_on};
use super::deploy_verdict::DeployVerdict;
use super::instances::{InstanceRow, Instances, InstancesQuery, instances};
use super::measured::Covered;
use super::slow_requests::{ListedRequest, listed_requests};
use super::timers::RequestTimers;
use crate::query::error::QueryError;
use crate::query::source::Source;
use crate::query::window::Window;
use tower_pulse_detect::change::{ChangeKind, Suspect};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::window::Window as Slices;

/// The most requests of [`WorstRequests`].
const WORST: usize = 5;

/// Since when a page is as it is: [`Reader::since_when`](crate::query::Reader::since_when).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SinceWhen {
    /// The most urgent change that stands, on the page or on all pages; `None` if nothing has changed.
    pub change: Option<ChangeRow>,
    /// When that began, in Unix seconds.
    pub since: Option<i64>,
    /// Whether all pages have changed together.
    pub all_pages: bool,
    /// The end of the last minute that was judged, in Unix seconds; `None` before the first.
    pub judged_until: Option<i64>,
}

/// Which part of a page has changed: [`Reader::which_part`](crate::query::Reader::which_part).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhichPart {
    /// The part.
    pub part: Part,
    /// The change that it is part of.
    pub change: Option<ChangeRow>,
    /// What `now` is about: the time since the change, or else the last hour.
    pub covered: Covered,
    /// Where the time of the requests goes.
    pub now: RequestTimers,
    /// Where it went in the window of the same length before.
    pub before: RequestTimers,
}

/// A part of a service that a change comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Part {
    /// Nothing has changed.
    Nothing,
    /// There are more requests, or none any more; they take as long as before.
    Traffic,
    /// A timer within the requests.
    #[non_exhaustive]
    Timer {
        /// Its name.
        timer: Arc<str>,
        /// The part of the slowdown that it covers, 0 to 1.
        share: f64,
    },
    /// One instance; the others are as before.
    #[non_exhaustive]
    Instance {
        /// Its name.
        instance: Arc<str>,
    },
    /// The handler, outside of all timers.
    Handler,
}

/// The requests to look at: [`Reader::worst_requests`](crate::query::Reader::worst_requests).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorstRequests {
    /// Whether the page fails, so that failed requests come first.
    pub failing: bool,
    /// Whether they ended within the window that was asked for; otherwise they are of the last two hours.
    pub in_window: bool,
    /// At most 5: those that failed if the page fails, those since the change that stands, then the slowest.
    pub requests: Vec<ListedRequest>,
}

/// Which instance a change comes from: [`Reader::which_instance`](crate::query::Reader::which_instance).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhichInstance {
    /// The instance that stands out most; `None` if all are alike.
    pub instance: Option<InstanceRow>,
    /// All instances since the change, or in the last hour.
    pub instances: Instances,
}

pub(in crate::query) async fn since_when(
    source: &Source,
    context: &str,
) -> Result<SinceWhen, QueryError> {
    let log = source.reader.changes().await?;
    let change = standing_on(source, context).await?;
    Ok(SinceWhen {
        since: change.as_ref().map(|row| row.change.since),
        all_pages: change
            .as_ref()
            .is_some_and(|row| *row.change.context != *context),
        change,
        judged_until: (log.judged.until > 0).then_some(log.judged.until),
    })
}

pub(in crate::query) async fn which_part(
    source: &Source,
    context: &str,
) -> Result<WhichPart, QueryError> {
    let change = standing_on(source, context).await?;
    let window = since(source, change.as_ref());
    let id = ContextId::new(Kind::Http, context);
    let [now, before] = source.reader.window_of(window, &id).await?;
    let span = source.reader.recorded_span().await?;
    Ok(WhichPart {
        part: change.as_ref().map_or(Part::Nothing, Part::of),
        change,
        covered: Covered::read(source, window.slices(span.tiers, span.now), &span).await?,
        now: RequestTimers::new(source, id.kind, &now).await?,
        before: RequestTimers::new(source, id.kind, &before).await?,
    })
}

impl Part {
    fn of(row: &ChangeRow) -> Self {
        let change = &row.change;
        let instance = change.suspects.iter().find_map(|suspect| match suspect {
            Suspect::Instance { instance, .. } => Some(instance.clone()),
            _ => None,
        });
        if let Some(instance) = change.instance.clone().or(instance) {
            return Self::Instance { instance };
        }
        let timer = change.suspects.iter().find_map(|suspect| match suspect {
            Suspect::Timer { timer, share, .. } => Some((timer.clone(), *share)),
            _ => None,
        });
        match (change.kind, timer) {
            (ChangeKind::Surging | ChangeKind::Silent, _) => Self::Traffic,
            (_, Some((timer, share))) => Self::Timer { timer, share },
            _ => Self::Handler,
        }
    }
}

pub(in crate::query) async fn worst_requests(
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
    requests.sort_by(|a, b| {
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

pub(in crate::query) async fn which_instance(
    source: &Source,
    context: &str,
) -> Result<WhichInstance, QueryError> {
    let change = standing_on(source, context).await?;
    let query = InstancesQuery {
        context: Some(context.to_owned()),
        window: Window::of(since(source, change.as_ref())),
        limit: MAX_ROWS,
        offset: 0,
    };
    let instances = instances(source, &query).await?;
    let standing_out = instances.instances.iter().filter(|row| row.stands_out);
    let instance = standing_out.max_by(|a, b| {
        let ratio = |row: &InstanceRow| row.ratio.unwrap_or(0.0);
        let by_change = a.out_of_line.cmp(&b.out_of_line);
        by_change.then_with(|| ratio(a).total_cmp(&ratio(b)))
    });
    Ok(WhichInstance {
        instance: instance.cloned(),
        instances,
    })
}

pub(in crate::query) async fn did_the_deploy(
    source: &Source,
    context: &str,
) -> Result<Option<DeployVerdict>, QueryError> {
    let change = standing_on(source, context).await?;
    Ok(change.map(|row| row.deploy))
}

/// The time since a change, or else the last hour.
fn since(source: &Source, change: Option<&ChangeRow>) -> Slices {
    let now = source.clock.now_seconds();
    match change {
        Some(row) if row.change.since <= now => {
            Slices::Between(row.change.since, now.saturating_add(1))
        }
        _ => Slices::Last(HOUR),
    }
}
