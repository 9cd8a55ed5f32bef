//! Minute reports: the sums of each instance in one minute. The reports serve to compare instances with each other, and
//! old versions of the application with new versions.
//!
//! An instance reports its busiest contexts. While several versions of the application run side by side, an instance
//! reports all of its contexts, and the fold adds up the reports by version.

use super::sorted::Map;
use crate::order::InOrder;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::context::RecordId;
use super::machine::MachineMinute;
use super::pack::{Budget, Packed, Reader, Writer, is_name, packed};
use super::section::{EntryHead, Room, Section};
use super::slice::{Precision, SKEW_ALLOWED};
use super::slices::Merge;
use super::tier::FINEST;

/// The most contexts that are stored per instance and minute.
pub const MAX_REPORTED: usize = 32;

/// The most contexts that a fleet of up to this many instances reports in a minute. In a larger fleet, each instance
/// reports one context.
pub const MAX_REPORTED_BY_FLEET: usize = 512;

/// The length of a minute, and the number of minutes for which reports are stored.
pub const REPORTED_MINUTES: Precision = FINEST;

/// The most reports that wait in a batch.
pub const MAX_PENDING_REPORTS: usize = REPORTED_MINUTES.retained as usize;

/// The approximate number of commands that a store needs for a reported context.
pub(super) const REPORTED_CONTEXT_COST: usize = 4;

/// The number of contexts that an instance reports in a fleet of this size.
pub fn reported_contexts(instances: u64) -> usize {
    let instances = usize::try_from(instances).unwrap_or(usize::MAX).max(1);
    (MAX_REPORTED_BY_FLEET / instances).clamp(1, MAX_REPORTED)
}

/// The sums of an instance on a context.
pub type ReportedContext = (RecordId, Aggregate);

/// The sums of one instance in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteReport {
    /// The start of the minute, in Unix seconds.
    pub minute: i64,
    /// The name of the instance.
    pub instance: Arc<str>,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// The most contexts that are stored for the instance: its busiest ones. 0 if the report has only the machine.
    pub max_contexts: usize,
    /// Whether several versions run side by side. All contexts are then also added to the sums of the version.
    pub is_side_by_side: bool,
    /// The HTTP contexts that had requests, busiest first, without their timers.
    pub contexts: Vec<ReportedContext>,
    /// The runtime and the process. If the report is split, only one part has them.
    pub machine: Option<MachineMinute>,
}

impl MinuteReport {
    /// Whether the report can be stored at `now`: its minute is still retained, and starts at most [`SKEW_ALLOWED`]
    /// seconds after `now`.
    pub fn is_retained(&self, now: i64) -> bool {
        let latest = now.saturating_add(SKEW_ALLOWED);
        self.minute > REPORTED_MINUTES.cutoff(now) && self.minute <= latest
    }

    pub(super) fn is_same_report(&self, other: &Self) -> bool {
        (self.minute, &self.instance) == (other.minute, &other.instance)
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.max_contexts = self.max_contexts.max(other.max_contexts);
        self.is_side_by_side |= other.is_side_by_side;
        self.machine = self.machine.take().or(other.machine);
        merge_contexts(&mut self.contexts, other.contexts);
    }

    /// Moves out up to `count` of the busiest contexts, as a part of this report.
    fn split(&mut self, count: usize) -> Self {
        let tail = self.contexts.split_off(count.min(self.contexts.len()));
        Self {
            contexts: std::mem::replace(&mut self.contexts, tail),
            machine: self.machine.take(),
            instance: self.instance.clone(),
            version: self.version.clone(),
            ..*self
        }
    }

    /// The number of the busiest contexts that take at most `bytes` in memory together.
    fn contexts_within(&self, bytes: usize) -> usize {
        let mut left = bytes;
        let contexts = self.contexts.iter();
        let fitting = contexts.map_while(|(_, aggregate)| {
            left = left.checked_sub(aggregate.bytes())?;
            Some(())
        });
        fitting.count()
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        out.int(head.base.wrapping_sub(self.minute));
        self.instance.write(out);
        self.version.write(out);
        self.max_contexts.write(out);
        self.is_side_by_side.write(out);
        self.contexts.write(out);
        self.machine.write(out);
    }

