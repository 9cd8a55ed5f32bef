//! Cells, where requests add their samples: one per context and recording shard. A thread takes a shard for
//! a dozen additions. No thread waits while any shard is free.
//!
//! A shard is taken by one atomic exchange and released by one store. The values in a cell are atomics as
//! well, because the crate has no unsafe code; as only the thread that took the shard accesses them, plain
//! loads and stores are enough.

use std::cell::Cell as ThreadCell;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, yield_now};
use crate::model::access_time::DurationSums;
use crate::model::batch::Aggregate;
use crate::model::histogram::{BUCKETS, Histogram, bucket_of};
use crate::model::outcome::{OUTCOMES, Outcome, OutcomeCounts};

/// Maximum number of shards, however many worker threads there are.
pub(crate) const MAX_SHARDS: usize = 8;

/// Minimum number of shards: one stays free while the other is drained.
pub(crate) const MIN_SHARDS: usize = 2;

/// Number of shards to try before the thread yields to others.
const TRIES: usize = if cfg!(all(test, pulse_loom)) { 2 } else { 64 };

/// The number of the first outcome that is not surely a success.
const FIRST_UNSUCCESSFUL: u8 = Outcome::ClientError as u8;

/// Loom follows each atomic, and two buckets are enough for it to show every interleaving of 508.
const BUCKETS_PER_CELL: usize = if cfg!(all(test, pulse_loom)) {
    2
} else {
    BUCKETS
};

/// Number of samples by the bucket of their duration.
#[derive(Debug)]
struct Buckets([AtomicU32; BUCKETS_PER_CELL]);

impl Buckets {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    #[inline(always)]
    fn add(&self, nanos: u64) {
        let bucket = &self.0[bucket_of(nanos).min(BUCKETS_PER_CELL - 1)];
        let n = bucket.load(Ordering::Relaxed);
        bucket.store(n.saturating_add(1), Ordering::Relaxed);
    }

    fn empty_into(&self, counts: &mut [u32; BUCKETS_PER_CELL]) {
        for (to, from) in counts.iter_mut().zip(&self.0) {
            *to = from.load(Ordering::Relaxed);
            from.store(0, Ordering::Relaxed);
        }
    }
}

/// Sums of one context and shard since the last drain. The number of samples is the sum of the outcomes, as
/// each sample has exactly one.
#[derive(Debug)]
struct Cell {
    sum: AtomicU64,
    /// The sum of the squares: its lower and its upper half.
    sumsq: [AtomicU64; 2],
    min: AtomicU64,
    max: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES],
    errors: AtomicU64,
    buckets: Buckets,
    /// Of the samples in `buckets`, the failures. Made when there is one.
    failures: OnceLock<Box<Buckets>>,
    /// Of the samples in `buckets`, those that were cut off. Made when there is one.
    cut_off: OnceLock<Box<Buckets>>,
}

/// The copy of a cell that a drain makes, to evaluate it after the shard is released.
#[derive(Debug)]
pub(crate) struct Scratch {
    times: DurationSums,
    outcomes: OutcomeCounts,
    buckets: [u32; BUCKETS_PER_CELL],
    /// Of the buckets, the failures; only if there may be any.
    failures: [u32; BUCKETS_PER_CELL],
    has_failures: bool,
    /// Of the buckets, the samples that were cut off; only if there may be any.
    cut_off: [u32; BUCKETS_PER_CELL],
    has_cut_off: bool,
}

impl Cell {
    fn new() -> Box<Self> {
        let zero = || AtomicU64::new(0);
        Box::new(Self {
            sum: zero(),
            sumsq: [zero(), zero()],
            min: AtomicU64::new(u64::MAX),
            max: zero(),
            outcomes: std::array::from_fn(|_| zero()),
            errors: zero(),
            buckets: Buckets::new(),
            failures: OnceLock::new(),
            cut_off: OnceLock::new(),
        })
    }

