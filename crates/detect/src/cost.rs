//! The cost of a change: additional service time per minute, divided between more requests and slower requests.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Requests per minute.
    pub(crate) rate: f64,
    /// Mean seconds per request.
    pub(crate) mean: f64,
}

/// The cost of a change, in seconds of service time per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The time of all requests since the change.
    pub taken: f64,
    /// The additional time that comes from more requests.
    pub from_traffic: f64,
    /// The additional time that comes from slower requests.
    pub from_code: f64,
}

impl Pace {
    pub(crate) fn new(rate: f64, mean: f64) -> Self {
        Self { rate, mean }
    }
}

impl Cost {
    /// Divides the extra time between traffic and code (Shapley's division of two factors): the difference of each
    /// factor is multiplied by the mean of the other factor's two values. With fewer requests than before, `from_code`
    /// counts only the current requests, because only their time can be saved.
    pub(crate) fn new(then: Pace, now: Pace, taken: f64) -> Self {
        let half = |then: f64, now: f64| (then + now) / 2.0;
        let (requests, mean) = match now.rate > then.rate {
            true => (half(then.rate, now.rate), half(then.mean, now.mean)),
            false => (now.rate, then.mean),
        };
        let from_traffic = (now.rate - then.rate) * mean;
        let from_code = (now.mean - then.mean) * requests;
        // Means from histograms are not exact, so a part might exceed `taken`.
        let most = from_code.max(from_code + from_traffic);
        let scale = if most > taken { taken / most } else { 1.0 };
        Self {
            taken,
            from_traffic: scale * from_traffic,
            from_code: scale * from_code,
        }
    }
}

/// `now` divided by `then`. If `then` is zero, divides by `bound`, an upper bound of `then`.
pub(crate) fn ratio(then: f64, now: f64, bound: f64) -> f64 {
    let divisor = if then > 0.0 { then } else { bound };
    if divisor > 0.0 { now / divisor } else { 1.0 }
}

/// The ratio of the means, or else the ratio of most requests, or else 1: the first that has the direction of the
/// change. A few very slow requests can reverse the ratio of the means.
pub(crate) fn agreeing(of_means: f64, of_most: f64, is_faster: bool) -> f64 {
    let agrees = |ratio: &f64| match is_faster {
        true => *ratio > 0.0 && *ratio < 1.0,
        false => *ratio > 1.0 && ratio.is_finite(),
    };
    [of_means, of_most].into_iter().find(agrees).unwrap_or(1.0)
}

/// A weight, and a value.
pub(crate) type Weighted = (f64, f64);

/// Standard deviations beyond which a difference is not chance.
const CHANCE: f64 = 5.0;
/// The fewest degrees of freedom (the minutes of both sides, minus two) from which the variation is estimated.
const MIN_FREEDOM: usize = 6;
/// The approximate relative precision of a minute's value.
const PRECISION: f64 = 1e-6;

/// The sum of the weights, and the weighted mean.
pub(crate) fn mean(minutes: &[Weighted]) -> Weighted {
    let weights: f64 = minutes.iter().map(|(weight, _)| weight).sum();
    let sum: f64 = minutes.iter().map(|(weight, value)| weight * value).sum();
    (weights, if weights > 0.0 { sum / weights } else { 0.0 })
}

/// The weighted sum of the squared differences from the mean.
pub(crate) fn squares(minutes: &[Weighted]) -> f64 {
    let (_, mean) = mean(minutes);
    let minutes = minutes.iter();
    let squares = minutes.map(|(weight, value)| weight * (value - mean).powi(2));
    squares.sum()
}

/// Whether the mean of the minutes since a change differs from `then`, the mean before, by more than chance explains.
/// The variation among the minutes of each side gives the variance. A minute of weight 1 has at least the variance
/// `least`.
pub(crate) fn differs(then: Weighted, before: &[Weighted], since: &[Weighted], least: f64) -> bool {
    let now = mean(since);
    let minutes = before.iter().chain(since);
    let free = minutes.filter(|(weight, _)| *weight > 0.0).count();
    let free = free.saturating_sub(2);
    if free < MIN_FREEDOM || then.0 <= 0.0 || now.0 <= 0.0 {
        return false;
    }
    let dispersion = ((squares(before) + squares(since)) / free as f64).max(least);
    let deviation = (dispersion * (1.0 / then.0 + 1.0 / now.0)).sqrt();
    (now.1 - then.1).abs() > CHANCE * deviation + PRECISION * then.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(then: (f64, f64), now: (f64, f64)) -> Cost {
        let pace = |(rate, mean)| Pace::new(rate, mean);
        Cost::new(pace(then), pace(now), now.0 * now.1)
    }

    #[test]
    fn the_extra_time_is_that_of_traffic_and_of_code() {
        let both = cost((20.0, 0.125), (60.0, 0.25));
        assert_eq!((both.from_traffic, both.from_code), (7.5, 5.0));
        let traffic = cost((20.0, 0.25), (60.0, 0.25));
        assert_eq!((traffic.from_traffic, traffic.from_code), (10.0, 0.0));
        let code = cost((60.0, 0.125), (60.0, 0.25));
        assert_eq!((code.from_traffic, code.from_code), (0.0, 7.5));
    }

    #[test]
    fn the_parts_of_the_extra_time_are_at_most_the_time_taken() {
        let fewer = cost((100.0, 0.1), (10.0, 1.0));
        assert!((fewer.from_code - 9.0).abs() < 1e-9, "{fewer:?}");
        assert!((fewer.from_traffic + 9.0).abs() < 1e-9, "{fewer:?}");
        let imprecise = Cost::new(Pace::new(10.0, 0.01), Pace::new(10.0, 1.04), 10.0);
        assert!((imprecise.from_code - 10.0).abs() < 1e-9, "{imprecise:?}");
    }
}
