//! Requests add their samples to shards: each context has one [cell](super::cell) per recording shard. A thread holds
//! a shard while it adds one sample: about a dozen additions. No thread waits while any shard is free.
//!
//! One atomic exchange takes a shard, and one atomic write releases the shard. A drain leaves the shard [`EMPTY`]. The
//! first thread that then adds a sample sets the [dirty bit](super::dirty_bits) of the context for the next drain. All
//! later threads find the shard [`FILLED`], and do no extra work. So a drain knows which contexts have samples, and
//! skips empty shards.

use std::cell::Cell as ThreadCell;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use super::cell::{Cell, Measured, Sample, Scratch};
use super::dirty_bits::DirtyBit;
use super::sync::{AtomicU8, Ordering, TRIES, yield_now};
use tower_pulse_model::aggregate::Aggregate;

pub(super) const MAX_SHARDS: usize = 8;

/// Minimum number of shards: while one shard is drained, another is free.
pub(super) const MIN_SHARDS: usize = 2;

/// The shard is free, and its cell has samples. The context's dirty bit is set, or a drain has taken the bit and will
/// drain the context.
const FILLED: u8 = 0;
/// A thread has taken the shard.
const TAKEN: u8 = 1;
/// The shard is free, and nothing was added since the last drain. The cell may not exist yet.
const EMPTY: u8 = 2;

/// A shard of a context. Its cell is created when the shard is first used. Aligned so that two shards never
/// share a cache line.
#[repr(align(128))]
struct Shard {
    state: AtomicU8,
    cell: OnceLock<Box<Cell>>,
    /// The context's [threshold](Cells::set_slow_from). Each shard has a copy, in a cache line that each request
    /// accesses anyway.
    slow_from: std::sync::atomic::AtomicU64,
    /// The requests that have begun since the last drain, minus the calls of [`abandon`](Cells::abandon).
    begun: AtomicI64,
}

/// Holds a shard that this thread has taken. Dropping this guard leaves the shard [`FILLED`] or, after a drain,
/// [`EMPTY`].
struct ShardGuard<'a>(&'a Shard, u8);

impl Drop for ShardGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.state.store(self.1, Ordering::Release);
    }
}

impl Shard {
    fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            cell: OnceLock::new(),
            slow_from: u64::MAX.into(),
            begun: 0.into(),
        }
    }

    /// Takes the shard if it is in the given state. Returns whether the shard was taken.
    #[inline(always)]
    fn exchange(&self, state: u8) -> bool {
        self.state
            .compare_exchange(state, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the shard if it is free and has samples.
    #[inline(always)]
    fn try_take_filled(&self) -> Option<ShardGuard<'_>> {
        // `then_some` would create the guard even if another thread has the shard, and dropping the guard would release
        // that thread's shard.
        self.exchange(FILLED).then(|| ShardGuard(self, FILLED))
    }

    /// Takes the shard if it is free. Also returns whether the shard was empty.
    fn take_free(&self) -> Option<(ShardGuard<'_>, bool)> {
        let state = self.state.load(Ordering::Relaxed);
        let has_taken = state != TAKEN && self.exchange(state);
        has_taken.then(|| (ShardGuard(self, FILLED), state == EMPTY))
    }

    /// Waits until the shard is free. Then takes the shard if it has samples; the guard leaves the shard [`EMPTY`].
    fn take_to_drain(&self) -> Option<ShardGuard<'_>> {
        loop {
            if self.exchange(FILLED) {
                return Some(ShardGuard(self, EMPTY));
            }
            if self.state.load(Ordering::Relaxed) == EMPTY {
                return None;
            }
            yield_now();
        }
    }
}

/// The cells of one context. Clones share the cells.
#[derive(Clone)]
pub(super) struct Cells {
    shards: Arc<[Shard]>,
    dirty_bit: DirtyBit,
}

