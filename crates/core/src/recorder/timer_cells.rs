//! The timers within the requests of a context, added up in this process until they are drained.

use std::sync::{Mutex, OnceLock};

use crate::task::lock;
use tower_pulse_model::context::RecordId;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::timer_sums::{MAX_TIMERS, TimerSums, Timers, other};

/// The maximum number of shards of a context's timers. A request with timers locks one shard briefly, when the request
/// ends.
const MAX_SHARDS: usize = 4;

/// The most timers of a request, or of a shard between two drains, that are counted separately. Of these, the
/// [`MAX_TIMERS`] with the most time are sent.
pub(super) const MAX_LIVE: usize = 2 * MAX_TIMERS;

/// Sums of the timers within the requests of a context since the last drain. Empty until the first timer runs.
pub(super) struct TimerCells {
    /// Number of shards, a power of two.
    count: usize,
    shards: OnceLock<Box<[Mutex<Timers>]>>,
}

impl TimerCells {
    /// `shards` is the number of recording shards, a power of two.
    pub(super) fn new(shards: usize) -> Self {
        Self {
            count: shards.min(MAX_SHARDS),
            shards: OnceLock::new(),
        }
    }

    /// Adds the sums of timers to the shard of a thread. During `covered` nanoseconds, at least one timer ran.
    pub(super) fn add(
        &self,
        thread: usize,
        covered: u64,
        sums: impl IntoIterator<Item = (RecordId, TimerSums)>,
    ) {
        let shards = self.shards.get_or_init(|| {
            let shards = 0..self.count;
            shards.map(|_| Mutex::default()).collect()
        });
        let mut shard = lock(&shards[thread & (self.count - 1)]);
        shard.covered = shard.covered.saturating_add(covered);
        for (timer, sums) in sums {
            let has_room = shard.len() < MAX_LIVE || shard.get(timer).is_some();
            shard.add(if has_room { timer } else { other() }, &sums);
        }
    }

    /// `None` if no timer ran.
    pub(super) fn drain(&self) -> Option<Timers> {
        let mut drained = Timers::default();
        for shard in self.shards.get()? {
            let timers = std::mem::take(&mut *lock(shard));
            if !timers.is_empty() {
                drained.merge(&timers);
            }
        }
        drained.limit();
        (!drained.is_empty()).then_some(drained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;

    fn id(number: u64) -> RecordId {
        RecordId::new(Kind::Timer, &number.to_string())
    }

    #[test]
    fn the_timers_with_the_most_time_keep_their_names() {
        let cells = TimerCells::new(2);
        // Adds more timers than the cells keep. The slow timers are among the first.
        for number in 0..500 {
            let sum = if (10..26).contains(&number) { 1_000 } else { 1 };
            let run = TimerSums {
                count: 1,
                sum,
                ..TimerSums::default()
            };
            cells.add(0, sum, [(id(number), run)]);
        }
        let drained = cells.drain().expect("timers ran");
        assert_eq!(drained.len(), MAX_TIMERS + 1);
        assert!((10..26).all(|number| drained.get(id(number)).is_some()));
        let others = drained.get(other()).map(|others| others.count);
        assert_eq!(others, Some(500 - 16));
    }
}
