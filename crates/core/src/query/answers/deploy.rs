//! A deploy or another mark: each context before and after it, and the new version side by side with the old one.

use serde::{Deserialize, Serialize};

use super::compared::{Compared, Ratios};
use super::measured::{ContextName, Measured};
use super::{MAX_ROWS, check_limit};
use crate::query::windows::sums::WindowSums;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_detect::side_by_side::{MAX_MINUTES, SideBySide, Versions};
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
    /// The hour before the mark, without the slice that contains the mark.
    pub before: Covered,
    /// The time since the mark, at most an hour; `None` while no whole slice has passed.
    pub after: Option<Covered>,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// Number of contexts with requests before or after.
    pub total: usize,
    /// The contexts, the most costly first.
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
    /// The additional time per minute that the requests since the mark take, compared with the mean before the mark, in
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
    /// The id of the mark. The default is the newest mark of a version, or the newest mark if none has a version.
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
    // The slice that contains the mark belongs to neither side.
    let tiers = source.tiers().await?;
    let tier = Window::of(mark.at.saturating_sub(HOUR), mark.at)
        .slices(tiers, now)
        .tier;
    let length = HOUR.max(i64::from(tier.seconds));
    let start = tier.slice(mark.at);
    let after = start.saturating_add(i64::from(tier.seconds));
    let before = Window::alone(start.saturating_sub(length), start);
    let before = source.window(before).await?;
    let end = tier.slice(now).min(after.saturating_add(length));
    let since = match end > after {
        true => Some(source.window(Window::alone(after, end)).await?),
        false => None,
    };
    let versions = match &mark.version {
        Some(version) => {
            let minutes = side_by_side(mark.at, now);
            Some(source.versions(version, minutes).await?)
        }
        None => None,
    };
    let mut rows = rows(&before, since.as_deref(), versions.as_deref());
    rows.order_by(|a, b| {
        let extra = |row: &DeployRow| row.extra_seconds_per_minute.unwrap_or(f64::NEG_INFINITY);
        extra(b)
            .total_cmp(&extra(a))
            .then_with(|| a.name.context.cmp(&b.name.context))
    });
    Ok(Deploy {
        mark,
        before: before.now.covered,
        after: since.as_ref().map(|since| since.now.covered),
        error: since
            .iter()
            .fold(before.now.error, |error, since| error.max(since.now.error)),
        total: rows.len(),
        contexts: rows.into_iter().skip(query.offset).take(limit).collect(),
    })
}

/// The newest whole minutes within an hour after a mark, in which versions may have run side by side.
fn side_by_side(at: i64, now: i64) -> Vec<i64> {
    let minute = i64::from(FINEST.seconds);
    let end = FINEST.slice(now).min(FINEST.slice(at).saturating_add(HOUR));
    let start = FINEST.slice(at).max(end - MAX_MINUTES * minute);
    (start..end).step_by(FINEST.seconds as usize).collect()
}

fn rows(
    before: &WindowSums,
    since: Option<&WindowSums>,
    versions: Option<&Versions>,
) -> Vec<DeployRow> {
    let contexts = since.unwrap_or(before).contexts.iter();
    let pages = contexts.filter(|(_, context)| context.kind == Kind::Http);
    let covered = since.map(|since| since.now.covered);
    let row = |(id, context): (&RecordId, &ContextId)| {
        let after = since.and_then(|since| Measured::of_part(context, &since.now, None));
        let compared = Compared::new(
            (after, &covered.unwrap_or_default()),
            (
                Measured::of_part(context, &before.now, None),
                &before.now.covered,
            ),
        );
        let is_there = compared.now.is_some() || compared.before.is_some();
        is_there.then(|| DeployRow {
            name: ContextName::of(context),
            extra_seconds_per_minute: covered.and_then(|covered| extra(&compared, &covered)),
            before: compared.before,
            after: compared.now,
            change: compared.change,
            side_by_side: versions.and_then(|versions| versions.compare(*id)),
        })
    };
    pages.filter_map(row).collect()
}

/// The time per minute, in seconds, that the requests take beyond what they would take with the mean before the mark.
fn extra(compared: &Compared, covered: &Covered) -> Option<f64> {
    let mean_ratio = compared.mean_ratio()?;
    let spent = covered.per_minute(compared.now.as_ref()?.total)?;
    Some(spent - spent / mean_ratio)
}
