//! Finds the suspects of a change.

use std::collections::HashMap;
use std::sync::Arc;

use super::MINUTE;
use crate::error::{Result, StoreErrorKind};
use crate::store::{InstanceReports, RecordQuery, Store, marks};
use tower_pulse_detect::change::{Change, ChangeKind, Suspect};
use tower_pulse_detect::polls;
use tower_pulse_detect::side_by_side::{self, Versions};
use tower_pulse_detect::suspects::{self, Sides};
use tower_pulse_model::context::{ALL, ContextId, Kind, QUEUED};
use tower_pulse_model::machine::{MachineMinute, was_delayed};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::sorted;
use tower_pulse_model::tier::FINEST;

/// The time since a change is compared with this many seconds before the change.
const PAST: i64 = 3_600;

/// The most minutes of a change in which instances and versions are compared.
const MAX_MINUTES: i64 = side_by_side::MAX_MINUTES;

/// Sets the suspects of an ongoing change at `end`, most likely first.
pub(super) async fn find(store: &dyn Store, change: &mut Change, end: i64) -> Result<()> {
    // Only a change of a page has suspects among the instances and timers of that page. A change of one instance, of
    // all pages, or of the queue in front of the service has no such suspects.
    let is_of_a_page =
        ![ALL, QUEUED].contains(&&*change.context) && change.kind != ChangeKind::Instance;
    let minutes: Vec<i64> = (change.since.max(end - MAX_MINUTES * MINUTE)..end)
        .step_by(FINEST.seconds as usize)
        .collect();
    let mut suspects = Vec::new();
    let mut timers = Vec::new();
    let reports = store.query().minute_reports(&minutes).await?;
    if is_of_a_page {
        let sides = sides(store, change, end).await?;
        suspects.extend(instance(change, &sides, &reports));
        // Timers are suspects only if no instance and no machine is one: on a slow instance, all timers take longer.
        let is_of_speed = matches!(change.kind, ChangeKind::Slower | ChangeKind::Faster);
        let machines = machines(change, &suspects, &reports);
        if suspects.is_empty() && machines.is_empty() && is_of_speed {
            timers = timers_and_code(store, &sides, end).await?;
            timers.extend(polls::computing_or_waiting(
                &sides,
                is_one_delayed(&reports),
            ));
        }
        suspects.extend(machines);
    }
    suspects.extend(suspects::own_instance(change));
    if !is_of_a_page {
        suspects.extend(machines(change, &suspects, &reports));
    }
    suspects.extend(deploys(store, change, &minutes).await?);
    suspects.append(&mut timers);
    change.suspects = suspects;
    Ok(())
}

/// The samples of a change's context before and since the change.
async fn sides(store: &dyn Store, change: &Change, end: i64) -> Result<Sides> {
    let query = RecordQuery {
        contexts: vec![ContextId::new(Kind::Http, change.context.clone())],
        width: FINEST.seconds,
        tier: FINEST,
        now: end,
    };
    let records = store.query().records(&query).await?;
    let records: Vec<_> = records.into_iter().flatten().collect();
    Ok(Sides::new(&records, change.since, end, PAST))
}

fn id_of(change: &Change) -> RecordId {
    RecordId::new(Kind::Http, &change.context)
}

/// The instance that the change comes from.
fn instance(change: &Change, sides: &Sides, reports: &[InstanceReports]) -> Option<Suspect> {
    let id = id_of(change);
    let minutes = reports.iter().map(|reports| {
        let of_context = reports.iter().filter_map(|(instance, of)| {
            let (_, sums) = of.contexts.iter().find(|(other, _)| *other == id)?;
            Some((instance, sums))
        });
        of_context.collect()
    });
    suspects::instance(change.kind, sides, &minutes.collect::<Vec<_>>())
}

/// The machines that may make everything slow. If the change comes from one instance, only its machine may be a
/// suspect. Otherwise machines are suspects only if at least half of the fleet's machines are delayed.
fn machines(change: &Change, suspects: &[Suspect], reports: &[InstanceReports]) -> Vec<Suspect> {
    if !matches!(change.kind, ChangeKind::Slower | ChangeKind::Instance) {
        return Vec::new();
    }
    let suspected = suspects.iter().find_map(|suspect| match suspect {
        Suspect::Instance { instance, .. } => Some(instance),
        _ => None,
    });
    let one = change.instance.as_ref().or(suspected);
    let machines = machine_minutes(reports, one);
    suspects::machines(&machines, one.is_some())
}

/// The minutes of the machines of all instances, or of one.
fn machine_minutes(
    reports: &[InstanceReports],
    one: Option<&Arc<str>>,
) -> Vec<(Arc<str>, Vec<MachineMinute>)> {
    let mut machines = Vec::new();
    for (instance, of) in reports.iter().flatten() {
        if let Some(machine) = of.machine.filter(|_| one.is_none_or(|one| one == instance)) {
            sorted::entry(&mut machines, instance.clone(), Vec::new).push(machine);
        }
    }
    machines
}

/// Whether the scheduling delay of any instance was high.
fn is_one_delayed(reports: &[InstanceReports]) -> bool {
    let machines = machine_minutes(reports, None);
    machines.iter().any(|(_, minutes)| was_delayed(minutes))
}

/// The deploys near the beginning of the change. A deploy is left out if its new version ran beside another version and
/// did no worse.
async fn deploys(store: &dyn Store, change: &Change, minutes: &[i64]) -> Result<Vec<Suspect>> {
    let marks = match marks::list(store).await {
        // Unreadable marks must not stop the detection.
        Err(error) if error.kind() == StoreErrorKind::Unexpected => Vec::new(),
        marks => marks?,
    };
    let mut deploys = suspects::deploys(change.since, &marks);
    if *change.context == *ALL || *change.context == *QUEUED || deploys.is_empty() {
        return Ok(deploys);
    }
    let records = store.query().version_records(minutes).await?;
    deploys.retain_mut(|suspect| {
        let Suspect::Deploy {
            version: Some(version),
            side_by_side,
            ..
        } = suspect
        else {
            return true;
        };
        let mut versions = Versions::default();
        for of_minute in &records {
            versions.add_minute(version, of_minute);
        }
        let compared = versions.compare(id_of(change));
        let ratio = compared.and_then(|compared| suspects::ratio_of(change.kind, &compared));
        *side_by_side = ratio;
        ratio.is_none_or(|ratio| suspects::is_confirmed(change.ratio, ratio))
    });
    Ok(deploys)
}

/// The timers that account for a part of the change, and the code outside of all timers.
async fn timers_and_code(store: &dyn Store, sides: &Sides, end: i64) -> Result<Vec<Suspect>> {
    if !sides.now.timers.cover_some() {
        return Ok(Vec::new());
    }
    let index = store.query().record_index(end).await?;
    let names = index.contexts.into_iter();
    let names = names.filter(|context| context.kind == Kind::Timer);
    let names: HashMap<RecordId, Arc<str>> = names
        .map(|context| (RecordId::new(Kind::Timer, &context.name), context.name))
        .collect();
    Ok(suspects::timers_and_code(sides, |id| {
        names.get(&id).cloned()
    }))
}