    /// Adds a sample. Only the thread that took the shard may call this.
    #[inline(always)]
    fn record(&self, nanos: u64, outcome: Outcome, error: bool) {
        const R: Ordering = Ordering::Relaxed;
        let add = |to: &AtomicU64, n: u64| to.store(to.load(R).wrapping_add(n), R);
        // Overflows only after 584 years of requests between two drains.
        add(&self.sum, nanos);
        let square = u128::from(nanos) * u128::from(nanos);
        let (low, carry) = self.sumsq[0].load(R).overflowing_add(square as u64);
        self.sumsq[0].store(low, R);
        add(&self.sumsq[1], (square >> 64) as u64 + u64::from(carry));
        if nanos < self.min.load(R) {
            self.min.store(nanos, R);
        }
        if nanos > self.max.load(R) {
            self.max.store(nanos, R);
        }
        add(&self.outcomes[outcome as usize], 1);
        self.buckets.add(nanos);
        // One comparison tells the samples that are surely successes: the first outcomes, without an error.
        if (outcome as u8).wrapping_add(u8::from(error) * FIRST_UNSUCCESSFUL) >= FIRST_UNSUCCESSFUL
        {
            self.record_unsuccessful(nanos, outcome, error);
        }
    }

    /// Adds a sample, which is in all other sums already, to those of its errors, and to its part of the buckets.
    #[cold]
    fn record_unsuccessful(&self, nanos: u64, outcome: Outcome, error: bool) {
        let errors = self.errors.load(Ordering::Relaxed);
        self.errors
            .store(errors.wrapping_add(error.into()), Ordering::Relaxed);
        let part = match outcome {
            _ if error => &self.failures,
            Outcome::ClientError => &self.failures,
            Outcome::Cancelled | Outcome::BodyAborted => &self.cut_off,
            // The user's rule says that it is no error.
            _ => return,
        };
        part.get_or_init(|| Box::new(Buckets::new())).add(nanos);
    }

    fn is_empty(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.all(|n| n.load(Ordering::Relaxed) == 0)
    }

    /// Moves everything to `scratch`. Only the thread that took the shard may call this.
    fn empty_into(&self, scratch: &mut Scratch) {
        const R: Ordering = Ordering::Relaxed;
        let take = |from: &AtomicU64, empty: u64| {
            let value = from.load(R);
            from.store(empty, R);
            value
        };
        let (low, high) = (take(&self.sumsq[0], 0), take(&self.sumsq[1], 0));
        for (to, from) in scratch.outcomes.counts.iter_mut().zip(&self.outcomes) {
            *to = take(from, 0);
        }
        scratch.outcomes.errors = take(&self.errors, 0);
        scratch.times = DurationSums {
            count: scratch.outcomes.counts.iter().sum(),
            sum: take(&self.sum, 0),
            sumsq: u128::from(high) << 64 | u128::from(low),
            min: take(&self.min, u64::MAX),
            max: take(&self.max, 0),
        };
        self.buckets.empty_into(&mut scratch.buckets);
        let empty_part = |part: &OnceLock<Box<Buckets>>, counts: &mut [u32; BUCKETS_PER_CELL]| {
            part.get().map(|part| part.empty_into(counts)).is_some()
        };
        scratch.has_failures = empty_part(&self.failures, &mut scratch.failures);
        scratch.has_cut_off = empty_part(&self.cut_off, &mut scratch.cut_off);
    }
}

impl Scratch {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            times: DurationSums::default(),
            outcomes: OutcomeCounts::default(),
            buckets: [0; BUCKETS_PER_CELL],
            failures: [0; BUCKETS_PER_CELL],
            has_failures: false,
            cut_off: [0; BUCKETS_PER_CELL],
            has_cut_off: false,
        })
    }

    fn add_to(&self, aggregate: &mut Aggregate) {
        aggregate.times.merge(&self.times);
        aggregate.outcomes.merge(&self.outcomes);
        aggregate
            .histogram
            .merge(&Histogram::from_counts(&self.buckets));
        let part = |counts: &[u32], may_have_any: bool| match may_have_any {
            true => Histogram::from_counts(counts),
            false => Histogram::default(),
        };
        aggregate.merge_parts(
            &part(&self.failures, self.has_failures),
            &part(&self.cut_off, self.has_cut_off),
        );
    }
}

