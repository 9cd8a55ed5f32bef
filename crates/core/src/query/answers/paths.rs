//! The list of all contexts in a window. A question may filter and sort the list, and ask for a part.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::changes::urgencies;
use super::compared::{Compared, Ratios};
use super::measured::{
    CodeCount, ContextName, KindCount, Measured, code_counts, kind_counts, share,
};
use super::path_targets::{TargetBurn, burns};
use super::row_series::{PointValue, RowMetric, SeriesSpan, most_rows};
use super::{NameFilter, check_limit, check_points};
use crate::query::book::Book;
use crate::query::coop_budget::CoopBudget;
use crate::query::question::{kind_or_all, or_any, or_none};
use crate::query::windows::sums::{Summary, WindowSums};
use crate::query::{Against, Covered, QueryError, Source, Window};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::order::{InOrder, keep_first};
use tower_pulse_model::records::RecordId;

/// The measurements that rows can be ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sort {
    /// The number of requests.
    #[default]
    Count,
    /// The mean.
    Mean,
    /// The 95th percentile.
    P95,
    /// The largest duration.
    Max,
    /// The sum of all durations.
    Total,
    /// The number of errors.
    Errors,
    /// The standard deviation.
    Stddev,
    /// The smallest duration.
    Min,
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
    /// Errors divided by the count.
    ErrorShare,
    /// The share of the total time of all contexts of the kind.
    Share,
    /// The mean divided by the mean in the window before.
    Change,
    /// The number of responses with a 4xx status.
    #[serde(rename = "4xx")]
    ClientErrors,
    /// The urgency of the context's ongoing change; for a timer, of the change in which the timer is a suspect.
    /// Contexts without such a change come last.
    Changed,
    /// The mean time within polls.
    Computing,
    /// The mean time outside of polls.
    Waiting,
    /// The longest poll, which holds a worker thread.
    LongestPoll,
    /// The name.
    Context,
}

impl Sort {
    fn key(self, row: &Row) -> Option<f64> {
        let now = row.measured.now.as_ref()?;
        match self {
            Self::Count => Some(now.count as f64),
            Self::Mean => now.times.mean,
            Self::Stddev => now.times.stddev,
            Self::Min => now.times.min,
            Self::Max => now.times.max,
            Self::P50 => now.times.p50,
            Self::P95 => now.times.p95,
            Self::P99 => now.times.p99,
            Self::Total | Self::Share => Some(now.total),
            Self::Errors => Some(now.errors as f64),
            Self::ErrorShare => now.error_share,
            Self::Change => row.measured.mean_ratio(),
            Self::ClientErrors => Some(now.outcomes.count("4xx") as f64),
            Self::Changed => row.urgency.map(|urgency| urgency as f64),
            Self::Computing => now.polls?.computing,
            Self::Waiting => now.polls?.waiting,
            Self::LongestPoll => now.polls?.longest,
            // Rows with equal keys are ordered by name, so the name needs no key.
            Self::Context => None,
        }
    }
}

/// The status of a context, compared with the window before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowStatus {
    /// The context had no samples in the window before.
    New,
    /// The context has no samples, but had some in the window before.
    Gone,
    /// The mean has grown.
    Up,
    /// The mean has fallen.
    Down,
}

struct Row {
    context: ContextId,
    measured: Compared,
    /// The urgency of the ongoing change: a greater number is more urgent. Set only if the question sorts by urgency.
    urgency: Option<usize>,
}

impl Row {
    /// Whether the row has this status. If `status` is `None`, whether the row has samples.
    fn has(&self, status: Option<RowStatus>) -> bool {
        let Compared { now, before, .. } = &self.measured;
        let mean = self.measured.mean_ratio();
        match status {
            None => now.is_some(),
            Some(RowStatus::New) => now.is_some() && before.is_none(),
            Some(RowStatus::Gone) => now.is_none() && before.is_some(),
            Some(RowStatus::Up) => mean.is_some_and(|ratio| ratio > 1.0),
            Some(RowStatus::Down) => mean.is_some_and(|ratio| ratio < 1.0),
        }
    }
}

/// A context can be new only if at least this share of the window before was recorded.
const WHOLE: f64 = 0.995;

/// A part of the list of contexts.
///
/// The answer to [`PathsQuery`](crate::query::PathsQuery). The JSON also has series, if the question asks for them.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Paths {
    /// The time that the window covers.
    #[serde(flatten)]
    pub now: Covered,
    /// The time covered by the window with which the window is compared.
    pub before: Covered,
    /// The largest relative error of the percentiles of both windows.
    pub error: f64,
    /// The duration in which requests should end, in seconds; `None` without a target.
    pub target: Option<f64>,
    /// Number of contexts that match.
    pub total: usize,
    /// The metric and the slices of the rows' series, if the question asks for series.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<SeriesSpan>,
    /// The contexts.
    pub paths: Vec<PathRow>,
}

