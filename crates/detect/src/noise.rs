//! How much the mean score of a page differs from minute to minute without a reason: sampling, and the page's
//! own wobble, which lasts longer than a minute.
//!
//! The wobble is a first-order autoregressive series. Its variance is what remains of the variance between
//! minutes after that of sampling is taken off (method of moments, as DerSimonian and Laird, 1986), its
//! correlation that of neighbouring minutes, in which sampling has no part. Both are shrunk to what pages
//! usually do, as an hour tells little about a page with few requests.

use super::figures::median;
use tower_pulse_model::pack::packed;

packed! {
    /// The noise of a score. Integers, so that it is the same after it was stored.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Noise {
        /// Standard deviation of the wobble, in millionths.
        pub(crate) deviation: u32,
        /// Correlation of the wobble of neighbouring minutes, in millionths.
        pub(crate) correlation: u32,
    }
}

/// The wobble of a usual page, as a logarithm of time.
const USUAL_WOBBLE: f64 = 0.03;
/// Minutes that the usual wobble counts for.
const USUAL_MINUTES: f64 = 6.0;
const USUAL_CORRELATION: f64 = 0.6;
/// Residuals beyond this many standard deviations are clipped; the deviation is that of the median residual.
const CLIPPED: f64 = 2.5;
/// The least wobble.
const LEAST_WOBBLE: f64 = 0.01;

impl Noise {
    pub(crate) fn variance(self) -> f64 {
        (f64::from(self.deviation) * 1e-6).powi(2)
    }

    /// The variance of the wobble of a usual page.
    pub(crate) fn usual(slope: f64) -> f64 {
        (USUAL_WOBBLE * slope).powi(2)
    }

    pub(crate) fn correlation(self) -> f64 {
        f64::from(self.correlation) * 1e-6
    }

    /// Estimates the noise from (minute, residual, sampling variance), oldest first. `slope` is the change of the
    /// score with the logarithm of time.
    pub(crate) fn estimate(residuals: &[(i32, f64, f64)], slope: f64) -> Self {
        let usual = Self::usual(slope);
        let least = (LEAST_WOBBLE * slope).powi(2);
        let mut variance = usual;
        let mut correlation = USUAL_CORRELATION;
        // A page was slow for some minutes: these are clipped, or they would be all of its variance.
        let sizes = residuals.iter();
        let sizes = sizes.map(|(_, residual, sampling)| residual.abs() / (usual + sampling).sqrt());
        let scale = 1.4826 * median(sizes).unwrap_or(1.0);
        let clip = |residual: f64, sampling: f64| {
            let bound = CLIPPED * scale * (usual + sampling).sqrt();
            residual.clamp(-bound, bound)
        };
        for _ in 0..3 {
            let (mut weight_sum, mut squares) = (USUAL_MINUTES, USUAL_MINUTES * usual);
            let (mut pairs, mut products) =
                (USUAL_MINUTES, USUAL_MINUTES * USUAL_CORRELATION * variance);
            let mut before: Option<(i32, f64, f64)> = None;
            for (tick, residual, sampling) in residuals {
                let weight = (variance / (variance + sampling)).powi(2);
                let residual = clip(*residual, *sampling);
                weight_sum += weight;
                squares += weight * (residual * residual - sampling);
                if let Some((last, other, other_weight)) = before
                    && last + 1 == *tick
                {
                    let weight = (weight * other_weight).sqrt();
                    pairs += weight;
                    products += weight * residual * other;
                }
                before = Some((*tick, residual, weight));
            }
            correlation = (products / pairs / variance).clamp(0.2, 0.95);
            variance = (squares / weight_sum).clamp(least, 100.0);
        }
        Self {
            deviation: (variance.sqrt() * 1e6) as u32,
            correlation: (correlation * 1e6) as u32,
        }
    }
}

/// The weighted mean of a window that grows into the past, with its variance.
#[derive(Default)]
pub(crate) struct Window {
    wobble: f64,
    correlation: f64,
    weights: f64,
    sum: f64,
    /// Variance of the weighted sum.
    variance: f64,
    /// Covariance of the next minute's wobble with the weighted sum, divided by the wobble's variance.
    reach: f64,
    /// Weighted sum of the page's answers to what is shared.
    answers: f64,
    oldest: Option<i32>,
}

impl Window {
    pub(crate) fn new(noise: Noise) -> Self {
        Self {
            wobble: noise.variance(),
            correlation: noise.correlation(),
            ..Self::default()
        }
    }

    /// Adds a minute before those that it has. `answer` is a standard deviation that is the same deviate in each
    /// minute, times a factor of the minute.
    pub(crate) fn grow(&mut self, tick: i32, value: f64, sampling: f64, answer: f64) {
        let weight = 1.0 / (sampling + self.wobble + answer * answer).max(1e-12);
        self.answers += weight * answer;
        let apart = self.oldest.map_or(0, |oldest| oldest - tick);
        self.reach *= self.correlation.powi(apart.clamp(0, 1_000));
        self.variance +=
            weight * weight * (sampling + self.wobble) + 2.0 * weight * self.wobble * self.reach;
        self.reach += weight;
        self.weights += weight;
        self.sum += weight * value;
        self.oldest = Some(tick);
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.weights.max(1e-12)
    }

    /// Variance of the mean.
    pub(crate) fn variance(&self) -> f64 {
        (self.variance + self.answers * self.answers) / (self.weights * self.weights).max(1e-24)
    }
}

#[cfg(test)]
mod tests;
