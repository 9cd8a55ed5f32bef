//! Minute reports: what each instance did in one minute. Instances are compared with each other by them, and old
//! versions of the application with new ones.
//!
//! An instance reports its busiest contexts. While several versions of the application run side by side, it reports
//! all of its contexts, and the reports of the instances of a version are added up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::aggregate::Aggregate;
use super::records::RecordId;
use super::slice::{Precision, SKEW_ALLOWED};
use super::slices::Merge;
use super::tier::FINEST;

/// The most contexts that are stored of an instance and minute.
pub const MAX_REPORTED: usize = 32;

/// The most contexts that a fleet reports in a minute, all instances together, unless it has more instances. The
/// more instances, the fewer contexts each of them reports.
pub const MAX_REPORTED_BY_FLEET: usize = 1_024;

/// The minutes of which reports are stored.
pub const REPORTED_MINUTES: Precision = FINEST;

/// The most reports that wait in a batch.
pub const MAX_PENDING_REPORTS: usize = REPORTED_MINUTES.retained as usize;

/// How many contexts an instance reports in a fleet of so many instances.
pub fn reported_contexts(instances: u64) -> usize {
    let instances = usize::try_from(instances).unwrap_or(usize::MAX).max(1);
    (MAX_REPORTED_BY_FLEET / instances).clamp(1, MAX_REPORTED)
}

/// What an instance did on a context.
pub type ReportedContext = (RecordId, Aggregate);

/// What an instance did in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteReport {
    /// The start of the minute, in Unix seconds.
    pub minute: i64,
    /// The name of the instance.
    pub instance: Arc<str>,
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// How many of the contexts are stored as those of the instance: the busiest.
    pub max_contexts: usize,
    /// Whether several versions run side by side: all contexts count for the version too.
    pub is_side_by_side: bool,
    /// Contexts of HTTP requests that had some, busiest first, without their timers.
    pub contexts: Vec<ReportedContext>,
}

impl MinuteReport {
    /// Whether the report can be stored at `now`: its minute is still retained, and does not lie in the future.
    pub fn is_retained(&self, now: i64) -> bool {
        let latest = now.saturating_add(SKEW_ALLOWED);
        self.minute > REPORTED_MINUTES.cut_off(now) && self.minute <= latest
    }

    /// Whether both are parts of one report.
    pub(crate) fn is_of_same(&self, other: &Self) -> bool {
        (self.minute, &self.instance) == (other.minute, &other.instance)
    }

    /// Adds another part of the same report.
    pub(crate) fn merge(&mut self, other: Self) {
        self.max_contexts = self.max_contexts.max(other.max_contexts);
        self.is_side_by_side |= other.is_side_by_side;
        merge_contexts(&mut self.contexts, other.contexts);
    }

    /// Moves out up to `count` of the busiest contexts, as a part of this report.
    pub(crate) fn split(&mut self, count: usize) -> Self {
        let tail = self.contexts.split_off(count.min(self.contexts.len()));
        Self {
            contexts: std::mem::replace(&mut self.contexts, tail),
            minute: self.minute,
            instance: self.instance.clone(),
            version: self.version.clone(),
            ..*self
        }
    }

    /// Approximate bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let texts = self.instance.len() + self.version.as_ref().map_or(0, |version| version.len());
        size_of::<Self>() + texts + bytes_of(&self.contexts)
    }
}

/// What is stored of an instance and minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceMinute {
    /// The version of the application.
    pub version: Option<Arc<str>>,
    /// The busiest contexts, busiest first.
    pub contexts: Vec<ReportedContext>,
}

impl InstanceMinute {
    /// Adds a report of this minute, or a part of one.
    pub(crate) fn add(&mut self, report: &MinuteReport) {
        let count = report.max_contexts.min(MAX_REPORTED);
        let busiest = report.contexts.iter().take(count);
        self.version = report.version.clone().or_else(|| self.version.take());
        merge_contexts(&mut self.contexts, busiest.cloned().collect());
        self.contexts.truncate(count);
    }

    /// Approximate bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let version = self.version.as_ref().map_or(0, |version| version.len());
        size_of::<Self>() + version + bytes_of(&self.contexts)
    }
}

/// Approximate bytes of contexts in memory.
fn bytes_of(contexts: &[ReportedContext]) -> usize {
    let contexts = contexts.iter();
    contexts.map(|(_, aggregate)| aggregate.bytes()).sum()
}

/// Adds contexts to others, and sorts them.
fn merge_contexts(contexts: &mut Vec<ReportedContext>, others: Vec<ReportedContext>) {
    let mut sums: HashMap<RecordId, Aggregate> = contexts.drain(..).collect();
    for (id, aggregate) in others {
        match sums.entry(id) {
            Entry::Occupied(mut entry) => entry.get_mut().merge(&aggregate),
            Entry::Vacant(entry) => drop(entry.insert(aggregate)),
        }
    }
    contexts.extend(sums);
    sort_by_requests(contexts);
}

/// Sorts contexts, busiest first.
pub(crate) fn sort_by_requests(contexts: &mut [ReportedContext]) {
    contexts.sort_unstable_by(|(id, a), (other_id, b)| {
        let order = b.times.count.cmp(&a.times.count);
        order.then_with(|| id.cmp(other_id))
    });
}
