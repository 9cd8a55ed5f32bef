//! `api/paths`: the table of all contexts in a window, with filter, order and pages.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde::Serialize;

use super::super::Admin;
use super::super::answer_size::AnswerSize;
use super::super::params::Params;
use super::super::response::ApiError;
use super::row_series::{MAX_SERIES_ROWS, PointValue, ROW_METRICS, SeriesOf};
use super::window::{Asked, Change, Compared, Covered, Measured, share};
use super::{Name, NameFilter, limit, offset};
use crate::model::context::{ContextId, Kind};
use crate::model::records::RecordId;
use crate::model::window::Window;
use crate::query::book::Book;
use crate::query::window_sums::PartSums;

/// The measurements that rows can be ordered by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Count,
    Mean,
    Stddev,
    Min,
    Max,
    P50,
    P95,
    P99,
    Total,
    Errors,
    ErrorShare,
    Share,
    /// The change of the mean.
    Change,
    ClientErrors,
    /// The name.
    Context,
}

const SORTS: [(&str, Sort); 15] = [
    ("count", Sort::Count),
    ("mean", Sort::Mean),
    ("p95", Sort::P95),
    ("max", Sort::Max),
    ("total", Sort::Total),
    ("errors", Sort::Errors),
    ("stddev", Sort::Stddev),
    ("min", Sort::Min),
    ("p50", Sort::P50),
    ("p99", Sort::P99),
    ("error_share", Sort::ErrorShare),
    ("share", Sort::Share),
    ("change", Sort::Change),
    ("4xx", Sort::ClientErrors),
    ("context", Sort::Context),
];

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
            Self::Change => row.measured.change?.mean,
            Self::ClientErrors => Some(now.outcomes.count("4xx") as f64),
            // The names are compared where all else is equal.
            Self::Context => None,
        }
    }
}

/// How a context compares with the window before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// It had no samples before.
    New,
    /// It has no samples any more.
    Gone,
    /// Its mean has grown.
    Up,
    /// Its mean has fallen.
    Down,
}

/// A context of the table.
struct Row {
    context: ContextId,
    measured: Compared,
}

impl Row {
    fn is(&self, status: Status) -> bool {
        let Compared { now, before, .. } = &self.measured;
        let mean = self.measured.change.and_then(|change| change.mean);
        match status {
            Status::New => now.is_some() && before.is_none(),
            Status::Gone => now.is_none() && before.is_some(),
            Status::Up => mean.is_some_and(|ratio| ratio > 1.0),
            Status::Down => mean.is_some_and(|ratio| ratio < 1.0),
        }
    }
}

/// The rows of a window, unordered.
struct Table {
    now: Covered,
    before: Covered,
    error: f64,
    rows: Vec<Row>,
}

/// A page of the table.
#[derive(Serialize)]
pub(in crate::admin) struct Paths {
    #[serde(flatten)]
    now: Covered,
    before: Covered,
    /// The largest relative error of the percentiles.
    error: f64,
    /// The time that requests should stay below, in seconds.
    target: Option<f64>,
    /// Number of rows on all pages.
    total: usize,
    /// The slices of the rows' series, if a series was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<SeriesOf>,
    paths: Vec<PathRow>,
}

#[derive(Serialize)]
struct PathRow {
    context: String,
    kind: &'static str,
    method: Option<String>,
    path: Option<String>,
    #[serde(flatten)]
    now: Measured,
    /// The share of the total of all rows.
    share: Option<f64>,
    before: Option<Measured>,
    change: Option<Change>,
    /// One value for each slice, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<Option<PointValue>>>,
}

