//! The paths with the most requests of an outcome.

use serde::{Deserialize, Serialize};

use super::measured::{ContextName, share};
use super::{MAX_ROWS, check_limit};
use crate::query::coop_budget::CoopBudget;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::order::keep_first;
use tower_pulse_model::outcome::Outcome;

/// Asks for the paths with the most requests of an outcome.
/// The answer is [`OutcomePaths`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OutcomeQuery {
    /// The outcome, by its name in the API, such as `4xx`, `error` or `cancelled`.
    pub outcome: String,
    /// The window.
    pub window: Window,
    /// The maximum number of paths, at most 1,000; 100 by default.
    pub limit: Option<usize>,
}

/// The paths with the most requests of an outcome.
///
/// The answer to [`OutcomeQuery`](crate::query::OutcomeQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct OutcomePaths {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// Number of paths with requests of the outcome.
    pub total: usize,
    /// The paths. Paths with more of these requests come first.
    pub paths: Vec<OutcomeRow>,
}

/// A path with requests of an outcome, or of a kind of error.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct OutcomeRow {
    /// The path.
    #[serde(flatten)]
    pub name: ContextName,
    /// Number of the path's requests with the outcome or the kind.
    pub count: u64,
    /// The share of the path's requests that have the outcome or the kind, 0 to 1.
    pub share: Option<f64>,
}

/// The number of requests with an outcome or a kind of error, their path, and the number of all requests of the path.
pub(super) type CountedPath<'a> = (u64, &'a ContextId, u64);

/// The paths with the most of these requests, most first.
pub(super) fn most_counted(mut paths: Vec<CountedPath<'_>>, limit: usize) -> Vec<OutcomeRow> {
    keep_first(&mut paths, limit, |(a, of_a, _), (b, of_b, _)| {
        b.cmp(a).then_with(|| of_a.name.cmp(&of_b.name))
    });
    let row = |(count, context, requests)| OutcomeRow {
        name: ContextName::of(context),
        count,
        share: share(count as f64, requests as f64),
    };
    paths.into_iter().map(row).collect()
}

pub(in crate::query) async fn outcome(
    source: &Source,
    query: &OutcomeQuery,
) -> Result<OutcomePaths, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let named = |outcome: &Outcome| outcome.as_str() == query.outcome;
    let Some(outcome) = Outcome::ALL.into_iter().find(named) else {
        let allowed = Outcome::ALL.map(Outcome::as_str).join(", ");
        let asked: String = query.outcome.chars().take(64).collect();
        let message = format!("outcome must be one of {allowed}, not {asked}");
        return Err(QueryError::parameter("outcome", message));
    };
    let sums = source.window(query.window).await?;
    let (mut rows, mut budget) = (Vec::new(), CoopBudget::new(&source.clock));
    for (id, summary) in &sums.now.summaries {
        budget.yield_if_spent().await;
        let counts = &summary.outcomes;
        let context = sums.contexts.get(id);
        let context = context.filter(|context| context.kind == Kind::Http);
        if let Some(context) = context.filter(|_| counts.count(outcome) > 0) {
            rows.push((counts.count(outcome), context, counts.total()));
        }
    }
    Ok(OutcomePaths {
        covered: sums.now.covered,
        total: rows.len(),
        paths: most_counted(rows, limit),
    })
}
