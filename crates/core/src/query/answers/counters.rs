//! The list of the user's counters, or one counter over time.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::resolution::{MAX_ROW_POINTS, Resolution};
use super::row_series::{SeriesSpan, most_rows};
use super::{DEFAULT_PRECISION, NameFilter, check_given, check_limit, check_points};
use crate::query::span::Span;
use crate::query::{QueryError, Source, Window};
use crate::store::{CounterQuery, CounterSeries};
use tower_pulse_model::context::{ALL, Metric};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{Precision, Precisions, SliceCount};

/// Number of counters that are read at once. Redis serves other clients between two reads.
const COUNTERS_AT_ONCE: usize = 100;

/// Number of slices of a series without a window.
const NEWEST_SLICES: i64 = 60;

/// A rate covers this many seconds before the current slice, rounded up to whole slices.
const RATE_SECONDS: u32 = 60;

/// A counter over time.
///
/// The answer to [`CounterSamplesQuery`](crate::query::dashboard::CounterSamplesQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CounterSamples {
    /// The name of the counter.
    pub name: String,
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The start, in Unix seconds, and the count of each kept slice, oldest first.
    pub samples: Vec<(i64, i64)>,
}

/// The user's counters.
///
/// The answer to [`CountersQuery`](crate::query::CountersQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// The length of a slice, in seconds.
    pub precision: u32,
    /// The start of the time that the rates cover, in Unix seconds.
    pub from: i64,
    /// The end of the time that the rates cover, in Unix seconds. May be in the future.
    pub to: i64,
    /// Number of counters that match.
    pub total: usize,
    /// The metric and the slices of the rows' series, if the question asks for series.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<SeriesSpan>,
    /// The counters, by name.
    pub counters: Vec<CounterRow>,
}

/// A counter of the list.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CounterRow {
    /// The name of the counter.
    pub name: String,
    /// The count of the last complete slice that can be read; `None` if that slice was not recorded.
    pub last: Option<i64>,
    /// The start of the slice of `last`, in Unix seconds.
    pub last_start: Option<i64>,
    /// The count per second from `from` until now.
    pub rate: f64,
    /// The sum of all slices that are kept.
    pub sum: i64,
    /// The count of each slice, oldest first. A slice that was not recorded has no count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::query) series: Option<Vec<Option<i64>>>,
}

/// Asks for the user's counters.
/// The answer is [`Counters`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CountersQuery {
    /// Only counters whose name contains this text, ignoring case.
    #[serde(rename = "q")]
    pub contains: String,
    /// The length of the slices in seconds: a configured precision. The default depends on the window. Without a
    /// window, it is a minute, or the finest precision if counters are not kept by the minute.
    pub precision: Option<u32>,
    /// Whether each row has a series.
    series: bool,
    /// The window of the series. Without a window, a series has the newest 60 slices.
    window: Option<Window>,
    /// The maximum number of counters, 100 by default: at most 1,000, or 100 with a series.
    pub limit: Option<usize>,
    /// The number of counters to skip.
    pub offset: usize,
}

/// Lists the counters of this process, and the store's counters with slices at the chosen or the coarsest precision.
/// The coarsest precision retains slices for longest.
pub(in crate::query) async fn counters(
    source: &Source,
    query: &CountersQuery,
) -> Result<Counters, QueryError> {
    let limit = check_limit(query.limit, most_rows(query.series))?;
    let (precisions, now) = (source.store.precisions(), source.clock.now_seconds());
    let window = query.window.filter(|_| query.series);
    let bounds = window.map(|window| window.bounds(now));
    let of_window = match (&bounds, query.precision) {
        (Some(bounds), None) => Resolution::of_rows(precisions, bounds, now),
        _ => None,
    };
    let precision = match of_window {
        Some(precision) => precision,
        None => chosen(query.precision, precisions)?,
    };
    let recorded = source.recorded_span().await?;
    let span = rate_span(precision, &recorded);
    let series = (query.series).then(|| SeriesSlices::new(precision, bounds, &recorded));

    let coarsest = precisions.counters.last().map(|p| p.seconds);
    let mut listed: Vec<u32> = [precision.seconds].into_iter().chain(coarsest).collect();
    listed.order();
    listed.dedup();
    let stored = source.counter_names(listed).await?;
    let own = source.process.as_ref().map(|process| process.counters());
    let (own, wanted) = (own.unwrap_or_default(), NameFilter::new(&query.contains));
    let names = stored.iter().map(String::as_str);
    let names = names.chain(own.keys().map(|name| &**name));
    let mut names: Vec<&str> = names.filter(|name| wanted.matches(name)).collect();
    names.order();
    names.dedup();
    let page = names.iter().copied().skip(query.offset).take(limit);
    let page: Vec<&str> = page.collect();
    check_points::<CountersQuery>(series.map_or(0, |series| page.len() * series.starts().count()))?;
    let mut counters = Vec::with_capacity(page.len());
    for names in page.chunks(COUNTERS_AT_ONCE) {
        let query = CounterQuery::new(names.iter().copied(), precision.seconds);
        let read = source.counters(&query).await?;
        let row = |c: &CounterSeries| CounterRow::new(&c.name, &c.slices, span, series);
        counters.extend(read.iter().map(row));
    }
    Ok(Counters {
        precision: precision.seconds,
        from: span.from,
        to: span.to,
        total: names.len(),
        series: series.map(SeriesSlices::span),
        counters,
    })
}

