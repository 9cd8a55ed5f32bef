//! What each instance, and each version of the application, did in the last minutes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::batch::{Aggregate, Merge};
use crate::model::minute_report::{InstanceMinute, MinuteReport, REPORTED_MINUTES};
use crate::model::records::RecordId;
use crate::store::{InstanceMinuteRecords, VersionRecords};

/// Bytes of an entry in its map, without its content.
const PER_ENTRY: usize = 64;

/// The stored parts of the minute reports.
#[derive(Debug, Default)]
pub(super) struct MinuteReports {
    minutes: BTreeMap<i64, Minute>,
    /// About how many bytes they take in memory.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Minute {
    instances: BTreeMap<Arc<str>, InstanceMinute>,
    versions: BTreeMap<Arc<str>, BTreeMap<RecordId, Aggregate>>,
    bytes: usize,
}

impl MinuteReports {
    pub(super) fn add(&mut self, report: &MinuteReport) {
        let minute = self.minutes.entry(report.minute).or_default();
        self.bytes -= minute.bytes;
        minute.add(report);
        self.bytes += minute.bytes;
    }

    /// Drops the minutes that are not retained at `now`, and the oldest ones until the others take about `bytes`.
    pub(super) fn retain(&mut self, now: i64, bytes: usize) {
        let cut_off = REPORTED_MINUTES.cut_off(now);
        while let Some(oldest) = self.minutes.first_entry()
            && (*oldest.key() <= cut_off || self.bytes > bytes)
        {
            self.bytes -= oldest.remove().bytes;
        }
    }

    /// About how many bytes they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn instances(&self, minute: i64) -> Vec<InstanceMinuteRecords> {
        let minute = self.minutes.get(&minute).into_iter();
        let instances = minute.flat_map(|minute| &minute.instances);
        instances
            .map(|(instance, minute)| InstanceMinuteRecords {
                instance: instance.clone(),
                version: minute.version.clone(),
                records: minute.contexts.clone(),
            })
            .collect()
    }

    pub(super) fn versions(&self, start: i64) -> impl Iterator<Item = VersionRecords> {
        let minute = self.minutes.get(&start).into_iter();
        let versions = minute.flat_map(|minute| &minute.versions);
        versions.map(move |(version, records)| VersionRecords {
            minute: start,
            version: version.clone(),
            records: (records.iter())
                .map(|(id, aggregate)| (*id, aggregate.clone()))
                .collect(),
        })
    }
}

impl Minute {
    fn add(&mut self, report: &MinuteReport) {
        let instance = self.instances.entry(report.instance.clone());
        let instance = instance.or_insert_with(|| {
            let minute = InstanceMinute::default();
            self.bytes += PER_ENTRY + report.instance.len() + minute.bytes();
            minute
        });
        let before = instance.bytes();
        instance.add(report);
        self.bytes = (self.bytes + instance.bytes()).saturating_sub(before);
        let Some(version) = report.version.as_ref().filter(|_| report.is_side_by_side) else {
            return;
        };
        let records = self.versions.entry(version.clone());
        let records = records.or_insert_with(|| {
            self.bytes += PER_ENTRY + version.len();
            BTreeMap::new()
        });
        for (id, aggregate) in &report.contexts {
            let sums = records.entry(*id).or_insert_with(|| {
                self.bytes += PER_ENTRY + Aggregate::default().bytes();
                Aggregate::default()
            });
            self.bytes -= sums.bytes();
            sums.merge(aggregate);
            self.bytes += sums.bytes();
        }
    }
}
