//! The targets of single contexts: how much of the error budget is left, and how fast the budget burns.

use serde::Serialize;

use super::measured::{ContextName, share};
use crate::query::windows::sums::TargetCounts;
use crate::query::{Covered, QueryError, Source, Window};
use crate::targets::PathTarget;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::tier::DAY;

/// The time that an error budget covers, in seconds: 30 days. If the store keeps less, the budget covers what is kept.
const BUDGET_SECONDS: i64 = 30 * DAY as i64;

/// The target of a context, and how fast its error budget burns.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TargetBurn {
    /// The duration below which a request is good, in seconds.
    pub duration: f64,
    /// The share of the requests that should be good, 0 to 1.
    pub share: f64,
    /// Whether the burn rates of the last hour and of the last six hours are both above 1.
    pub burns: bool,
    /// The last five minutes; `None` if their sums exceed `query_bytes`.
    pub five_minutes: Option<Burn>,
    /// The last hour; `None` if its sums exceed `query_bytes`.
    pub one_hour: Option<Burn>,
    /// The last six hours; `None` if their sums exceed `query_bytes`.
    pub six_hours: Option<Burn>,
}

/// The bad requests of a window, and how fast they burn the error budget.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Burn {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// Number of successes and errors.
    ///
    /// Requests that were cut off do not count, nor do responses with a 4xx status that are not errors.
    pub counted: u64,
    /// Number of counted requests that were errors or took too long.
    pub bad: u64,
    /// `bad` divided by `counted`, 0 to 1; `None` if no request counts.
    pub bad_share: Option<f64>,
    /// `bad_share` divided by the share of requests that may be bad; `None` if no request counts.
    ///
    /// At 1, exactly as many requests are bad as the target allows.
    pub burn_rate: Option<f64>,
    /// The largest relative error of the duration that divides good requests from bad ones.
    pub error: f64,
}

/// The target of a context with its error budget.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TargetBudget {
    /// The target.
    #[serde(flatten)]
    pub target: TargetBurn,
    /// The last 30 days, or as much of this time as is kept.
    pub budget: Burn,
    /// The share of the error budget that is left: 1 without bad requests, below 0 if overspent; `None` if no request
    /// counts.
    pub budget_left: Option<f64>,
}

/// A context whose error budget burns.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct BurningPath {
    /// The context.
    #[serde(flatten)]
    pub name: ContextName,
    /// The target.
    #[serde(flatten)]
    pub target: TargetBurn,
}

impl Burn {
    fn new(target: &PathTarget, counts: TargetCounts, covered: Covered) -> Self {
        let bad_share = share(counts.bad as f64, counts.counted as f64);
        Self {
            covered,
            counted: counts.counted,
            bad: counts.bad,
            bad_share,
            burn_rate: bad_share.map(|bad| bad / target.budget()),
            error: counts.error,
        }
    }

    fn is_fast(&self) -> bool {
        // Shares have no exact binary form, so a rate of 1 may be computed as slightly more than 1.
        self.burn_rate.is_some_and(|rate| rate > 1.0 + 1e-9)
    }
}

/// The targets of single contexts with their recent burn rates. Reads nothing if no context has its own target.
pub(super) async fn burns(source: &Source) -> Result<Vec<(&ContextId, TargetBurn)>, QueryError> {
    let targets = &source.targets.of_paths;
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let [five_minutes, one_hour, six_hours] = [300, HOUR, 6 * HOUR].map(|length| async move {
        match source.path_targets(Window::seconds(length)).await {
            Ok(sums) => Ok(Some(sums)),
            // A window whose sums do not fit into `query_bytes` is left out.
            Err(QueryError::NoRoom(_)) => Ok(None),
            Err(error) => Err(error),
        }
    });
    let windows = [five_minutes.await?, one_hour.await?, six_hours.await?];
    let is_fast = |burn: &Option<Burn>| burn.as_ref().is_some_and(Burn::is_fast);
    let burn = |(at, target): (usize, &PathTarget)| {
        let [five_minutes, one_hour, six_hours] = windows.each_ref().map(|sums| {
            let sums = sums.as_ref()?;
            let counts = sums.counts.get(at).copied().unwrap_or_default();
            Some(Burn::new(target, counts, sums.covered))
        });
        TargetBurn {
            duration: target.duration.as_secs_f64(),
            share: target.share,
            burns: is_fast(&one_hour) && is_fast(&six_hours),
            five_minutes,
            one_hour,
            six_hours,
        }
    };
    let burns = targets.iter().enumerate();
    Ok(burns.map(|pair| (&pair.1.context, burn(pair))).collect())
}

/// The context whose budget burned fastest in the last hour comes first.
pub(super) async fn burning_paths(source: &Source) -> Result<Vec<BurningPath>, QueryError> {
    let all = burns(source).await?.into_iter();
    let mut paths: Vec<BurningPath> = all
        .filter(|(_, target)| target.burns)
        .map(|(id, target)| BurningPath {
            name: ContextName::of(id),
            target,
        })
        .collect();
    let rate = |path: &BurningPath| path.target.one_hour.as_ref()?.burn_rate;
    paths.order_by(|a, b| rate(b).unwrap_or(0.0).total_cmp(&rate(a).unwrap_or(0.0)));
    Ok(paths)
}

pub(super) async fn target_of(
    source: &Source,
    id: &ContextId,
) -> Result<Option<TargetBudget>, QueryError> {
    let mut targets = source.targets.of_paths.iter();
    let Some(target) = targets.find(|target| target.context == *id) else {
        return Ok(None);
    };
    let burns = burns(source).await?;
    let Some((_, burn)) = burns.into_iter().find(|(other, _)| **other == *id) else {
        return Ok(None);
    };
    let span = source.recorded_span().await?;
    let slices = Window::seconds(BUDGET_SECONDS).slices(span.tiers, span.now);
    let slices = slices.retained(span.now);
    let counts = TargetCounts::new(target, &source.sums(id, slices).await?);
    let covered = Covered::read(source, slices, &span).await?;
    let budget = Burn::new(target, counts, covered);
    Ok(Some(TargetBudget {
        target: burn,
        budget_left: budget.burn_rate.map(|used| 1.0 - used),
        budget,
    }))
}
