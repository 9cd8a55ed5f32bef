//! `api/instances`: what each instance of the fleet did, on one context or on all, beside the others.

use std::sync::Arc;

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::resolution::{Bounds, Resolution, SliceSource};
use super::window::{Asked, Covered, Measured, share};
use super::{limit, offset};
use crate::model::changes::change::{Change, ChangeKind};
use crate::model::context::{ALL, ContextId, Kind};
use crate::model::minute_report::REPORTED_MINUTES;
use crate::model::slice::HOUR;
use crate::model::snapshot::{AliveInstance, FleetSnapshot};
use crate::model::window::{Window, WindowSlices};
use crate::query::Span;
use crate::query::instance_minutes::InstanceSums;
use crate::query::window_sums::Summary;

#[derive(Serialize)]
pub(in crate::admin) struct Instances<'a> {
    /// The part of the window of which there are minute reports. `complete` is the share of the whole window.
    #[serde(flatten)]
    covered: Covered,
    /// The largest relative error of the percentiles.
    error: f64,
    context: Option<&'a str>,
    /// Number of instances on all pages.
    total: usize,
    instances: Vec<Row>,
}

/// What an instance did.
#[derive(Serialize)]
struct Row {
    instance: Arc<str>,
    /// The version of the application.
    version: Option<Arc<str>>,
    alive: bool,
    /// Requests in flight at the last heartbeat; `null` unless it is alive.
    in_flight: Option<i64>,
    /// The last heartbeat of an instance that is alive; otherwise the end of the last minute in which it had requests.
    last_seen: Option<i64>,
    #[serde(flatten)]
    measured: Measured,
    /// The share of the total of all instances.
    share: Option<f64>,
    /// How many times as long its requests took as those of the others, on the same contexts in the same minutes.
    ratio: Option<f64>,
    /// Whether a change that stands is about it.
    out_of_line: bool,
    /// The id of this change.
    change: Option<Arc<str>>,
}

pub(in crate::admin) async fn instances<'a>(
    admin: &Admin,
    params: &'a Params,
) -> Result<Instances<'a>, ApiError> {
    let now = admin.source.clock.now_seconds();
    let context = params.name("context")?;
    let asked = Asked::read(params, now)?.unwrap_or(Asked::Records(Window::Last(HOUR)));
    let (limit, offset) = (limit(params)?, offset(params)?);
    let reported = Reported::new(asked.window(), now);
    let id = context.map(|context| ContextId::new(Kind::Http, context));
    let minutes = reported.minutes.from..reported.minutes.to;
    let sums = admin.reader.instances(minutes, id.as_ref()).await?;
    let mut covered = reported.covered(&sums, admin.reader.recorded_span().await?);
    let fleet = admin.reader.fleet().await?;
    let log = admin.reader.changes().await?;
    let target = admin.source.target_seconds();

    let errors = sums.iter().map(|of| of.sums.histogram.error());
    let mut error = errors.fold(0.0, f64::max);
    let mut rows = rows(&fleet, &sums, target);
    if let ([], [lone]) = (&sums[..], &mut rows[..]) {
        // It has nothing to be compared with, so that it makes no reports.
        let window = admin.reader.window(asked.window()).await?;
        (covered, error) = (Covered::from(&window.now), window.now.error);
        let id = id.unwrap_or_else(ContextId::all);
        if let Some(measured) = Measured::of_part(&id, &window.now, None) {
            lone.measured = measured;
        }
    }
    let whole: f64 = rows.iter().map(|row| row.measured.total).sum();
    for row in &mut rows {
        row.share = share(row.measured.total, whole);
        let change = out_of_line(&log.changes, &row.instance, context);
        row.out_of_line = change.is_some();
        row.change = change.map(|change| change.id.clone());
    }
    Ok(Instances {
        covered,
        error,
        context,
        total: rows.len(),
        instances: rows.into_iter().skip(offset).take(limit).collect(),
    })
}

/// The part of a window that consists of minutes whose reports are retained, and that have ended.
struct Reported {
    /// The start of the whole window, rounded to minutes.
    begin: i64,
    minutes: WindowSlices,
}

impl Reported {
    fn new(window: Window, now: i64) -> Self {
        let resolution = Resolution {
            precision: REPORTED_MINUTES.seconds,
            source: SliceSource::Records(REPORTED_MINUTES),
        };
        let window = resolution.slices(Bounds::new(window, now));
        let to = window.to.min(REPORTED_MINUTES.slice(now));
        let first = window.starts(now).next();
        Self {
            begin: window.from,
            minutes: WindowSlices {
                from: first.unwrap_or(to).min(to),
                to,
                ..window
            },
        }
    }

    fn covered(&self, sums: &[InstanceSums], span: Span) -> Covered {
        // There may be requests from before the store's beginning.
        let busy = sums.iter().map(|of| of.busy.start);
        let since = busy.fold(span.created, i64::min);
        let seconds = self.minutes.covered(since, span.recorded_until, span.now);
        let whole = self.minutes.to.saturating_sub(self.begin);
        Covered {
            from: self.minutes.from,
            to: self.minutes.to,
            complete: share(seconds as f64, whole as f64).unwrap_or(0.0),
            seconds,
        }
    }
}

/// The instances that are alive or had requests, by name. The sums are sorted by name.
fn rows(fleet: &FleetSnapshot, sums: &[InstanceSums], target: Option<f64>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::with_capacity(sums.len());
    for of in sums {
        let measured = Measured::of_summary(Kind::Http, &Summary::new(&of.sums, true, target));
        let row = Row {
            version: of.version.clone(),
            last_seen: Some(of.busy.end),
            measured: measured.unwrap_or_else(|| Measured::none(Kind::Http)),
            ratio: of.ratio,
            ..Row::new(of.instance.clone())
        };
        rows.push(row);
    }
    for alive in &fleet.alive {
        let place = sums.binary_search_by(|of| of.instance.cmp(&alive.instance));
        let place = place.unwrap_or_else(|_| {
            rows.push(Row::new(alive.instance.clone()));
            rows.len() - 1
        });
        rows[place].set_alive(alive);
    }
    rows.sort_unstable_by(|a, b| a.instance.cmp(&b.instance));
    rows
}

impl Row {
    /// An instance of which nothing is known but its name.
    fn new(instance: Arc<str>) -> Self {
        Self {
            instance,
            version: None,
            alive: false,
            in_flight: None,
            last_seen: None,
            measured: Measured::none(Kind::Http),
            share: None,
            ratio: None,
            out_of_line: false,
            change: None,
        }
    }

    fn set_alive(&mut self, alive: &AliveInstance) {
        self.alive = true;
        self.in_flight = alive.in_flight;
        self.last_seen = Some(alive.last_seen);
        if alive.version.is_some() {
            self.version.clone_from(&alive.version);
        }
    }
}

/// The most urgent of the changes that stand and are about an instance, on a context or on any.
fn out_of_line<'a>(
    changes: &'a [Change],
    instance: &str,
    context: Option<&str>,
) -> Option<&'a Change> {
    let stands = |change: &&Change| {
        let is_about = |context| [context, ALL].contains(&&*change.context);
        change.kind == ChangeKind::Instance
            && change.ended.is_none()
            && change.instance.as_deref() == Some(instance)
            && context.is_none_or(is_about)
    };
    let changes = changes.iter().filter(stands);
    changes.min_by(|a, b| a.by_urgency(b))
}
