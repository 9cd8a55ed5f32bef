//! Collects the minute reports of this instance, and adds each to the pending batch when its minute is over.

use std::collections::HashMap;
use std::sync::Arc;

use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::fleet::Fleet;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::{
    MinuteReport, REPORTED_MINUTES, ReportedContext, reported_contexts, sort_by_requests,
};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;

/// Requests are reported only if the fleet has other instances, or the application has a version.
pub(super) struct ReportCollector {
    pub(super) instance: Arc<str>,
    version: Option<Arc<str>>,
    /// The fleet at the last heartbeat.
    pub(super) fleet: Fleet,
    /// The start of the minute that is collected, in Unix seconds.
    minute: i64,
    contexts: HashMap<RecordId, Aggregate>,
    /// The measurements of the runtime and the process in minutes that have ended, by the start of the minute. The next
    /// drain reports them, even if this instance is the only one.
    pub(super) machines: Vec<(i64, MachineMinute)>,
}

impl ReportCollector {
    pub(super) fn new(version: Option<Arc<str>>) -> Self {
        Self {
            instance: "".into(),
            version,
            fleet: Fleet::default(),
            minute: i64::MIN,
            contexts: HashMap::new(),
            machines: Vec::new(),
        }
    }

    /// Begins to collect samples of `second`, and reports the previous minute if it is over.
    pub(super) fn begin(&mut self, pending: &mut Batch, second: i64) {
        let minute = REPORTED_MINUTES.slice(second);
        if minute != self.minute {
            self.report(pending);
            self.minute = minute;
        }
    }

    pub(super) fn add(&mut self, id: RecordId, aggregate: &Aggregate) {
        let is_collecting = self.version.is_some() || self.fleet.instances > 1;
        if is_collecting && aggregate.times.count > 0 {
            let sums = self.contexts.entry(id).or_default();
            sums.merge(aggregate);
            sums.limit();
        }
    }

    pub(super) fn report_machines(&mut self, pending: &mut Batch) {
        for (minute, machine) in self.machines.drain(..) {
            pending.add_report(MinuteReport {
                minute,
                instance: self.instance.clone(),
                version: self.version.clone(),
                max_contexts: 0,
                is_side_by_side: false,
                contexts: Vec::new(),
                machine: Some(machine),
            });
        }
    }

    /// Reports the collected minute if it has ended by `now`, in Unix seconds.
    pub(super) fn end(&mut self, pending: &mut Batch, now: i64) {
        if REPORTED_MINUTES.slice(now) != self.minute {
            self.report(pending);
        }
    }

    pub(super) fn report(&mut self, pending: &mut Batch) {
        if self.contexts.is_empty() {
            return;
        }
        let mut contexts: Vec<ReportedContext> = self.contexts.drain().collect();
        sort_by_requests(&mut contexts);
        let max_contexts = reported_contexts(self.fleet.instances);
        let is_side_by_side = self.version.is_some() && self.fleet.versions.len() > 1;
        if !is_side_by_side {
            contexts.truncate(max_contexts);
        }
        pending.add_report(MinuteReport {
            minute: self.minute,
            instance: self.instance.clone(),
            version: self.version.clone(),
            max_contexts,
            is_side_by_side,
            contexts,
            machine: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{NOW, TestRecorder};

    fn fleet(instances: u64, versions: &[&str]) -> Fleet {
        Fleet {
            instances,
            versions: versions.iter().map(|version| Arc::from(*version)).collect(),
        }
    }

    /// Moves the clock to the second, and drains. Returns the reported minutes, with the requests of each context.
    fn reports_at(recorder: &TestRecorder, second: i64) -> Vec<(i64, Vec<u64>)> {
        recorder.clock.set_wall(NOW + second);
        let counts = |report: &MinuteReport| {
            let contexts = report.contexts.iter();
            contexts.map(|(_, sums)| sums.times.count).collect()
        };
        let batch = recorder.drained();
        let reports = batch.reports.iter();
        let reports = reports.map(|report| (report.minute - NOW, counts(report)));
        reports.collect()
    }

    #[test]
    fn a_lone_instance_without_a_version_reports_nothing() {
        let recorder = TestRecorder::new(99);
        recorder.drain.set_instance("a");
        recorder.drain.set_fleet(fleet(1, &["1", "2"]));
        for second in 0..200 {
            recorder.cancelled_requests("GET /", [1]);
            assert_eq!(reports_at(&recorder, second), []);
        }
        recorder.drain.set_fleet(fleet(2, &[]));
        recorder.cancelled_requests("GET /", [1]);
        assert_eq!(reports_at(&recorder, 240), [(180, vec![1])]);
    }
}
