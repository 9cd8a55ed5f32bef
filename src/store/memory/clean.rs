//! Cleaning: removes data that is older than its retention. See [`guide::recipes`](crate::guide::recipes).

use std::collections::HashMap;

use super::State;
use super::tables::number;
use crate::model::context::Metric;
use crate::model::slice::{DEFAULT_RETAINED, Precision, Precisions};
use crate::store::table::{CONTEXTS, FieldWrites};
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
        self.clean_contexts(pass, &mut cleaned);
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

    /// When the contexts of each name last had a sample.
    fn last_seen(&self, now: i64) -> HashMap<Box<[u8]>, i64> {
        let mut last_seen = HashMap::new();
        for (_, table) in &CONTEXTS {
            for (name, at) in self.tables.fields(table, now) {
                let newest = last_seen.entry(name.into()).or_insert(i64::MIN);
                *newest = number(at).unwrap_or(i64::MIN).max(*newest);
            }
        }
        last_seen
    }

    fn clean_contexts(&mut self, pass: &Pass, cleaned: &mut CleanReport) {
        let ranked_since = pass.now - pass.ranking_retention;
        let forgotten = pass.now - pass.context_retention;
        let mut removed = Vec::new();
        for (name, last_seen) in self.last_seen(pass.now) {
            if last_seen > forgotten {
                let leaves = last_seen <= ranked_since && last_seen > self.ranked_since;
                cleaned.ranks += u64::from(leaves);
                continue;
            }
            let context = String::from_utf8_lossy(&name);
            for metric in Metric::ALL {
                self.counters.remove(&metric.counter(&context));
            }
            removed.push(name.into_vec());
        }
        cleaned.contexts = removed.len() as u64;
        for (_, table) in CONTEXTS {
            let writes = FieldWrites {
                removed: removed.clone(),
                ..FieldWrites::new(table, None)
            };
            self.tables.write(&writes, pass.now);
        }
        self.ranked_since = ranked_since;
    }
}
