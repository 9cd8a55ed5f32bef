//! The contexts to fix first, with the reasons and the possible savings.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::check_limit;
use super::compared::Compared;
use super::instances::Reported;
use super::measured::{ContextName, Measured, share};
use super::row_series::MAX_SERIES_ROWS;
use crate::query::coop_budget::CoopBudget;
use crate::query::span::Span;
use crate::query::windows::sums::WindowSums;
use crate::query::{Against, Covered, QueryError, Source, Window};
use tower_pulse_detect::change::{Change, ChangeKind};
use tower_pulse_model::context::{ALL, ContextId, Kind, QUEUED};
use tower_pulse_model::order::{InOrder, keep_first};

/// The contexts to fix first.
///
/// The answer to [`FixFirstQuery`](crate::query::dashboard::FixFirstQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct FixFirst {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// The rows, in this order: instances that are out of line on all pages; silent and failing pages; slower and
    /// surging pages, by cost; refusing pages; pages that take most time.
    pub rows: Vec<FixRow>,
}

/// A context or an instance to fix. All figures cover `window`, except for `cause` and `ratio`.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct FixRow {
    /// The context. For an instance that is out of line on all pages, `context` is `<all>`.
    #[serde(flatten)]
    pub name: ContextName,
    /// The instance, if the reason is `instance`.
    pub instance: Option<Arc<str>>,
    /// The reason to fix the context or the instance.
    pub reason: FixReason,
    /// The change that is the reason.
    pub cause: Option<Change>,
    /// The window; for an instance, its part with minute reports.
    pub window: Covered,
    /// The measurements in `window`.
    #[serde(flatten)]
    pub measured: Measured,
    /// Service time per recorded minute, in seconds.
    pub per_minute: Option<f64>,
    /// `total` divided by the time of all requests, 0 to 1; `None` for an instance.
    pub share: Option<f64>,
    /// For the reasons `slower` and `instance`, the ratio of the change, unless only the slowest tenth is slower.
    /// Otherwise, the mean divided by the mean in the window before.
    pub ratio: Option<f64>,
    /// The time per minute of `window` that the slowdown has cost since it began, in seconds, at most `per_minute`;
    /// `None` unless the reason is `slower` or `instance`.
    pub saved_per_minute: Option<f64>,
}

/// The reason to fix a context or an instance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FixReason {
    /// No problem is known. The context is ranked by its total time.
    MostTime,
    /// The context is requested much more often than before.
    Surging,
    /// The context has become slower.
    Slower,
    /// The context has no requests, but had requests before.
    Silent,
    /// The context fails more often than before.
    Failing,
    /// One instance is slower than the others on all pages.
    Instance,
    /// The context answers more of its requests with 4xx than before.
    Refusing,
}

impl FixReason {
    /// Higher ranks come first.
    fn rank(self) -> u8 {
        match self {
            Self::MostTime => 0,
            Self::Surging | Self::Slower | Self::Refusing => 1,
            Self::Silent | Self::Failing => 2,
            Self::Instance => 3,
        }
    }
}

/// A row without its measurements.
struct Candidate<'a> {
    id: ContextId,
    reason: FixReason,
    cause: Option<&'a Change>,
    weight: f64,
}

impl<'a> Candidate<'a> {
    /// `None` if the change needs no fix, or if another row has the same problem.
    fn of(change: &'a Change) -> Option<Self> {
        let (kind, extra) = (change.kind, change.extra_seconds_per_minute);
        let (reason, weight) = match (kind, &*change.context, &change.instance) {
            (ChangeKind::Instance, ALL, Some(_)) => (FixReason::Instance, extra),
            // A change of `<queue>`, the wait in front of the service, is not caused by a page.
            (_, ALL | QUEUED, _) | (_, _, Some(_)) => return None,
            (ChangeKind::Failing, ..) => (FixReason::Failing, change.now),
            (ChangeKind::Silent, ..) => (FixReason::Silent, 1.0),
            (ChangeKind::Slower, ..) => (FixReason::Slower, change.from_code),
            (ChangeKind::Surging, ..) => (FixReason::Surging, extra),
            // Less than 0, so that slower and surging pages, which have the same rank, come first.
            (ChangeKind::Refusing, ..) => (FixReason::Refusing, change.now - 1.0),
            _ => return None,
        };
        Some(Self {
            id: ContextId::of_judged(&change.context),
            reason,
            cause: Some(change),
            weight,
        })
    }

    fn by_urgency(&self, other: &Self) -> std::cmp::Ordering {
        let rank = other.reason.rank().cmp(&self.reason.rank());
        rank.then_with(|| other.weight.total_cmp(&self.weight))
            .then_with(|| self.id.cmp(&other.id))
    }
}

