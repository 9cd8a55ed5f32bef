//! Sorting that is compiled once for all types. The standard library's sorts are compiled anew for each type and
//! comparison, about 8 kB each. Outside of the request path, a smaller program is worth more than a faster sort.

use std::cmp::Ordering;

/// Stable sorting of a slice.
///
/// # Examples
///
/// ```
/// use tower_pulse_model::order::InOrder;
///
/// let mut names = ["beta", "c", "alpha"];
/// names.order_by_key(|name| name.len());
/// assert_eq!(names, ["c", "beta", "alpha"]);
/// ```
pub trait InOrder<T> {
    /// Sorts by `compare`.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Sorts by the natural order of the values.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    /// Sorts by a key of each value.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let compare = &mut |a: usize, b: usize| compare(&self[a], &self[b]);
        let mut indices = sorted_indices(self.len(), self.len(), compare);
        arrange(self, &mut indices);
    }
}

/// Keeps the first `count` of `values` in the order of `compare`, sorted.
pub fn keep_first<T>(
    values: &mut Vec<T>,
    count: usize,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) {
    let compare = &mut |a: usize, b: usize| compare(&values[a], &values[b]);
    let mut indices = sorted_indices(values.len(), count, compare);
    arrange(values, &mut indices);
    values.truncate(count);
}

/// The indices of all values. The first `count` indices are those of the smallest values, in order.
fn sorted_indices(
    len: usize,
    count: usize,
    compare: &mut dyn FnMut(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..len).collect();
    // The comparison of the indices keeps the order of equal values.
    let mut order = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
    if count < len {
        indices.select_nth_unstable_by(count, &mut order);
    }
    indices[..count.min(len)].sort_unstable_by(order);
    indices
}

/// Moves each value to the position at which its index is listed.
fn arrange<T>(values: &mut [T], indices: &mut [usize]) {
    for start in 0..indices.len() {
        let mut at = start;
        loop {
            // A position that lists its own index is done.
            let from = std::mem::replace(&mut indices[at], at);
            if from == start {
                break;
            }
            values.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_are_sorted_as_the_standard_library_sorts_them(values in proptest::collection::vec(0..17u8, 0..200)) {
            let mut values: Vec<(u8, usize)> = values.into_iter().zip(0..).collect();
            let mut sorted = values.clone();
            sorted.sort_by_key(|(value, _)| *value);
            let mut kept = values.clone();
            keep_first(&mut kept, 5, |a, b| a.0.cmp(&b.0));
            prop_assert_eq!(&kept[..], &sorted[..sorted.len().min(5)]);
            values.order_by_key(|(value, _)| *value);
            prop_assert_eq!(&values, &sorted);
            values.reverse();
            values.order();
            prop_assert_eq!(values, sorted);
        }
    }
}
