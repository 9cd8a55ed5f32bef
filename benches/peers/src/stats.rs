//! Medians and quartiles.

/// The median of many values, with its quartiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Median {
    pub(crate) value: f64,
    /// The first quartile.
    pub(crate) low: f64,
    /// The third quartile.
    pub(crate) high: f64,
}

impl Median {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self {
            value: quantile(&values, 0.5),
            low: quantile(&values, 0.25),
            high: quantile(&values, 0.75),
        }
    }
}

/// A quantile of sorted values, interpolated between two of them.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::Median;

    #[test]
    fn a_median_has_interpolated_quartiles() {
        let median = Median::of([4.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!((median.value, median.low, median.high), (3.0, 2.0, 4.0));
        assert_eq!(Median::of([1.0, 2.0]).value, 1.5);
        assert!(Median::of([]).value.is_nan());
    }
}
