//! The requests of each instance of the fleet, on one context or on all, compared with the others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::measured::{Measured, share};
use super::{MAX_ROWS, check_limit};
use crate::query::instance_minutes::{Comparison, InstanceSums};
use crate::query::span::Span;
use crate::query::window::WindowSlices;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_detect::change::{Change, ChangeKind, Suspect};
use tower_pulse_model::aggregate::Aggregate;
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
    /// The time that is covered. Only minutes with reports are covered. `complete` is the covered share of the whole
    /// window.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// The context, if the question has a context.
    pub context: Option<String>,
    /// Number of instances.
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
    /// Requests in flight at the last heartbeat; `None` unless the instance is alive.
    pub in_flight: Option<i64>,
    /// The time of the last heartbeat if the instance is alive, or else the end of its last minute with requests, in
    /// Unix seconds.
    pub last_seen: Option<i64>,
    /// The share of its CPUs' time that the process used, 0 to 1: the mean over the minutes of the window.
    pub cpu: Option<f64>,
    /// The scheduling delay, in seconds: the mean of the medians of the minutes in the window.
    pub delay: Option<f64>,
    /// The longest scheduling delay, in seconds.
    pub worst_delay: Option<f64>,
    /// The measurements of the instance's requests.
    #[serde(flatten)]
    pub measured: Measured,
    /// `total` divided by the sum of the totals of all instances, 0 to 1.
    pub share: Option<f64>,
    /// The time of the instance's requests divided by the time that they would have taken on the others, on the same
    /// contexts in the same minutes. Slow instances do not count among the others, but at least two instances always
    /// do.
    ///
    /// Needs at least two minutes in which the others had requests too.
    pub ratio: Option<f64>,
    /// Whether a change about the instance is ongoing.
    pub out_of_line: bool,
    /// Whether the instance needs attention, for one of three reasons: a change about the instance is ongoing; `ratio`
    /// is at least 1.5; `ratio` is above 1.1 and the instance's version is a suspect of an ongoing change.
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
    /// The window; the last 60 minutes by default. Reports of the last 130 minutes are kept.
    pub window: Option<Window>,
    /// The maximum number of instances, at most 1,000; 100 by default.
    pub limit: Option<usize>,
    /// The number of instances to skip.
    pub offset: usize,
}

/// The smallest ratio at which an instance stands out without another reason.
pub(super) const STANDS_OUT: f64 = 1.5;

/// The ratio above which an instance stands out if its version is a suspect of a change.
pub(super) const SUSPECT_STANDS_OUT: f64 = 1.1;

pub(super) struct FleetRows {
    /// The part of the window that has minute reports; the whole window if `is_alone`.
    pub(super) covered: Covered,
    pub(super) error: f64,
    pub(super) rows: Vec<InstanceRow>,
    /// Whether there is only one instance, without reported requests: a single instance reports its requests only if it
    /// has a version.
    pub(super) is_alone: bool,
    /// The compared requests of the instances, from which the rows are made.
    pub(super) compared: Arc<Comparison>,
}

