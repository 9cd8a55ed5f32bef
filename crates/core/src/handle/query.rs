//! Queries of recorded data.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Handle, Stages};
use crate::health::Health;
use crate::query::{Process, Reader, Source, StoreReader, reader};

impl Handle {
    /// Answers all questions of the dashboard, in Rust: see [`query`](crate::query). All routers of this `Pulse` use it
    /// too, so that they share the reads of the store.
    pub fn query(&self) -> &Reader {
        self.0.query.get_or_init(|| {
            let stages = &self.0.stages;
            let flusher = stages.flusher.clone();
            let unsent = Arc::new(move || flusher.unsent());
            let targets = Arc::new(stages.options.targets.clone());
            let (store, clock) = (stages.store.clone(), stages.options.clock.clone());
            reader(Source {
                reader: StoreReader::new(
                    store.clone(),
                    clock.clone(),
                    unsent,
                    targets.clone(),
                    stages.options.query_bytes,
                ),
                store,
                clock,
                precisions: stages.options.precisions.clone(),
                targets,
                notices: stages.options.notices.clone(),
                process: Some(stages.clone()),
            })
        })
    }
}

impl Process for Stages {
    fn health(&self) -> Health {
        self.health()
    }

    fn counters(&self) -> HashMap<Arc<str>, i64> {
        self.recorder.counter_totals()
    }

    #[cfg(feature = "rankings")]
    fn rankings(&self) -> Vec<(Arc<str>, tower_pulse_model::ranking::RankingSpec)> {
        self.recorder.rankings.list()
    }

    #[cfg(feature = "row-cache")]
    fn row_caches(&self) -> crate::row_lists::RowCaches {
        self.row_caches.clone()
    }
}
