//! Finds the suspects of a change.

use std::collections::HashMap;
use std::sync::Arc;

use super::MINUTE;
use crate::error::{Result, StoreErrorKind};
use crate::store::{InstanceReports, RecordQuery, SlowRequestQuery, Store, marks};
use tower_pulse_detect::change::{Change, ChangeKind, Suspect};
use tower_pulse_detect::polls;
use tower_pulse_detect::side_by_side::{self, Versions};
use tower_pulse_detect::suspects::{self, Sides};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, ContextId, Kind, QUEUED};
use tower_pulse_model::machine::{MachineMinute, was_delayed};
use tower_pulse_model::mark::Mark;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slow_request::SlowRequest;
use tower_pulse_model::sorted;
use tower_pulse_model::tier::FINEST;

/// The samples since a change began are compared with the samples of this many seconds before its beginning.
const PAST: i64 = 3_600;

/// Instances and versions are compared in at most this many minutes of a change: the newest.
const MAX_MINUTES: i64 = side_by_side::MAX_MINUTES;

/// Sets the suspects of an ongoing change at `end`, most likely first.
pub(super) async fn find(store: &dyn Store, change: &mut Change, end: i64) -> Result<()> {
    // Only a change of one page can have that page's instances and timers as suspects. A new kind of error names its
    // cause itself.
    let kinds_without_page = [ChangeKind::Instance, ChangeKind::NewError];
    let is_of_a_page = is_page(change) && !kinds_without_page.contains(&change.kind);
    let minutes: Vec<i64> = (change.since.max(end - MAX_MINUTES * MINUTE)..end)
        .step_by(FINEST.seconds as usize)
        .collect();
    let reports = store.query().minute_reports(&minutes).await?;
    let mut suspects: Vec<_> = suspects::own_instance(change).into_iter().collect();
    let mut sides = Sides::default();
    if is_of_a_page {
        let page = ContextId::new(Kind::Http, change.context.clone());
        let mut found = self::sides(store, change, vec![page], end).await?;
        sides = found.pop().unwrap_or_default();
        let minutes: Vec<_> = reports.iter().map(|r| of_page(change, r)).collect();
        suspects.extend(suspects::instances(change.kind, &sides, &minutes));
        if change.kind == ChangeKind::Surging {
            suspects.push(suspects::traffic(&sides, &minutes));
        }
    }
    let has_single_instance =
        (suspects.iter()).any(|s| matches!(s, Suspect::Instance { count: 1, .. }));
    let mut timers = Vec::new();
    // If one instance or a machine is a suspect, timers are not: on a slow instance, all timers take longer.
    let may_be_timers = !add_machines(change, &mut suspects, &reports) && !has_single_instance;
    match change.kind {
        ChangeKind::Failing | ChangeKind::Refusing if is_of_a_page => {
            timers.extend(failures(store, change, &sides, end).await?);
        }
        ChangeKind::Slower | ChangeKind::Faster if is_of_a_page && may_be_timers => {
            if sides.now.timers.cover_some() {
                let names = names(store, end).await?;
                timers = suspects::timers_and_code(&sides, |id| names.get(&id).cloned());
            }
            // If another suspect is a timer or an instance, its text has the figures already, and the text about polls
            // is brief.
            let is_code = |suspect: &Suspect| matches!(suspect, Suspect::Code { .. });
            let is_brief = timers.iter().chain(&suspects).any(|s| !is_code(s));
            let machines = machine_minutes(&reports, None);
            let is_delayed = machines.iter().any(|(_, minutes)| was_delayed(minutes));
            timers.extend(polls::computing_or_waiting(&sides, is_delayed, is_brief));
        }
        _ => {}
    }
    suspects.extend(deploys(store, change, &minutes).await?);
    suspects.append(&mut timers);
    change.suspects = suspects;
    Ok(())
}

/// The samples of contexts before the change and since its beginning.
async fn sides(
    store: &dyn Store,
    change: &Change,
    contexts: Vec<ContextId>,
    end: i64,
) -> Result<Vec<Sides>> {
    let query = RecordQuery {
        contexts,
        width: FINEST.seconds,
        tier: FINEST,
        now: end,
    };
    let records = store.query().records(&query).await?;
    let sides = |records: &Vec<_>| Sides::new(records, change.since, end, PAST);
    Ok(records.iter().map(sides).collect())
}

fn is_page(change: &Change) -> bool {
    ![ALL, QUEUED].contains(&&*change.context)
}

fn id_of(change: &Change) -> RecordId {
    RecordId::new(Kind::Http, &change.context)
}

/// The sums of each instance on the page of a change, in one minute.
fn of_page<'a>(
    change: &Change,
    reports: &'a InstanceReports,
) -> Vec<(&'a Arc<str>, &'a Aggregate)> {
    let id = id_of(change);
    let of_page = reports.iter().filter_map(|(instance, report)| {
        let (_, sums) = report.contexts.iter().find(|(other, _)| *other == id)?;
        Some((instance, sums))
    });
    of_page.collect()
}

