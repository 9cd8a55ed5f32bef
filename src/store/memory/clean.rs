//! Cleaning: removes data that is older than its retention. See [`guide::recipes`](crate::guide::recipes).

use super::State;
use crate::model::context::{ALL, Metric};
use crate::model::slice::{DEFAULT_RETAINED, Precision, Precisions};
use crate::store::{CleanReport, INSTANCE_TTL, Pass};

impl State {
    /// Runs a pass. `None` when the pass has been completed before.
    pub(super) fn clean(&mut self, pass: &Pass, precisions: &Precisions) -> Option<CleanReport> {
        let last = self.last_pass.as_ref();
        if last.is_some_and(|last| pass.is_done_by(last.number)) {
            return None;
        }
        let mut cleaned = CleanReport::default();
        self.clean_counters(pass, precisions, &mut cleaned);
        self.forget_contexts(pass, &mut cleaned);
        self.clean_ranking(pass, &mut cleaned);
        let before = self.instances.len();
        self.instances
            .retain(|_, heartbeat| heartbeat.at >= pass.now - INSTANCE_TTL);
        cleaned.instances = (before - self.instances.len()) as u64;
        Some(cleaned)
    }

    fn clean_counters(&mut self, pass: &Pass, precisions: &Precisions, cleaned: &mut CleanReport) {
        for by_precision in self.counters.values_mut() {
            by_precision.retain(|seconds, slices| {
                if !pass.examines(i64::from(*seconds)) {
                    return true;
                }
                let precision = precisions
                    .counter(*seconds)
                    .unwrap_or(Precision::new(*seconds, DEFAULT_RETAINED));
                let before = slices.len();
                let cut_off = precision.cut_off(pass.now);
                // Visits only slices that are removed, as the state is locked meanwhile.
                while let Some((oldest, _)) = slices.first_key_value()
                    && (*oldest <= cut_off || slices.len() > precision.retained as usize)
                {
                    slices.pop_first();
                }
                cleaned.examined += 1;
                cleaned.slices += (before - slices.len()) as u64;
                cleaned.counters += u64::from(slices.is_empty());
                !slices.is_empty()
            });
        }
        self.counters
            .retain(|_, by_precision| !by_precision.is_empty());
    }

    fn forget_contexts(&mut self, pass: &Pass, cleaned: &mut CleanReport) {
        let before = self.contexts.len();
        let (counters, slowest) = (&mut self.counters, &mut self.slowest);
        self.contexts.retain(|name, context| {
            let keep = name == ALL || context.last_seen() > pass.now - pass.context_retention;
            if !keep {
                slowest.remove(name);
                for metric in Metric::ALL {
                    counters.remove(&metric.counter(name));
                }
            }
            keep
        });
        cleaned.contexts = (before - self.contexts.len()) as u64;
    }

    fn clean_ranking(&mut self, pass: &Pass, cleaned: &mut CleanReport) {
        let before = self.slowest.len();
        let contexts = &self.contexts;
        self.slowest.retain(|name, _| {
            let context = contexts.get(name);
            context.is_some_and(|context| context.last_seen() > pass.now - pass.ranking_retention)
        });
        cleaned.ranks = (before - self.slowest.len()) as u64;
    }
}
