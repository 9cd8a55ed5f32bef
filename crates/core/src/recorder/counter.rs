//! Counters of the user: sales, cache misses, jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::dirty_bits::DirtyBit;
use super::shards::thread_number;
use crate::error::BuildError;
use tower_pulse_model::context::is_reserved;

/// Refuses an empty counter name, or a name that the crate itself uses.
pub fn check_counter(field: &'static str, name: &str) -> Result<(), BuildError> {
    if name.is_empty() || is_reserved(name) {
        let allowed = "must not be empty, and must not be hits, errors or micros, alone or before a colon: tower-pulse \
                       counts these itself";
        return Err(BuildError::new(field, format!("{name:?}"), allowed));
    }
    Ok(())
}

/// A number to which several threads add. Each thread adds to one stripe.
#[derive(Debug)]
pub(super) struct Striped {
    stripes: Box<[Stripe]>,
    /// The sum of all values that `take` has returned.
    taken: AtomicI64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicI64);

impl Striped {
    /// `stripes` is a power of two.
    pub(super) fn new(stripes: usize) -> Self {
        Self {
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            taken: AtomicI64::new(0),
        }
    }

    /// Returns whether the stripe of this thread was 0 before.
    #[inline]
    pub(super) fn add(&self, n: i64) -> bool {
        let stripe = thread_number() & (self.stripes.len() - 1);
        self.stripes[stripe].0.fetch_add(n, Ordering::Relaxed) == 0
    }

    /// Returns the sum of the stripes, and sets the stripes to 0. Must not run concurrently with itself or with
    /// [`total`](Self::total).
    pub(super) fn take(&self) -> i64 {
        let stripes = self.stripes.iter();
        let values = stripes.map(|stripe| stripe.0.swap(0, Ordering::Relaxed));
        let sum = values.fold(0, i64::saturating_add);
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken
            .store(taken.saturating_add(sum), Ordering::Relaxed);
        sum
    }

    #[cfg(feature = "query")]
    pub(super) fn total(&self) -> i64 {
        let stripes = self.stripes.iter();
        let values = stripes.map(|stripe| stripe.0.load(Ordering::Relaxed));
        values.fold(self.taken.load(Ordering::Relaxed), i64::saturating_add)
    }
}

/// Number of threads that have a slot of their own in a [`Gauge`].
const OWNED: usize = 64;

/// A number that requests raise and lower. Each of the first threads has its own slot, to which no other thread writes.
/// So an addition needs no atomic read-modify-write. All other threads share one slot.
#[derive(Debug)]
pub(super) struct Gauge {
    owned: [Stripe; OWNED],
    shared: Stripe,
}

impl Default for Gauge {
    fn default() -> Self {
        Self {
            owned: std::array::from_fn(|_| Stripe::default()),
            shared: Stripe::default(),
        }
    }
}

impl Gauge {
    /// `thread` is the number of the current thread.
    #[inline]
    pub(super) fn add(&self, thread: usize, n: i64) {
        // A thread that is ending has the number 0.
        match self.owned.get(thread.wrapping_sub(1)) {
            Some(mine) => {
                let value = mine.0.load(Ordering::Relaxed);
                mine.0.store(value.wrapping_add(n), Ordering::Relaxed);
            }
            None => {
                self.shared.0.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn sum(&self) -> i64 {
        let values = self.owned.iter().chain(std::iter::once(&self.shared));
        values
            .map(|stripe| stripe.0.load(Ordering::Relaxed))
            .fold(0, i64::wrapping_add)
    }
}

#[derive(Debug)]
pub(super) struct NamedCounter {
    pub(super) name: Arc<str>,
    pub(super) value: Striped,
    dirty_bit: DirtyBit,
}

impl NamedCounter {
    /// `stripes` is a power of two. The counter sets `dirty_bit` when it has something to drain.
    pub(super) fn new(name: Arc<str>, stripes: usize, dirty_bit: DirtyBit) -> Self {
        Self {
            name,
            value: Striped::new(stripes),
            dirty_bit,
        }
    }
}

/// A counter of anything, stored at every precision: see
/// [counters](https://docs.rs/tower-pulse/latest/tower_pulse/guide/counters_rankings_rows/index.html#counters). Cheap
/// to clone. Keep a `Counter` that you use often.
#[derive(Clone, Debug)]
pub struct Counter(pub(super) Arc<NamedCounter>);

impl Counter {
    /// Adds `n`, which may be negative, to the current slices. Takes a few nanoseconds and does no I/O.
    #[inline]
    pub fn add(&self, n: i64) {
        if self.0.value.add(n) {
            self.0.dirty_bit.set();
        }
    }

    /// Adds 1 to the current slices.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The name, as it is stored.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_overwrites_an_addition_of_another_thread() {
        let (striped, gauge) = (Striped::new(2), Gauge::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        striped.add(2);
                        gauge.add(thread_number(), 3);
                        gauge.add(0, -1);
                    }
                });
            }
        });
        assert_eq!((striped.take(), striped.take()), (80_000, 0));
        striped.add(-3);
        #[cfg(feature = "query")]
        assert_eq!(striped.total(), 79_997);
        assert_eq!(gauge.sum(), 80_000);
    }
}