/// A context of the list.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct PathRow {
    /// The context.
    #[serde(flatten)]
    pub name: ContextName,
    /// The measurements in the window.
    #[serde(flatten)]
    pub now: Measured,
    /// `total` divided by the sum of the totals of all contexts of the kind, 0 to 1.
    pub share: Option<f64>,
    /// The measurements in the window before; `None` without samples.
    pub before: Option<Measured>,
    /// The measurements in the window divided by those of `before`.
    pub change: Option<Ratios>,
    /// Whether the window before was recorded, and has no samples of the context.
    pub is_new: bool,
    /// Counts by status code, at most 16 codes, largest first, if the question has `q`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codes: Option<Vec<CodeCount>>,
    /// Counts by kind of error, at most 8 kinds, largest first, if the question has `q`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<KindCount>>,
    /// The context's own target, if it has one.
    path_target: Option<TargetBurn>,
    /// A timer that runs more than 20 times per request of a path. For a path, the timer that runs most often; for a
    /// timer, the path that runs the timer most often.
    repeated: Option<Repeated>,
    /// The value of each slice, oldest first. A slice that was not recorded has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::query) series: Option<Vec<Option<PointValue>>>,
}

/// A timer that a path runs more than 20 times per request, such as a query that runs once for each row of another
/// query.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Repeated {
    /// The timer.
    pub timer: Arc<str>,
    /// The path.
    pub path: Arc<str>,
    /// The mean number of runs per request.
    pub per_request: f64,
    /// The mean time per request that the path would save at most with a single run, such as a join, in seconds.
    pub saved_per_request: f64,
}

/// The repeated timers of a window, by path and by timer.
fn repeated(sums: &WindowSums) -> HashMap<RecordId, Repeated> {
    let mut repeated: HashMap<RecordId, Repeated> = HashMap::new();
    for (path, summary) in &sums.now.summaries {
        let Some((timer, runs)) = summary.repeated else {
            continue;
        };
        let name = |id: RecordId| sums.contexts.get(&id).map(|context| context.name.clone());
        let (Some(path_name), Some(timer_name)) = (name(*path), name(timer)) else {
            continue;
        };
        let requests = summary.times.count.max(1.0);
        let per_request = runs.count as f64 / requests;
        let covered = runs.covered as f64 / 1e9;
        let of_path = Repeated {
            timer: timer_name,
            path: path_name,
            per_request,
            saved_per_request: covered / requests * (1.0 - 1.0 / per_request),
        };
        let before = repeated.get(&timer);
        let is_most = |before: &Repeated| {
            let order = of_path.per_request.total_cmp(&before.per_request);
            order.then_with(|| before.path.cmp(&of_path.path)).is_gt()
        };
        if before.is_none_or(is_most) {
            repeated.insert(timer, of_path.clone());
        }
        repeated.insert(*path, of_path);
    }
    repeated
}

/// Asks for the contexts of a window.
/// The answer is [`Paths`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PathsQuery {
    /// The window.
    pub window: Window,
    /// The window with which `window` is compared.
    pub against: Against,
    /// Only contexts of this kind, or all.
    #[serde(deserialize_with = "kind_or_all")]
    pub kind: Kind,
    /// Only contexts of this status. By default, all contexts with samples.
    #[serde(deserialize_with = "or_any")]
    status: Option<RowStatus>,
    /// Only contexts whose name contains this text, ignoring case.
    #[serde(rename = "q")]
    pub contains: String,
    /// The measurement to sort by.
    pub sort: Sort,
    /// Whether the smallest value comes first. A context without a value comes last in either order.
    #[serde(rename = "order", deserialize_with = "is_ascending")]
    pub ascending: bool,
    /// The metric of the series of each row, if a series is wanted.
    #[serde(deserialize_with = "or_none")]
    series: Option<RowMetric>,
    /// The maximum number of contexts, 100 by default: at most 1,000, or 100 with a series.
    pub limit: Option<usize>,
    /// The number of contexts to skip.
    pub offset: usize,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Desc,
    Asc,
}

fn is_ascending<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Order::deserialize(from)? == Order::Asc)
}

impl PathsQuery {
    fn ordering(&self, a: &Row, b: &Row) -> Ordering {
        let by_name = a.context.name.cmp(&b.context.name);
        let is_descending = !self.ascending;
        match self.sort == Sort::Context && is_descending {
            true => by_name.reverse(),
            false => order(self.sort.key(a), self.sort.key(b), is_descending)
                .then_with(|| match self.sort {
                    Sort::Changed => order(Sort::Total.key(a), Sort::Total.key(b), true),
                    _ => Ordering::Equal,
                })
                .then(by_name),
        }
    }
}