/// Adds the machines that may be the cause, and returns whether any was added. If some instances are suspects, only
/// their machines may be suspects. Unless exactly one instance is a suspect, at least half of the machines must be
/// delayed.
fn add_machines(change: &Change, suspects: &mut Vec<Suspect>, reports: &[InstanceReports]) -> bool {
    if !matches!(change.kind, ChangeKind::Slower | ChangeKind::Instance) {
        return false;
    }
    let named = suspects.iter().find_map(|suspect| match suspect {
        Suspect::Instance { instances, .. } => Some(&**instances),
        _ => None,
    });
    let minutes = machine_minutes(reports, named);
    let machines = suspects::machines(&minutes, named.is_some_and(|named| named.len() == 1));
    let has_machines = !machines.is_empty();
    match change.kind {
        // The change names the instance, so its machine is the only suspect.
        ChangeKind::Instance if has_machines => *suspects = machines,
        _ if has_machines => suspects.extend(machines),
        _ => suspects::add_load(suspects, &minutes),
    }
    has_machines
}

/// The measurements of the machines of the instances `named`, or of all instances if `named` is `None`.
fn machine_minutes(
    reports: &[InstanceReports],
    named: Option<&[Arc<str>]>,
) -> Vec<(Arc<str>, Vec<MachineMinute>)> {
    let mut machines = Vec::new();
    for (instance, report) in reports.iter().flatten() {
        let is_wanted = named.is_none_or(|named| named.contains(instance));
        if let Some(machine) = report.machine.filter(|_| is_wanted) {
            sorted::entry(&mut machines, instance.clone(), Vec::new).push(machine);
        }
    }
    machines
}

/// The deploys near the beginning of the change. A deploy is left out if its new version ran beside another version
/// without showing the change.
async fn deploys(store: &dyn Store, change: &Change, minutes: &[i64]) -> Result<Vec<Suspect>> {
    let marks = match marks::list(store).await {
        // Unreadable marks must not stop the detection.
        Err(error) if error.kind() == StoreErrorKind::Unexpected => Vec::new(),
        marks => marks?,
    };
    let near = suspects::marks_near(change.since, &marks);
    if near.is_empty() {
        return Ok(Vec::new());
    }
    let records = match is_page(change) {
        true => store.query().version_records(minutes).await?,
        false => Vec::new(),
    };
    let side_by_side = |mark: &Mark| {
        let mut versions = Versions::default();
        for of_minute in &records {
            versions.add_minute(mark.version.as_ref()?, of_minute);
        }
        suspects::ratio_of(change.kind, &versions.compare(id_of(change))?)
    };
    let deploys = near.into_iter().filter_map(|mark| {
        let ratio = side_by_side(mark);
        let is_suspect = ratio.is_none_or(|ratio| suspects::is_confirmed(change.ratio, ratio));
        is_suspect.then(|| suspects::deploy(mark, change.since, ratio))
    });
    Ok(deploys.collect())
}

async fn names(store: &dyn Store, now: i64) -> Result<HashMap<RecordId, Arc<str>>> {
    let contexts = store.query().record_index(now).await?.contexts.into_iter();
    let names = contexts.map(|id| (RecordId::new(id.kind, &id.name), id.name));
    Ok(names.collect())
}

/// The suspect of a page that fails or refuses: kinds of errors, status codes, a failing timer within the requests, and
/// the newest failed requests since the change began.
async fn failures(
    store: &dyn Store,
    change: &Change,
    page: &Sides,
    end: i64,
) -> Result<Option<Suspect>> {
    let mut timers = page.now.timers.clone();
    timers.limit();
    let mut of_timers = Vec::new();
    if !timers.is_empty() {
        let names = names(store, end).await?;
        let names: Vec<_> = (timers.iter())
            .filter_map(|(id, _)| names.get(&id).cloned())
            .collect();
        let contexts = names.iter();
        let contexts = contexts.map(|name| ContextId::new(Kind::Timer, name.clone()));
        let sides = sides(store, change, contexts.collect(), end).await?;
        of_timers = names.into_iter().zip(sides).collect();
    }
    let mut failed = Vec::new();
    let hours = [hour_of(end), hour_of(end) - HOUR].into_iter();
    // The lists have only requests that count as errors, but the 4xx of a refusing page do not count as errors.
    for hour in hours.filter(|_| change.kind == ChangeKind::Failing) {
        let query = SlowRequestQuery {
            contexts: vec![ContextId::new(Kind::Http, change.context.clone())],
            hour,
        };
        for list in store.query().slow_requests(&query).await? {
            let is_since = |request: &&SlowRequest| request.ended >= 1_000 * change.since;
            failed.extend(list.failed().filter(is_since).cloned());
        }
    }
    Ok(suspects::failures(change.kind, page, &of_timers, failed))
}
