//! The noise of a page: its mean score varies from minute to minute without a cause. A part of the noise comes from
//! sampling, and the rest is the *wobble*: a variation of the page itself that lasts longer than a minute.
//!
//! The wobble is a first-order autoregressive series. Its variance is the variance between minutes minus the variance
//! of sampling (method of moments, like DerSimonian and Laird, 1986). Its correlation is the correlation of
//! neighbouring minutes, to which sampling does not contribute. Variance and correlation are shrunk towards usual
//! values, because an hour tells little about a page with few requests.

use super::statistics::median;
use tower_pulse_model::pack::packed;

packed! {
    /// The noise of a score. The fields are integers, so storing them loses no precision.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Noise {
        /// The standard deviation of the wobble, in millionths.
        pub(crate) deviation: u32,
        /// The correlation of the wobble of neighbouring minutes, in millionths.
        pub(crate) correlation: u32,
    }
}

/// The wobble of a usual page, as a standard deviation of the logarithm of time.
const USUAL_WOBBLE: f64 = 0.03;
/// The weight of the usual wobble, in minutes.
const USUAL_MINUTES: f64 = 6.0;
const USUAL_CORRELATION: f64 = 0.6;
/// Residuals beyond this many standard deviations are clipped. This standard deviation is estimated from the median
/// size of the residuals.
const CLIPPED: f64 = 2.5;
/// The smallest wobble, in the unit of [`USUAL_WOBBLE`].
const LEAST_WOBBLE: f64 = 0.01;

impl Noise {
    pub(crate) fn variance(self) -> f64 {
        (f64::from(self.deviation) * 1e-6).powi(2)
    }

    /// The variance of the wobble of a usual page, for a score with this [slope](super::reference::Reference::slope).
    pub(crate) fn usual(slope: f64) -> f64 {
        (USUAL_WOBBLE * slope).powi(2)
    }

    pub(crate) fn correlation(self) -> f64 {
        f64::from(self.correlation) * 1e-6
    }

    /// Estimates the noise from minutes with their residuals (mean score minus expected score) and sampling variances,
    /// oldest first. `slope` is the change of the score per unit of the logarithm of time.
    pub(crate) fn estimate(residuals: &[(i32, f64, f64)], slope: f64) -> Self {
        let usual = Self::usual(slope);
        let least = (LEAST_WOBBLE * slope).powi(2);
        let mut variance = usual;
        let mut correlation = USUAL_CORRELATION;
        // Without clipping, a few slow minutes would dominate the variance.
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
    /// The variance of the weighted sum.
    variance: f64,
    /// The covariance of the oldest minute's wobble with the weighted sum, divided by the wobble's variance.
    reach: f64,
    /// The weighted sum of `response` in [`grow`](Self::grow).
    responses: f64,
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

    /// Adds a minute that is earlier than those in the window. `response` is the uncertainty of `value` (a standard
    /// deviation) that comes from subtracting the level shared by all pages, which a page may follow more or less than
    /// other pages do. This error is the same in every minute, so a mean does not reduce it.
    pub(crate) fn grow(&mut self, tick: i32, value: f64, sampling: f64, response: f64) {
        let weight = 1.0 / (sampling + self.wobble + response * response).max(1e-12);
        self.responses += weight * response;
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

    /// The variance of the mean.
    pub(crate) fn variance(&self) -> f64 {
        (self.variance + self.responses * self.responses) / (self.weights * self.weights).max(1e-24)
    }
}

#[cfg(test)]
mod tests;