impl Cells {
    /// `shards` is a power of two. The cells set the dirty bit when they have something to drain.
    pub(super) fn new(shards: usize, dirty_bit: DirtyBit) -> Self {
        Self {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            dirty_bit,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let cells = self.shards.iter().filter_map(|shard| shard.cell.get());
        size_of_val(&*self.shards) + cells.map(|cell| cell.bytes()).sum::<usize>()
    }

    #[cold]
    pub(super) fn touch(&self) {
        self.dirty_bit.set();
    }

    pub(super) fn index(&self) -> usize {
        self.dirty_bit.index
    }

    /// Counts a request that begins. The first request after a drain sets the dirty bit.
    #[inline(always)]
    pub(super) fn begin(&self, thread: usize) {
        let shard = &self.shards[thread & (self.shards.len() - 1)];
        if shard.begun.fetch_add(1, Ordering::Relaxed) == 0 {
            self.touch();
        }
    }

    /// Counts a request that began in this context, but will not end in this context.
    pub(super) fn abandon(&self) {
        self.shards[0].begun.fetch_sub(1, Ordering::Relaxed);
        self.touch();
    }

    pub(super) fn take_begun(&self) -> i64 {
        let begun = self.shards.iter().map(|shard| &shard.begun);
        begun.map(|begun| begun.swap(0, Ordering::Relaxed)).sum()
    }

    /// Sets the shortest duration that [is slow](Self::is_slow). Initially, no duration is slow.
    pub(super) fn set_slow_from(&self, nanos: u64) {
        for shard in &*self.shards {
            shard.slow_from.store(nanos, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn is_slow(&self, thread: usize, nanos: u64) -> bool {
        let shard = &self.shards[thread & (self.shards.len() - 1)];
        nanos >= shard.slow_from.load(Ordering::Relaxed)
    }

    /// Adds a sample and its measures to the shard of this thread or, if that shard is taken, to a free shard.
    #[inline(always)]
    pub(super) fn record(&self, thread: usize, sample: Sample, measured: impl Measured) {
        let shard = &self.shards[thread & (self.shards.len() - 1)];
        if let Some(_guard) = shard.try_take_filled()
            && let Some(cell) = shard.cell.get()
        {
            cell.record(sample, measured);
        } else {
            self.record_elsewhere(thread, sample, measured);
        }
    }

    /// Adds a sample to the first free shard. The shard of this thread is taken or empty.
    #[cold]
    fn record_elsewhere(&self, thread: usize, sample: Sample, measured: impl Measured) {
        let (guard, was_empty) = self.free_shard(thread);
        let cell = guard.0.cell.get_or_init(Cell::new);
        cell.record(sample, measured);
        if was_empty {
            // Sets the dirty bit while the shard is taken, so that a drain that takes the dirty bit waits for the
            // shard.
            self.dirty_bit.set();
        }
    }

    fn free_shard(&self, thread: usize) -> (ShardGuard<'_>, bool) {
        let mask = self.shards.len() - 1;
        loop {
            for offset in 0..TRIES {
                if let Some(guard) = self.shards[(thread + offset) & mask].take_free() {
                    return guard;
                }
                std::hint::spin_loop();
            }
            // The threads that took the shards were probably interrupted: lets them run.
            yield_now();
        }
    }

    /// A shard is taken only while its cell is copied to `scratch`. The copy is evaluated after the shard is released.
    pub(super) fn drain(&self, scratch: &mut Scratch) -> Option<Aggregate> {
        let mut aggregate: Option<Aggregate> = None;
        for shard in &*self.shards {
            let Some(drained) = shard.take_to_drain() else {
                continue;
            };
            // A shard that is filled has a cell.
            let Some(cell) = shard.cell.get() else {
                continue;
            };
            cell.empty_into(scratch);
            drop(drained);
            scratch.add_to(aggregate.get_or_insert_default());
        }
        aggregate
    }
}

/// A small number that identifies the current thread.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static NUMBER: ThreadCell<usize> = const { ThreadCell::new(0) };
    }
    // A thread that is ending has no thread-locals. The thread gets 0, because any shard is right.
    NUMBER
        .try_with(|number| match number.get() {
            0 => {
                let new = NEXT.fetch_add(1, Ordering::Relaxed);
                number.set(new);
                new
            }
            number => number,
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::{num, prop_assert_eq};

    use super::*;
    use crate::recorder::cell::NO_CODE;
    use crate::recorder::dirty_bits::{DirtyBits, visited};
    use tower_pulse_model::histogram::{Histogram, bucket_of};
    use tower_pulse_model::measures::Measure;
    use tower_pulse_model::outcome::{OUTCOMES, Outcome};

    fn cells(shards: usize) -> Cells {
        Cells::new(shards, DirtyBits::new(1).dirty_bit(0))
    }

    #[test]
    fn the_first_sample_after_a_drain_sets_the_dirty_bit() {
        let dirty_bits = DirtyBits::new(3);
        let cells = Cells::new(4, dirty_bits.dirty_bit(2));
        let dirty = || visited(|visit| dirty_bits.take(visit));
        let record = |thread| cells.record(thread, Sample(5, Outcome::Success, false, 200), []);
        let mut scratch = Scratch::new();
        for _ in 0..3 {
            assert!(dirty().is_empty());
            record(1);
            assert_eq!(dirty(), [2]);
            record(1);
            assert!(dirty().is_empty(), "the shard was filled already");
            record(2);
            assert_eq!(dirty(), [2], "another shard");
            let drained = cells.drain(&mut scratch).expect("some were recorded");
            assert_eq!(drained.times.count, 3);
        }
    }

    #[test]
    fn the_first_codes_after_a_drain_are_counted_separately() {
        let (cells, mut scratch) = (cells(2), Scratch::new());
        let mut codes = |recorded: std::ops::Range<u16>| {
            for code in recorded {
                cells.record(0, Sample(5, Outcome::ClientError, false, code), []);
            }
            let drained = cells.drain(&mut scratch).expect("some were recorded");
            let named: Vec<_> = drained.codes.iter().map(|(code, n)| (*code, n)).collect();
            (named, drained.codes.other())
        };
        let named = (400..416).map(|code| (code, 1)).collect();
        assert_eq!(codes(400..420), (named, 4));
        assert_eq!(codes(419..420), (vec![(419, 1)], 0));
    }

    #[test]
    fn any_thread_finds_the_only_free_shard() {
        for (thread, free) in (0..4).flat_map(|thread| (0..4).map(move |free| (thread, free))) {
            let cells = cells(4);
            let others = (0..4).filter(|at| *at != free);
            let guards: Vec<_> = others.map(|at| cells.shards[at].take_free()).collect();
            let (shard, was_empty) = cells.free_shard(thread);
            let is_free = std::ptr::eq(shard.0, &cells.shards[free]);
            assert!(is_free && was_empty, "{thread} {free}");
            drop(guards);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_cell_adds_up_as_an_aggregate_does(drains in vec(vec(num::u64::ANY, 1..20), 1..5)) {
            let (cells, mut scratch) = (cells(2), Scratch::new());
            for values in drains {
                let mut expected = Aggregate::default();
                for (i, nanos) in values.iter().map(|v| v >> 8 >> (v % 48)).enumerate() {
                    let outcome = Outcome::ALL[i % OUTCOMES];
                    let measures = [(Measure::PollTime, nanos / 2), (Measure::LongestPoll, nanos / 3)];
                    let codes = match outcome {
                        Outcome::Success => [200, 204, NO_CODE],
                        Outcome::Informational | Outcome::Redirection => [101, 304, NO_CODE],
                        _ => [404, 200, NO_CODE],
                    };
                    let code = codes[i / 3 % 3];
                    cells.record(i, Sample(nanos, outcome, i % 3 == 0, code), measures);
                    match (outcome, code) {
                        (Outcome::Success, NO_CODE) => expected.codes.add(200, 1),
                        (_, NO_CODE) => {}
                        (_, code) => expected.codes.add(code, 1),
                    }
                    for (measure, number) in measures {
                        expected.measures.add(measure, number);
                    }
                    expected.times.record(nanos);
                    expected.outcomes.record(outcome, i % 3 == 0);
                    let bucket = Histogram::new(4, [(bucket_of(nanos) as u16, 1)]);
                    expected.histogram.merge(&bucket);
                    let none = Histogram::default();
                    match outcome {
                        _ if i % 3 == 0 => expected.merge_parts(&bucket, &none),
                        Outcome::ClientError => expected.merge_parts(&bucket, &none),
                        Outcome::Cancelled | Outcome::BodyAborted => expected.merge_parts(&none, &bucket),
                        _ => {}
                    }
                }
                prop_assert_eq!(cells.drain(&mut scratch), Some(expected));
            }
        }
    }
}
