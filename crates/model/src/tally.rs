//! Counts by key: the responses of a context by status code, and its failures by kind. The number of keys is bounded,
//! and the total stays exact.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::sync::Arc;

use super::slices::Merge;
use super::sorted;
use crate::order::InOrder;

/// The most status codes of a context within a slice that are counted separately.
pub const MAX_CODES: usize = 16;

/// The most kinds of errors of a context within a slice that are counted separately.
pub const MAX_KINDS: usize = 8;

/// The most status codes, and the most kinds of errors, in the sums of a window.
pub const MAX_WINDOW_KEYS: usize = 64;

/// Responses by status code.
pub type Codes = Tally<u16>;

/// Failures by kind.
pub type Kinds = Tally<Arc<str>>;

/// Counts by key. If keys are dropped, their counts are added to [`other`](Self::other), so the total stays exact.
///
/// ```
/// use tower_pulse_model::tally::Codes;
///
/// let mut codes = Codes::default();
/// for (code, n) in [(200, 90), (404, 7), (503, 3)] {
///     codes.add(code, n);
/// }
/// codes.limit(2);
/// assert_eq!((codes.get(&200), codes.other(), codes.total()), (90, 3, 100));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<K> {
    /// Sorted by key. No count is 0. Copies of a tally share the counts until one copy changes.
    counts: Option<Arc<Vec<(K, u64)>>>,
    /// The counts of the keys that were dropped.
    other: u64,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self {
            counts: None,
            other: 0,
        }
    }
}

impl<K: Ord + Clone> Tally<K> {
    fn counts(&self) -> &[(K, u64)] {
        self.counts.as_ref().map_or(&[], |counts| counts)
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Vec<(K, u64)>) -> T) -> T {
        let counts = Arc::make_mut(self.counts.get_or_insert_default());
        let result = change(counts);
        if counts.is_empty() {
            self.counts = None;
        }
        result
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        (self.counts()).binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// Adds to the count of a key.
    pub fn add(&mut self, key: K, n: u64) {
        if n > 0 {
            self.change(|counts| {
                let count = sorted::entry(counts, key, || 0);
                *count = count.saturating_add(n);
            });
        }
    }

    /// Adds to the count of the keys that are not counted separately.
    pub fn add_other(&mut self, n: u64) {
        self.other = self.other.saturating_add(n);
    }

    /// The count of a key; 0 if the key is not counted separately.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
    {
        self.find(key).map_or(0, |at| self.counts()[at].1)
    }

    /// The keys with their counts, in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, u64)> {
        self.counts().iter().map(|(key, n)| (key, *n))
    }

    /// The count of the keys that are not counted separately.
    pub fn other(&self) -> u64 {
        self.other
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        let counts = self.iter();
        counts.fold(self.other, |sum, (_, n)| sum.saturating_add(n))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_none() && self.other == 0
    }

    /// The keys with their counts, largest count first, then in the order of the keys.
    pub fn largest(&self) -> Vec<(&K, u64)> {
        let mut largest: Vec<_> = self.iter().collect();
        largest.order_by_key(|(_, n)| Reverse(*n));
        largest
    }

    /// Keeps the `most` keys with the largest counts. Of keys with equal counts, keeps the smaller ones. The counts of
    /// all others are added to [`other`](Self::other).
    pub fn limit(&mut self, most: usize) {
        if self.counts().len() > most {
            let largest = self.largest().into_iter().take(most);
            let mut kept: Vec<_> = largest.map(|(key, n)| (key.clone(), n)).collect();
            kept.order_by(|(a, _), (b, _)| a.cmp(b));
            let total = self.total();
            self.counts = (!kept.is_empty()).then(|| Arc::new(kept));
            self.other = 0;
            self.other = total.saturating_sub(self.total());
        }
    }

    /// Subtracts `other`, which was merged before. If a key was dropped at some time, its count may be too small. The
    /// remainder is then subtracted from the count of the dropped keys, so the total stays exact.
    pub fn subtract(&mut self, other: &Self) {
        self.other = self.other.saturating_sub(other.other);
        if other.counts.is_none() {
            return;
        }
        let dropped = self.change(|counts| {
            let mut dropped = 0u64;
            for (key, n) in other.iter() {
                let at = counts.binary_search_by(|(named, _)| named.cmp(key));
                let named = at.map_or(0, |at| counts[at].1.min(n));
                if let Ok(at) = at {
                    counts[at].1 -= named;
                }
                dropped = dropped.saturating_add(n - named);
            }
            counts.retain(|(_, n)| *n > 0);
            dropped
        });
        self.other = self.other.saturating_sub(dropped);
    }

    /// The approximate number of bytes on the heap, without those that the keys own.
    pub fn bytes(&self) -> usize {
        const HEAD: usize = 2 * size_of::<usize>();
        let counts = self.counts.as_ref();
        counts.map_or(0, |counts| {
            HEAD + size_of_val(&**counts) + counts.capacity() * size_of::<(K, u64)>()
        })
    }
}

