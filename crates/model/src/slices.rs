//! Values by slice. Only the newest slices are retained, which bounds the size of a batch.

use super::slice::Precision;

/// A value that can be merged.
pub trait Merge {
    /// Merges `other`. Merging must be associative and commutative.
    fn merge(&mut self, other: &Self);
}

impl Merge for i64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

/// Implements `merge` and `subtract` for sums, field by field.
macro_rules! summed {
    ($type:ty { $($field:ident),+ }) => {
        impl $crate::slices::Merge for $type {
            fn merge(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)+
            }
        }

        impl $type {
            /// Subtracts `other`, which was merged before.
            pub fn subtract(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_sub(other.$field);)+
            }
        }
    };
}
pub(crate) use summed;

/// Values by the start of their slice, oldest first. Only the newest slices are retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices<V>(Vec<(i64, V)>);

impl<V> Default for Slices<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Merge> Slices<V> {
    /// Adds `value` to `slice`, retaining at most `max` slices. Returns the slice that was dropped to make room.
    pub fn add(&mut self, slice: i64, value: V, max: usize) -> Option<(i64, V)> {
        match self.0.binary_search_by_key(&slice, |(start, _)| *start) {
            Ok(at) => {
                self.0[at].1.merge(&value);
                None
            }
            Err(at) => {
                self.0.insert(at, (slice, value));
                (self.0.len() > max).then(|| self.0.remove(0))
            }
        }
    }

    /// Appends a slice; `None` if the slice is not newer than all others.
    pub(super) fn push(&mut self, slice: i64, value: V) -> Option<()> {
        let is_newest = self.0.last().is_none_or(|(start, _)| *start < slice);
        is_newest.then(|| self.0.push((slice, value)))
    }

    /// Iterates over the slices, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, &V)> + ExactSizeIterator {
        self.0.iter().map(|(slice, value)| (*slice, value))
    }

    /// Iterates over the slices with mutable values, oldest first.
    pub fn iter_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (i64, &mut V)> + ExactSizeIterator {
        self.0.iter_mut().map(|(slice, value)| (*slice, value))
    }

    pub(super) fn into_slices(self) -> impl Iterator<Item = (i64, V)> {
        self.0.into_iter()
    }

    /// The number of slices.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no slices.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops slices that start after `latest`, and returns their values.
    pub(super) fn drop_after(&mut self, latest: i64) -> Vec<V> {
        let first = self.0.partition_point(|(slice, _)| *slice <= latest);
        self.0.drain(first..).map(|(_, value)| value).collect()
    }

    /// The value of `slice`.
    pub fn get(&self, slice: i64) -> Option<&V> {
        let at = self.0.binary_search_by_key(&slice, |(start, _)| *start);
        at.ok().map(|at| &self.0[at].1)
    }

    /// The value of `slice`, mutable.
    pub fn get_mut(&mut self, slice: i64) -> Option<&mut V> {
        let at = self.0.binary_search_by_key(&slice, |(start, _)| *start);
        at.ok().map(|at| &mut self.0[at].1)
    }

    pub(super) fn split_newest(&mut self, most: usize) -> Self {
        Self(self.0.split_off(self.0.len().saturating_sub(most)))
    }

    pub(super) fn merge(&mut self, other: Self, max: usize, mut gone: impl FnMut(V)) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (slice, value) in other.0 {
            if let Some((_, old)) = self.add(slice, value, max) {
                gone(old);
            }
        }
    }
}

/// Merges the slices of each precision.
pub fn merge_all<V: Merge>(
    mine: &mut [Slices<V>],
    theirs: Vec<Slices<V>>,
    precisions: &[Precision],
) {
    for ((mine, theirs), precision) in mine.iter_mut().zip(theirs).zip(precisions) {
        mine.merge(theirs, precision.retained as usize, drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(starts: &[i64]) -> Slices<i64> {
        let mut slices = Slices::default();
        for start in starts {
            assert_eq!(slices.add(*start, *start, usize::MAX), None);
        }
        slices
    }

    fn starts(slices: &Slices<i64>) -> Vec<i64> {
        slices.iter().map(|(start, _)| start).collect()
    }

    #[test]
    fn the_oldest_slice_is_dropped_for_a_newer_one() {
        let mut slices = slices(&[20, 10, 30]);
        assert_eq!(starts(&slices), [10, 20, 30]);
        assert_eq!(slices.add(40, 1, 4), None);
        assert_eq!(slices.add(50, 1, 4), Some((10, 10)));
        assert_eq!(slices.add(10, 7, 4), Some((10, 7)), "older than all");
        assert_eq!(slices.add(20, 7, 4), None, "the slice exists");
        assert_eq!(slices.get(20), Some(&27));
        assert_eq!(slices.get(10), None);
        assert_eq!(slices.get_mut(60), None);
        assert_eq!(slices.get_mut(20), Some(&mut 27));
        assert_eq!(slices.add(5, 5, 5), None, "there is room");
        assert_eq!(starts(&slices), [5, 20, 30, 40, 50]);
    }

    #[test]
    fn both_ends_are_cut_exactly() {
        let mut dropped = slices(&[10, 20, 30]);
        assert_eq!(dropped.drop_after(30), [0; 0]);
        assert_eq!(dropped.drop_after(10), [20, 30]);
        assert_eq!(starts(&dropped), [10]);
        let mut split = slices(&[10, 20, 30]);
        assert_eq!(starts(&split.split_newest(2)), [20, 30]);
        assert_eq!(starts(&split.split_newest(2)), [10]);
        assert_eq!((split.len(), split.is_empty()), (0, true));
    }

    #[test]
    fn merging_reports_the_dropped_values() {
        let (mut gone, mut merged) = (Vec::new(), slices(&[10, 30]));
        merged.merge(slices(&[5, 20, 30]), 2, |value| gone.push(value));
        assert_eq!((starts(&merged), gone), (vec![20, 30], vec![5, 10]));
        assert_eq!(merged.get(30), Some(&60));
    }
}
