//! `api/deploy`: each context before and after a mark, and the new version beside the old one.

use std::collections::HashMap;

use http::StatusCode;
use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::window::{Change, Compared, Covered, Measured, share};
use super::{Name, limit, offset};
use crate::model::changes::side_by_side::{MAX_MINUTES, SideBySide, Versions};
use crate::model::context::{ContextId, Kind};
use crate::model::mark::Mark;
use crate::model::records::RecordId;
use crate::model::slice::HOUR;
use crate::model::tier::FINEST;
use crate::model::window::Window;
use crate::query::window_sums::WindowSums;

#[derive(Serialize)]
pub(in crate::admin) struct Deploy {
    mark: Mark,
    /// The hour before the mark, without the slice that the mark is in.
    before: Covered,
    /// The time since, an hour at most; `null` while no whole slice has passed.
    after: Option<Covered>,
    /// Number of contexts that had requests before or after.
    total: usize,
    contexts: Vec<Row>,
}

/// A context before and after a mark.
#[derive(Serialize)]
struct Row {
    context: String,
    kind: &'static str,
    method: Option<String>,
    path: Option<String>,
    before: Option<Measured>,
    after: Option<Measured>,
    change: Option<Change>,
    /// Service time per minute beyond that before, in seconds.
    extra_seconds_per_minute: Option<f64>,
    /// The new version compared with the others in the same minutes; `null` if they did not run side by side.
    side_by_side: Option<SideBySide>,
}

pub(in crate::admin) async fn deploy(admin: &Admin, params: &Params) -> Result<Deploy, ApiError> {
    let id = params.name("mark")?;
    let (limit, offset) = (limit(params)?, offset(params)?);
    let marks = admin.reader.marks().await?;
    let mark = match id {
        Some(id) => marks.iter().find(|mark| *mark.id == *id),
        None => marks.last(),
    };
    let mark = mark.cloned().ok_or_else(|| {
        let message = "there is no such mark: see api/marks";
        ApiError::new(StatusCode::NOT_FOUND, message)
    })?;
    let now = admin.source.clock.now_seconds();
    // The slice that the mark is in belongs to neither side.
    let tier = Window::Between(mark.at.saturating_sub(HOUR), mark.at)
        .slices(now)
        .tier;
    let length = HOUR.max(i64::from(tier.seconds));
    let start = tier.slice(mark.at);
    let after = start.saturating_add(i64::from(tier.seconds));
    let before = admin
        .reader
        .window(Window::Between(start.saturating_sub(length), start))
        .await?;
    let end = tier.slice(now).min(after.saturating_add(length));
    let since = match end > after {
        true => Some(admin.reader.window(Window::Between(after, end)).await?),
        false => None,
    };
    let versions = match &mark.version {
        Some(version) => Some(
            admin
                .reader
                .versions(version, side_by_side(mark.at, now))
                .await?,
        ),
        None => None,
    };
    let mut rows = rows(&before, since.as_deref(), versions.as_deref());
    rows.sort_by(|a, b| {
        let extra = |row: &Row| row.extra_seconds_per_minute.unwrap_or(f64::NEG_INFINITY);
        extra(b)
            .total_cmp(&extra(a))
            .then_with(|| a.context.cmp(&b.context))
    });
    Ok(Deploy {
        mark,
        before: Covered::from(&before.now),
        after: since.as_ref().map(|since| Covered::from(&since.now)),
        total: rows.len(),
        contexts: rows.into_iter().skip(offset).take(limit).collect(),
    })
}

/// The newest whole minutes, of the hour after a mark, in which versions may have run side by side.
fn side_by_side(at: i64, now: i64) -> Vec<i64> {
    let minute = i64::from(FINEST.seconds);
    let end = FINEST.slice(now).min(FINEST.slice(at).saturating_add(HOUR));
    let start = FINEST.slice(at).max(end - MAX_MINUTES * minute);
    (start..end).step_by(FINEST.seconds as usize).collect()
}

fn rows(before: &WindowSums, since: Option<&WindowSums>, versions: Option<&Versions>) -> Vec<Row> {
    let mut contexts: HashMap<RecordId, &ContextId> = HashMap::new();
    for sums in std::iter::once(before).chain(since) {
        for context in sums.contexts().filter(|c| c.kind == Kind::Http) {
            contexts.insert(RecordId::new(context.kind, &context.name), context);
        }
    }
    let covered = |sums: &WindowSums| Covered::from(&sums.now).seconds;
    let row = |(id, context): (RecordId, &ContextId)| {
        let (after_sums, before_sums) = (
            since.and_then(|since| Measured::of_part(context, &since.now, None)),
            Measured::of_part(context, &before.now, None),
        );
        if after_sums.is_none() && before_sums.is_none() {
            return None;
        }
        let compared = Compared::new(
            (after_sums, since.map_or(0, covered)),
            (before_sums, covered(before)),
        );
        let per_minute = |measured: Option<&Measured>, seconds: i64| {
            let total = measured.map_or(0.0, |measured| measured.total);
            share(60.0 * total, seconds as f64)
        };
        let spent = since.and_then(|since| per_minute(compared.now.as_ref(), covered(since)));
        let spent_before = per_minute(compared.before.as_ref(), covered(before));
        let name = Name::new(&context.name, context.kind);
        Some(Row {
            context: name.context.to_owned(),
            kind: name.kind,
            method: name.method.map(str::to_owned),
            path: name.path.map(str::to_owned),
            extra_seconds_per_minute: spent.zip(spent_before).map(|(now, then)| now - then),
            before: compared.before,
            after: compared.now,
            change: compared.change,
            side_by_side: versions.and_then(|versions| versions.compare(id)),
        })
    };
    contexts.into_iter().filter_map(row).collect()
}
