//! The kinds of errors that the service names, with the paths of each, and when each was first seen.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::measured::share;
use super::outcome::{CountedPath, OutcomeRow, most_counted};
use super::{MAX_ROWS, check_limit};
use crate::query::coop_budget::CoopBudget;
use crate::query::span::Span;
use crate::query::{Covered, QueryError, Source, Window};
use crate::store::errors::SeenError;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::mark::Marks;
use tower_pulse_model::order::keep_first;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::tier::FINEST;
use tower_pulse_model::timer_sums::OTHER;

const MAX_PATHS: usize = 3;

const DAY: i64 = 24 * HOUR;

/// Asks for the kinds of errors.
/// The answer is [`Errors`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ErrorsQuery {
    /// The window.
    pub window: Window,
    /// The maximum number of kinds, at most 1,000; 100 by default.
    pub limit: Option<usize>,
}

/// The kinds of errors that requests had in a window.
///
/// The answer to [`ErrorsQuery`](crate::query::ErrorsQuery). A `Failure` names the kind of a response.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Errors {
    /// The time that the window covers.
    #[serde(flatten)]
    pub covered: Covered,
    /// Number of kinds.
    pub total: usize,
    /// The kinds, most requests first.
    pub kinds: Vec<ErrorRow>,
}

/// A kind of error.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ErrorRow {
    /// The kind, by the name that the service gives; `<other>` for all further kinds.
    pub kind: Arc<str>,
    /// Number of requests with this kind. A path has at most 8 kinds in a slice; further kinds count as `<other>`.
    pub count: u64,
    /// `count` divided by the number of all requests, 0 to 1.
    pub share: Option<f64>,
    /// The beginning of the minute in which the kind was first seen, in Unix seconds; `None` if no judged minute has
    /// the kind.
    pub first_seen: Option<i64>,
    /// The beginning of the last judged minute in which the kind was seen, in Unix seconds; `None` if no judged minute
    /// has the kind.
    pub last_seen: Option<i64>,
    /// Whether the kind was first seen in the last 24 hours. Always false if the store had data of less than a day at
    /// that time.
    pub is_new: bool,
    /// The version that was deployed last in the 24 hours before the kind was first seen; `None` without such a
    /// version, or if the store had data of less than a day.
    pub since_version: Option<Arc<str>>,
    /// The 3 paths with most of these requests, most first.
    pub paths: Vec<OutcomeRow>,
}

/// Whether a kind that was first seen at `first` is new, and the version that was deployed before. Without a day of
/// data before `first`, both are unknown: all kinds of a new service would be new.
fn origin(first: i64, span: &Span, marks: &Marks) -> (bool, Option<Arc<str>>) {
    if first.saturating_sub(span.recorded.since()) < DAY {
        return (false, None);
    }
    // A deploy within the minute of `first` may be the cause.
    let end = first.saturating_add(FINEST.seconds.into());
    let mut marks = marks.shown();
    let deploy = marks.rfind(|mark| mark.version.is_some() && mark.at < end);
    let deploy = deploy.filter(|mark| first.saturating_sub(mark.at) <= DAY);
    let is_new = span.now.saturating_sub(first) < DAY;
    (is_new, deploy.and_then(|mark| mark.version.clone()))
}

pub(in crate::query) async fn errors(
    source: &Source,
    query: &ErrorsQuery,
) -> Result<Errors, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let sums = source.window(query.window).await?;
    let span = source.recorded_span().await?;
    let (seen, marks) = (source.errors().await?, source.marks().await?);
    let mut budget = CoopBudget::new(&source.clock);
    let mut kinds: HashMap<&str, (u64, Vec<CountedPath<'_>>)> = HashMap::new();
    for (id, summary) in &sums.now.summaries {
        budget.yield_if_spent().await;
        let path = sums.contexts.get(id);
        let Some(path) = path.filter(|path| path.kind == Kind::Http) else {
            continue;
        };
        let counts = summary.kinds.iter().map(|(kind, count)| (&**kind, count));
        let counts = counts.chain([(OTHER, summary.kinds.other())]);
        for (kind, count) in counts.filter(|(_, count)| *count > 0) {
            let (sum, paths) = kinds.entry(kind).or_default();
            *sum += count;
            paths.push((count, path, summary.outcomes.total()));
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    let total = kinds.len();
    keep_first(&mut kinds, limit, |(a, (of_a, _)), (b, (of_b, _))| {
        of_b.cmp(of_a).then_with(|| a.cmp(b))
    });
    let all = sums.now.get(&ContextId::all());
    let all = all.map_or(0.0, |all| all.times.count);
    let seen = seen.iter().map(|(kind, seen)| (&**kind, seen));
    let seen: HashMap<&str, &SeenError> = seen.collect();
    let mut rows = Vec::with_capacity(kinds.len());
    for (kind, (count, paths)) in kinds {
        budget.yield_if_spent().await;
        let seen = seen.get(kind);
        let origin = seen.map(|seen| origin(seen.first, &span, &marks));
        let (is_new, since_version) = origin.unwrap_or_default();
        rows.push(ErrorRow {
            kind: kind.into(),
            count,
            share: share(count as f64, all),
            first_seen: seen.map(|seen| seen.first),
            last_seen: seen.map(|seen| seen.last),
            is_new,
            since_version,
            paths: most_counted(paths, MAX_PATHS),
        });
    }
    Ok(Errors {
        covered: sums.now.covered,
        total,
        kinds: rows,
    })
}

#[cfg(test)]
mod tests {
    use super::super::counters::tests::recorded;
    use super::*;
    use tower_pulse_model::mark::Mark;

    const FIRST: i64 = 1_000_020;

    #[test]
    fn a_kind_is_new_for_a_day_if_there_was_a_day_of_data_before() {
        let origin = |recorded_for: i64, age: i64, deploys: &[(i64, &str)]| {
            let span = Span {
                now: FIRST + age,
                ..recorded(FIRST - recorded_for)
            };
            let by_hand = Mark::of_text("id".to_owned(), FIRST - 3, "index");
            let mut marks = Marks::default();
            marks.add(by_hand.expect("it is short"));
            for (at, version) in deploys.iter().chain(&[(FIRST + 60, "later")]) {
                marks.add(Mark::of_version(*at, &(*version).into()));
            }
            let (is_new, version) = origin(FIRST, &span, &marks);
            (is_new, version.unwrap_or_default().to_string())
        };
        let both = [(FIRST - DAY, "1"), (FIRST + 59, "2")];
        let is = |is_new, version: &str| (is_new, version.to_owned());
        assert_eq!(origin(DAY, 0, &both), is(true, "2"));
        assert_eq!(origin(DAY, DAY, &both), is(false, "2"));
        assert_eq!(origin(DAY - 1, 0, &both), is(false, ""));
        assert_eq!(origin(DAY, 0, &both[..1]), is(true, "1"));
        let earlier = [(FIRST - DAY - 1, "1")];
        assert_eq!(origin(DAY, 0, &earlier), is(true, ""));
        assert_eq!(origin(DAY, 0, &[]), is(true, ""));
    }
}
