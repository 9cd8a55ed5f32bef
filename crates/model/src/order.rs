//! Sorting that is compiled once for all types. The standard library's sorts are compiled anew for each type and
//! comparison, some 8 kB each; off the way of a request the smaller program is worth more than the faster sort.

use std::cmp::Ordering;

/// The order of a slice's values, which stays among equal ones.
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

    /// Sorts by the values' own order.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    /// Sorts by what `key` takes of each value.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let compare = &mut |a: usize, b: usize| compare(&self[a], &self[b]);
        let mut places = places(self.len(), self.len(), compare);
        arrange(self, &mut places);
    }
}

/// Keeps only the first `count` of `values` in the order of `compare`, sorted.
pub fn keep_first<T>(
    values: &mut Vec<T>,
    count: usize,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) {
    let compare = &mut |a: usize, b: usize| compare(&values[a], &values[b]);
    let mut places = places(values.len(), count, compare);
    arrange(values, &mut places);
    values.truncate(count);
}

/// The places of values in their order, of which the first `count` are sorted.
fn places(
    len: usize,
    count: usize,
    compare: &mut dyn FnMut(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    // Equal values stay in their order by their places.
    let mut order = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
    if count < len {
        places.select_nth_unstable_by(count, &mut order);
    }
    places[..count.min(len)].sort_unstable_by(order);
    places
}

/// Moves each value to where its place is listed.
fn arrange<T>(values: &mut [T], places: &mut [usize]) {
    for start in 0..places.len() {
        let mut at = start;
        loop {
            // A place that names itself is done.
            let from = std::mem::replace(&mut places[at], at);
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

    #[test]
    fn values_are_sorted_as_the_standard_library_sorts_them() {
        let mut state = 88_172_645_463_325_252_u64;
        for len in (0..70).chain([1_000]) {
            let mut values: Vec<(u64, usize)> = Vec::new();
            for place in 0..len {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                values.push((state % 17, place));
            }
            let mut sorted = values.clone();
            sorted.sort_by_key(|(value, _)| *value);
            let mut kept = values.clone();
            keep_first(&mut kept, 5, |a, b| a.0.cmp(&b.0));
            assert_eq!(kept, sorted[..sorted.len().min(5)]);
            values.order_by_key(|(value, _)| *value);
            assert_eq!(values, sorted);
            values.reverse();
            values.order();
            assert_eq!(values, sorted);
        }
    }
}