    /// Reads a report from an entry, and spends its cost.
    pub(super) fn read(
        from: &mut Reader<'_>,
        head: &EntryHead,
        budget: &mut Budget,
    ) -> Option<Self> {
        budget.spend(REPORTED_CONTEXT_COST)?;
        Some(Self {
            minute: head.base.wrapping_sub(from.int()?),
            instance: from.name()?,
            version: Option::read(from).filter(|version| version.iter().all(is_name))?,
            max_contexts: Packed::read(from)?,
            is_side_by_side: Packed::read(from)?,
            contexts: read_contexts(from, budget)?,
            machine: Packed::read(from)?,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let texts = self.instance.len() + self.version.as_ref().map_or(0, |version| version.len());
        let contexts = self.contexts.iter().map(|(_, sums)| sums.bytes());
        size_of::<Self>() + texts + contexts.sum::<usize>()
    }
}

impl Section for Vec<MinuteReport> {
    fn split(&mut self, room: &mut Room) -> Self {
        let mut part = Self::new();
        while let Some(report) = self.first_mut() {
            let fits = report.contexts_within(room.bytes);
            let is_too_large = fits == 0 && !report.contexts.is_empty();
            if !room.has(REPORTED_CONTEXT_COST) || is_too_large && !room.is_whole {
                break;
            }
            let moved = report.split((room.cost / REPORTED_CONTEXT_COST).min(fits).max(1));
            let cost = REPORTED_CONTEXT_COST * moved.contexts.len().max(1);
            room.take(cost, moved.bytes());
            part.push(moved);
            if report.contexts.is_empty() {
                self.remove(0);
            }
        }
        part
    }

    fn bytes(&self) -> usize {
        self.iter().map(MinuteReport::bytes).sum()
    }

    fn write(&self, out: &mut Writer, head: &EntryHead) {
        out.uint(self.len() as u64);
        self.iter().for_each(|report| report.write(out, head));
    }
}

fn read_contexts(from: &mut Reader<'_>, budget: &mut Budget) -> Option<Vec<ReportedContext>> {
    let mut contexts = Vec::new();
    for _ in 0..from.uint()? {
        budget.spend(REPORTED_CONTEXT_COST)?;
        contexts.push(Packed::read(from)?);
    }
    Some(contexts)
}

/// The sums of an instance on its busiest contexts in a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceMinute {
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// The most contexts to store; 0 in a part with only the machine, and in a minute that was read from the store.
    pub max_contexts: usize,
    /// The contexts, busiest first.
    pub contexts: Vec<ReportedContext>,
    /// The runtime and the process.
    pub machine: Option<MachineMinute>,
}

impl InstanceMinute {
    /// Merges another part of the same minute.
    pub fn merge(&mut self, other: Self) {
        self.max_contexts = self.max_contexts.max(other.max_contexts);
        self.version = self.version.take().or(other.version);
        self.machine = self.machine.take().or(other.machine);
        merge_contexts(&mut self.contexts, other.contexts);
        if self.max_contexts > 0 {
            self.contexts.truncate(self.max_contexts);
        }
    }
}

packed!(InstanceMinute { version, contexts, machine; max_contexts });

/// The sums of a minute, by instance and by version of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinuteSums {
    /// The instances.
    pub instances: Map<Arc<str>, InstanceMinute>,
    /// The versions that ran side by side, with all of their contexts.
    pub versions: Map<Arc<str>, HashMap<RecordId, Aggregate>>,
}

impl MinuteSums {
    /// Adds a report, or a part of one.
    pub fn add(&mut self, report: MinuteReport) {
        if let Some(version) = report.version.as_ref().filter(|_| report.is_side_by_side) {
            let contexts = report.contexts.iter();
            self.add_to_version(version, contexts.map(|(id, sums)| (id, sums)));
        }
        let max_contexts = report.max_contexts.min(MAX_REPORTED);
        let mut contexts = report.contexts;
        contexts.truncate(max_contexts);
        let minute = InstanceMinute {
            version: report.version,
            max_contexts,
            contexts,
            machine: report.machine,
        };
        self.instances
            .merge(report.instance, minute, InstanceMinute::merge);
    }

    /// Merges the sums of other reports.
    pub fn merge(&mut self, other: &Self) {
        for (instance, minute) in other.instances.iter() {
            let instances = &mut self.instances;
            instances.merge(instance.clone(), minute.clone(), InstanceMinute::merge);
        }
        for (version, contexts) in other.versions.iter() {
            self.add_to_version(version, contexts);
        }
    }

