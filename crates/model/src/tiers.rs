//! The tiers of a store: those of [`TIERS`] and, if a history is configured, days.
//!
//! A store keeps the retained days in one field ([`History`]), so that all instances and readers agree on the tiers,
//! even if their settings differ.

use super::pack::packed;
use super::slice::Precision;
use super::tier::{DAY, TIERS};

/// The fewest days of a history: as many as the coarsest of the other tiers retains.
pub const LEAST_DAYS: u32 = (TIERS[TIERS.len() - 1].span() / DAY as i64) as u32;
/// The most days of a history.
pub const MOST_DAYS: u32 = 400;

/// Seconds after which a folder that wants the history renews it.
const RENEWED_AFTER: i64 = 600;
/// Seconds after which another instance that wants the history takes over folding, to renew the history.
const RENEWED_BY_OTHERS_AFTER: i64 = 3_600;
/// Seconds for which a history is kept after it was last renewed.
const HONORED_FOR: i64 = 7 * 86_400;

/// The days that a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// The number of days that are kept.
    pub days: u32,
    /// The time since which the days have all samples, in Unix seconds; `i64::MIN` if all days of the store have all
    /// samples.
    pub since: i64,
    /// When a folder that wants this many days last renewed the history, in Unix seconds.
    pub renewed_at: i64,
}

packed!(History { days, since, renewed_at } if |history| {
    (LEAST_DAYS..=MOST_DAYS).contains(&history.days)
});

impl History {
    /// The history that a store keeps from `now` on, if the folder wants `wanted` days. The longest history wins: a
    /// stored history that is longer stays for a week after it was last renewed. A new history counts as complete from
    /// `begins` on.
    pub fn agreed(
        stored: Option<Self>,
        wanted: Option<u32>,
        now: i64,
        begins: i64,
    ) -> Option<Self> {
        let Some(days) = wanted else {
            return stored.filter(|stored| stored.was_renewed(HONORED_FOR, now));
        };
        let mut since = begins;
        if let Some(stored) = stored {
            let is_outdone = days < stored.days && stored.was_renewed(HONORED_FOR, now);
            let is_fresh = days == stored.days && stored.was_renewed(RENEWED_AFTER, now);
            if is_outdone || is_fresh {
                return Some(stored);
            }
            since = stored.since;
            if days > stored.days {
                // A longer history begins with the oldest day that the shorter one still has.
                let kept = stored.tier();
                since = since.max(kept.slice(kept.cutoff(now)) + i64::from(DAY));
            }
        }
        Some(Self {
            days,
            since,
            renewed_at: now,
        })
    }

    /// Whether an instance that wants this many days must take over folding: the history has fewer days, or has as many
    /// and is due for renewal.
    pub fn lacks(&self, days: u32, now: i64) -> bool {
        self.days < days || self.days == days && !self.was_renewed(RENEWED_BY_OTHERS_AFTER, now)
    }

    /// Whether the history has more than this many days, and was renewed within the last two hours.
    pub fn outdoes(&self, days: u32, now: i64) -> bool {
        self.days > days && self.was_renewed(2 * RENEWED_BY_OTHERS_AFTER, now)
    }

    /// Whether the history was renewed within some seconds of `now`: before or, because clocks differ, after.
    fn was_renewed(&self, within: i64, now: i64) -> bool {
        now.saturating_sub(self.renewed_at).saturating_abs() < within
    }

    /// The tier of the history's days.
    pub fn tier(&self) -> Precision {
        Precision::new(DAY, self.days)
    }
}

/// The tiers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiers {
    /// The history of days, if the store keeps one.
    pub history: Option<History>,
}

impl Tiers {
    /// The tiers, finest first.
    pub fn iter(self) -> impl Iterator<Item = Precision> + Clone {
        let days = self.history.map(|history| history.tier());
        TIERS.into_iter().chain(days)
    }

    /// The tier whose slices have this length.
    pub fn get(self, seconds: u32) -> Option<Precision> {
        self.iter().find(|tier| tier.seconds == seconds)
    }

