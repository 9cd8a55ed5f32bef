//! A cell: the sums of one context and shard since the last drain.
//!
//! The values in a cell are atomics because the crate has no unsafe code. Only the thread that took the
//! [shard](super::shards) accesses the values, so relaxed loads and stores are enough.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::sync::{AtomicU32, AtomicU64, BUCKETS_PER_CELL, Ordering};
use tower_pulse_model::access_time::DurationSums;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::histogram::{Histogram, bucket_of};
use tower_pulse_model::measures::{MEASURES, Measure, Measures, Merging};
use tower_pulse_model::outcome::{OUTCOMES, Outcome, OutcomeCounts};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::tally::FirstCodes;

/// The nanoseconds of a sample, its outcome, whether it is an error, and the status code of its response, or
/// [`NO_CODE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample(
    pub(super) u64,
    pub(super) Outcome,
    pub(super) bool,
    pub(super) u16,
);

/// The code of a sample without a response.
pub(super) const NO_CODE: u16 = 0;

/// The code of most successes. A success without a response counts as a response with this code.
const OK: u16 = 200;

/// The numbers that a sample adds to measures. `add_to` computes them on demand, because an array would cost each
/// request a write to the stack.
pub(super) trait Measured: Copy {
    /// Calls `add` with each number. `nanos` is the duration of the sample.
    fn add_to(self, nanos: u64, add: impl FnMut(Measure, u64));
}

impl<const N: usize> Measured for [(Measure, u64); N] {
    #[inline(always)]
    fn add_to(self, _: u64, mut add: impl FnMut(Measure, u64)) {
        for (measure, number) in self {
            add(measure, number);
        }
    }
}

/// The number of the outcome 4xx. All outcomes from this number on are failures, or were cut off.
const FIRST_UNSUCCESSFUL: u8 = Outcome::ClientError as u8;

/// Number of samples by the bucket of their duration.
struct Buckets([AtomicU32; BUCKETS_PER_CELL]);

impl Buckets {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    #[inline(always)]
    fn add(&self, nanos: u64) {
        let bucket = &self.0[cell_bucket(nanos)];
        let n = bucket.load(Ordering::Relaxed);
        bucket.store(n.saturating_add(1), Ordering::Relaxed);
    }

    /// Moves the counts of a range of buckets. All other buckets of the cell are 0.
    fn empty_into(&self, counts: &mut [u32; BUCKETS_PER_CELL], range: Range<usize>) {
        for (to, from) in counts[range.clone()].iter_mut().zip(&self.0[range]) {
            *to = from.load(Ordering::Relaxed);
            from.store(0, Ordering::Relaxed);
        }
    }
}

/// Number of responses by status code since the last drain, except for successes with the code [`OK`].
#[derive(Default)]
struct CodeCounts {
    codes: FirstCodes,
    successes: u64,
}

#[inline(always)]
fn cell_bucket(nanos: u64) -> usize {
    bucket_of(nanos).min(BUCKETS_PER_CELL - 1)
}

/// The buckets from the shortest sample to the longest, which are a small part of all buckets.
fn range_of(times: &DurationSums) -> Range<usize> {
    match times.count {
        0 => 0..0,
        _ => cell_bucket(times.min)..cell_bucket(times.max) + 1,
    }
}

fn lock(codes: &Mutex<CodeCounts>) -> MutexGuard<'_, CodeCounts> {
    codes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sums of one context and shard since the last drain. The number of samples is the sum of the outcomes, because each
/// sample has one outcome.
pub(super) struct Cell {
    sum: AtomicU64,
    /// The sum of the squares: its lower and its upper half.
    sumsq: [AtomicU64; 2],
    min: AtomicU64,
    max: AtomicU64,
    outcomes: [AtomicU64; OUTCOMES],
    errors: AtomicU64,
    measures: [AtomicU64; MEASURES],
    buckets: Buckets,
    /// The failures among the samples in `buckets`. Created with the first failure.
    failures: OnceLock<Box<Buckets>>,
    /// The samples in `buckets` that were cut off, called *censored*. Created with the first censored sample.
    censored: OnceLock<Box<Buckets>>,
    /// Created with the first response that is not a success with the code [`OK`]. No thread waits for the lock,
    /// because only the thread that took the shard uses the lock.
    codes: OnceLock<Box<Mutex<CodeCounts>>>,
}

/// A drain's copy of a cell. The drain evaluates the copy after the shard is released.
pub(super) struct Scratch {
    times: DurationSums,
    outcomes: OutcomeCounts,
    codes: CodeCounts,
    measures: Measures,
    /// In this array and in the two arrays below, counts outside of the range of `times` are leftovers of earlier
    /// copies.
    buckets: [u32; BUCKETS_PER_CELL],
    /// Valid only if `has_failures`.
    failures: [u32; BUCKETS_PER_CELL],
    has_failures: bool,
    /// Valid only if `has_censored`.
    censored: [u32; BUCKETS_PER_CELL],
    has_censored: bool,
}

