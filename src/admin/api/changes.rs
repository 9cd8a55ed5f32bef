//! `api/changes`: what has changed, of all contexts, and of one in `api/path`.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::window::share;
use super::{limit, offset};
use crate::model::changes::change::{Change, ChangeKind};
use crate::model::changes::detector::Sight;
use crate::model::context::method_and_path;

#[derive(Serialize)]
pub(in crate::admin) struct Changes {
    /// The end of the last minute that was judged; `null` before the first.
    judged_until: Option<i64>,
    /// How well the detector could see then.
    sight: Sight,
    /// Number of changes that match.
    total: usize,
    /// Number of changes that stand.
    standing: usize,
    changes: Vec<ChangeRow>,
}

/// A change, with what is computed from it.
#[derive(Serialize)]
pub(super) struct ChangeRow {
    #[serde(flatten)]
    change: Change,
    method: Option<String>,
    path: Option<String>,
    /// Whether it stands.
    stands: bool,
    /// The shares of the extra time that come from more requests, and from slower ones; `null` without extra time.
    traffic_share: Option<f64>,
    code_share: Option<f64>,
}

impl From<&Change> for ChangeRow {
    fn from(change: &Change) -> Self {
        let (method, path) = method_and_path(&change.context);
        let extra = change.extra_seconds_per_minute;
        Self {
            method: method.map(str::to_owned),
            path: path.map(str::to_owned),
            stands: change.ended.is_none(),
            traffic_share: share(change.from_traffic, extra),
            code_share: share(change.from_code, extra),
            change: change.clone(),
        }
    }
}

pub(in crate::admin) async fn changes(admin: &Admin, params: &Params) -> Result<Changes, ApiError> {
    let kinds = ChangeKind::ALL.map(|kind| (kind.as_str(), Some(kind)));
    let kind = params.choice("kind", &[&[("any", None)], &kinds[..]].concat())?;
    let (limit, offset) = (limit(params)?, offset(params)?);
    let log = admin.reader.changes().await?;
    let mut matching: Vec<&Change> = (log.changes.iter())
        .filter(|change| kind.is_none_or(|kind| change.kind == kind))
        .collect();
    sort_by_urgency(&mut matching);
    Ok(Changes {
        judged_until: (log.judged.until > 0).then_some(log.judged.until),
        sight: log.judged.sight,
        total: matching.len(),
        standing: matching.iter().filter(|c| c.ended.is_none()).count(),
        changes: matching
            .into_iter()
            .skip(offset)
            .take(limit)
            .map(ChangeRow::from)
            .collect(),
    })
}

fn sort_by_urgency(changes: &mut [&Change]) {
    changes.sort_by(|a, b| a.by_urgency(b));
}

/// The changes of a context.
pub(super) async fn changes_of(admin: &Admin, context: &str) -> Result<Vec<ChangeRow>, ApiError> {
    let log = admin.reader.changes().await?;
    let changes = log.changes.iter();
    let mut of_context: Vec<&Change> = changes.filter(|c| *c.context == *context).collect();
    sort_by_urgency(&mut of_context);
    Ok(of_context.into_iter().map(ChangeRow::from).collect())
}
