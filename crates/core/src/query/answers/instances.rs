//! The requests of each instance of the fleet, on one context or on all, compared with the others.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::measured::{Measured, share};
use super::{MAX_ROWS, check_limit};
use crate::query::instance_minutes::InstanceSums;
use crate::query::span::Span;
use crate::query::window::WindowSlices;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_detect::change::{Change, ChangeKind, Suspect};
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::minute_report::REPORTED_MINUTES;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::snapshot::{AliveInstance, FleetSnapshot};

/// The instances of the fleet.
///
/// The answer to [`InstancesQuery`](crate::query::dashboard::InstancesQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Instances {
    /// The time that is covered. Only minutes with reports are covered. `complete` is the share of the whole window
    /// that is covered.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// The context, if the question has a context.
    pub context: Option<String>,
    /// Number of instances on all pages.
    pub total: usize,
    /// The instances, by name.
    pub instances: Vec<InstanceRow>,
}

/// An instance and its requests.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct InstanceRow {
    /// The name of the instance.
    pub instance: Arc<str>,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// Whether the instance sends heartbeats.
    pub alive: bool,
    /// Requests in flight at the last heartbeat; `None` unless it is alive.
    pub in_flight: Option<i64>,
    /// The last heartbeat if it is alive, or otherwise the end of its last minute with requests, in Unix seconds.
    pub last_seen: Option<i64>,
    /// The share of its CPUs' time that the process used, 0 to 1: the mean of its minutes.
    pub cpu: Option<f64>,
    /// The scheduling delay, in seconds: the mean of the medians of its minutes.
    pub delay: Option<f64>,
    /// The longest scheduling delay, in seconds.
    pub worst_delay: Option<f64>,
    /// The measurements of its requests.
    #[serde(flatten)]
    pub measured: Measured,
    /// `total` divided by the sum of the totals of all instances, 0 to 1.
    pub share: Option<f64>,
    /// The time of its requests divided by the time that they would have taken on the others, on the same contexts in
    /// the same minutes. Slow instances do not count among the others while at least two are in line.
    ///
    /// Needs at least two minutes in which the others had requests too.
    pub ratio: Option<f64>,
    /// Whether a change about the instance is ongoing.
    pub out_of_line: bool,
    /// Whether the instance needs attention: a change about it is ongoing, or `ratio` is at least 1.5, or `ratio` is
    /// above 1.1 and its version is a suspect of an ongoing change.
    pub stands_out: bool,
    /// The id of the ongoing change about the instance.
    pub change: Option<Arc<str>>,
    /// Seconds by which the clock of the instance is ahead of the store's; `None` if this is unknown, or if the
    /// instance is not alive.
    pub clock_skew_seconds: Option<i64>,
}

/// Asks for the instances of the fleet.
/// The answer is [`Instances`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct InstancesQuery {
    /// Only requests on this context. By default, requests on all reported contexts.
    pub context: Option<String>,
    /// The window; the last hour by default. The answer covers only its last 130 minutes.
    pub window: Option<Window>,
    /// The maximum number of instances, at most 1,000; 100 by default.
    pub limit: Option<usize>,
    /// The number of instances to skip.
    pub offset: usize,
}

/// The smallest ratio to the others at which an instance stands out by itself.
pub(super) const STANDS_OUT: f64 = 1.5;

/// The ratio above which an instance stands out if its version is a suspect of a change.
pub(super) const SUSPECT_STANDS_OUT: f64 = 1.1;

/// The rows of all instances of the fleet, before a page of them is chosen.
pub(super) struct FleetRows {
    /// The part of the window that has minute reports, or the whole window if there is only one instance.
    pub(super) covered: Covered,
    /// The largest relative error of the percentiles.
    pub(super) error: f64,
    /// The instances, by name.
    pub(super) rows: Vec<InstanceRow>,
    /// Whether there is only one instance. A single instance makes no reports, because no other instance can be
    /// compared with it.
    pub(super) is_alone: bool,
}

