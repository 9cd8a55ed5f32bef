//! The changes of all contexts, or of one.

use std::collections::HashMap;
use std::sync::Arc;
use tower_pulse_model::order::InOrder;

use serde::{Deserialize, Serialize};

use super::deploy_verdict::DeployVerdict;
use super::hanging::{HangingPath, hanging};
use super::measured::{ContextName, share};
use super::{MAX_ROWS, check_limit};
use crate::query::question::or_any;
use crate::query::{QueryError, Source};
use crate::store::marks::leave_out_removed;
use tower_pulse_detect::change::{Change, ChangeKind, Suspect};
use tower_pulse_detect::detector::{Coverage, Watched};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::mark::Marks;

/// The contexts and instances that behave differently than before.
///
/// The answer to [`ChangesQuery`](crate::query::ChangesQuery). The JSON also has the detector's coverage and the
/// contexts that it watches.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Changes {
    /// The end of the last minute that the detector judged, in Unix seconds; `None` before the first judgement.
    pub judged_until: Option<i64>,
    /// The detector's coverage in the last judged minute.
    coverage: Coverage,
    /// Number of changes that match.
    pub total: usize,
    /// Number of changes that match and are ongoing.
    pub ongoing: usize,
    /// Number of problems: ongoing changes of all kinds but `faster`, and `hanging` paths.
    pub problems: usize,
    /// Number of problems that people have acknowledged.
    pub acknowledged: usize,
    /// The paths that have requests in flight, but none of these requests ends; empty if the question has a kind.
    pub hanging: Vec<HangingPath>,
    /// The changes. Ongoing changes come first: those that cost the most time before the others, but refusing pages and
    /// new errors last.
    pub changes: Vec<ChangeRow>,
    /// Contexts that were probably, but not certainly, slower in the last judged minute: at most 10, the most certain
    /// first.
    ///
    /// These contexts have no changes yet, and are not announced.
    watched: Vec<WatchedRow>,
}

/// A context that is probably, but not certainly, slower.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct WatchedRow {
    /// The context.
    pub context: Arc<str>,
    /// The method of the context.
    pub method: Option<String>,
    /// The route template of the context.
    pub path: Option<String>,
    /// The beginning and the size of the likely slowdown.
    #[serde(flatten)]
    pub watched: Watched,
}

impl WatchedRow {
    fn new((context, watched): &(Arc<str>, Watched)) -> Self {
        let name = ContextName::new(context, Kind::Http);
        Self {
            method: name.method,
            path: name.path,
            context: context.clone(),
            watched: watched.clone(),
        }
    }
}

/// A change, with figures that are computed from the change.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ChangeRow {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// The method of the change's context; `None` if the change concerns all contexts.
    pub method: Option<String>,
    /// The route template of the change's context; `None` if the change concerns all contexts.
    pub path: Option<String>,
    /// Whether the change is ongoing.
    pub is_ongoing: bool,
    /// The share of the extra time that is due to more requests; `None` without extra time.
    pub traffic_share: Option<f64>,
    /// The share of the extra time that is due to slower requests; `None` without extra time.
    pub code_share: Option<f64>,
    /// Whether a deploy is suspected of the change.
    pub deploy: DeployVerdict,
    /// The known causes of the change, in sentences; empty if no cause is known.
    pub explanation: String,
}

/// Asks for changes.
/// The answer is [`Changes`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ChangesQuery {
    /// Only changes of this kind.
    #[serde(deserialize_with = "or_any")]
    pub kind: Option<ChangeKind>,
    /// The maximum number of changes, at most 1,000; 100 by default.
    pub limit: Option<usize>,
    /// The number of changes to skip.
    pub offset: usize,
}

impl ChangeRow {
    fn new(change: &Change, marks: &Marks) -> Self {
        let mut change = change.clone();
        // A suspected mark may have been removed after the change was judged.
        leave_out_removed(&mut change, marks);
        let name = ContextName::new(&change.context, Kind::Http);
        let extra = change.extra_seconds_per_minute;
        Self {
            method: name.method,
            path: name.path,
            is_ongoing: change.ended.is_none(),
            traffic_share: share(change.from_traffic, extra),
            code_share: share(change.from_code, extra),
            deploy: DeployVerdict::of(&change, marks),
            explanation: change.explanation(),
            change,
        }
    }
}

pub(in crate::query) async fn changes(
    source: &Source,
    query: &ChangesQuery,
) -> Result<Changes, QueryError> {
    let (kind, limit) = (query.kind, check_limit(query.limit, MAX_ROWS)?);
    let log = source.changes().await?;
    let marks = source.marks().await?;
    let mut matching: Vec<&Change> = (log.changes.iter())
        .filter(|change| kind.is_none_or(|kind| change.kind == kind))
        .collect();
    matching.order_by(|a, b| a.by_urgency(b));
    let problems = matching.iter().filter(|change| is_problem(change));
    let hanging = match kind {
        None => hanging(source).await?,
        Some(_) => Vec::new(),
    };
    Ok(Changes {
        judged_until: log.judged_until(),
        coverage: log.judged.coverage,
        total: matching.len(),
        ongoing: matching.iter().filter(|c| c.ended.is_none()).count(),
        problems: problems.clone().count() + hanging.len(),
        acknowledged: problems.filter(|c| c.acknowledged.is_some()).count(),
        hanging,
        changes: matching
            .into_iter()
            .skip(query.offset)
            .take(limit)
            .map(|change| ChangeRow::new(change, &marks))
            .collect(),
        watched: (log.judged.watched.iter())
            .filter(|_| kind.is_none_or(|kind| kind == ChangeKind::Slower))
            .map(WatchedRow::new)
            .collect(),
    })
}

fn is_problem(change: &Change) -> bool {
    change.ended.is_none() && change.kind != ChangeKind::Faster
}

/// The urgency of each context with an ongoing change, and of each timer that is a suspect of one. A greater number is
/// more urgent.
pub(super) async fn urgencies(source: &Source) -> Result<HashMap<ContextId, usize>, QueryError> {
    let log = source.changes().await?;
    let mut ongoing: Vec<&Change> = log.changes.iter().filter(|c| c.ended.is_none()).collect();
    ongoing.order_by(|a, b| b.by_urgency(a));
    let mut urgencies = HashMap::new();
    for (urgency, change) in ongoing.into_iter().enumerate() {
        urgencies.insert(ContextId::of_judged(&change.context), urgency);
        for suspect in &change.suspects {
            if let Some(timer) = suspect.timer() {
                urgencies.insert(ContextId::new(Kind::Timer, timer.clone()), urgency);
            }
        }
    }
    Ok(urgencies)
}

/// The changes of a page or of the queue, or the changes in which a timer is a suspect. Ongoing changes come first.
pub(super) async fn changes_of(
    source: &Source,
    id: &ContextId,
) -> Result<Vec<ChangeRow>, QueryError> {
    let log = source.changes().await?;
    let marks = source.marks().await?;
    let is_timer = |suspect: &Suspect| suspect.timer() == Some(&id.name);
    let is_wanted = |change: &&Change| {
        ContextId::of_judged(&change.context) == *id
            || id.kind == Kind::Timer && change.suspects.iter().any(is_timer)
    };
    let mut wanted: Vec<&Change> = log.changes.iter().filter(is_wanted).collect();
    wanted.order_by(|a, b| a.by_urgency(b));
    let rows = wanted.into_iter();
    Ok(rows.map(|change| ChangeRow::new(change, &marks)).collect())
}
