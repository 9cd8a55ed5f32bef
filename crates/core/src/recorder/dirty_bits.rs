//! Dirty bits. A set bit means that a context has something to drain.
//!
//! A service may have thousands of contexts, but few are busy at any moment. A drain visits only the contexts whose
//! dirty bit was set since the last drain. The thread that fills an empty part of a context sets the context's dirty
//! bit, by one atomic operation that never waits. So the bit of a busy context is set once per drain, and not by each
//! request.
//!
//! The order ensures that no sample is left behind: the dirty bit is set *after* the data it announces was written, and
//! a drain takes the dirty bits *before* it reads the data. Either the drain finds the bit, and with it all data that
//! was written before, or the bit is set later, and the next drain finds it.

use std::sync::Arc;

use super::sync::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;

/// The dirty bits of some contexts.
#[derive(Debug)]
pub(super) struct DirtyBits(Box<[AtomicU64]>);

/// The dirty bit of one context. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct DirtyBit {
    dirty_bits: Arc<DirtyBits>,
    pub(super) place: usize,
}

impl DirtyBits {
    /// Creates this many dirty bits, all unset.
    pub(super) fn new(bits: usize) -> Arc<Self> {
        let words = 0..bits.div_ceil(BITS).max(1);
        Arc::new(Self(words.map(|_| AtomicU64::new(0)).collect()))
    }

    /// The dirty bit at a place.
    pub(super) fn dirty_bit(self: &Arc<Self>, place: usize) -> DirtyBit {
        DirtyBit {
            dirty_bits: self.clone(),
            place,
        }
    }

    /// Unsets the dirty bits that are set, and calls `visit` with their places.
    pub(super) fn take(&self, mut visit: impl FnMut(usize)) {
        for (word, at) in self.0.iter().zip((0..).step_by(BITS)) {
            // Most words are 0, and reading a word costs less than exchanging it. A dirty bit that this load misses was
            // set after the drain began.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                visit(at + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

impl DirtyBit {
    /// Sets the dirty bit: the next drain visits the context.
    pub(super) fn set(&self) {
        // Sets the bit even if it seems to be set: a drain that is about to take the bit must either see the data that
        // was written before, or leave the bit set.
        let word = &self.dirty_bits.0[self.place / BITS];
        word.fetch_or(1 << (self.place % BITS), Ordering::AcqRel);
    }
}

/// The places that a drain visits.
#[cfg(test)]
pub(super) fn visited(drain: impl FnOnce(&mut dyn FnMut(usize))) -> Vec<usize> {
    let mut places = Vec::new();
    drain(&mut |place| places.push(place));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dirty_bit_is_taken_once() {
        let dirty_bits = DirtyBits::new(130);
        let taken = || visited(|visit| dirty_bits.take(visit));
        assert!(taken().is_empty());
        for place in [129, 0, 64, 63, 64] {
            dirty_bits.dirty_bit(place).set();
        }
        assert_eq!(taken(), [0, 63, 64, 129]);
        assert!(taken().is_empty());
        DirtyBits::new(0).dirty_bit(0).set();
    }

    #[test]
    fn a_dirty_bit_is_not_lost_while_others_are_taken() {
        let dirty_bits = DirtyBits::new(4);
        let written: [AtomicU64; 4] = Default::default();
        let mut seen = [0; 4];
        let mut take = || {
            dirty_bits.take(|place| seen[place] += written[place].swap(0, Ordering::Relaxed));
        };
        std::thread::scope(|scope| {
            let writers = [0, 1, 2, 3].map(|place| {
                let (dirty_bit, written) = (dirty_bits.dirty_bit(place), &written[place]);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        written.fetch_add(1, Ordering::Relaxed);
                        dirty_bit.set();
                    }
                })
            });
            while !writers.iter().all(|writer| writer.is_finished()) {
                take();
            }
        });
        take();
        assert_eq!(seen, [20_000; 4]);
    }
}
