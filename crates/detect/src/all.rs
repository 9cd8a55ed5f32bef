//! The level that all pages share: a slow minute of the host makes all pages slower, but is not a change of a single
//! page.
//!
//! The level of a minute is the logarithm of the factor by which all pages are slower: the weighted median of the
//! pages' own estimates. A page compares the minute with its past, in which the host may have been slow too. So a past
//! stores the level of its own minutes, and the page adds this level to its estimate. If the level stays different,
//! that is one change, of the context `<all>`.

use super::history::Tick;
use super::state::SharedMinutes;
use super::statistics::median;

/// The fewest pages from which a level is estimated.
pub(crate) const FEWEST_PAGES: usize = 6;

/// The weighted median of (value, weight) pairs; `None` if there are fewer than [`FEWEST_PAGES`].
pub(crate) fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    if values.len() < FEWEST_PAGES {
        return None;
    }
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (value, weight) in values.iter() {
        below += weight;
        if below >= half {
            return Some(*value);
        }
    }
    None
}

/// Minutes that a change of the level must last.
const LASTING: usize = 8;
/// The smallest change, as a logarithm of time.
const LEAST: f64 = 0.18;
/// The size that a change needs, in standard deviations of a minute's level.
const BAR: f64 = 4.0;

/// A change of the level that has lasted. `then` and `effect` are logarithms of time, and `strength` is in standard
/// deviations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelChange {
    pub(crate) since: Tick,
    pub(crate) then: f64,
    pub(crate) effect: f64,
    pub(crate) strength: f64,
}

/// Searches for a change of the level that has lasted until minute `now`.
pub(crate) fn search(shared: &SharedMinutes, now: Tick) -> Option<LevelChange> {
    let (from, to) = (now - 75, now - 19);
    let then = shared.median_level(from, to)?;
    if shared.within(from..to).count() < 20 {
        return None;
    }
    let distances = shared.within(from..to).map(|s| (s.level() - then).abs());
    let deviation = 1.4826 * median(distances)? + 0.01;
    let recent = shared.within(now - LASTING as Tick - 1..Tick::MAX);
    let recent: Vec<_> = recent.map(|s| (s.tick, s.level() - then)).collect();
    let recent = recent.last_chunk::<LASTING>()?;
    let effect = median(recent.map(|(_, level)| level))?;
    let sign = effect.signum();
    let below = |(_, level): &&(Tick, f64)| sign * level < 0.6 * effect.abs();
    let stays = recent.iter().filter(below).count() <= 1;
    let half = |minutes: &[(Tick, f64)]| minutes.iter().map(|(_, level)| sign * level).sum::<f64>();
    let returns = half(&recent[LASTING - 3..]) < 0.7 * half(&recent[..3]);
    let strength = effect.abs() / deviation;
    if !stays || returns || strength < BAR || effect.abs() < LEAST {
        return None;
    }
    let shows = |level: f64| sign * level >= 0.5 * effect.abs();
    let first = recent.iter().find(|(_, level)| shows(*level))?.0;
    let before = shared.within(now - 19..first).rev();
    let changed = before.take_while(|s| shows(s.level() - then));
    let since = changed.last().map_or(first, |s| s.tick);
    Some(LevelChange {
        since,
        then,
        effect,
        strength: strength * (LASTING as f64).sqrt(),
    })
}

pub(crate) fn is_over(shared: &SharedMinutes, then: f64, effect: f64) -> bool {
    let last = shared.0.iter().rev().take(3);
    let (sum, count) = last.fold((0.0, 0.0), |(sum, count), s| (sum + s.level(), count + 1.0));
    effect.signum() * (sum / f64::max(count, 1.0) - then) < 0.45 * effect.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SharedMinute;
    use crate::tests::repeated;

    /// The minutes up to minute 100: the last minutes have these levels, and earlier minutes about 0.5.
    fn minutes(last: &[f64]) -> SharedMinutes {
        let first = 101 - last.len() as Tick;
        let before = (25..first).map(|tick| (tick, 0.5 + 0.01 * f64::from(tick % 3 - 1)));
        let last = (first..).zip(last.iter().copied());
        let minutes = before.chain(last).map(|(tick, level)| SharedMinute {
            tick,
            level: (1e6 * level) as i64,
            ..SharedMinute::default()
        });
        SharedMinutes(minutes.collect())
    }

    #[test]
    fn a_level_that_stays_higher_is_a_change_from_its_rise_on() {
        for length in [8, 12, 17] {
            let change = search(&minutes(&vec![0.8; length]), 100).expect("it is higher");
            assert_eq!(change.since, 101 - length as Tick);
            assert!((change.then - 0.5).abs() < 1e-9 && (change.effect - 0.3).abs() < 1e-9);
            // The deviation of a minute is 1.4826 times the median distance from the median, plus 0.01.
            let strength = 0.3 / (1.4826 * 0.01 + 0.01) * 8f64.sqrt();
            assert!((change.strength - strength).abs() < 1e-3, "{change:?}");
        }
        let lower = search(&minutes(&[0.2; 9]), 100).expect("it is lower");
        assert!(lower.since == 92 && (lower.effect + 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_level_that_is_higher_for_a_short_time_is_not_a_change() {
        let found = |last: &[f64]| search(&minutes(last), 100).is_some();
        // One of the eight minutes may have the old level.
        assert!(!found(&[0.8; 6]) && found(&[0.8; 7]));
        assert!(!found(&[0.65; 12]), "it is small");
        assert!(!found(&repeated(&[(9, 0.8), (2, 0.5)])), "it returns");
        let fading = [0.9, 0.9, 0.9, 0.8, 0.8, 0.78, 0.77, 0.76];
        assert!(!found(&fading), "it fades");
    }

    #[test]
    fn a_change_is_over_when_less_than_45_percent_of_it_is_left() {
        let over = |level: f64, effect| is_over(&minutes(&[level; 3]), 0.5, effect);
        assert!(over(0.5, 0.3) && over(0.63, 0.3) && !over(0.64, 0.3) && !over(0.8, 0.3));
        assert!(over(0.4, -0.3) && !over(0.3, -0.3));
        assert!(!is_over(&minutes(&[0.5, 0.8, 0.8, 0.8]), 0.5, 0.3));
    }
}
