//! Cleaning: removes data that is older than its retention. See [`guide::recipes`](https://docs.rs/tower-pulse/latest/tower_pulse/guide/recipes/index.html).

use std::collections::HashMap;

use super::state::State;
use crate::error::StoreError;
use crate::store::table::{CONTEXTS, FieldWrites};
use crate::store::table_reads::number;
use crate::store::{Cleaned, Pass};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::Precisions;

impl State {
    /// Runs a pass.
    pub(super) fn clean(
        &mut self,
        pass: &Pass,
        precisions: &Precisions,
    ) -> Result<Cleaned, StoreError> {
        let mut cleaned = Cleaned::default();
        self.counters.clean(pass, precisions, &mut cleaned);
        cleaned.contexts = self.forget_contexts(pass)?;
        self.heartbeats.clean(pass.now);
        Ok(cleaned)
    }

    /// When the contexts of each name last had a sample.
    fn last_seen(&self, now: i64) -> Result<HashMap<Vec<u8>, i64>, StoreError> {
        let mut last_seen = HashMap::new();
        for (_, table) in &CONTEXTS {
            for (name, at) in self.tables.all(table, now)? {
                let newest = last_seen.entry(name).or_insert(i64::MIN);
                *newest = number(&at).unwrap_or(i64::MIN).max(*newest);
            }
        }
        Ok(last_seen)
    }

    /// Forgets the contexts without a recent sample. Returns their number.
    fn forget_contexts(&mut self, pass: &Pass) -> Result<u64, StoreError> {
        let forgotten = pass.now - pass.context_retention;
        let mut removed = Vec::new();
        for (name, last_seen) in self.last_seen(pass.now)? {
            if last_seen > forgotten {
                continue;
            }
            let context = String::from_utf8_lossy(&name);
            for metric in Metric::ALL {
                self.counters.remove(&metric.counter(&context));
            }
            removed.push(name);
        }
        for (_, table) in CONTEXTS {
            let writes = FieldWrites {
                removed: removed.clone(),
                ..FieldWrites::new(table, None)
            };
            self.tables.write(&writes, pass.now)?;
        }
        self.kept.ranked_since = pass.now - pass.ranking_retention;
        Ok(removed.len() as u64)
    }
}