pub(in crate::query) async fn instances(
    source: &Source,
    query: &InstancesQuery,
) -> Result<Instances, QueryError> {
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let context = query.context.as_deref();
    let fleet = FleetRows::read(source, query.window, context, None).await?;
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

impl FleetRows {
    /// `window` is the last 60 minutes by default. Compares `instance` with the others in detail.
    pub(super) async fn read(
        source: &Source,
        window: Option<Window>,
        context: Option<&str>,
        instance: Option<&str>,
    ) -> Result<Self, QueryError> {
        let window = window.unwrap_or(Window::seconds(HOUR));
        let reported = Reported::new(window, source.clock.now_seconds());
        let id = context.map(|context| RecordId::new(Kind::Http, context));
        let compared = source.instances(reported.minutes, id, instance);
        let compared = compared.await?;
        let span = source.recorded_span().await?;
        let covered = reported.covered(&compared.instances, &span);
        let mut covered = covered.with_missing(source, &span).await?;
        let fleet = source.fleet().await?;
        let log = source.changes().await?;
        let target = id.map_or(source.targets.seconds(), |id| source.targets.seconds_of(id));

        let mut rows = rows(&compared, &fleet, |sums| {
            Measured::of_sums(Kind::Http, sums, &covered, target)
        });
        let instances = compared.instances.iter();
        let errors = instances.map(|(_, sums)| sums.sums.histogram.error());
        let mut error = errors.fold(0.0, f64::max);
        let mut is_alone = false;
        if let ([], [lone]) = (&compared.instances[..], &mut rows[..]) {
            is_alone = true;
            let window = source.window(window).await?;
            (covered, error) = (window.now.covered, window.now.error);
            let id = context.map_or_else(ContextId::all, |name| ContextId::new(Kind::Http, name));
            if let Some(measured) = Measured::of_part(&id, &window.now, None) {
                lone.measured = measured;
            }
        }
        let whole: f64 = rows.iter().map(|row| row.measured.total).sum();
        let is_about = |change: &&Change| {
            let is_about = |context| [context, ALL].contains(&&*change.context);
            change.ended.is_none() && context.is_none_or(is_about)
        };
        let changes: Vec<&Change> = log.changes.iter().filter(is_about).collect();
        for row in &mut rows {
            row.share = share(row.measured.total, whole);
            row.set_changes(&changes);
        }
        Ok(Self {
            covered,
            error,
            rows,
            is_alone,
            compared,
        })
    }
}

/// The instances that are alive or had requests, by name.
fn rows(
    compared: &Comparison,
    fleet: &FleetSnapshot,
    measured: impl Fn(&Aggregate) -> Option<Measured>,
) -> Vec<InstanceRow> {
    let found = compared.instances.iter();
    let found = found.map(|(name, sums)| (name, Some(sums), None::<&AliveInstance>));
    let mut found: Vec<_> = found.collect();
    for alive in &fleet.alive {
        let instances = &compared.instances;
        match instances.binary_search_by(|(name, _)| name.cmp(&alive.instance)) {
            Ok(at) => found[at].2 = Some(alive),
            Err(_) => found.push((&alive.instance, None, Some(alive))),
        }
    }
    found.order_by(|a, b| a.0.cmp(b.0));
    let rows = found.into_iter().map(|(instance, sums, alive)| {
        let machines = &compared.machines;
        let machine = machines.binary_search_by(|(name, _)| name.cmp(instance));
        let machine = machine.map(|at| machines[at].1.cpu_and_delays());
        let [cpu, delay, worst_delay] = machine.unwrap_or_default();
        let version = alive.and_then(|alive| alive.version.clone());
        let measured = sums.and_then(|sums| measured(&sums.sums));
        InstanceRow {
            instance: instance.clone(),
            version: version.or_else(|| sums?.version.clone()),
            alive: alive.is_some(),
            in_flight: alive.and_then(|alive| alive.in_flight),
            last_seen: (alive.map(|alive| alive.last_seen)).or(sums.map(|sums| sums.busy.end)),
            cpu,
            delay,
            worst_delay,
            measured: measured.unwrap_or_else(|| Measured::none(Kind::Http)),
            share: None,
            ratio: sums.and_then(InstanceSums::ratio),
            out_of_line: false,
            stands_out: false,
            change: None,
            clock_skew_seconds: alive.and_then(|alive| alive.skew),
        }
    });
    rows.collect()
}

impl InstanceRow {
    fn set_changes(&mut self, changes: &[&Change]) {
        let own = changes.iter().filter(|change| {
            change.kind == ChangeKind::Instance && change.instance.as_ref() == Some(&self.instance)
        });
        let change = own.min_by(|a, b| a.by_urgency(b));
        let mut suspects = changes.iter().flat_map(|change| &change.suspects);
        let is_own = |suspect: &Suspect| matches!(suspect, Suspect::Deploy { version, .. } if *version == self.version);
        let is_suspect = self.version.is_some() && suspects.any(is_own);
        let ratio = self.ratio.unwrap_or(1.0);
        self.stands_out =
            change.is_some() || ratio >= STANDS_OUT || ratio > SUSPECT_STANDS_OUT && is_suspect;
        self.out_of_line = change.is_some();
        self.change = change.map(|change| change.id.clone());
    }
}

/// The minutes of a window that have ended, and whose reports are retained.
pub(super) struct Reported {
    /// The start of the whole window, rounded to minutes.
    begin: i64,
    pub(super) minutes: WindowSlices,
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

    pub(super) fn covered(&self, sums: &[(Arc<str>, InstanceSums)], span: &Span) -> Covered {
        // Some requests may be older than the store.
        let busy = sums.iter().map(|(_, sums)| sums.busy.start);
        let recorded = span.recorded.extended_to(busy.fold(i64::MAX, i64::min));
        let covered = (self.minutes).covered(&recorded, span.recorded_until, span.now);
        let passed = self.minutes.to.saturating_sub(self.begin);
        covered.with_seconds(covered.recorded_seconds, passed)
    }
}