/// A shard of a context. Its cell is created when the shard is first used. Aligned so that two shards never
/// share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    taken: AtomicBool,
    cell: OnceLock<Box<Cell>>,
    /// The context's [threshold](Cells::set_slow_from). Each shard has a copy, because a request reads it
    /// from a cache line that it has anyway.
    slow_from: std::sync::atomic::AtomicU64,
}

/// A shard that is taken, until this guard is dropped.
struct Taken<'a>(&'a Shard);

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

impl Shard {
    fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            cell: OnceLock::new(),
            slow_from: u64::MAX.into(),
        }
    }

    #[inline(always)]
    fn take(&self) -> Option<Taken<'_>> {
        let taken = &self.taken;
        // `then_some` would create the guard even if another thread has the shard, and dropping it would
        // release that thread's shard.
        taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Taken(self))
    }
}

/// The cells of one context. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Cells(Arc<[Shard]>);

impl Cells {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Shard::new()).collect())
    }

    /// Sets the shortest duration that [is slow](Self::is_slow). At first none is.
    pub(crate) fn set_slow_from(&self, nanos: u64) {
        for shard in &*self.0 {
            shard.slow_from.store(nanos, Ordering::Relaxed);
        }
    }

    /// Whether a duration is slow.
    #[inline(always)]
    pub(crate) fn is_slow(&self, thread: usize, nanos: u64) -> bool {
        let shard = &self.0[thread & (self.0.len() - 1)];
        nanos >= shard.slow_from.load(Ordering::Relaxed)
    }

    /// Adds a sample to the shard of this thread, or to a free one.
    #[inline(always)]
    pub(crate) fn record(&self, thread: usize, nanos: u64, outcome: Outcome, error: bool) {
        let shard = &self.0[thread & (self.0.len() - 1)];
        if let (Some(_taken), Some(cell)) = (shard.take(), shard.cell.get()) {
            cell.record(nanos, outcome, error);
        } else {
            self.record_elsewhere(thread, nanos, outcome, error);
        }
    }

    /// Adds a sample where the shard of this thread is taken or has no cell yet.
    #[cold]
    fn record_elsewhere(&self, thread: usize, nanos: u64, outcome: Outcome, error: bool) {
        let taken = self.free_shard(thread);
        let cell = taken.0.cell.get_or_init(Cell::new);
        cell.record(nanos, outcome, error);
    }

    fn free_shard(&self, thread: usize) -> Taken<'_> {
        let mask = self.0.len() - 1;
        loop {
            for step in 0..TRIES {
                if let Some(taken) = self.0[(thread + step) & mask].take() {
                    return taken;
                }
                std::hint::spin_loop();
            }
            // The threads that took the shards must have been interrupted: let them run.
            yield_now();
        }
    }

    /// Drains all shards. A shard is taken only while its cell is copied to `scratch`, and evaluated after
    /// it is released.
    pub(crate) fn drain(&self, scratch: &mut Scratch) -> Option<Aggregate> {
        let mut aggregate: Option<Aggregate> = None;
        for shard in &*self.0 {
            let Some(cell) = shard.cell.get() else {
                continue;
            };
            let taken = loop {
                match shard.take() {
                    Some(taken) => break taken,
                    None => yield_now(),
                }
            };
            if cell.is_empty() {
                continue;
            }
            cell.empty_into(scratch);
            drop(taken);
            scratch.add_to(aggregate.get_or_insert_default());
        }
        aggregate
    }
}

/// A small number that identifies the current thread.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static NUMBER: ThreadCell<usize> = const { ThreadCell::new(0) };
    }
    // A thread that is being torn down has no locals, and may use any shard.
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

