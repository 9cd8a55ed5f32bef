//! A deploy or another mark: each context before and after the mark, and the new version side by side with the old
//! version.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::compared::{Compared, Ratios};
use super::measured::{ContextName, Measured};
use super::{MAX_ROWS, check_limit};
use crate::query::windows::sums::WindowSums;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_detect::side_by_side::{MAX_MINUTES, SideBySide};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::mark::Mark;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::tier::FINEST;

/// The contexts before and after a mark.
///
/// The answer to [`DeployQuery`](crate::query::dashboard::DeployQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Deploy {
    /// The mark.
    pub mark: Mark,
    /// An hour, or one longer slice, that ends where the slice of the mark begins.
    pub before: Covered,
    /// The slices after the slice of the mark, at most as long as `before`; `None` until such a slice has ended.
    pub after: Option<Covered>,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// All contexts together.
    pub all: DeployRow,
    /// Number of pages with requests before or after.
    pub total: usize,
    /// The pages, those with the most additional time first.
    pub contexts: Vec<DeployRow>,
}

/// A context before and after a mark.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct DeployRow {
    /// The context.
    #[serde(flatten)]
    pub name: ContextName,
    /// The measurements before the mark; `None` without requests.
    pub before: Option<Measured>,
    /// The measurements since the mark; `None` without requests.
    pub after: Option<Measured>,
    /// `after` divided by `before`.
    pub change: Option<Ratios>,
    /// The additional time per minute of the requests since the mark, compared with the mean before the mark, in
    /// seconds; `None` if the two sides are not comparable.
    pub extra_seconds_per_minute: Option<f64>,
    /// Both versions in the same minutes; `None` if the versions did not run at the same time.
    pub side_by_side: Option<SideBySide>,
}

/// Asks for the contexts before and after a mark.
/// The answer is [`Deploy`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DeployQuery {
    /// The id of the mark. The default is the newest mark of a version, or the newest mark if no mark has a version.
    pub mark: Option<String>,
    /// The maximum number of contexts, at most 1,000; 100 by default.
    pub limit: Option<usize>,
    /// The number of contexts to skip.
    pub offset: usize,
}

pub(in crate::query) async fn deploy(
    source: &Source,
    query: &DeployQuery,
) -> Result<Deploy, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let marks = source.marks().await?;
    let mark = match &query.mark {
        Some(id) => marks.shown().find(|mark| *mark.id == **id),
        None => {
            let deploy = marks.shown().rfind(|mark| mark.version.is_some());
            deploy.or_else(|| marks.shown().next_back())
        }
    };
    let unknown = QueryError::NotFound("there is no such mark: see api/marks");
    let mark = mark.cloned().ok_or(unknown)?;
    let now = source.clock.now_seconds();
    // The slice that contains the mark belongs neither to `before` nor to `after`.
    let tiers = source.tiers().await?;
    let hour = Window::of(mark.at.saturating_sub(HOUR), mark.at);
    let tier = hour.slices(tiers, now).tier;
    let length = HOUR.max(i64::from(tier.seconds));
    let start = tier.slice(mark.at);
    let after = start.saturating_add(i64::from(tier.seconds));
    let before = Window::alone(start.saturating_sub(length), start);
    let before = source.window(before).await?;
    let end = tier.slice(now).min(after.saturating_add(length));
    let since = match end > after {
        true => source.window(Window::alone(after, end)).await?.now.clone(),
        false => Arc::default(),
    };
    let sums = WindowSums {
        contexts: before.contexts.clone(),
        now: since,
        before: before.now.clone(),
    };
    let versions = match &mark.version {
        Some(version) => Some(source.versions(version, side_by_side(mark.at, now)).await?),
        None => None,
    };
    let pages = sums.contexts().filter(|id| id.kind == Kind::Http);
    let row = |context: &ContextId| {
        let compared = Compared::of(context, &sums, |_| None);
        let id = RecordId::new(context.kind, &context.name);
        DeployRow {
            name: ContextName::of(context),
            extra_seconds_per_minute: extra(&compared, &sums.now.covered),
            before: compared.before,
            after: compared.now,
            change: compared.change,
            side_by_side: versions.as_ref().and_then(|versions| versions.compare(id)),
        }
    };
    let rows = pages.map(row);
    let mut rows: Vec<_> = rows
        .filter(|row| row.before.is_some() || row.after.is_some())
        .collect();
    rows.order_by(|a, b| {
        let extra = |row: &DeployRow| row.extra_seconds_per_minute.unwrap_or(f64::NEG_INFINITY);
        let by_extra = extra(b).total_cmp(&extra(a));
        by_extra.then_with(|| a.name.context.cmp(&b.name.context))
    });
    Ok(Deploy {
        all: row(&ContextId::all()),
        mark,
        before: sums.before.covered,
        after: (end > after).then_some(sums.now.covered),
        error: sums.error(),
        total: rows.len(),
        contexts: rows.into_iter().skip(query.offset).take(limit).collect(),
    })
}

/// The newest whole minutes, at most [`MAX_MINUTES`], of the hour from the mark on.
fn side_by_side(at: i64, now: i64) -> Vec<i64> {
    let minute = i64::from(FINEST.seconds);
    let end = FINEST.slice(now).min(FINEST.slice(at).saturating_add(HOUR));
    let start = FINEST.slice(at).max(end - MAX_MINUTES * minute);
    (start..end).step_by(FINEST.seconds as usize).collect()
}

/// See [`DeployRow::extra_seconds_per_minute`].
fn extra(compared: &Compared, covered: &Covered) -> Option<f64> {
    let mean_ratio = compared.mean_ratio()?;
    let spent = covered.per_minute(compared.now.as_ref()?.total)?;
    Some(spent - spent / mean_ratio)
}
