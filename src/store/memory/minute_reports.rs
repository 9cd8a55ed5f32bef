//! What each instance, and each version of the application, did in the last minutes.

use std::collections::BTreeMap;

use crate::model::minute_report::{MinuteSums, REPORTED_MINUTES};
use crate::store::{InstanceMinuteRecords, VersionRecords};

/// The sums of the minute reports.
#[derive(Debug, Default)]
pub(super) struct MinuteReports {
    minutes: BTreeMap<i64, MinuteSums>,
    /// About how many bytes they take in memory.
    bytes: usize,
}

impl MinuteReports {
    /// Adds sums of minute reports.
    pub(super) fn add(&mut self, reports: &BTreeMap<i64, MinuteSums>) {
        for (minute, added) in reports {
            let sums = self.minutes.entry(*minute).or_default();
            self.bytes -= sums.bytes();
            sums.merge(added);
            self.bytes += sums.bytes();
        }
    }

    /// Drops the minutes that are not retained at `now`, and the oldest ones until the others take about `bytes`.
    pub(super) fn retain(&mut self, now: i64, bytes: usize) {
        let cut_off = REPORTED_MINUTES.cut_off(now);
        while let Some(oldest) = self.minutes.first_entry()
            && (*oldest.key() <= cut_off || self.bytes > bytes)
        {
            self.bytes -= oldest.remove().bytes();
        }
    }

    /// About how many bytes they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The instances of a minute.
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

    /// The versions that ran side by side in a minute.
    pub(super) fn versions(&self, start: i64) -> impl Iterator<Item = VersionRecords> {
        let minute = self.minutes.get(&start).into_iter();
        let versions = minute.flat_map(|minute| &minute.versions);
        versions.map(move |(version, contexts)| VersionRecords {
            minute: start,
            version: version.clone(),
            records: (contexts.iter())
                .map(|(id, aggregate)| (*id, aggregate.clone()))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::Aggregate;
    use crate::model::context::{Kind, RecordId};
    use crate::model::minute_report::MinuteReport;

    const NOW: i64 = 1_700_000_040;

    fn reports(minute: i64) -> BTreeMap<i64, MinuteSums> {
        let mut sums = MinuteSums::default();
        sums.add(MinuteReport {
            minute,
            instance: "a".into(),
            version: Some("1".into()),
            max_contexts: 1,
            is_side_by_side: true,
            contexts: vec![(RecordId::new(Kind::Http, "GET /"), Aggregate::default())],
        });
        BTreeMap::from([(minute, sums)])
    }

    #[test]
    fn the_oldest_minutes_are_dropped_beyond_the_bytes() {
        let mut stored = MinuteReports::default();
        let one = reports(NOW)[&NOW].bytes();
        for minute in 0..3 {
            stored.add(&reports(NOW + 60 * minute));
            stored.add(&reports(NOW + 60 * minute));
        }
        assert_eq!(stored.bytes(), 3 * one);
        stored.retain(NOW, 3 * one);
        assert_eq!(stored.bytes(), 3 * one);
        stored.retain(NOW, 3 * one - 1);
        assert!(stored.minutes.keys().eq(&[NOW + 60, NOW + 120]));
        stored.retain(NOW + 60 + REPORTED_MINUTES.span(), usize::MAX);
        assert!(stored.minutes.keys().eq(&[NOW + 120]));
        assert_eq!(stored.bytes(), one);
    }
}