impl<K: Ord + Clone> Merge for Tally<K> {
    fn merge(&mut self, other: &Self) {
        if self.counts.is_none() {
            self.counts.clone_from(&other.counts);
        } else {
            for (key, n) in other.iter() {
                self.add(key.clone(), n);
            }
        }
        self.add_other(other.other);
    }
}

/// Responses by status code. The first [`MAX_CODES`] codes are counted separately. Counting needs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstCodes {
    /// The codes in the order of their first responses. An unused pair has the count 0.
    counts: [(u16, u64); MAX_CODES],
    other: u64,
}

impl FirstCodes {
    /// Adds responses with a code.
    pub fn add(&mut self, code: u16, n: u64) {
        let mut pairs = self.counts.iter_mut();
        match pairs.find(|(named, count)| *named == code || *count == 0) {
            Some(pair) => *pair = (code, pair.1 + n),
            None => self.other += n,
        }
    }

    /// Adds responses whose codes are not counted separately.
    pub fn add_other(&mut self, n: u64) {
        self.other += n;
    }

    /// The codes with their counts, in the order of their first responses.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        self.counts.iter().copied().filter(|(_, n)| *n > 0)
    }

    /// The number of responses whose codes are not counted separately.
    pub fn other(&self) -> u64 {
        self.other
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn codes_of(counts: &[(u16, u64)], other: u64) -> Codes {
        let mut codes = Codes::default();
        counts.iter().for_each(|(code, n)| codes.add(*code, *n));
        codes.add_other(other);
        codes
    }

    fn tallies() -> impl Strategy<Value = Codes> {
        let counts = vec((0..12u16, 0..100u64), 0..20);
        (counts, 0..9u64).prop_map(|(counts, other)| codes_of(&counts, other))
    }

    #[test]
    fn the_largest_counts_keep_their_keys() {
        let mut codes = codes_of(&[(500, 3), (404, 7), (200, 90), (429, 7), (201, 0)], 1);
        let largest = [(&200, 90), (&404, 7), (&429, 7), (&500, 3)];
        assert_eq!(codes.largest(), largest);
        codes.limit(4);
        assert_eq!((codes.iter().len(), codes.other()), (4, 1));
        codes.limit(2);
        assert_eq!(codes, codes_of(&[(200, 90), (404, 7)], 11));
        codes.limit(0);
        assert_eq!(codes, codes_of(&[], 108));
        assert_eq!((codes.bytes(), codes.get(&200)), (0, 0));
    }

    #[test]
    fn a_count_whose_key_was_dropped_is_subtracted_from_other() {
        let mut codes = codes_of(&[(404, 2), (503, 4)], 9);
        codes.subtract(&codes_of(&[(404, 5), (500, 1), (503, 4)], 2));
        assert_eq!(codes, codes_of(&[], 3));
        codes.subtract(&codes_of(&[(200, 1)], 2));
        assert_eq!(codes, Codes::default());
    }

    proptest! {
        #[test]
        fn the_total_of_a_window_that_moves_on_is_exact(slices in vec(tallies(), 1..20), width in 1..6usize, most in 0..8usize) {
            let mut window = Codes::default();
            for at in 0..slices.len() {
                window.merge(&slices[at]);
                window.limit(most);
                if let Some(leaving) = at.checked_sub(width) {
                    window.subtract(&slices[leaving]);
                }
                let within = &slices[(at + 1).saturating_sub(width)..=at];
                let total: u64 = within.iter().map(Tally::total).sum();
                prop_assert_eq!(window.total(), total);
                prop_assert!(window.iter().len() <= most);
                for (code, n) in window.iter() {
                    prop_assert!(n <= within.iter().map(|slice| slice.get(code)).sum::<u64>());
                }
            }
        }
    }
}