/// Asks for the contexts to fix first.
/// The answer is [`FixFirst`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FixFirstQuery {
    /// The window.
    pub window: Window,
    /// The window with which `window` is compared.
    pub against: Against,
    /// The maximum number of rows, at most 100; 10 by default.
    pub limit: Option<usize>,
}

pub(in crate::query) async fn fix_first(
    source: &Source,
    query: &FixFirstQuery,
) -> Result<FixFirst, QueryError> {
    let window = query.window;
    let limit = check_limit(query.limit.or(Some(10)), MAX_SERIES_ROWS)?;
    let log = source.changes().await?;
    let sums = source.compared(window, query.against).await?;
    let span = source.recorded_span().await?;
    let covered = sums.now.covered;
    let ongoing =
        (log.changes.iter()).filter(|change| change.ended.is_none() && change.since < covered.to);
    let mut candidates: Vec<_> = ongoing.filter_map(Candidate::of).collect();
    candidates.order_by(Candidate::by_urgency);
    // A page or an instance gets only one row, for its most urgent change.
    let mut seen = std::collections::HashSet::new();
    candidates.retain(|candidate| {
        let instance = candidate.cause.and_then(|change| change.instance.clone());
        seen.insert((candidate.id.clone(), instance))
    });
    let (mut others, mut budget) = (Vec::new(), CoopBudget::new(&source.clock));
    for id in sums.contexts().filter(|id| id.kind == Kind::Http) {
        budget.yield_if_spent().await;
        let summary = sums.now.get(id);
        let summary = summary.filter(|_| !seen.contains(&(id.clone(), None)));
        others.extend(summary.map(|summary| Candidate {
            id: id.clone(),
            reason: FixReason::MostTime,
            cause: None,
            weight: summary.times.sum,
        }));
    }
    keep_first(&mut others, limit, Candidate::by_urgency);
    candidates.extend(others);
    candidates.truncate(limit);
    let mut rows = Vec::with_capacity(candidates.len());
    let mut error = sums.now.error;
    for candidate in candidates {
        let instance = candidate
            .cause
            .and_then(|change| change.instance.as_deref());
        let row = match instance {
            None => of_page(candidate, &sums, &span),
            Some(instance) => {
                // The part of the window that has minute reports.
                let reported = Reported::new(window, span.now);
                let compared = source.instances(reported.minutes, None, None).await?;
                let covered = reported.covered(&compared.instances, &span);
                let covered = covered.with_missing(source, &span).await?;
                let mut instances = compared.instances.iter();
                let own = instances.find(|(name, _)| **name == *instance);
                let measured = own.and_then(|(_, own)| {
                    error = error.max(own.sums.histogram.error());
                    let target = source.targets.seconds();
                    Measured::of_sums(Kind::All, &own.sums, &covered, target)
                });
                FixRow::new(candidate, covered, measured, &span)
            }
        };
        rows.push(row);
    }
    Ok(FixFirst {
        covered,
        error,
        rows,
    })
}

impl FixRow {
    fn new(
        chosen: Candidate<'_>,
        window: Covered,
        measured: Option<Measured>,
        span: &Span,
    ) -> Self {
        let measured = measured.unwrap_or_else(|| Measured::none(chosen.id.kind));
        let per_minute = window.per_minute(measured.total);
        let is_of_time = matches!(chosen.reason, FixReason::Slower | FixReason::Instance);
        let slowdown = chosen.cause.filter(|_| is_of_time);
        // The slowdown costs time only in the part of the window since `change.since`.
        let cost = |change: &Change| {
            let until = window.to.min(span.recorded_until);
            let since = span.recorded.seconds(change.since.max(window.from), until);
            let cost = window.per_second(change.from_code * since as f64)?;
            Some(cost.min(per_minute?))
        };
        Self {
            name: ContextName::of(&chosen.id),
            instance: chosen.cause.and_then(|change| change.instance.clone()),
            reason: chosen.reason,
            ratio: slowdown
                .filter(|change| !change.is_tail)
                .map(|change| change.ratio),
            saved_per_minute: slowdown.and_then(cost).filter(|saved| *saved > 0.0),
            cause: chosen.cause.cloned(),
            window,
            measured,
            per_minute,
            share: None,
        }
    }
}

fn of_page(chosen: Candidate<'_>, sums: &WindowSums, span: &Span) -> FixRow {
    let compared = Compared::of(&chosen.id, sums, |_| None);
    let ratio = compared.mean_ratio();
    let all = sums.now.get(&ContextId::all());
    let whole = all.map_or(0.0, |all| all.times.sum);
    let row = FixRow::new(chosen, sums.now.covered, compared.now, span);
    FixRow {
        share: share(row.measured.total, whole),
        ratio: row.ratio.or(ratio),
        ..row
    }
}