pub(in crate::admin) async fn paths(
    admin: &Admin,
    params: &Params,
    size: AnswerSize<'_>,
) -> Result<Paths, ApiError> {
    let asked = Asked::read(params, admin.source.clock.now_seconds())?.unwrap_or(Asked::Hour);
    let kinds = [
        ("http", Some(Kind::Http)),
        ("timer", Some(Kind::Timer)),
        ("all", None),
    ];
    let kind = params.choice("kind", &kinds)?;
    let sort = params.choice("sort", &SORTS)?;
    let descending = params.choice("order", &[("desc", true), ("asc", false)])?;
    let statuses = [
        ("any", None),
        ("new", Some(Status::New)),
        ("gone", Some(Status::Gone)),
        ("up", Some(Status::Up)),
        ("down", Some(Status::Down)),
    ];
    let status = params.choice("status", &statuses)?;
    let wanted = NameFilter::read(params)?;
    let metric = params.choice("series", &ROW_METRICS)?;
    let limit = match metric {
        Some(_) => limit(params)?.min(MAX_SERIES_ROWS),
        None => limit(params)?,
    };
    let offset = offset(params)?;

    // The book has statistics of hours.
    let book = match asked {
        Asked::Hour | Asked::LastHour => Some(admin.reader.book().await?),
        Asked::Records(_) => None,
    };
    let mut table = rows(admin, asked.window(), book.as_deref()).await?;
    table
        .rows
        .retain(|row| kind.is_none_or(|kind| kind == row.context.kind));
    let totals = table
        .rows
        .iter()
        .filter_map(|row| row.measured.now.as_ref());
    // In one order, as the last digits of a sum depend on it, and an unchanged answer should stay the same.
    let mut totals: Vec<f64> = totals.map(|now| now.total).collect();
    totals.sort_unstable_by(f64::total_cmp);
    let whole: f64 = totals.iter().sum();
    table.rows.retain(|row| wanted.matches(&row.context.name));
    table.rows.retain(|row| match status {
        Some(status) => row.is(status),
        None => row.measured.now.is_some(),
    });
    table.rows.sort_unstable_by(|a, b| {
        let by_name = a.context.name.cmp(&b.context.name);
        match sort == Sort::Context && descending {
            true => by_name.reverse(),
            false => order(sort.key(a), sort.key(b), descending).then(by_name),
        }
    });
    let total = table.rows.len();
    let page = table.rows.into_iter().skip(offset).take(limit);
    let page: Vec<Row> = page.collect();
    let mut series = None;
    let mut values = Vec::new();
    if let Some(metric) = metric {
        size.add_points(page.len() * admin.reader.slices_of(asked.window()))?;
        let ids = page.iter().map(|row| &row.context);
        let ids: Vec<_> = ids.map(|id| RecordId::new(id.kind, &id.name)).collect();
        let points = admin.reader.window_points(asked.window(), &ids).await?;
        series = Some(SeriesOf::new(metric.as_str(), &points));
        values = points.rows;
    }
    let mut values = values.into_iter();
    let row = |row: Row| {
        let name = Name::new(&row.context.name, row.context.kind);
        let now = row.measured.now.as_ref();
        PathRow {
            context: name.context.to_owned(),
            kind: name.kind,
            method: name.method.map(str::to_owned),
            path: name.path.map(str::to_owned),
            share: now.and_then(|now| share(now.total, whole)),
            now: row
                .measured
                .now
                .unwrap_or_else(|| Measured::none(row.context.kind)),
            before: row.measured.before,
            change: row.measured.change,
            series: (metric.zip(values.next())).map(|(metric, points)| metric.of_all(&points)),
        }
    };
    Ok(Paths {
        now: table.now,
        before: table.before,
        error: table.error,
        target: admin.source.target_seconds(),
        total,
        series,
        paths: page.into_iter().map(row).collect(),
    })
}

/// The contexts of a window of the records, with what other programs have added to the book's statistics.
async fn rows(admin: &Admin, window: Window, book: Option<&Book>) -> Result<Table, ApiError> {
    let sums = admin.reader.window(window).await?;
    let (now, before) = (Covered::from(&sums.now), Covered::from(&sums.before));
    let recorded = sums.contexts();
    let contexts: HashSet<_> = recorded
        .chain(book.into_iter().flat_map(Book::contexts))
        .collect();
    let measured = |context: &ContextId, part: &PartSums| {
        let added = book.and_then(|book| book.added(context, part.slices.from));
        Measured::of_part(context, part, added)
    };
    let rows = contexts.into_iter().map(|context| Row {
        measured: Compared::new(
            (measured(context, &sums.now), now.seconds),
            (measured(context, &sums.before), before.seconds),
        ),
        context: context.clone(),
    });
    Ok(Table {
        now,
        before,
        error: sums.error(),
        rows: rows.collect(),
    })
}

/// Compares two rows. A row without a value comes last in either order.
fn order(a: Option<f64>, b: Option<f64>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
