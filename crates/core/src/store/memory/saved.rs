//! For this crate's own tests: data that is saved and restored, as a failover of a server does, and what no query tells.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use super::{MemoryStore, new_state};
use crate::store::in_process::{Access, State};
use tower_pulse_model::recorded::Gap;

/// The data of a store at a moment.
#[derive(Clone, Debug)]
pub struct Saved(State);

impl MemoryStore {
    /// Makes the journal full at fewer bytes.
    pub fn with_journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = bytes;
        self
    }

    fn at_once<R: Send + 'static>(&self, work: impl FnOnce(&mut State) -> R + Send + 'static) -> R {
        let working = std::pin::pin!(self.with(Access::Write, |state| Ok(work(state))));
        match working.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(found)) => found,
            _ => unreachable!("only a file takes time, or fails"),
        }
    }

    /// The data of now.
    pub fn save(&self) -> Saved {
        Saved(self.at_once(|state| state.clone()))
    }

    /// Replaces all data by that of an earlier moment.
    pub fn restore(&self, saved: &Saved) {
        let saved = saved.0.clone();
        self.at_once(|state| *state = saved);
    }

    /// Removes all data: a new generation begins.
    pub fn reset(&self) {
        let now = self.now();
        self.at_once(move |state| *state = new_state(now, state.tables.bound));
    }

    /// Says in which times no instance recorded, in Unix seconds: ascending and disjoint.
    pub fn set_gaps(&self, gaps: impl IntoIterator<Item = Gap>) {
        let gaps = gaps.into_iter().collect();
        self.at_once(|state| state.kept.gaps = gaps);
    }
}