    fn add_to_version<'a>(
        &mut self,
        version: &Arc<str>,
        contexts: impl IntoIterator<Item = (&'a RecordId, &'a Aggregate)>,
    ) {
        let sums = (self.versions).or_insert_with(version.clone(), HashMap::new);
        for (id, aggregate) in contexts {
            add_to(sums, *id, aggregate);
        }
    }
}

fn add_to(sums: &mut HashMap<RecordId, Aggregate>, id: RecordId, added: &Aggregate) {
    let sums = sums.entry(id).or_default();
    sums.merge(added);
    sums.limit();
}

fn merge_contexts(contexts: &mut Vec<ReportedContext>, others: Vec<ReportedContext>) {
    let mut sums: HashMap<RecordId, Aggregate> = contexts.drain(..).collect();
    for (id, aggregate) in others {
        add_to(&mut sums, id, &aggregate);
    }
    contexts.extend(sums);
    sort_by_requests(contexts);
}

/// Sorts contexts, busiest first.
pub fn sort_by_requests(contexts: &mut [ReportedContext]) {
    contexts.order_by_key(|(id, sums)| (Reverse(sums.times.count), *id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::contexts;

    fn report(counts: &[(u64, u64)], max_contexts: usize) -> MinuteReport {
        MinuteReport {
            version: Some("1".into()),
            max_contexts,
            is_side_by_side: true,
            ..crate::tests::report(60, contexts(counts))
        }
    }

    #[test]
    fn the_larger_the_fleet_the_fewer_contexts_an_instance_reports() {
        let reported = [0, 1, 16, 17, 64, 1_000, u64::MAX].map(reported_contexts);
        assert_eq!(reported, [32, 32, 32, 30, 8, 1, 1]);
    }

    #[test]
    fn the_parts_of_a_report_add_up_and_at_most_max_reported_contexts_are_stored() {
        let counts = &[(1, 9), (2, 8), (3, 7), (4, 6), (5, 5)];
        let of_version: HashMap<_, _> = contexts(counts).into_iter().collect();
        let mut whole = MinuteSums::default();
        whole.add(report(counts, 3));
        let instance = whole.instances.get("a").expect("it reported");
        assert_eq!(instance.contexts, contexts(&counts[..3]));
        assert_eq!(instance.version.as_deref(), Some("1"));
        assert_eq!(whole.versions.get("1"), Some(&of_version));
        let many: Vec<_> = (0..50).map(|name| (name, 100 - name)).collect();
        let mut sums = MinuteSums::default();
        sums.add(report(&many, usize::MAX));
        let stored = &sums.instances.get("a").expect("it reported").contexts;
        assert_eq!(*stored, contexts(&many[..MAX_REPORTED]));
        for count in 1..=5 {
            let (mut left, mut sums) = (report(counts, 3), MinuteSums::default());
            while !left.contexts.is_empty() {
                let mut part = MinuteSums::default();
                part.add(left.split(count));
                sums.merge(&part);
            }
            assert_eq!(sums, whole);
        }
        let mut other = report(counts, 3);
        (other.instance, other.is_side_by_side) = ("b".into(), false);
        whole.add(other);
        assert_eq!(whole.instances.len(), 2);
        assert_eq!(whole.versions.get("1"), Some(&of_version));
    }

    #[test]
    fn a_report_is_split_and_merged() {
        let with_machine = |counts| MinuteReport {
            machine: Some(MachineMinute::default()),
            ..report(counts, 3)
        };
        let all = &[(1, 9), (2, 8), (3, 7), (4, 6), (5, 5)];
        let mut whole = with_machine(all);
        let first = whole.split(2);
        assert_eq!(first, with_machine(&[(1, 9), (2, 8)]));
        assert_eq!(whole, report(&all[2..], 3));
        whole.merge(first);
        assert_eq!(whole, with_machine(all));
        whole.machine = None;
        // After the clock was set back, the instance reports the same minute again.
        whole.merge(report(&[(5, 5), (6, 1)], 4));
        let counts = &[(5, 10), (1, 9), (2, 8), (3, 7), (4, 6), (6, 1)];
        assert_eq!(whole, report(counts, 4));
    }

    #[test]
    fn a_report_of_a_minute_that_is_retained_can_be_stored() {
        let report = report(&[(1, 9)], 3);
        let first = report.minute - SKEW_ALLOWED;
        let last = report.minute + REPORTED_MINUTES.span() - 1;
        let is_retained = [first - 1, first, last, last + 1].map(|now| report.is_retained(now));
        assert_eq!(is_retained, [false, true, true, false]);
    }
}
