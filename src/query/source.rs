//! What answers are made from: the store, and what this process knows by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::store_reader::StoreReader;
use crate::clock::Clock;
use crate::health::Health;
use crate::store::Store;
use tower_pulse_model::ranking::RankingSpec;
use tower_pulse_model::slice::Precisions;

/// What answers are made from.
pub(crate) struct Source {
    /// Reads the store.
    pub(crate) reader: StoreReader,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    /// The precisions of the counters.
    pub(crate) precisions: Precisions,
    /// The time that requests should stay below.
    pub(crate) target: Option<Duration>,
    /// What only an instance knows; `None` in a process that is none.
    pub(crate) process: Option<Arc<dyn Process>>,
}

/// What only this process knows, as it is an instance.
pub(crate) trait Process: Send + Sync {
    /// The state of this instance.
    fn health(&self) -> Health;

    /// What each of the user's counters of this instance has counted since the start.
    fn counters(&self) -> HashMap<Arc<str>, i64>;

    /// The rankings of this instance.
    fn rankings(&self) -> Vec<(Arc<str>, RankingSpec)>;

    /// The row caches of this process.
    #[cfg(feature = "row-cache")]
    fn row_caches(&self) -> Vec<Arc<crate::row_cache::Shared>>;
}

impl Source {
    pub(crate) fn target_seconds(&self) -> Option<f64> {
        self.target.map(|target| target.as_secs_f64())
    }

    /// What each of the user's counters of this instance has counted since the start.
    pub(crate) fn own_counters(&self) -> HashMap<Arc<str>, i64> {
        let process = self.process.as_ref();
        process.map_or_else(HashMap::new, |process| process.counters())
    }

    /// The rankings of this instance.
    pub(crate) fn own_rankings(&self) -> Vec<(Arc<str>, RankingSpec)> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, |process| process.rankings())
    }

    /// The row caches of this process.
    #[cfg(feature = "row-cache")]
    pub(crate) fn row_caches(&self) -> Vec<Arc<crate::row_cache::Shared>> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, |process| process.row_caches())
    }
}
