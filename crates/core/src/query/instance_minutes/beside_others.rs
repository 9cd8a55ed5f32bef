//! One instance compared with the others, by minute and by context.

use std::collections::HashMap;

use super::CachedInstance;
use super::pace::{Pace, Times};
use crate::query::coop_budget::CoopBudget;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;

/// The maximum number of contexts of an instance. The store keeps at most 32 contexts of a report, the busiest of the
/// minute.
const MAX_CONTEXTS: usize = 256;

#[derive(Default)]
pub(in crate::query) struct BesideOthers {
    /// The minutes in which the instance had requests, oldest first.
    pub minutes: Vec<MinuteBeside>,
    /// The contexts that the instance reported first, at most [`MAX_CONTEXTS`].
    pub contexts: HashMap<RecordId, ContextBeside>,
    /// The start of each minute, and the state of the runtime and process of the instance, oldest first.
    pub machine: Vec<(i64, MachineMinute)>,
}

pub(in crate::query) struct MinuteBeside {
    pub start: i64,
    /// The sums over all contexts that the instance reported.
    pub sums: Aggregate,
    /// The number of other instances that had requests and were not slow.
    pub others: usize,
    /// The total number of requests of these other instances.
    pub others_count: u64,
    /// The mean duration that the instance's requests would have had on the others, in seconds, computed from the
    /// others' means on the same contexts.
    pub others_mean: Option<f64>,
}

#[derive(Debug, Default)]
pub(in crate::query) struct ContextBeside {
    pub sums: Aggregate,
    /// The sums of the others, in the minutes in which the instance had requests.
    pub others: Aggregate,
    pace: Pace,
}

impl ContextBeside {
    /// The time of the instance's requests, divided by the time that they would have taken on the others. `None` if
    /// either side has fewer than 10 requests, or if there is only one minute.
    pub(in crate::query) fn ratio(&self) -> Option<f64> {
        self.pace.ratio()
    }

    /// The additional time of the instance's requests, compared with the others, in seconds.
    pub(in crate::query) fn extra(&self) -> Option<f64> {
        let Pace { own, expected, .. } = &self.pace;
        self.ratio()
            .map(|_| (own.sum as f64 - expected) / 1_000_000_000.0)
    }
}

impl BesideOthers {
    /// Adds a minute, which must be later than all minutes that were added before. Only the instances in `in_line`,
    /// which are not slow, count as the others.
    pub(super) async fn add(
        &mut self,
        start: i64,
        own: &CachedInstance,
        in_line: &[&CachedInstance],
        budget: &mut CoopBudget<'_>,
    ) {
        self.machine.extend(own.machine.map(|m| (start, m)));
        let Some(sums) = own.sums(None) else {
            return;
        };
        let others = || in_line.iter().filter(|peer| peer.instance != own.instance);
        let of_others = others().flat_map(|other| other.times(None));
        let others_count = of_others.fold(0, |sum: u64, (_, t)| sum.saturating_add(t.count));
        let mut pace = Pace::default();
        for (id, context) in &own.contexts {
            budget.yield_if_spent().await;
            let of_others = others().filter_map(|other| other.sums(Some(*id)));
            let of_others: Vec<Aggregate> = of_others.collect();
            let mut times = Times::default();
            of_others.iter().for_each(|sums| times.add(Times::of(sums)));
            pace.add(start, context.times, times);
            let has_room = self.contexts.len() < MAX_CONTEXTS || self.contexts.contains_key(id);
            if let Some(sums) = own.sums(Some(*id)).filter(|_| has_room) {
                let beside = self.contexts.entry(*id).or_default();
                beside.sums.merge(&sums);
                let of_others: Vec<&Aggregate> = of_others.iter().collect();
                beside.others.merge_all(&of_others);
                beside.pace.add(start, context.times, times);
            }
        }
        self.minutes.push(MinuteBeside {
            start,
            sums,
            others: others().count(),
            others_count,
            others_mean: pace.expected_mean(),
        });
    }

    pub(in crate::query) fn bytes(&self) -> usize {
        let minutes = self.minutes.iter().map(|minute| minute.sums.bytes());
        let contexts = self.contexts.values();
        let contexts = contexts.map(|context| context.sums.bytes() + context.others.bytes());
        minutes.chain(contexts).sum::<usize>()
            + self.minutes.len() * size_of::<MinuteBeside>()
            + self.contexts.len() * size_of::<(RecordId, ContextBeside)>()
    }
}
