//! Which contexts have something to drain.
//!
//! A service may have thousands of contexts, of which few are busy at any moment. A drain walks those that were marked
//! since the drain before, and no others. A mark is one bit, set by one atomic operation that never waits; it is set by
//! whoever finds something of a context empty and leaves it filled, so that a context which is busy is marked once per
//! drain and not by each request.
//!
//! The order makes sure that nothing stays behind: the mark is set *after* what it stands for was written, and a drain
//! takes the marks *before* it reads what they stand for. Either the drain finds the mark, and by it all that was written
//! before; or the mark is set later, and the next drain finds it.

use std::sync::Arc;

use super::sync::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;

/// The marks of some contexts.
#[derive(Debug)]
pub(super) struct Touched(Box<[AtomicU64]>);

/// The mark of one context. Clones are the same mark.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    touched: Arc<Touched>,
    place: usize,
}

impl Touched {
    /// So many marks, none of which is set.
    pub(super) fn new(marks: usize) -> Arc<Self> {
        let words = 0..marks.div_ceil(BITS).max(1);
        Arc::new(Self(words.map(|_| AtomicU64::new(0)).collect()))
    }

    /// One of the marks.
    pub(super) fn mark(self: &Arc<Self>, place: usize) -> Mark {
        Mark {
            touched: self.clone(),
            place,
        }
    }

    /// Unsets the marks that are set, and calls `visit` with their places.
    pub(super) fn take(&self, mut visit: impl FnMut(usize)) {
        for (word, at) in self.0.iter().zip((0..).step_by(BITS)) {
            // Most are 0, and reading one costs less than exchanging it. A mark that this misses is set after the
            // drain began.
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

impl Mark {
    /// Sets it: the next drain visits the context.
    pub(super) fn set(&self) {
        // Not only where the bit seems to be 0: if a drain is about to take it, the drain must see what was written
        // before this, or leave the bit.
        let word = &self.touched.0[self.place / BITS];
        word.fetch_or(1 << (self.place % BITS), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_taken_once() {
        let touched = Touched::new(130);
        let taken = || {
            let mut places = Vec::new();
            touched.take(|place| places.push(place));
            places
        };
        assert!(taken().is_empty());
        for place in [129, 0, 64, 63, 64] {
            touched.mark(place).set();
        }
        assert_eq!(taken(), [0, 63, 64, 129]);
        assert!(taken().is_empty());
        Touched::new(0).mark(0).set();
    }

    #[test]
    fn a_mark_is_not_lost_while_others_are_taken() {
        let touched = Touched::new(4);
        let written: [AtomicU64; 4] = Default::default();
        let stop = AtomicU64::new(0);
        let mut seen = [0; 4];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|place| {
                    let (mark, written) = (touched.mark(place), &written[place]);
                    scope.spawn(move || {
                        for _ in 0..20_000 {
                            written.fetch_add(1, Ordering::Relaxed);
                            mark.set();
                        }
                    })
                })
                .collect();
            let drain = scope.spawn(|| {
                let mut seen = [0; 4];
                while stop.load(Ordering::Relaxed) == 0 {
                    touched.take(|place| seen[place] += written[place].swap(0, Ordering::Relaxed));
                }
                seen
            });
            for writer in writers {
                writer.join().expect("a writer ends");
            }
            stop.store(1, Ordering::Relaxed);
            seen = drain.join().expect("the drain ends");
        });
        touched.take(|place| seen[place] += written[place].swap(0, Ordering::Relaxed));
        assert_eq!(seen, [20_000; 4]);
    }
}
