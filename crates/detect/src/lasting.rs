//! Whether a change lasts, and since when. A page that was slow for only some minutes is not reported.

use super::history::Tick;
use super::noise::Window;
use super::page::Baseline;
use super::reference::SPANS;
use super::residual::{Finding, Residual, past_variance, strength};
use super::statistics::{lower_mean, turning_point};

/// A window without its worst minutes must still reach this part of the required standard deviations.
pub(crate) const WITHOUT_WORST: f64 = 0.78;
/// A change must exceed the highest mean of as many minutes in the page's past by this factor.
const UNUSUAL: f64 = 2.0;
/// A change fades if its last minutes are below this part of its first ones.
const FADED: f64 = 0.65;
/// A change below this part of an earlier change counts as the rest of the earlier change.
const RETURNED: f64 = 0.55;
/// The part of a change that nearly all of its minutes must show.
const SHOWN: f64 = 0.5;
/// Minutes after which a change no longer counts as fading.
const FADING: usize = 14;
/// Minutes for which the rest of a larger change is not reported.
const LEFT_OVER: usize = 10;

pub(crate) fn weighted_mean<'a>(minutes: impl Iterator<Item = &'a Residual>, kind: usize) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for minute in minutes {
        let weight = 1.0 / (minute.sampling[kind] + minute.response[kind].powi(2)).max(1e-9);
        sum += weight * minute.scores[kind];
        weights += weight;
    }
    sum / f64::max(weights, 1e-9)
}

/// Whether the change shows in nearly all minutes of the window, remains without the worst minutes, and is still
/// present in the last minutes.
pub(crate) fn goes_on(window: &[Residual], kind: usize, effect: f64) -> bool {
    let size = effect.abs();
    let sign = effect.signum();
    let shows = |minute: &&Residual| {
        sign * minute.scores[kind]
            >= SHOWN * size - (minute.sampling[kind] + minute.response[kind].powi(2)).sqrt()
    };
    let unseen = match window.len() {
        0..=3 => 0,
        4..=7 => 1,
        length => length / 5,
    };
    if window.iter().filter(shows).count() + unseen < window.len() {
        return false;
    }
    let mut order: Vec<_> = window.iter().collect();
    order.sort_unstable_by(|a, b| (sign * a.scores[kind]).total_cmp(&(sign * b.scores[kind])));
    let without_worst = &order[..order.len() - spared(window.len())];
    let last = |minutes: usize| window[window.len() - window.len().min(minutes)..].iter();
    sign * weighted_mean(without_worst.iter().copied(), kind) >= 0.55 * size
        && sign * weighted_mean(last(2), kind) >= 0.5 * size
        && sign * weighted_mean(last(4), kind) >= 0.6 * size
}

/// A window must show the change even without this number of its worst minutes.
fn spared(length: usize) -> usize {
    match length {
        0..=4 => 1,
        5..=9 => 2,
        _ => 3,
    }
}

/// The standard deviations of the change in a window without its worst minutes.
pub(crate) fn without_worst(base: &Baseline, window: &[Residual], kind: usize, effect: f64) -> f64 {
    let sign = effect.signum();
    let score = |minute: &Residual| sign * minute.scores[kind];
    let mut scores: Vec<_> = window.iter().map(score).collect();
    scores.sort_unstable_by(f64::total_cmp);
    let most = scores[scores.len() - 1 - spared(window.len())];
    let without_worst = window.iter().filter(|minute| score(minute) <= most);
    let (strength, effect) = deviations(base, without_worst, kind);
    sign * strength * effect.signum()
}

/// The standard deviations and the effect of some minutes.
pub(crate) fn deviations<'a>(
    base: &Baseline,
    minutes: impl DoubleEndedIterator<Item = &'a Residual>,
    kind: usize,
) -> (f64, f64) {
    let mut window = Window::new(base.past.noise[kind]);
    let mut count = 0.0;
    for minute in minutes.rev() {
        minute.add_to(&mut window, kind);
        count += minute.count;
    }
    let effect = window.mean();
    let variance = window.variance() + past_variance(base, kind);
    (strength(base, kind, effect, variance, count), effect)
}

/// Whether the window is much slower than any window in the page's past; always `true` for a faster page.
pub(crate) fn is_unusual(base: &Baseline, window: &[Residual], kind: usize, effect: f64) -> bool {
    if effect < 0.0 {
        return true;
    }
    let highest = f64::from(base.past.highest[kind][(window.len() - 2).min(SPANS - 1)]) * 1e-6;
    lower_mean(window.iter().map(|minute| minute.scores[kind])) >= UNUSUAL * highest
}

/// Whether the last minutes of a change are much smaller than its first ones.
pub(crate) fn fades(base: &Baseline, minutes: &[Residual], finding: &Finding) -> bool {
    let start = minutes.partition_point(|minute| minute.tick < finding.since);
    let changed = &minutes[start..];
    if changed.len() < 5 || changed.len() > FADING {
        return false;
    }
    let kind = finding.score_kind;
    let mean = |minutes: &[Residual]| {
        let mut window = Window::new(base.past.noise[kind]);
        for minute in minutes.iter().rev() {
            minute.add_to(&mut window, kind);
        }
        (finding.effect.signum() * window.mean(), window.variance())
    };
    let (first, first_variance) = mean(&changed[..3]);
    let (last, last_variance) = mean(&changed[changed.len() - 3..]);
    last < FADED * first && first - last > (first_variance + last_variance).sqrt()
}

/// Whether the window is the rest of a larger change shortly before, such as while a cache warms up.
pub(crate) fn is_left_over(
    earlier: &[Residual],
    window: &[Residual],
    kind: usize,
    effect: f64,
) -> bool {
    if window.len() >= LEFT_OVER {
        return false;
    }
    let before = &earlier[earlier.len() - earlier.len().min(LEFT_OVER)..];
    let half = &window[..window.len() / 2];
    let minutes = before.iter().chain(half);
    let all: Vec<_> = minutes.map(|m| effect.signum() * m.scores[kind]).collect();
    let mut pairs = all.windows(2);
    pairs.any(|pair| pair[0].min(pair[1]) * RETURNED > effect.abs())
}

/// The first minute of the change: from this minute to the last, the sum of the scores' excess over half of the effect
/// is largest.
pub(crate) fn start(base: &Baseline, minutes: &[Residual], kind: usize, effect: f64) -> Tick {
    let wobble = base.past.noise[kind].variance();
    turning_point(minutes.iter().rev().map(|minute| {
        let weight = 1.0 / (minute.sampling[kind] + wobble).max(1e-12);
        let beyond = weight * effect.signum() * (minute.scores[kind] - effect / 2.0);
        (minute.tick, beyond)
    }))
}

#[cfg(test)]
mod tests;
