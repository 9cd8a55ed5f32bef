//! Queries of recorded data.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Handle, Stages};
use crate::flush::Unsent;
use crate::health::Health;
use crate::query::{Process, Reader, Source, reader};

impl Handle {
    /// The reader, which answers the dashboard's questions: see [`query`](crate::query). All routers of this `Pulse`
    /// share the reads of this reader.
    pub fn query(&self) -> &Reader {
        self.0.query.get_or_init(|| {
            let stages = &self.0.stages;
            let options = &stages.options;
            reader(Source::new(
                stages.store.clone(),
                options.clock.clone(),
                options.targets.clone(),
                options.query_bytes,
                options.notices.clone(),
                Some(stages.clone()),
            ))
        })
    }
}

impl Process for Stages {
    fn health(&self) -> Health {
        self.health()
    }

    fn unsent(&self) -> Option<Unsent> {
        self.flusher.unsent()
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