    /// The time since which the slices of a tier have all samples of the store, in Unix seconds.
    pub fn since(self, tier: Precision) -> i64 {
        let history = self.history.filter(|_| tier.seconds == DAY);
        history.map_or(i64::MIN, |history| history.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::history;

    const NOW: i64 = 1_700_000_000;

    #[test]
    fn a_history_follows_the_coarsest_tier() {
        assert_eq!(LEAST_DAYS, 15);
        let history = Some(history(90, NOW, NOW));
        let tiers = Tiers { history };
        assert!(tiers.iter().take(3).eq(TIERS));
        assert_eq!(tiers.get(DAY), Some(Precision::new(DAY, 90)));
        assert_eq!(Tiers::default().get(DAY), None);
        let since = [TIERS[2], tiers.get(DAY).expect("it is kept")].map(|tier| tiers.since(tier));
        assert_eq!(since, [i64::MIN, NOW]);
    }

    #[test]
    fn a_history_is_kept_for_a_week_after_it_was_renewed() {
        let begun = History::agreed(None, Some(90), NOW, NOW - 60);
        assert_eq!(begun, Some(history(90, NOW - 60, NOW)));
        assert_eq!(History::agreed(None, None, NOW, NOW), None);
        let week = HONORED_FOR;
        for (ago, kept) in [(0, true), (week - 1, true), (week, false), (-week, false)] {
            let stored = Some(history(90, NOW - 60, NOW));
            let agreed = History::agreed(stored, None, NOW + ago, NOW + ago);
            assert_eq!(agreed, stored.filter(|_| kept), "{ago}");
        }
        let renewed = RENEWED_AFTER;
        for (ago, renewed_at) in [(renewed - 1, NOW), (renewed, NOW + renewed)] {
            let agreed = History::agreed(begun, Some(90), NOW + ago, NOW);
            assert_eq!(agreed, Some(history(90, NOW - 60, renewed_at)), "{ago}");
        }
    }

    #[test]
    fn a_longer_history_is_wanted_at_once_and_the_same_is_renewed_once_an_hour() {
        let stored = history(90, NOW, NOW);
        let lacks = |days, ago| stored.lacks(days, NOW + ago);
        let lacking = [30, 90, 91].map(|days| lacks(days, 0));
        assert_eq!(lacking, [false, false, true]);
        let hour = RENEWED_BY_OTHERS_AFTER;
        assert_eq!([hour - 1, hour].map(|ago| lacks(90, ago)), [false, true]);
        // An instance that wants a shorter history waits until the longer one ends.
        assert!(!lacks(30, 9 * hour));
        let outdoes = |days, ago| stored.outdoes(days, NOW + ago);
        let outdone = [89, 90, 91].map(|days| outdoes(days, 0));
        assert_eq!(outdone, [true, false, false]);
        assert!(outdoes(89, 2 * hour - 1) && !outdoes(89, 2 * hour));
    }

    #[test]
    fn the_longest_history_wins_and_a_longer_history_begins_with_the_stored_days() {
        let since = NOW - 300 * i64::from(DAY);
        let stored = Some(history(90, since, NOW));
        assert_eq!(History::agreed(stored, Some(30), NOW + 1, NOW), stored);
        let later = NOW + HONORED_FOR;
        let shorter = History::agreed(stored, Some(30), later, NOW);
        assert_eq!(shorter, Some(history(30, since, later)));
        let longer = History::agreed(shorter, Some(60), later, NOW);
        let first = longer.map_or(0, |longer| longer.since);
        assert_eq!(first.rem_euclid(i64::from(DAY)), 0);
        let days = (later - first) as f64 / f64::from(DAY);
        assert!((29.0..30.0).contains(&days), "{days}");
        let again = History::agreed(longer, Some(400), later, NOW);
        assert!(again.is_some_and(|again| again.since == first.max(later - 60 * i64::from(DAY))));
    }
}
