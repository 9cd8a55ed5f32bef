//! A further step of a page that is slower already, such as a deploy while data grows.
//!
//! The scores say little here, because all requests are slower than in the past. Instead, the mean logarithms of the
//! times in the last minutes are compared with those in the minutes before, in which the page was slower already.

use super::history::{History, Tick, WIDTH};
use super::past::FEWEST_CHANGED;
use super::speed::OVERWHELMING;
use super::state::SharedMinutes;

/// The smallest step, as a logarithm of time: 1.5 times.
const LEAST: f64 = 0.405;
/// The fewest and the most minutes of a step.
const SHORTEST: usize = 2;
const LONGEST: usize = 6;
/// The number of minutes before a step with which the step is compared.
const BEFORE: usize = 6;
/// Standard deviations that a step needs.
const BAR: f64 = 8.0;
/// The wobble of a slower page, as a logarithm of time.
const WOBBLE: f64 = 0.05;

/// The times of the successful responses of a minute, as logarithms.
#[derive(Clone, Copy, Debug)]
struct Level {
    tick: Tick,
    count: f64,
    mean: f64,
    variance: f64,
}

/// The standard deviations and the first minute of a step that is present at the end of minute `now`. The page is
/// slower in all minutes after `after`.
pub(crate) fn search(
    history: &History,
    shared: &SharedMinutes,
    (after, now): (Tick, Tick),
) -> Option<(f64, Tick)> {
    let levels = levels(history, shared, after);
    if levels.last()?.tick != now {
        return None;
    }
    let found = (SHORTEST..=LONGEST).filter_map(|length| {
        let start = levels.len().checked_sub(length)?;
        let (before, step) = levels.split_at(start);
        let before = &before[before.len().saturating_sub(BEFORE)..];
        let strength = strength(before, step)?;
        Some((strength, step[0].tick))
    });
    let found = found.filter(|(strength, _)| *strength >= BAR);
    found.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The standard deviations between a step and the minutes before; `None` unless each minute of the step is larger by
/// [`LEAST`].
fn strength(before: &[Level], step: &[Level]) -> Option<f64> {
    if before.len() < FEWEST_CHANGED as usize {
        return None;
    }
    let (then, then_variance) = mean(before);
    let (now, now_variance) = mean(step);
    let least = match step.len() {
        SHORTEST => OVERWHELMING,
        _ => LEAST,
    };
    let highest = before.iter().map(|level| level.mean).fold(then, f64::max);
    let shows = |level: &Level| level.mean - highest >= LEAST / 2.0 && level.mean - then >= LEAST;
    let is_step = now - then >= least && step.iter().all(shows);
    is_step.then(|| (now - then) / (then_variance + now_variance).sqrt())
}

/// The mean of some minutes, and its variance.
fn mean(levels: &[Level]) -> (f64, f64) {
    let count: f64 = levels.iter().map(|level| level.count).sum();
    let sums = levels.iter().map(|level| level.count * level.mean);
    let spread = levels.iter().map(|level| level.count * level.variance);
    let sampling = spread.sum::<f64>() / (count * count);
    let variance = sampling + WOBBLE * WOBBLE / levels.len() as f64;
    (sums.sum::<f64>() / count, variance)
}

/// The minutes with successful responses after `after`, without the shift that all pages share.
fn levels(history: &History, shared: &SharedMinutes, after: Tick) -> Vec<Level> {
    let mut levels = Vec::new();
    history.each(after + 1, |minute, packed| {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        packed.buckets(|bucket, n, censored| {
            if !censored {
                let (n, log) = (f64::from(n), bucket as f64 * WIDTH);
                count += n;
                sum += n * log;
                squares += n * log * log;
            }
        });
        if count >= 1.0 {
            let mean = sum / count;
            levels.push(Level {
                tick: minute.tick,
                count,
                mean: mean - shared.level(minute.tick),
                variance: (squares / count - mean * mean).max(0.01),
            });
        }
    });
    levels
}
