//! The scores of a minute (`reference.rs`) without the shift that all pages share, and the strength of a change.

use super::history::{Tick, WIDTH};
use super::noise::Window;
use super::page::Baseline;
use super::reference::SCORES;
use super::scored::Scored;
use super::state::SharedMinutes;

/// A change of the times of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) score_kind: usize,
    /// The strength in standard deviations.
    pub(crate) strength: f64,
    /// The change of the mean score; negative if the page is faster.
    pub(crate) effect: f64,
    pub(crate) since: Tick,
}

/// The scores of a page in a minute, without the shift that all pages share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residual {
    pub(crate) tick: Tick,
    pub(crate) count: f64,
    /// The shift that all pages share, as a logarithm of time.
    pub(crate) shift: f64,
    pub(crate) scores: [f64; SCORES],
    /// The mean logarithm of the times, minus the mean of the past, minus `shift`.
    pub(crate) log: f64,
    /// The variance of the scores that comes from sampling.
    pub(crate) sampling: [f64; SCORES],
    /// How far the scores may deviate because the page follows the shared shift more or less than other pages.
    pub(crate) response: [f64; SCORES],
}

impl Residual {
    /// Adds a kind of score to a window that only has later minutes.
    pub(crate) fn add_to(&self, window: &mut Window, kind: usize) {
        let (score, sampling) = (self.scores[kind], self.sampling[kind]);
        window.grow(self.tick, score, sampling, self.response[kind]);
    }
}

/// The standard deviation of the pages' responses to the shared shift, as a part of the shift.
const RESPONSE: f64 = 0.3;

fn residual(scored: &Scored, base: &Baseline, shared: &SharedMinutes) -> Residual {
    let shift = shared.level(scored.tick) - base.past.level as f64 * 1e-6;
    let mut residual = Residual {
        tick: scored.tick,
        count: f64::from(scored.count),
        shift,
        scores: [0.0; SCORES],
        log: (f64::from(scored.bucket) - base.reference.bucket) * WIDTH - shift,
        sampling: [0.0; SCORES],
        response: [0.0; SCORES],
    };
    for kind in 0..SCORES {
        residual.scores[kind] =
            f64::from(scored.scores[kind]) - base.reference.expected(kind, shift);
        residual.sampling[kind] = base.reference.variance[kind] / f64::from(scored.count);
        let (more, less) = (shift * (1.0 + RESPONSE), shift * (1.0 - RESPONSE));
        residual.response[kind] =
            (base.reference.expected(kind, more) - base.reference.expected(kind, less)) / 2.0;
    }
    residual
}

/// The minutes with requests from `since` on.
pub(crate) fn residuals<'a>(
    base: &'a Baseline,
    shared: &'a SharedMinutes,
    since: Tick,
) -> impl DoubleEndedIterator<Item = Residual> + 'a {
    let scored = base.scored.iter();
    let counted = scored.filter(move |scored| scored.tick >= since && scored.count >= 1.0);
    counted.map(|scored| residual(scored, base, shared))
}

pub(crate) fn past_variance(base: &Baseline, kind: usize) -> f64 {
    let noise = base.past.noise[kind];
    let correlation = noise.correlation();
    let lasting = (1.0 + correlation) / (1.0 - correlation);
    base.reference.variance[kind] / base.reference.count
        + noise.variance() * lasting / f64::from(base.past.minutes.max(1))
}

/// `effect` in standard deviations of a mean of `n` scores. The sum of few skewed scores exceeds its mean more easily
/// than a normal deviate. So the skewness is part of the variance, as in Bernstein's inequality.
pub(crate) fn strength(base: &Baseline, kind: usize, effect: f64, variance: f64, n: f64) -> f64 {
    let skewed = effect * base.reference.skew[kind] / (3.0 * n.max(1.0));
    effect.abs() / (variance + skewed.max(0.0)).sqrt()
}