impl Cell {
    pub(super) fn new() -> Box<Self> {
        let zero = || AtomicU64::new(0);
        Box::new(Self {
            sum: zero(),
            sumsq: [zero(), zero()],
            min: AtomicU64::new(u64::MAX),
            max: zero(),
            outcomes: std::array::from_fn(|_| zero()),
            errors: zero(),
            measures: std::array::from_fn(|_| zero()),
            buckets: Buckets::new(),
            failures: OnceLock::new(),
            censored: OnceLock::new(),
            codes: OnceLock::new(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let optional = [&self.failures, &self.censored].into_iter();
        let created = optional.filter(|buckets| buckets.get().is_some()).count();
        let codes = self.codes.get().map_or(0, |codes| size_of_val(&**codes));
        size_of::<Self>() + created * size_of::<Buckets>() + codes
    }

    /// Only the thread that took the shard may call this.
    #[inline(always)]
    pub(super) fn record(&self, sample: Sample, measured: impl Measured) {
        let Sample(nanos, outcome, error, code) = sample;
        const R: Ordering = Ordering::Relaxed;
        let add = |to: &AtomicU64, n: u64| to.store(to.load(R).wrapping_add(n), R);
        // The sum overflows only if the requests between two drains take 584 years together.
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
        measured.add_to(nanos, |measure, number| {
            let to = &self.measures[measure as usize];
            match measure.merging() {
                Merging::Sum => add(to, number),
                Merging::Largest if number > to.load(R) => to.store(number, R),
                Merging::Largest => {}
            }
        });
        self.buckets.add(nanos);
        // The first comparison finds errors, and all outcomes from 4xx on. The second comparison finds codes other than
        // 200.
        if (outcome as u8).wrapping_add(u8::from(error) * FIRST_UNSUCCESSFUL) >= FIRST_UNSUCCESSFUL
            || !matches!(code, OK | NO_CODE)
        {
            self.record_unusual(sample);
        }
    }

    /// Adds a sample to the counts by code, to the number of errors, and to the buckets of the failures or of the
    /// censored samples. The caller has added the sample to the rest of the cell.
    #[cold]
    fn record_unusual(&self, Sample(nanos, outcome, error, code): Sample) {
        // The body of a response with the code 200 may fail.
        if code != NO_CODE && (code, outcome) != (OK, Outcome::Success) {
            let mut counts = lock(self.codes.get_or_init(Box::default));
            counts.codes.add(code, 1);
            counts.successes += u64::from(outcome == Outcome::Success);
        }
        let errors = self.errors.load(Ordering::Relaxed);
        self.errors
            .store(errors.wrapping_add(error.into()), Ordering::Relaxed);
        let part = match outcome {
            _ if error => &self.failures,
            Outcome::ClientError => &self.failures,
            Outcome::Cancelled | Outcome::BodyAborted => &self.censored,
            // A success with another code than 200, or a sample that the user's rule does not count as an error.
            _ => return,
        };
        part.get_or_init(|| Box::new(Buckets::new())).add(nanos);
    }

    /// Only the thread that took the shard may call this.
    pub(super) fn empty_into(&self, scratch: &mut Scratch) {
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
        scratch.measures = Measures::default();
        for (measure, from) in Measure::ALL.iter().zip(&self.measures) {
            scratch.measures.add(*measure, take(from, 0));
        }
        scratch.times = DurationSums {
            count: scratch.outcomes.counts.iter().sum(),
            sum: take(&self.sum, 0),
            sumsq: u128::from(high) << 64 | u128::from(low),
            min: take(&self.min, u64::MAX),
            max: take(&self.max, 0),
        };
        let range = range_of(&scratch.times);
        (self.buckets).empty_into(&mut scratch.buckets, range.clone());
        let empty_part = |part: &OnceLock<Box<Buckets>>, counts: &mut [u32; BUCKETS_PER_CELL]| {
            let part = part.get();
            part.map(|part| part.empty_into(counts, range.clone()))
                .is_some()
        };
        scratch.has_failures = empty_part(&self.failures, &mut scratch.failures);
        scratch.has_censored = empty_part(&self.censored, &mut scratch.censored);
        let codes = self.codes.get();
        scratch.codes = codes
            .map(|codes| std::mem::take(&mut *lock(codes)))
            .unwrap_or_default();
    }
}

impl Scratch {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            times: DurationSums::default(),
            outcomes: OutcomeCounts::default(),
            codes: CodeCounts::default(),
            measures: Measures::default(),
            buckets: [0; BUCKETS_PER_CELL],
            failures: [0; BUCKETS_PER_CELL],
            has_failures: false,
            censored: [0; BUCKETS_PER_CELL],
            has_censored: false,
        })
    }

    pub(super) fn add_to(&self, aggregate: &mut Aggregate) {
        aggregate.times.merge(&self.times);
        aggregate.outcomes.merge(&self.outcomes);
        aggregate.measures.merge(&self.measures);
        let CodeCounts { codes, successes } = &self.codes;
        let usual = (OK, self.outcomes.count(Outcome::Success) - successes);
        for (code, n) in codes.iter().chain([usual]) {
            aggregate.codes.add(code, n);
        }
        aggregate.codes.add_other(codes.other());
        let range = range_of(&self.times);
        let histogram = |counts: &[u32; BUCKETS_PER_CELL]| {
            Histogram::from_counts(range.start as u16, &counts[range.clone()])
        };
        aggregate.histogram.merge(&histogram(&self.buckets));
        let part = |counts, may_have_any: bool| match may_have_any {
            true => histogram(counts),
            false => Histogram::default(),
        };
        aggregate.merge_parts(
            &part(&self.failures, self.has_failures),
            &part(&self.censored, self.has_censored),
        );
    }
}
