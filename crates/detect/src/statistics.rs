//! Statistics of short lists of numbers.

use super::history::Tick;

/// The median; of an even number of values, the upper one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The mean of all values but the largest.
pub(crate) fn lower_mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::MIN, f64::max);
    let others = values.clone().count() - 1;
    (values.sum::<f64>() - largest) / others.max(1) as f64
}

/// The first minute of a change: from this minute to the last, the sum of the values is largest (Page, *Continuous
/// inspection schemes*, 1954). `minutes` begins with the newest.
pub(crate) fn turning_point(minutes: impl Iterator<Item = (Tick, f64)>) -> Tick {
    let (mut sum, mut most, mut since) = (0.0, f64::NEG_INFINITY, 0);
    for (tick, beyond) in minutes {
        sum += beyond;
        if sum > most {
            (most, since) = (sum, tick);
        }
    }
    since
}
