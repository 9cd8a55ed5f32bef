//! One instance compared with the others, over time and on each of its paths.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::instance_verdict::{InstanceVerdict, Thresholds};
use super::instances::{FleetRows, InstanceRow};
use super::measured::{ContextName, Measured};
use super::{MAX_ROWS, check_given, check_limit};
use crate::query::instance_minutes::beside_others::{ContextBeside, MinuteBeside};
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_model::context::Kind;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::REPORTED_MINUTES;
use tower_pulse_model::order::keep_first;

const MINUTE: i64 = REPORTED_MINUTES.seconds as i64;

/// One instance compared with the others.
///
/// The answer to [`InstanceQuery`](crate::query::dashboard::InstanceQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Instance {
    /// The time that is covered. Only minutes with reports are covered, or all minutes if `alone`. `complete` is the
    /// covered share of the whole window.
    #[serde(flatten)]
    pub covered: Covered,
    /// The largest relative error of the percentiles.
    pub error: f64,
    /// The row of the instance in the list of all instances.
    #[serde(flatten)]
    pub row: InstanceRow,
    /// Whether the fleet has no other instance, and this instance reports no requests. The figures are then those of
    /// all requests.
    ///
    /// A single instance reports its requests only if it has a version.
    pub alone: bool,
    /// The largest number of other instances that had requests in the same minute. Slow instances do not count.
    pub others: usize,
    /// The start of the instance's first minute with requests in the window, in Unix seconds.
    pub first_minute: Option<i64>,
    /// The end of the instance's last minute with requests in the window, in Unix seconds.
    pub last_minute: Option<i64>,
    /// Whether the instance is slower or fails on all of its paths, or on some of them.
    pub verdict: InstanceVerdict,
    /// The length of the slices of `points`, in seconds.
    pub precision: u32,
    /// The start, in Unix seconds, and the figures of each minute with requests, oldest first.
    pub points: Vec<(i64, InstancePoint)>,
    /// The start, in Unix seconds, of each minute in which the instance was alive, and the measurements of its runtime
    /// and process, oldest first.
    pub machine: Vec<(i64, MachinePoint)>,
    /// Number of paths of the instance, at most 256.
    pub reported_paths: usize,
    /// The paths of the instance: slower and failing paths first, then paths with the most additional time compared
    /// with the others.
    pub paths: Vec<InstancePath>,
}

/// The requests of an instance in a minute.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct InstancePoint {
    /// Number of requests.
    pub count: u64,
    /// Number of errors.
    pub errors: u64,
    /// The mean duration, in seconds.
    pub mean: Option<f64>,
    /// The 95th percentile, in seconds.
    pub p95: Option<f64>,
    /// The mean number of requests per other instance, without slow instances; `None` if the others had no requests.
    pub others_count: Option<f64>,
    /// The mean that these requests would have had on the others, in seconds.
    pub others_mean: Option<f64>,
}

/// The runtime and the process of an instance in a minute. Counts are taken at the end of the minute. A value that the
/// system does not provide is `None`. Without the feature `process`, all values of the process are `None`.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct MachinePoint {
    /// Number of CPUs that the process could use.
    pub cpus: u64,
    /// The share of the CPUs' time that the process used, 0 to 1.
    pub cpu: Option<f64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Number of open files.
    pub open_files: Option<u64>,
    /// The maximum number of open files.
    pub max_open_files: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Number of worker threads of the runtime.
    pub workers: u64,
    /// The share of the time in which the workers were busy, 0 to 1.
    pub busy: Option<f64>,
    /// Number of tasks in the global queue of the runtime.
    pub queued_tasks: u64,
    /// Number of tasks that are alive.
    pub alive_tasks: u64,
    /// The median delay of a task that is due every 100 ms, in seconds.
    pub delay: Option<f64>,
    /// The longest delay of this task, in seconds.
    pub worst_delay: Option<f64>,
    /// Whether `delay` is 10 ms or more: ready tasks wait for a worker, or the worker waits for a CPU.
    pub is_delayed: bool,
}

impl MachinePoint {
    fn new(minute: &MachineMinute) -> Self {
        let seconds = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1e6);
        Self {
            cpus: minute.cpus,
            cpu: minute.cpu_share(),
            resident_bytes: minute.resident_bytes,
            open_files: minute.open_files,
            max_open_files: minute.max_open_files,
            threads: minute.threads,
            workers: minute.workers,
            busy: minute.busy_thousandths.map(|busy| busy as f64 / 1e3),
            queued_tasks: minute.queued_tasks,
            alive_tasks: minute.alive_tasks,
            delay: seconds(minute.delay_micros),
            worst_delay: seconds(minute.worst_delay_micros),
            is_delayed: minute.is_delayed(),
        }
    }
}

