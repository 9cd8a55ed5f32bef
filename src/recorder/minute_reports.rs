//! Collects what this instance does in each minute, and reports it when the minute is over.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::batch::{Aggregate, Batch, Merge};
use crate::model::fleet::Fleet;
use crate::model::minute_report::{
    MinuteReport, REPORTED_MINUTES, ReportedContext, reported_contexts, sort_by_requests,
};
use crate::model::records::RecordId;

/// Collects the minute reports of this instance, if there is anything to compare it with: other instances, or other
/// versions of the application.
#[derive(Debug)]
pub(super) struct ReportCollector {
    /// The name of this instance.
    instance: Arc<str>,
    /// The version of the application.
    version: Option<Arc<str>>,
    /// The fleet at the last heartbeat.
    fleet: Fleet,
    /// The start of the minute that is collected, in Unix seconds.
    minute: i64,
    contexts: HashMap<RecordId, Aggregate>,
}

impl ReportCollector {
    pub(super) fn new(version: Option<Arc<str>>) -> Self {
        Self {
            instance: "".into(),
            version,
            fleet: Fleet::default(),
            minute: i64::MIN,
            contexts: HashMap::new(),
        }
    }

    /// Sets the name of this instance.
    pub(super) fn set_instance(&mut self, instance: &str) {
        self.instance = instance.into();
    }

    /// Sets the fleet as it is now.
    pub(super) fn set_fleet(&mut self, fleet: Fleet) {
        self.fleet = fleet;
    }

    fn is_collecting(&self) -> bool {
        self.version.is_some() || self.fleet.instances > 1
    }

    /// Begins to collect samples of `second`. Reports the minute before, if it is over.
    pub(super) fn begin(&mut self, pending: &mut Batch, second: i64) {
        let minute = REPORTED_MINUTES.slice(second);
        if minute != self.minute {
            self.report(pending);
            self.minute = minute;
        }
    }

    /// Adds samples of a context of HTTP requests.
    pub(super) fn add(&mut self, id: RecordId, aggregate: &Aggregate) {
        if self.is_collecting() && aggregate.times.count > 0 {
            self.contexts.entry(id).or_default().merge(aggregate);
        }
    }

    /// Reports the minute if it is over at `now`, in Unix seconds.
    pub(super) fn end(&mut self, pending: &mut Batch, now: i64) {
        if REPORTED_MINUTES.slice(now) != self.minute {
            self.report(pending);
        }
    }

    /// Reports what was collected.
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
        });
    }
}
