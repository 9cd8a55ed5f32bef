//! The data of answers: the store, and the state of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::book::Book;
use super::instance_minutes::InstanceMinutes;
use super::reads::Reads;
use super::windows::Windows;
use crate::clock::{Clock, Tick};
use crate::flush::Unsent;
use crate::health::{Health, Notices};
use crate::skew::Skew;
use crate::store::Store;
use crate::store::judgement::ChangeLog;
use crate::targets::Targets;
#[cfg(feature = "rankings")]
use tower_pulse_model::ranking::RankingSpec;

/// The data of all answers: the store, its cached reads, and the state of this process.
pub struct Source {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The time source.
    pub clock: Clock,
    /// The targets of requests.
    pub targets: Arc<Targets>,
    /// The warnings about the configuration, wrong credentials and failures.
    pub notices: Notices,
    /// The state of this instance; `None` if this process is not an instance.
    pub process: Option<Arc<dyn Process>>,
    /// The measured error of the clock; `None` in an instance, whose flusher measures the error.
    pub(super) skew: Option<Skew>,
    pub(super) reads: Reads,
    /// The book, and the time at which its last page was read.
    pub(super) last_book: Mutex<(Arc<Book>, Option<Tick>)>,
    pub(super) last_log: Mutex<Arc<ChangeLog>>,
    pub(super) contacted_at: Mutex<Option<Tick>>,
    pub(super) instance_minutes: InstanceMinutes,
    pub(super) windows: Windows,
}

/// The state of this process, if it is an instance.
pub trait Process: Send + Sync {
    /// The health of this instance.
    fn health(&self) -> Health;

    /// The samples of this instance that the store may not have yet.
    fn unsent(&self) -> Option<Unsent>;

    /// The totals of the user's counters in this instance since its start.
    fn counters(&self) -> HashMap<Arc<str>, i64>;

    /// The rankings of this instance.
    #[cfg(feature = "rankings")]
    fn rankings(&self) -> Vec<(Arc<str>, RankingSpec)>;

    /// The row caches of this process.
    #[cfg(feature = "row-cache")]
    fn row_caches(&self) -> crate::row_lists::RowCaches;
}

impl Source {
    /// The data of a store. `query_bytes` bounds the caches. A process that is not an instance passes a clock of
    /// [`skew::following`](crate::skew::following). Reads of the store compare this clock with the store's time, and
    /// correct the clock.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        targets: Targets,
        query_bytes: usize,
        notices: Notices,
        process: Option<Arc<dyn Process>>,
    ) -> Self {
        let targets = Arc::new(targets);
        let share = |sixteenths: usize| query_bytes / 16 * sixteenths;
        Self {
            skew: process.is_none().then(Skew::default),
            windows: Windows::new(store.clone(), clock.clone(), targets.clone(), share(8)),
            instance_minutes: InstanceMinutes::new(store.clone(), clock.clone(), share(2)),
            reads: Reads::new(clock.clone(), [4, 1, 1].map(share)),
            last_book: Mutex::default(),
            last_log: Mutex::default(),
            contacted_at: Mutex::default(),
            store,
            clock,
            targets,
            notices,
            process,
        }
    }

    /// The rankings of this instance.
    #[cfg(feature = "rankings")]
    pub fn own_rankings(&self) -> Vec<(Arc<str>, RankingSpec)> {
        let process = self.process.as_ref();
        process.map_or_else(Vec::new, |process| process.rankings())
    }
}