/// An instance on a path, compared with the others.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct InstancePath {
    /// The path.
    #[serde(flatten)]
    pub name: ContextName,
    /// The measurements of the instance's requests on this path.
    #[serde(flatten)]
    pub measured: Measured,
    /// The measurements of the others in the minutes in which this instance had requests; `None` without requests.
    pub others: Option<Measured>,
    /// The time of these requests divided by the time that they would have taken on the others in the same minutes.
    pub ratio: Option<f64>,
    /// Whether the instance is slower than the others on this path, beyond chance.
    pub slower: bool,
    /// Whether the instance fails more often than the others on this path, beyond chance.
    pub failing: bool,
}

/// Asks for one instance.
/// The answer is [`Instance`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct InstanceQuery {
    /// The name of the instance.
    pub instance: String,
    /// The window; the last 60 minutes by default. Reports of the last 130 minutes are kept.
    pub window: Option<Window>,
    /// The maximum number of paths, at most 1,000; 100 by default. An answer has at most 256 paths.
    pub limit: Option<usize>,
}

pub(in crate::query) async fn instance(
    source: &Source,
    query: &InstanceQuery,
) -> Result<Instance, QueryError> {
    check_given("instance", &query.instance)?;
    let limit = check_limit(query.limit, MAX_ROWS)?;
    let instance = &*query.instance;
    let FleetRows {
        covered,
        error,
        rows,
        is_alone,
        compared,
    } = FleetRows::read(source, query.window, None, Some(instance)).await?;
    let row = rows.into_iter().find(|row| *row.instance == *instance);
    let row = row.ok_or(QueryError::NotFound(
        "no instance of this name is alive or has had requests in this window",
    ))?;
    let names = source.names().await?;
    let thresholds = Thresholds::new(row.ratio, row.stands_out, row.measured.error_share);
    let mut verdict = InstanceVerdict::default();
    let mut paths = Vec::new();
    let beside = &compared.beside;
    for (id, context) in &beside.contexts {
        // A context that is removed from the store has no name.
        let Some(name) = names.get(id) else {
            continue;
        };
        let target = source.targets.seconds_of(*id);
        if let Some(path) = InstancePath::new(name, context, &thresholds, &covered, target) {
            verdict.add(&path, &thresholds);
            paths.push((path, context.extra().unwrap_or(0.0)));
        }
    }
    let reported_paths = paths.len();
    keep_first(&mut paths, limit, |(a, extra), (b, other)| {
        let stands_out = |path: &InstancePath| path.slower || path.failing;
        (stands_out(b).cmp(&stands_out(a)))
            .then_with(|| other.total_cmp(extra))
            .then_with(|| a.name.context.cmp(&b.name.context))
    });
    let minutes = &beside.minutes;
    Ok(Instance {
        covered,
        error,
        row,
        alone: is_alone,
        others: minutes.iter().map(|m| m.others).max().unwrap_or(0),
        first_minute: minutes.first().map(|m| m.start),
        last_minute: minutes.last().map(|m| m.start.saturating_add(MINUTE)),
        verdict,
        precision: REPORTED_MINUTES.seconds,
        points: (minutes.iter())
            .map(|minute| (minute.start, InstancePoint::new(minute)))
            .collect(),
        machine: (beside.machine.iter())
            .map(|(start, machine)| (*start, MachinePoint::new(machine)))
            .collect(),
        reported_paths,
        paths: paths.into_iter().map(|(path, _)| path).collect(),
    })
}

impl InstancePath {
    fn new(
        name: &Arc<str>,
        context: &ContextBeside,
        thresholds: &Thresholds,
        covered: &Covered,
        target: Option<f64>,
    ) -> Option<Self> {
        let measured = |sums| Measured::of_sums(Kind::Http, sums, covered, target);
        let (measured, others) = (measured(&context.sums)?, measured(&context.others));
        let (ratio, beside) = (context.ratio(), others.as_ref());
        Some(Self {
            name: ContextName::new(name, Kind::Http),
            slower: beside.is_some_and(|others| thresholds.is_slower(ratio, &measured, others)),
            failing: beside.is_some_and(|others| Thresholds::is_failing(&measured, others)),
            measured,
            others,
            ratio,
        })
    }
}

impl InstancePoint {
    fn new(minute: &MinuteBeside) -> Self {
        let measured = Measured::in_slice(Kind::Http, &minute.sums);
        let others = (minute.others > 0).then_some(minute.others as f64);
        Self {
            count: measured.count,
            errors: measured.errors,
            mean: measured.times.mean,
            p95: measured.times.p95,
            others_count: others.map(|others| minute.others_count as f64 / others),
            others_mean: minute.others_mean,
        }
    }
}
