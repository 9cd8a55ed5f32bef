//! `api/paths`: the table of all contexts in an hour, with filter, order and pages.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::{Hour, Name, limit};
use crate::model::context::Kind;
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Snapshot};

#[derive(Clone, Copy)]
enum Window {
    Hour,
    LastHour,
}

impl Window {
    fn of(self, context: &ContextSnapshot) -> Option<&HourSnapshot> {
        let hour = match self {
            Self::Hour => context.hour.as_ref(),
            Self::LastHour => context.last_hour.as_ref(),
        };
        hour.filter(|hour| hour.times.count > 0.0)
    }
}

#[derive(Clone, Copy)]
enum Sort {
    Count,
    Mean,
    P95,
    Max,
    Total,
    Errors,
}

impl Sort {
    fn key(self, hour: &HourSnapshot) -> Option<f64> {
        match self {
            Self::Count => Some(hour.times.count),
            Self::Mean => hour.times.mean(),
            Self::P95 => hour.quantile(0.95),
            Self::Max => hour.times.largest(),
            Self::Total => Some(hour.times.sum),
            Self::Errors => Some(hour.aggregate.outcomes.errors as f64),
        }
    }
}

/// A page of the table, serialized directly from the snapshot.
pub(in crate::admin) struct Paths {
    snapshot: Arc<Snapshot>,
    window: Window,
    /// Number of rows on all pages.
    total: usize,
    /// Indexes of this page's rows in the snapshot.
    page: Vec<usize>,
}

pub(in crate::admin) async fn paths(admin: &Admin, params: &Params) -> Result<Paths, ApiError> {
    let window = params.choice(
        "window",
        &[("hour", Window::Hour), ("last_hour", Window::LastHour)],
    )?;
    let kinds = [
        ("http", Some(Kind::Http)),
        ("timer", Some(Kind::Timer)),
        ("all", None),
    ];
    let kind = params.choice("kind", &kinds)?;
    let sorts = [
        ("count", Sort::Count),
        ("mean", Sort::Mean),
        ("p95", Sort::P95),
        ("max", Sort::Max),
        ("total", Sort::Total),
        ("errors", Sort::Errors),
    ];
    let sort = params.choice("sort", &sorts)?;
    let descending = params.choice("order", &[("desc", true), ("asc", false)])?;
    let wanted = params.text("q")?;
    let limit = limit(params)?;
    let offset = params.number("offset", 0, usize::MAX)?;

    let snapshot = admin.reader.snapshot().await?;
    let mut rows: Vec<(Option<f64>, &str, usize)> = snapshot
        .contexts
        .iter()
        .enumerate()
        .filter(|(_, context)| kind.is_none_or(|kind| kind == context.kind))
        .filter(|(_, context)| context.context.contains(wanted))
        .filter_map(|(at, context)| {
            let hour = window.of(context)?;
            Some((sort.key(hour), context.context.as_str(), at))
        })
        .collect();
    rows.sort_unstable_by(|a, b| order(a.0, b.0, descending).then_with(|| a.1.cmp(b.1)));
    let page = rows.iter().skip(offset).take(limit).map(|(_, _, at)| *at);
    Ok(Paths {
        total: rows.len(),
        page: page.collect(),
        window,
        snapshot: snapshot.clone(),
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

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            name: Name<'a>,
            #[serde(flatten)]
            hour: Hour,
        }
        let row = |at: &usize| {
            let context = &self.snapshot.contexts[*at];
            let hour = self.window.of(context)?;
            Some(Row {
                name: Name::of(&context.context, context.kind),
                hour: Hour::of(hour),
            })
        };
        let rows: Vec<_> = self.page.iter().filter_map(row).collect();
        let mut answer = serializer.serialize_struct("Paths", 2)?;
        answer.serialize_field("total", &self.total)?;
        answer.serialize_field("paths", &rows)?;
        answer.end()
    }
}