/// The requested or the default precision. Fails if counters are not kept at this precision.
fn chosen(asked: Option<u32>, precisions: &Precisions) -> Result<Precision, QueryError> {
    let finest = precisions.counters.first().copied();
    let precision = match asked {
        None => precisions.counter(DEFAULT_PRECISION).or(finest),
        Some(asked) => precisions.counter(asked),
    };
    precision.ok_or_else(|| {
        let kept = precisions.counters.iter().map(|p| p.seconds.to_string());
        let kept = kept.collect::<Vec<_>>().join(", ");
        let asked = asked.unwrap_or(DEFAULT_PRECISION);
        let message = format!("precision is {asked}: counters are kept at {kept}");
        QueryError::parameter("precision", message)
    })
}

/// Asks for one counter over time.
/// The answer is [`CounterSamples`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CounterSamplesQuery {
    /// The name of the counter.
    pub name: String,
    /// The length of the slices in seconds: a configured precision. The default is a minute, or the finest precision if
    /// counters are not kept by the minute.
    pub precision: Option<u32>,
}

pub(in crate::query) async fn counter(
    source: &Source,
    query: &CounterSamplesQuery,
) -> Result<CounterSamples, QueryError> {
    let name = &*query.name;
    check_given("name", name)?;
    let precision = chosen(query.precision, source.store.precisions())?;
    let mut samples = slices(source, name, precision.seconds).await?;
    // Slices beyond their retention are left out. Many such slices may exist until the next cleaning.
    if let Some((newest, _)) = samples.last().copied() {
        let oldest = newest.saturating_sub(precision.span());
        samples.retain(|(start, _)| *start > oldest);
    }
    if samples.is_empty() && !is_known(source, name).await? {
        return Err(QueryError::NotFound("there is no counter of this name"));
    }
    check_points::<CounterSamplesQuery>(samples.len())?;
    Ok(CounterSamples {
        name: name.to_owned(),
        precision: precision.seconds,
        samples,
    })
}

async fn slices(
    source: &Source,
    name: &str,
    precision: u32,
) -> Result<Vec<(i64, i64)>, QueryError> {
    let query = CounterQuery::new([name], precision);
    let counters = source.counters(&query).await?;
    let slices = counters.iter().flat_map(|counter| &counter.slices);
    Ok(slices.map(|slice| (slice.start, slice.count)).collect())
}

