//! Further slowdowns of a page that is slower already, such as by a deploy while data grows.
//!
//! Scores say little about a page that is slower already, because all of its requests are slower than in the past.
//! Instead, the mean logarithms of the times in the last minutes are compared with those in the minutes before, in
//! which the page was slower already.

use super::history::{History, Tick, WIDTH};
use super::past::FEWEST_CHANGED;
use super::speed::OVERWHELMING;
use super::state::SharedMinutes;

/// The smallest further slowdown, as a logarithm of time: 1.5 times.
const LEAST: f64 = 0.405;
/// The fewest and the most minutes of a further slowdown.
const SHORTEST: usize = 2;
const LONGEST: usize = 6;
/// The most minutes before a further slowdown that are compared with it.
const BEFORE: usize = 6;
/// Standard deviations that a further slowdown needs.
const BAR: f64 = 8.0;
/// The standard deviation between the minutes of a slower page, as a logarithm of time.
const WOBBLE: f64 = 0.05;

/// The times of the successful responses of a minute, as logarithms.
#[derive(Clone, Copy, Debug)]
struct Level {
    tick: Tick,
    count: f64,
    mean: f64,
    variance: f64,
}

/// Searches for a further slowdown that is present at the end of minute `now`, on a page that is slower in all minutes
/// after `after`. Returns the standard deviations and the first minute of the further slowdown.
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
        let (before, since) = levels.split_at(start);
        let before = &before[before.len().saturating_sub(BEFORE)..];
        let strength = strength(before, since)?;
        Some((strength, since[0].tick))
    });
    let found = found.filter(|(strength, _)| *strength >= BAR);
    found.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// How many standard deviations the minutes since a further slowdown are above the minutes before. `None` if there are
/// too few minutes before, or if the slowdown is too small in any minute since.
fn strength(before: &[Level], since: &[Level]) -> Option<f64> {
    if before.len() < FEWEST_CHANGED as usize {
        return None;
    }
    let (then, then_variance) = mean(before);
    let (now, now_variance) = mean(since);
    let least = match since.len() {
        SHORTEST => OVERWHELMING,
        _ => LEAST,
    };
    let highest = before.iter().map(|level| level.mean).fold(then, f64::max);
    let shows = |level: &Level| level.mean - highest >= LEAST / 2.0 && level.mean - then >= LEAST;
    let is_further = now - then >= least && since.iter().all(shows);
    is_further.then(|| (now - then) / (then_variance + now_variance).sqrt())
}

/// The mean of some minutes, and the variance of this mean.
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