pub(in crate::query) async fn paths(
    source: &Source,
    query: &PathsQuery,
) -> Result<Paths, QueryError> {
    let limit = check_limit(query.limit, most_rows(query.series.is_some()))?;
    // The book has statistics for hours only.
    let book = match query.window.is_hour() {
        true => Some(source.book().await?),
        false => None,
    };
    let sums = source.compared(query.window, query.against).await?;
    let (mut rows, whole) = rows(source, query, book.as_deref(), &sums).await?;
    let total = rows.len();
    let end = query.offset.saturating_add(limit);
    keep_first(&mut rows, end, |a, b| query.ordering(a, b));
    let page: Vec<Row> = rows.into_iter().skip(query.offset).collect();
    let mut series = None;
    let mut values = Vec::new();
    if let Some(metric) = query.series {
        check_points::<PathsQuery>(page.len() * source.slices_of(query.window).await?)?;
        let ids: Vec<_> = page.iter().map(|row| id_of(&row.context)).collect();
        let points = source.window_points(query.window, &ids).await?;
        series = Some(SeriesSpan {
            metric: metric.as_str(),
            precision: points.precision,
            from: points.from,
            to: points.to,
        });
        values = points.rows;
    }
    let mut values = values.into_iter();
    let mut targets: HashMap<_, _> = burns(source).await?.into_iter().collect();
    let (repeated, none) = (repeated(&sums), Summary::default());
    let row = |row: Row| {
        let (context, measured) = (row.context, row.measured);
        let summary = sums.now.get(&context).unwrap_or(&none);
        let has_text = !query.contains.is_empty();
        PathRow {
            repeated: repeated.get(&id_of(&context)).cloned(),
            name: ContextName::of(&context),
            path_target: targets.remove(&context),
            is_new: measured.before.is_none() && sums.before.covered.complete >= WHOLE,
            codes: has_text.then(|| code_counts(context.kind, &summary.codes, &summary.outcomes)),
            kinds: has_text.then(|| kind_counts(&summary.kinds)),
            share: (measured.now.as_ref()).and_then(|now| share(now.total, whole)),
            now: (measured.now).unwrap_or_else(|| Measured::none(context.kind)),
            before: measured.before,
            change: measured.change,
            series: (query.series.zip(values.next())).map(|(metric, row)| metric.of_all(&row)),
        }
    };
    Ok(Paths {
        paths: page.into_iter().map(row).collect(),
        now: sums.now.covered,
        before: sums.before.covered,
        error: sums.error(),
        target: source.targets.seconds(),
        total,
        series,
    })
}

fn id_of(context: &ContextId) -> RecordId {
    RecordId::new(context.kind, &context.name)
}

/// The contexts of a window that match, unordered, with the additions of other programs to the book. Also returns the
/// total time of all contexts of the kind, in seconds.
async fn rows(
    source: &Source,
    query: &PathsQuery,
    book: Option<&Book>,
    sums: &WindowSums,
) -> Result<(Vec<Row>, f64), QueryError> {
    let wanted = NameFilter::new(&query.contains);
    let urgencies = match query.sort {
        Sort::Changed => urgencies(source).await?,
        _ => HashMap::new(),
    };
    let foreign = book.into_iter().flat_map(Book::contexts);
    let contexts = sums.contexts().chain(foreign.filter(|id| !sums.has(id)));
    // Reserves room for all rows, because a vector that grows copies its rows.
    let mut rows = Vec::with_capacity(sums.contexts.len());
    let mut totals = Vec::with_capacity(sums.contexts.len());
    let mut budget = CoopBudget::new(&source.clock);
    for context in contexts {
        budget.yield_if_spent().await;
        if query.kind != Kind::All && query.kind != context.kind {
            continue;
        }
        let measured = Compared::of(context, sums, |start| book?.added(context, start));
        totals.extend(measured.now.as_ref().map(|now| now.total));
        let row = Row {
            urgency: urgencies.get(context).copied(),
            context: context.clone(),
            measured,
        };
        if row.has(query.status) && wanted.matches(&row.context.name) {
            rows.push(row);
        }
    }
    // The totals are added up in a fixed order, because the last digits of the sum depend on the order. An unchanged
    // answer must stay the same.
    totals.order_by(f64::total_cmp);
    Ok((rows, totals.iter().sum()))
}

fn order(a: Option<f64>, b: Option<f64>, is_descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if is_descending => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
