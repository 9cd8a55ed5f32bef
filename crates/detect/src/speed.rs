//! Slower and faster: whether the scores of a page's last minutes differ from the scores of its past.
//!
//! The search tries each window of the last 2 to 20 minutes. The mean of the scores, without the shift that all pages
//! share, is divided by its standard deviation, which includes the page's [noise](super::noise). This is a generalized
//! likelihood ratio over the time of the change (Siegmund and Venkatraman, *Using the generalized likelihood ratio
//! statistic for sequential detection of a change-point*, 1995). A change must also go on: a page that was slow for
//! only some minutes is not reported.

use super::history::Tick;
use super::lasting::{
    self, WITHOUT_WORST, deviations, fades, goes_on, is_left_over, is_unusual, weighted_mean,
    without_worst,
};
use super::noise::Window;
use super::page::Baseline;
use super::reference::{LOCATION, MIX, RANK, SCORES, TAIL};
use super::residual::{Finding, Residual, past_variance, residuals, strength};
use super::state::SharedMinutes;

/// The shortest window, in minutes with requests.
const SHORTEST: usize = 2;
/// The shortest window of a change that is not overwhelming, in minutes.
const USUAL_SHORTEST: usize = 3;
/// The smallest change that is overwhelming after two minutes, as a logarithm of time: 2.7 times.
pub(crate) const OVERWHELMING: f64 = 1.0;
/// Minutes before the start of a change in which the change must not show yet.
const BEFORE: usize = 3;
/// The longest window, in minutes with requests.
const LONGEST: usize = 20;

/// The shared shift below which a minute is calm.
const CALM: f64 = 0.12;
/// A minute is rough if it is not calm and the shared shift reaches this part of the change.
const ROUGH: f64 = 0.35;
/// Calm minutes that a change must last if it began while all pages were slower for some minutes.
const AFTER_ROUGH: usize = 8;
/// Additional standard deviations if there are too few pages to estimate the shared shift.
const ALONE: f64 = 1.5;

/// The required standard deviations, by the number of minutes.
fn bar(minutes: usize, is_alone: bool, is_young: bool) -> f64 {
    let bar = match minutes {
        0..=2 => 16.0,
        3 => 8.0,
        4 => 7.5,
        5 => 6.3,
        6 | 7 => 5.5,
        _ => 5.4,
    };
    let bar = if is_alone { bar + ALONE } else { bar };
    if is_young { bar + 1.5 } else { bar }
}

/// The required standard deviations of a faster page, which is less urgent than a slower one.
const FASTER_BAR: f64 = 6.5;

/// Additional standard deviations for the mix score, which varies more than the location score: for windows of five
/// minutes or more, and for shorter ones.
const MIXED: f64 = 0.5;
const MIXED_AT_ONCE: f64 = 2.0;

/// The smallest changes, as logarithms of time: slower, faster, in the tail.
const LEAST_SLOWER: f64 = 0.12;
const LEAST_FASTER: f64 = 0.18;
const LEAST_TAIL: f64 = 0.3;

/// The change of a page since minute `since`, as a logarithm of time; `None` if the change is below `min` standard
/// deviations, or shows in the minutes before.
pub(crate) fn shift(base: &Baseline, shared: &SharedMinutes, since: Tick, min: f64) -> Option<f64> {
    let minutes = residuals(base, shared, Tick::MIN).filter(|minute| minute.shift.abs() < CALM);
    let minutes: Vec<_> = minutes.collect();
    let start = minutes.partition_point(|minute| minute.tick < since);
    let (before, after) = minutes.split_at(start);
    let before = &before[before.len() - before.len().min(BEFORE)..];
    after.last()?;
    [RANK, LOCATION].into_iter().find_map(|kind| {
        let (deviations, effect) = deviations(base, after.iter(), kind);
        let earlier = weighted_mean(before.iter(), kind);
        let began = deviations >= min && earlier * effect.signum() < 0.5 * effect.abs();
        began.then(|| effect / base.reference.slope(kind))
    })
}

/// The mean effect on the rank score in the minutes since `since`.
pub(crate) fn effect_since(base: &Baseline, shared: &SharedMinutes, since: Tick) -> f64 {
    let minutes: Vec<_> = residuals(base, shared, since).collect();
    weighted_mean(minutes.iter(), RANK)
}

/// The size of an effect on the mean score, as a logarithm of time.
pub(crate) fn log_size(base: &Baseline, kind: usize, effect: f64) -> f64 {
    match kind {
        TAIL => effect / base.reference.tail_share,
        RANK => base.reference.shift_of(effect),
        MIX => (1.0 + 2.0 * base.reference.mixed_share(effect)).ln(),
        _ => effect / base.reference.slope(kind),
    }
}