#[cfg(all(test, not(pulse_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_live_cell_is_small() {
        let cell = size_of::<Cell>() + size_of::<Shard>();
        assert!(cell <= 3 * 1024, "{cell} bytes");
    }

    #[test]
    fn a_taken_shard_is_skipped() {
        let cells = Cells::new(4);
        let taken = cells.free_shard(1);
        cells.record(1, 5, Outcome::Success, false);
        drop(taken);
        let mut scratch = Scratch::new();
        let aggregate = cells.drain(&mut scratch).expect("one was recorded");
        assert_eq!(aggregate.times.count, 1);
        assert_eq!(cells.drain(&mut scratch), None);
    }

    #[test]
    fn a_duration_is_slow_from_a_threshold_on() {
        let cells = Cells::new(4);
        assert!(!cells.is_slow(1, u64::MAX - 1), "there is no threshold yet");
        cells.set_slow_from(7);
        for thread in 0..4 {
            let slow = [6, 7, 8].map(|nanos| cells.is_slow(thread, nanos));
            assert_eq!(slow, [false, true, true]);
        }
        cells.set_slow_from(0);
        assert!(cells.is_slow(2, 0));
    }

    #[test]
    fn any_thread_finds_the_only_free_shard() {
        for (thread, free) in (0..4).flat_map(|thread| (0..4).map(move |free| (thread, free))) {
            let cells = Cells::new(4);
            let shards = cells.0.iter().enumerate();
            let taken: Vec<_> = shards
                .filter(|(at, _)| *at != free)
                .map(|(_, shard)| shard.take())
                .collect();
            let shard = cells.free_shard(thread);
            assert!(std::ptr::eq(shard.0, &cells.0[free]), "{thread} {free}");
            drop(taken);
        }
    }

    #[test]
    fn each_thread_has_a_number_of_its_own() {
        let numbers: Vec<_> = (0..3)
            .map(|_| std::thread::spawn(|| (thread_number(), thread_number())))
            .map(|thread| thread.join().expect("it ends"))
            .collect();
        assert!(
            numbers
                .iter()
                .all(|(first, again)| first == again && *first > 0)
        );
        assert!(numbers[0].0 < numbers[1].0 && numbers[1].0 < numbers[2].0);
    }

    proptest::proptest! {
        #[test]
        fn a_cell_adds_up_like_the_model(values in proptest::collection::vec(proptest::num::u64::ANY, 1..50)) {
            let (cells, mut expected) = (Cells::new(2), Aggregate::default());
            for (i, nanos) in values.iter().map(|v| v >> 8).enumerate() {
                let outcome = Outcome::ALL[i % OUTCOMES];
                cells.record(i, nanos, outcome, i % 3 == 0);
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
            proptest::prop_assert_eq!(cells.drain(&mut Scratch::new()), Some(expected));
        }
    }

    #[test]
    fn nothing_is_lost_or_doubled_while_it_is_drained() {
        let cells = Arc::new(Cells::new(2));
        let (stop, drained) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut scratch = Scratch::new();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for nanos in 0..50_000 {
                            cells.record(thread_number(), nanos, Outcome::Success, nanos % 2 == 0);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut scratch = Scratch::new();
                while !stop.load(Ordering::Relaxed) {
                    let aggregate = cells.drain(&mut scratch).unwrap_or_default();
                    assert_eq!(aggregate.histogram.count(), aggregate.times.count);
                    drained.fetch_add(aggregate.times.count, Ordering::Relaxed);
                }
            });
            for writer in writers {
                writer.join().expect("a writer ends");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let last = cells.drain(&mut scratch).unwrap_or_default().times.count;
        assert_eq!(drained.into_inner() + last, 200_000);
    }
}

/// Every interleaving of two recorders and a drain: `make loom`.
#[cfg(all(test, pulse_loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn nothing_is_lost_or_doubled() {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 10_000;
        builder.check(|| {
            let cells = Arc::new(Cells::new(2));
            let writers: Vec<_> = (0..2)
                .map(|nanos| {
                    let cells = cells.clone();
                    loom::thread::spawn(move || cells.record(0, nanos, Outcome::Success, false))
                })
                .collect();
            let mut scratch = Scratch::new();
            let early = cells.drain(&mut scratch).unwrap_or_default().times.count;
            for writer in writers {
                writer.join().expect("a writer ends");
            }
            let late = cells.drain(&mut scratch).unwrap_or_default().times.count;
            assert_eq!(early + late, 2);
        });
    }
}