pub(in crate::query) async fn instances(
    source: &Source,
    query: &InstancesQuery,
) -> Result<Instances, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let fleet = FleetRows::read(source, reported(query.window), query.context.as_deref()).await?;
    Ok(Instances {
        covered: fleet.covered,
        error: fleet.error,
        context: query.context.clone(),
        total: fleet.rows.len(),
        instances: (fleet.rows.into_iter())
            .skip(query.offset)
            .take(limit)
            .collect(),
    })
}

/// The window of a question, the last hour by default.
pub(super) fn reported(asked: Option<Window>) -> Window {
    asked.unwrap_or_else(|| Window::last(Duration::from_secs(HOUR.unsigned_abs())))
}

impl FleetRows {
    /// Reads the requests of each instance in a window, on a context or on all.
    pub(super) async fn read(
        source: &Source,
        window: Window,
        context: Option<&str>,
    ) -> Result<Self, QueryError> {
        let now = source.clock.now_seconds();
        let reported = Reported::new(window, now);
        let id = context.map(|context| ContextId::new(Kind::Http, context));
        let sums = source
            .reader
            .instances(reported.minutes(), id.as_ref())
            .await?;
        let span = source.reader.recorded_span().await?;
        let covered = reported.covered(&sums, &span);
        let mut covered = covered.with_missing(source, &span).await?;
        let fleet = source.reader.fleet().await?;
        let log = source.reader.changes().await?;
        let machines = source.reader.machines(reported.minutes()).await?;
        let record = id.as_ref().map(|id| RecordId::new(id.kind, &id.name));
        let target = record.map_or(source.targets.seconds(), |id| source.targets.seconds_of(id));

        let errors = sums.iter().map(|(_, of)| of.sums.histogram.error());
        let mut error = errors.fold(0.0, f64::max);
        let mut rows = rows(&fleet, &sums, target, &covered);
        let mut is_alone = false;
        if let ([], [lone]) = (&sums[..], &mut rows[..]) {
            is_alone = true;
            let window = source.reader.window(window).await?;
            (covered, error) = (window.now.covered, window.now.error);
            let id = id.unwrap_or_else(ContextId::all);
            if let Some(measured) = Measured::of_part(&id, &window.now, None) {
                lone.measured = measured;
            }
        }
        let whole: f64 = rows.iter().map(|row| row.measured.total).sum();
        for row in &mut rows {
            row.share = share(row.measured.total, whole);
            if let Ok(at) = machines.binary_search_by(|(name, _)| name.cmp(&row.instance)) {
                [row.cpu, row.delay, row.worst_delay] = machines[at].1.figures();
            }
            let change = out_of_line(&log.changes, &row.instance, context);
            row.out_of_line = change.is_some();
            let ratio = row.ratio.unwrap_or(1.0);
            let is_suspect = || {
                let version = row.version.as_deref();
                version.is_some_and(|version| is_suspect(&log.changes, version, context))
            };
            row.stands_out = row.out_of_line
                || ratio >= STANDS_OUT
                || ratio > SUSPECT_STANDS_OUT && is_suspect();
            row.change = change.map(|change| change.id.clone());
        }
        Ok(Self {
            covered,
            error,
            rows,
            is_alone,
        })
    }
}

/// The part of a window that consists of ended minutes whose reports are retained.
pub(super) struct Reported {
    /// The start of the whole window, rounded to minutes.
    begin: i64,
    minutes: WindowSlices,
}

impl Reported {
    pub(super) fn new(window: Window, now: i64) -> Self {
        let tier = REPORTED_MINUTES;
        let whole = WindowSlices::around(&window.bounds(now), tier.seconds, tier, i64::MIN);
        let to = whole.to.min(tier.slice(now));
        let first = whole.starts(now).next();
        Self {
            begin: whole.from,
            minutes: WindowSlices {
                from: first.unwrap_or(to).min(to),
                to,
                ..whole
            },
        }
    }