/// The last minutes after the past and after `after`, at most `most`; `None` if the last of them is not `now`.
fn minutes(
    base: &Baseline,
    shared: &SharedMinutes,
    now: Tick,
    after: Tick,
    most: usize,
) -> Option<Vec<Residual>> {
    let minutes = residuals(base, shared, base.past.end.max(after + 1));
    let mut minutes: Vec<_> = minutes.rev().take(most).collect();
    minutes.reverse();
    (minutes.last()?.tick == now).then_some(minutes)
}

/// For each window of the last 2 to `longest` minutes and each score, calls `each` with the finding and the window.
fn each_window(
    base: &Baseline,
    minutes: &[Residual],
    longest: usize,
    mut each: impl FnMut(Finding, &[Residual]),
) {
    let mut windows = base.past.noise.map(Window::new);
    let past: [f64; SCORES] = std::array::from_fn(|kind| past_variance(base, kind));
    let mut count = 0.0;
    for (index, minute) in minutes.iter().rev().take(longest).enumerate() {
        count += minute.count;
        for (kind, window) in windows.iter_mut().enumerate() {
            minute.add_to(window, kind);
        }
        if index == 0 {
            continue;
        }
        for (kind, window) in windows.iter().enumerate() {
            let effect = window.mean();
            // Far from the past, the rank score shows whether a page is slower or faster, but the location and mix
            // scores do not.
            if (kind == LOCATION || kind == MIX) && effect * windows[RANK].mean() < 0.0 {
                continue;
            }
            let variance = window.variance() + past[kind];
            let finding = Finding {
                score_kind: kind,
                strength: strength(base, kind, effect, variance, count),
                effect,
                since: minute.tick,
            };
            each(finding, &minutes[minutes.len() - index - 1..]);
        }
    }
}

/// The fewest minutes that a change must last.
fn shortest(changed: &[Residual]) -> usize {
    match changed.iter().all(|minute| minute.log >= OVERWHELMING) {
        true => SHORTEST,
        false => USUAL_SHORTEST,
    }
}

/// Searches for a change that is present at the end of minute `now`.
pub(crate) fn search(
    base: &Baseline,
    shared: &SharedMinutes,
    now: Tick,
    after: Tick,
    is_alone: bool,
) -> Option<Finding> {
    let minutes = minutes(base, shared, now, after, usize::MAX)?;
    let is_young = base.past.minutes < 30;
    let mut best: Option<(f64, Finding)> = None;
    each_window(base, &minutes, LONGEST, |finding, window| {
        let (kind, effect, length) = (finding.score_kind, finding.effect, window.len());
        if length < USUAL_SHORTEST && length < shortest(window) {
            return;
        }
        let mixed = match kind {
            MIX if length < 5 => MIXED_AT_ONCE,
            MIX => MIXED,
            _ => 0.0,
        };
        let bar = bar(length, is_alone, is_young) + mixed;
        let least = if effect < 0.0 { FASTER_BAR } else { 0.0 };
        let over = finding.strength / bar.max(least);
        if over < 1.0 || best.is_some_and(|(most, _)| most >= over) {
            return;
        }
        let earlier = &minutes[..minutes.len() - length];
        if is_large(base, kind, effect)
            && goes_on(window, kind, effect)
            && without_worst(base, window, kind, effect) >= WITHOUT_WORST * bar
            && is_unusual(base, window, kind, effect)
            && !is_left_over(earlier, window, kind, effect)
        {
            best = Some((over, finding));
        }
    });
    let (_, mut finding) = best?;
    finding.since = lasting::start(base, &minutes, finding.score_kind, finding.effect);
    // After minutes in which all pages were slower, pages recover at different speeds, for example while caches warm
    // up. A change must last longer then.
    let size = log_size(base, finding.score_kind, finding.effect).abs();
    let rough = |minute: &&Residual| minute.shift.abs() >= CALM.max(ROUGH * size);
    let since = |tick: Tick| &minutes[minutes.partition_point(|minute| minute.tick < tick)..];
    let lasted = since(finding.since);
    let least = match since(finding.since - 2).iter().filter(rough).count() {
        0 => shortest(lasted),
        1 => USUAL_SHORTEST,
        2 => USUAL_SHORTEST + 2,
        _ => AFTER_ROUGH,
    };
    let is_enough = lasted.iter().filter(|minute| !rough(minute)).count() >= least;
    (is_enough && !fades(base, &minutes, &finding)).then_some(finding)
}

/// The longest window of a change that is only likely, in minutes with requests.
const LONGEST_WATCHED: usize = 6;
/// Standard deviations that make a change likely: for a window of two minutes, and for longer ones.
const WATCH_BAR_OF_TWO: f64 = 6.0;
const WATCH_BAR: f64 = 4.5;