/// Whether the counter exists: in this process, as a counter of a context, or in the store at any precision.
async fn is_known(source: &Source, name: &str) -> Result<bool, QueryError> {
    let process = source.process.as_ref();
    if Metric::ALL.iter().any(|metric| metric.as_str() == name)
        || process.is_some_and(|process| process.counters().contains_key(name))
    {
        return Ok(true);
    }
    if let Some((_, context)) = Metric::of_counter(name) {
        let is_context = context == ALL || !source.contexts(context).await?.is_empty();
        if is_context {
            return Ok(true);
        }
    }
    for precision in source.store.precisions().counters.iter().rev() {
        if !slices(source, name, precision.seconds).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `slices` must be oldest first.
pub(super) fn count_at(slices: &[SliceCount], start: i64) -> Option<i64> {
    let at = slices.binary_search_by_key(&start, |slice| slice.start);
    at.ok().map(|at| slices[at].count)
}

#[derive(Clone, Copy)]
struct RateSpan {
    /// Slices that start at this time or earlier are beyond their retention, but may still exist.
    cutoff: i64,
    from: i64,
    to: i64,
    /// Number of recorded seconds from `from` until now.
    seconds: i64,
    /// The start of the last slice that has ended and can be read, if this slice was recorded.
    last: Option<i64>,
}

/// The slices of a rate: the current slice, and before it as many slices as cover a minute.
fn rate_span(precision: Precision, recorded: &Span) -> RateSpan {
    let width = i64::from(precision.seconds);
    let current = precision.slice(recorded.now);
    let before = RATE_SECONDS.div_ceil(precision.seconds);
    let before = i64::from(before.min(precision.retained.saturating_sub(1)));
    let from = current.saturating_sub(before * width);
    let cutoff = precision.cutoff(recorded.now);
    // A slice that has just ended is usually not flushed yet.
    let readable = recorded.as_of.min(recorded.now).saturating_sub(1);
    let last = precision.slice(readable).saturating_sub(width);
    let was_recorded = last > cutoff && recorded.recorded.has_any(last, last.saturating_add(width));
    RateSpan {
        last: was_recorded.then_some(last),
        cutoff,
        from,
        to: current.saturating_add(width),
        seconds: recorded.recorded.seconds(from, recorded.now).max(1),
    }
}

#[derive(Clone, Copy)]
struct SeriesSlices<'a> {
    precision: Precision,
    from: i64,
    to: i64,
    recorded: &'a Span,
}

impl<'a> SeriesSlices<'a> {
    /// The slices of a window; without a window, the newest slices. Returns at most as many slices as a row shows.
    fn new(precision: Precision, bounds: Option<Range<i64>>, recorded: &'a Span) -> Self {
        let width = i64::from(precision.seconds);
        let (from, to) = match bounds {
            Some(bounds) => {
                let slices = Resolution::of_counters(precision).slices(&bounds);
                (slices.from, slices.to)
            }
            None => {
                let to = precision.slice(recorded.now).saturating_add(width);
                let newest = i64::from(precision.retained).min(NEWEST_SLICES);
                (to.saturating_sub(newest * width), to)
            }
        };
        Self {
            precision,
            from: from.max(to.saturating_sub(MAX_ROW_POINTS * width)),
            to,
            recorded,
        }
    }

    fn span(self) -> SeriesSpan {
        SeriesSpan {
            metric: "count",
            precision: self.precision.seconds,
            from: self.from,
            to: self.to,
        }
    }

    fn counts(self, slices: &[SliceCount]) -> Vec<Option<i64>> {
        let width = i64::from(self.precision.seconds);
        let cutoff = self.precision.cutoff(self.recorded.now);
        let count = |start: i64| {
            let is_recorded = start > cutoff
                && (self.recorded.recorded).has_any(start, start.saturating_add(width))
                && start < self.recorded.as_of;
            let counted = count_at(slices, start).filter(|_| start > cutoff);
            counted.or(is_recorded.then_some(0))
        };
        self.starts().map(count).collect()
    }

    fn starts(self) -> impl Iterator<Item = i64> + use<> {
        (self.from..self.to).step_by(self.precision.seconds as usize)
    }
}

impl CounterRow {
    fn new(
        name: &str,
        slices: &[SliceCount],
        span: RateSpan,
        series: Option<SeriesSlices<'_>>,
    ) -> Self {
        // An instance whose clock is ahead may have written later slices.
        let is_retained = |slice: &&SliceCount| span.cutoff < slice.start && slice.start < span.to;
        let retained = || slices.iter().filter(is_retained);
        let sum = |sum: i64, slice: &SliceCount| sum.saturating_add(slice.count);
        let recent = retained().filter(|slice| slice.start >= span.from);
        let count = |start: i64| count_at(slices, start).unwrap_or(0);
        Self {
            name: name.to_owned(),
            last: span.last.map(count),
            last_start: span.last,
            rate: recent.fold(0, sum) as f64 / span.seconds as f64,
            sum: retained().fold(0, sum),
            series: series.map(|series| series.counts(slices)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