    /// The starts of these minutes.
    pub(super) fn minutes(&self) -> Range<i64> {
        self.minutes.from..self.minutes.to
    }

    pub(super) fn covered(&self, sums: &[(Arc<str>, InstanceSums)], span: &Span) -> Covered {
        // Some requests may be from before the store was created.
        let busy = sums.iter().map(|(_, of)| of.busy.start);
        let recorded = span.recorded.from(busy.fold(i64::MAX, i64::min));
        let covered = (self.minutes).covered(&recorded, span.recorded_until, span.now);
        let passed = self.minutes.to.saturating_sub(self.begin);
        covered.with_seconds(covered.recorded_seconds, passed)
    }
}

/// The instances that are alive or had requests, by name. `sums` must be sorted by name.
fn rows(
    fleet: &FleetSnapshot,
    sums: &[(Arc<str>, InstanceSums)],
    target: Option<f64>,
    covered: &Covered,
) -> Vec<InstanceRow> {
    let mut rows: Vec<InstanceRow> = Vec::with_capacity(sums.len());
    for (instance, of) in sums {
        let measured = Measured::of_sums(Kind::Http, &of.sums, covered, target);
        let row = InstanceRow {
            version: of.version.clone(),
            last_seen: Some(of.busy.end),
            measured: measured.unwrap_or_else(|| Measured::none(Kind::Http)),
            ratio: of.ratio(),
            ..InstanceRow::new(instance.clone())
        };
        rows.push(row);
    }
    for alive in &fleet.alive {
        let place = sums.binary_search_by(|(name, _)| name.cmp(&alive.instance));
        let place = place.unwrap_or_else(|_| {
            rows.push(InstanceRow::new(alive.instance.clone()));
            rows.len() - 1
        });
        rows[place].set_alive(alive);
    }
    rows.order_by(|a, b| a.instance.cmp(&b.instance));
    rows
}

impl InstanceRow {
    /// An instance with a name, but without known data.
    pub(super) fn new(instance: Arc<str>) -> Self {
        Self {
            instance,
            version: None,
            alive: false,
            in_flight: None,
            last_seen: None,
            cpu: None,
            delay: None,
            worst_delay: None,
            measured: Measured::none(Kind::Http),
            share: None,
            ratio: None,
            out_of_line: false,
            stands_out: false,
            change: None,
            clock_skew_seconds: None,
        }
    }

    fn set_alive(&mut self, alive: &AliveInstance) {
        self.alive = true;
        self.in_flight = alive.in_flight;
        self.last_seen = Some(alive.last_seen);
        self.clock_skew_seconds = alive.skew;
        if alive.version.is_some() {
            self.version.clone_from(&alive.version);
        }
    }
}

/// The most urgent ongoing change about an instance, on one context or on any context.
fn out_of_line<'a>(
    changes: &'a [Change],
    instance: &str,
    context: Option<&str>,
) -> Option<&'a Change> {
    let is_ongoing = |change: &&Change| {
        let is_about = |context| [context, ALL].contains(&&*change.context);
        change.kind == ChangeKind::Instance
            && change.ended.is_none()
            && change.instance.as_deref() == Some(instance)
            && context.is_none_or(is_about)
    };
    let changes = changes.iter().filter(is_ongoing);
    changes.min_by(|a, b| a.by_urgency(b))
}

/// Whether a version of the application is a suspect of an ongoing change, on one context or on any context.
fn is_suspect(changes: &[Change], version: &str, context: Option<&str>) -> bool {
    let is_about =
        |change: &&Change| context.is_none_or(|context| [context, ALL].contains(&&*change.context));
    let ongoing = changes.iter().filter(|change| change.ended.is_none());
    let mut suspects = ongoing.filter(is_about).flat_map(|change| &change.suspects);
    suspects.any(
        |suspect| matches!(suspect, Suspect::Deploy { version: Some(of), .. } if **of == *version),
    )
}
