//! Dirty bits: a set bit means that a context has something to drain.
//!
//! A service may have thousands of contexts, but few are busy at any moment. A drain visits only the contexts whose
//! dirty bit was set since the last drain. The thread that fills an empty part of a context sets the context's dirty
//! bit, by one atomic operation that never waits. So a busy context costs a few such operations per drain, and not one
//! per request.
//!
//! The order ensures that no sample is left behind: a thread sets the dirty bit *after* it has written the data, and a
//! drain takes the dirty bits *before* it reads the data. Either the drain finds the bit and the data, or the bit is
//! set later, and the next drain finds both.

use std::sync::Arc;

use super::sync::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;

#[derive(Debug)]
pub(super) struct DirtyBits(Box<[AtomicU64]>);

/// The dirty bit of one context. Clones share the bit.
#[derive(Clone, Debug)]
pub(super) struct DirtyBit {
    dirty_bits: Arc<DirtyBits>,
    pub(super) index: usize,
}

impl DirtyBits {
    pub(super) fn new(bits: usize) -> Arc<Self> {
        let words = 0..bits.div_ceil(BITS).max(1);
        Arc::new(Self(words.map(|_| AtomicU64::new(0)).collect()))
    }

    pub(super) fn dirty_bit(self: &Arc<Self>, index: usize) -> DirtyBit {
        DirtyBit {
            dirty_bits: self.clone(),
            index,
        }
    }

    /// Unsets the dirty bits that are set, and calls `visit` with the index of each.
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
    pub(super) fn set(&self) {
        // Sets the bit even if it seems to be set, because a drain may be about to take the bit. After this operation,
        // either the drain sees the data, or the bit stays set for the next drain.
        let word = &self.dirty_bits.0[self.index / BITS];
        word.fetch_or(1 << (self.index % BITS), Ordering::AcqRel);
    }
}

#[cfg(test)]
pub(super) fn visited(drain: impl FnOnce(&mut dyn FnMut(usize))) -> Vec<usize> {
    let mut indexes = Vec::new();
    drain(&mut |index| indexes.push(index));
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dirty_bit_is_taken_once() {
        let dirty_bits = DirtyBits::new(130);
        let taken = || visited(|visit| dirty_bits.take(visit));
        assert!(taken().is_empty());
        for index in [129, 0, 64, 63, 64] {
            dirty_bits.dirty_bit(index).set();
        }
        assert_eq!(taken(), [0, 63, 64, 129]);
        assert!(taken().is_empty());
        DirtyBits::new(0).dirty_bit(0).set();
    }
}
