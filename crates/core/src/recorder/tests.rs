//! A recorder with a manual clock, for unit tests.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::{Limits, Recorder};
use crate::clock::{Clock, ManualClock};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::ranking::RankingSpec;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slow_request::SlowRequest;

/// The start of a minute.
pub(crate) const NOW: i64 = 1_700_000_040;
pub(super) const COUNTERS: usize = 1_000;

pub(crate) struct TestRecorder {
    recorder: Arc<Recorder>,
    pub(crate) clock: ManualClock,
}

impl Deref for TestRecorder {
    type Target = Arc<Recorder>;

    fn deref(&self) -> &Arc<Recorder> {
        &self.recorder
    }
}

impl TestRecorder {
    pub(crate) fn new(max_contexts: usize) -> Self {
        Self::with_limits(Limits::new(max_contexts, COUNTERS))
    }

    pub(super) fn with_limits(limits: Limits) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        let recorder = Recorder::new(clock, Precisions::default(), limits);
        Self {
            recorder: Arc::new(recorder),
            clock: manual_clock,
        }
    }

    pub(super) fn cancelled_requests(&self, context: &str, millis: impl IntoIterator<Item = u64>) {
        for duration in millis.into_iter().map(Duration::from_millis) {
            self.record_request(context, duration, Outcome::Cancelled.into());
        }
    }

    pub(super) fn advance(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    pub(crate) fn drained(&self) -> Batch {
        self.drain();
        self.drain.take()
    }
}

pub(super) fn root() -> ContextId {
    ContextId::new(Kind::Http, "GET /")
}

pub(super) fn spec(max_ids: u32) -> RankingSpec {
    RankingSpec {
        interval: 60,
        slices: 3,
        max_ids,
    }
}

/// The listed requests of a context, by hour.
pub(super) fn listed(batch: &Batch, context: &ContextId) -> Vec<(i64, Vec<SlowRequest>)> {
    let lists = batch.contexts.get(context).map(|delta| &delta.slowest);
    let lists = lists.into_iter().flat_map(|lists| lists.iter());
    let requests = lists.map(|(hour, list)| (hour, list.iter().cloned().collect()));
    requests.collect()
}
