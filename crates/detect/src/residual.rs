//! The scores of a minute without the shift that all pages share, and their strength.

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
    /// The additional time of the requests, as a mean logarithm.
    pub(crate) log: f64,
    /// The variance of the scores that comes from sampling.
    pub(crate) sampling: [f64; SCORES],
    /// The standard deviation of the scores that comes from the page's own response to the shared shift. The response
    /// is the same in each minute.
    pub(crate) answer: [f64; SCORES],
}

impl Residual {
    /// Adds a kind of score to a window that only has later minutes.
    pub(crate) fn add_to(&self, window: &mut Window, kind: usize) {
        let (score, sampling) = (self.scores[kind], self.sampling[kind]);
        window.grow(self.tick, score, sampling, self.answer[kind]);
    }
}

/// The standard deviation of the pages' responses to the shared shift, as a part of the shift.
const LOADING: f64 = 0.3;

fn residual(scored: &Scored, base: &Baseline, shared: &SharedMinutes) -> Residual {
    let shift = shared.level(scored.tick) - base.past.level as f64 * 1e-6;
    let mut residual = Residual {
        tick: scored.tick,
        count: f64::from(scored.count),
        shift,
        scores: [0.0; SCORES],
        log: (f64::from(scored.bucket) - base.reference.bucket) * WIDTH - shift,
        sampling: [0.0; SCORES],
        answer: [0.0; SCORES],
    };
    for kind in 0..SCORES {
        residual.scores[kind] =
            f64::from(scored.scores[kind]) - base.reference.expected(kind, shift);
        residual.sampling[kind] = base.reference.variance[kind] / f64::from(scored.count);
        let (more, less) = (shift * (1.0 + LOADING), shift * (1.0 - LOADING));
        residual.answer[kind] =
            (base.reference.expected(kind, more) - base.reference.expected(kind, less)) / 2.0;
    }
    residual
}

/// The minutes from `since` on.
pub(crate) fn residuals<'a>(
    base: &'a Baseline,
    shared: &'a SharedMinutes,
    since: Tick,
) -> impl DoubleEndedIterator<Item = Residual> + 'a {
    let scored = base.scored.iter();
    let counted = scored.filter(move |scored| scored.tick >= since && scored.count >= 1.0);
    counted.map(|scored| residual(scored, base, shared))
}

/// The variance of the mean of the past.
pub(crate) fn past_variance(base: &Baseline, kind: usize) -> f64 {
    let noise = base.past.noise[kind];
    let correlation = noise.correlation();
    let lasting = (1.0 + correlation) / (1.0 - correlation);
    base.reference.variance[kind] / base.reference.count
        + noise.variance() * lasting / f64::from(base.past.minutes.max(1))
}

/// The standard deviations of a mean score of `n` requests. The sum of few skewed scores exceeds its mean more
/// easily than a normal deviate, so the skewness is part of the variance, as in the deviance of a Poisson count or in
/// Bernstein's inequality.
pub(crate) fn strength(base: &Baseline, kind: usize, effect: f64, variance: f64, n: f64) -> f64 {
    let skewed = effect * base.reference.skew[kind] / (3.0 * n.max(1.0));
    effect.abs() / (variance + skewed.max(0.0)).sqrt()
}