/// Searches for a likely slowdown at the end of minute `now`, which [`search`] may report later.
pub(crate) fn watch(
    base: &Baseline,
    shared: &SharedMinutes,
    now: Tick,
    after: Tick,
    is_alone: bool,
) -> Option<Finding> {
    let minutes = minutes(base, shared, now, after, LONGEST_WATCHED)?;
    let mut best: Option<Finding> = None;
    each_window(base, &minutes, LONGEST_WATCHED, |finding, window| {
        let (kind, effect) = (finding.score_kind, finding.effect);
        let bar = [WATCH_BAR, WATCH_BAR_OF_TWO][usize::from(window.len() == 2)];
        let bar = if is_alone { bar + ALONE } else { bar };
        if effect > 0.0
            && finding.strength >= bar
            && best.is_none_or(|best| best.strength < finding.strength)
            && is_large(base, kind, effect)
            && goes_on(window, kind, effect)
            && is_unusual(base, window, kind, effect)
        {
            best = Some(finding);
        }
    });
    best
}

fn is_large(base: &Baseline, kind: usize, effect: f64) -> bool {
    let size = log_size(base, kind, effect);
    match kind {
        TAIL => size >= LEAST_TAIL,
        _ => size >= LEAST_SLOWER || size <= -LEAST_FASTER,
    }
}

/// A change has ended once it is smaller than this part of its mean size.
const OVER: f64 = 0.45;

/// Whether an ongoing change is over, and its strength in standard deviations. `since` and `effect` are those of the
/// finding.
pub(crate) fn follow(
    base: &Baseline,
    shared: &SharedMinutes,
    kind: usize,
    since: Tick,
    effect: f64,
) -> (bool, f64) {
    let minutes: Vec<_> = residuals(base, shared, since).collect();
    let mut recent = Window::new(base.past.noise[kind]);
    let mut taken = 0;
    for minute in minutes.iter().rev() {
        let is_enough = taken >= 8 || recent.variance().sqrt() <= 0.2 * effect.abs();
        if taken >= 3 && is_enough {
            break;
        }
        minute.add_to(&mut recent, kind);
        taken += 1;
    }
    let mut all = Window::new(base.past.noise[kind]);
    for minute in minutes[..minutes.len() - taken].iter().rev() {
        minute.add_to(&mut all, kind);
    }
    // The size is that of the change's minutes, not of its detection: a change that has grown is over when it is far
    // below its grown size.
    let now = match minutes.len() - taken {
        5.. => all.mean(),
        _ => effect,
    };
    let sign = effect.signum();
    let size = (sign * now).max(0.7 * effect.abs());
    let is_over = taken >= 3 && sign * recent.mean() < OVER * size;
    let strength = size / (all.variance() + past_variance(base, kind)).sqrt();
    (is_over, strength)
}

/// The size of a page's change, from the minutes since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The ratio of the times of most requests, without the shift that all pages share.
    pub(crate) body: f64,
    /// Whether only the slowest requests have changed.
    pub(crate) is_tail: bool,
    /// The shift that all pages share, as a ratio.
    pub(crate) shared: f64,
}

/// The smallest change of the body that counts as a change of most requests, as a logarithm.
const BODY_MOVED: f64 = 0.095;

/// The size of a change that was found by this kind of score.
pub(crate) fn size(base: &Baseline, shared: &SharedMinutes, kind: usize, since: Tick) -> Size {
    let (mut rank, mut tail, mut shift, mut count) = (0.0, 0.0, 0.0, 0.0);
    let level = base.past.level as f64 * 1e-6;
    for scored in base.scored.iter().filter(|scored| scored.tick >= since) {
        let n = f64::from(scored.count);
        let here = shared.level(scored.tick) - level;
        rank += n * f64::from(scored.scores[RANK]);
        tail += n * (f64::from(scored.scores[TAIL]) - base.reference.expected(TAIL, here));
        shift += n * here;
        count += n;
    }
    let count = f64::max(count, 1.0);
    let (tail, shift) = (tail / count, shift / count);
    let body = base.reference.shift_of(rank / count) - shift;
    // The tail has not changed alone if a shift of all requests explains at least half of its change.
    let explained = base.reference.expected(TAIL, body) >= 0.5 * tail;
    Size {
        body: body.clamp(-20.0, 20.0).exp(),
        is_tail: kind == TAIL && body < BODY_MOVED && !explained,
        shared: shift.clamp(-20.0, 20.0).exp(),
    }
}

/// The page's estimate of the level in minute `now`, and its weight.
pub(crate) fn level_of(base: &Baseline, now: Tick) -> Option<(f64, f64)> {
    let last = base.scored.back();
    let scored = last.filter(|scored| scored.tick == now && scored.count >= 1.0)?;
    let reference = &base.reference;
    let shift = reference.shift_of(f64::from(scored.scores[RANK]));
    let slope = reference.slope(RANK);
    let sampling = reference.variance[RANK] / f64::from(scored.count) / (slope * slope);
    let wobble = (base.past.noise[RANK].variance() / (slope * slope)).min(0.04);
    let level = base.past.level as f64 * 1e-6 + shift;
    Some((level, 1.0 / (sampling + wobble)))
}

#[cfg(test)]
mod tests;
