//! Windows: spans of time that somebody asks about, rounded outward to the slices that are kept.

use super::recorded::{Gap, RecordedTime, length};
use super::slice::{HOUR, Precision, hour_of};
use super::tier::TIERS;
use super::tiers::Tiers;

/// The windows that have a name, with their length in seconds.
pub const NAMED: [(&str, i64); 8] = [
    ("5m", 300),
    ("15m", 900),
    ("1h", 3_600),
    ("6h", 21_600),
    ("24h", 86_400),
    ("7d", 604_800),
    ("30d", 2_592_000),
    ("90d", 7_776_000),
];

/// Seconds that flushing and folding may lag behind before the time since then counts as not recorded.
const LAG: i64 = 15;

/// The end of the time that counts as recorded at `now`, if everything until `as_of` can be read. A short lag is
/// overlooked, unless it is `uncertain` when that ends.
pub fn recorded_until(as_of: i64, now: i64, uncertain: bool) -> i64 {
    let is_recent = !uncertain && as_of.saturating_add(LAG) >= now;
    if is_recent { now } else { as_of.min(now) }
}

/// A span of time, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// This number of seconds before now.
    Last(i64),
    /// The time between two Unix seconds, without the second one.
    Between(i64, i64),
    /// A UTC hour, by the number of hours since: 0 is the current hour.
    HoursAgo(i64),
}

/// Adjacent slices of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowSlices {
    /// The tier.
    pub tier: Precision,
    /// Start of the first slice, in Unix seconds.
    pub from: i64,
    /// End of the last slice, in Unix seconds.
    pub to: i64,
    /// Since when the tier is kept, in Unix seconds: slices before it lack samples. `i64::MIN` if it always was.
    pub since: i64,
}

/// How much of a window was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedPart {
    /// Seconds of the window that have passed.
    pub passed: i64,
    /// Seconds of it that were recorded.
    pub seconds: i64,
    /// Seconds in which the service was not running, since the first one that was recorded.
    pub not_running_seconds: i64,
    /// Requests that are missing in it.
    pub missing: u64,
}

impl RecordedPart {
    /// The share of the time that has passed, 0 to 1.
    pub fn share(&self) -> f64 {
        match self.passed {
            ..=0 => 0.0,
            passed => self.seconds as f64 / passed as f64,
        }
    }
}

impl Window {
    /// The same window with the bounds of its slices at `now`, so that questions about nearby times share an answer.
    #[must_use]
    pub fn rounded(self, tiers: Tiers, now: i64) -> Self {
        match self {
            Self::Between(..) => {
                let slices = self.slices(tiers, now);
                Self::Between(slices.from, slices.to)
            }
            Self::Last(_) | Self::HoursAgo(_) => self,
        }
    }

    /// The slices that cover the window at `now`: of the finest tier that still has its first slice and, if the
    /// window moves, also the first slice of the window before it; else of the tier that goes back furthest. The last
    /// slice is that of `now` at the latest.
    ///
    /// ```
    /// # use tower_pulse_model::{tiers::Tiers, window::Window};
    /// let now = 1_700_000_000; // 20 s into a minute
    /// let slices = Window::Last(300).slices(Tiers::default(), now);
    /// assert_eq!((slices.tier.seconds, slices.from, slices.to), (60, now - 320, now + 40));
    /// ```
    pub fn slices(self, tiers: Tiers, now: i64) -> WindowSlices {
        let (from, to) = match self {
            Self::Last(seconds) => (now.saturating_sub(seconds), now.saturating_add(1)),
            Self::Between(from, to) => (from, to.min(now.saturating_add(1))),
            Self::HoursAgo(hours) => return WindowSlices::hour(hour_of(now) - hours * HOUR),
        };
        let of_tier = |tier: Precision| {
            let width = i64::from(tier.seconds);
            let start = tier.slice(from);
            let end = tier.slice(to.saturating_sub(1)).saturating_add(width);
            WindowSlices {
                tier,
                from: start,
                to: end.max(start.saturating_add(width)),
                since: tiers.since(tier),
            }
        };
        let is_retained = |slices: &WindowSlices| {
            let first = match self {
                Self::Last(_) => slices.before().from,
                Self::Between(..) | Self::HoursAgo(_) => slices.from,
            };
            first >= slices.oldest(now)
        };
        let slices = tiers.iter().map(of_tier);
        let furthest = slices.clone().min_by_key(|slices| slices.oldest(now));
        let retained = slices.clone().find(is_retained).or(furthest);
        retained.unwrap_or_else(|| of_tier(TIERS[0]))
    }
}

impl WindowSlices {
    /// The hour that starts at `from`, in half hours: few slices, with the fine histograms.
    pub fn hour(from: i64) -> Self {
        Self {
            tier: TIERS[1],
            from,
            to: from.saturating_add(HOUR),
            since: i64::MIN,
        }
    }

    /// The start of the first slice of the tier that is retained at `now`.
    fn oldest(&self, now: i64) -> i64 {
        let retained = self.tier.slice(self.tier.cut_off(now)) + i64::from(self.tier.seconds);
        retained.max(self.tier.slice(self.since))
    }

    /// The slices of the same length just before.
    pub fn before(&self) -> Self {
        Self {
            from: self.from.saturating_sub(self.to.saturating_sub(self.from)),
            to: self.from,
            ..*self
        }
    }

    /// The length, in seconds.
    pub fn seconds(&self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    /// The slices that are retained at `now`.
    #[must_use]
    pub fn retained(&self, now: i64) -> Self {
        Self {
            from: self.from.max(self.oldest(now).min(self.to)),
            ..*self
        }
    }

    /// The starts of the slices that are retained at `now`, oldest first.
    pub fn starts(&self, now: i64) -> impl Iterator<Item = i64> + use<> {
        let Self { from, to, .. } = self.retained(now);
        (from..to).step_by(self.tier.seconds as usize)
    }

    /// Whether a time lies within the slices.
    pub fn contains(&self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// The part of the window that was recorded, if there is data until `until`.
    pub fn covered(&self, recorded: &RecordedTime, until: i64, now: i64) -> RecordedPart {
        let (from, to) = self.retained_until(until, now);
        RecordedPart {
            passed: self.to.min(now).saturating_sub(self.from).max(0),
            seconds: recorded.seconds(from, to),
            not_running_seconds: length(recorded.gaps(from, to)),
            missing: 0,
        }
    }

    /// The times of the window in which the service was not running.
    pub fn not_running(&self, recorded: &RecordedTime, until: i64, now: i64) -> Vec<Gap> {
        let (from, to) = self.retained_until(until, now);
        recorded.gaps(from, to).collect()
    }

    /// From the first slice that is retained at `now`, until `until`.
    fn retained_until(&self, until: i64, now: i64) -> (i64, i64) {
        let first = self.from.max(self.since).max(self.oldest(now));
        (first, self.to.min(until).min(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::DAY;
    use crate::tiers::History;

    const NOW: i64 = 1_700_000_000;

    fn since(since: i64) -> RecordedTime {
        RecordedTime::new(since, [])
    }

    fn seconds_of(name: &str) -> i64 {
        NAMED
            .iter()
            .find(|(other, _)| *other == name)
            .expect("it is one")
            .1
    }

    #[test]
    fn slices_contain_their_start_and_not_their_end() {
        let slices = Window::Between(NOW - 3_600, NOW).slices(Tiers::default(), NOW);
        let contained = [slices.from - 1, slices.from, slices.to - 1, slices.to];
        assert_eq!(
            contained.map(|time| slices.contains(time)),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_rounded_window_has_the_same_slices() {
        for (from, to) in [
            (30, 0),
            (3_600, 60),
            (9_000, 8_000),
            (400_000, 0),
            (2_000_000, 7),
        ] {
            for now in (NOW..NOW + 3_600).step_by(13) {
                let window = Window::Between(now - from, now - to + 1);
                let rounded = window.rounded(Tiers::default(), now);
                assert_eq!(
                    rounded.slices(Tiers::default(), now),
                    window.slices(Tiers::default(), now)
                );
                assert_eq!(rounded.rounded(Tiers::default(), now), rounded);
            }
        }
    }

    #[test]
    fn a_named_window_and_the_one_before_it_are_kept() {
        for (name, tier) in [
            ("5m", 60),
            ("15m", 60),
            ("1h", 60),
            ("6h", 1_800),
            ("24h", 1_800),
            ("7d", 21_600),
        ] {
            for now in (NOW..NOW + 21_600).step_by(7) {
                let slices = Window::Last(seconds_of(name)).slices(Tiers::default(), now);
                assert_eq!(slices.tier.seconds, tier, "{name} at {now}");
                assert!(slices.contains(now) && slices.to - now <= i64::from(tier));
                assert!(slices.from <= now - seconds_of(name));
                assert!(slices.from > now - seconds_of(name) - i64::from(tier));
                let before = slices.before();
                assert_eq!(
                    (before.to, before.seconds()),
                    (slices.from, slices.seconds())
                );
                let starts: Vec<_> = before.starts(now).collect();
                assert_eq!(starts.first(), Some(&before.from), "{name} at {now}");
                assert_eq!(starts.len() as i64, before.seconds() / i64::from(tier));
                assert!((before.covered(&since(i64::MIN), now, now).share() - 1.0).abs() < 1e-9);
            }
        }
    }

    /// A store that has kept so many days for some time.
    fn days(days: u32, since: i64) -> Tiers {
        let history = History {
            days,
            since,
            asked_at: NOW,
        };
        Tiers {
            history: Some(history),
        }
    }

    #[test]
    fn a_history_has_the_windows_of_a_month_and_of_a_quarter() {
        for (name, points) in [("30d", 31), ("90d", 91)] {
            let tiers = days(400, i64::MIN);
            let slices = Window::Last(seconds_of(name)).slices(tiers, NOW);
            assert_eq!(slices.tier, Precision::new(DAY, 400), "{name}");
            assert_eq!(slices.starts(NOW).count(), points, "{name}");
            assert_eq!(slices.before().starts(NOW).count(), points, "{name}");
            let complete = slices.before().covered(&since(i64::MIN), NOW, NOW).share();
            assert!((complete - 1.0).abs() < 1e-9);
            // Without a history, six hours go back furthest.
            let slices = Window::Last(seconds_of(name)).slices(Tiers::default(), NOW);
            assert_eq!((slices.tier, slices.since), (TIERS[2], i64::MIN), "{name}");
            assert!(slices.covered(&since(i64::MIN), NOW, NOW).share() < 0.51);
        }
        for name in ["5m", "15m", "1h", "6h", "24h", "7d"] {
            let window = Window::Last(seconds_of(name));
            let with_days = window.slices(days(400, i64::MIN), NOW);
            assert_eq!(with_days, window.slices(Tiers::default(), NOW), "{name}");
        }
    }

    #[test]
    fn days_before_a_history_began_are_not_recorded() {
        let day = i64::from(DAY);
        let month = Window::Last(30 * day);
        let young = month.slices(days(90, NOW - 3 * day), NOW);
        assert_eq!(young.tier, TIERS[2], "six hours go back further");
        let begun = NOW - 20 * day;
        let slices = month.slices(days(90, begun), NOW);
        assert_eq!(slices.tier.seconds, DAY);
        assert_eq!(slices.covered(&since(i64::MIN), NOW, NOW).seconds, 20 * day);
        assert_eq!(slices.covered(&since(NOW - day), NOW, NOW).seconds, day);
        let first = slices.starts(NOW).next();
        assert_eq!(first, Some(slices.tier.slice(begun)), "it is there in part");
        assert_eq!(
            slices.before().covered(&since(i64::MIN), NOW, NOW).share(),
            0.0
        );
        // A history of 30 days has no month before.
        let slices = month.slices(days(30, i64::MIN), NOW);
        assert_eq!(slices.tier.seconds, DAY);
        assert_eq!(slices.before().starts(NOW).count(), 0);
    }

    #[test]
    fn an_hour_is_two_half_hours_and_the_one_before_it_is_kept() {
        for (hours, now) in [
            (0, NOW),
            (1, NOW),
            (1, hour_of(NOW)),
            (0, hour_of(NOW) + HOUR - 1),
        ] {
            let slices = Window::HoursAgo(hours).slices(Tiers::default(), now);
            assert_eq!(slices.from, hour_of(now) - hours * HOUR);
            assert_eq!((slices.tier.seconds, slices.seconds()), (1_800, HOUR));
            let starts: Vec<_> = slices.before().starts(now).collect();
            assert_eq!(starts, [slices.from - HOUR, slices.from - HOUR / 2]);
        }
    }

    #[test]
    fn a_window_between_two_times_is_rounded_outward() {
        let between = |from: i64, to: i64| {
            let slices = Window::Between(NOW + from, NOW + to).slices(Tiers::default(), NOW);
            (slices.tier.seconds, slices.from - NOW, slices.to - NOW)
        };
        // NOW is 20 s into a minute.
        assert_eq!(between(-100, -40), (60, -140, -20));
        assert_eq!(between(-80, -20), (60, -80, -20));
        assert_eq!(
            between(-80, 500),
            (60, -80, 40),
            "it ends with the slice of now"
        );
        assert_eq!(between(-7_700, -7_600).0, 60);
        assert_eq!(
            between(-7_900, -7_600).0,
            1_800,
            "a minute of then is not kept"
        );
        assert_eq!(between(-200_000, -100).0, 21_600);
        let old = Window::Between(0, 100_000).slices(Tiers::default(), NOW);
        assert_eq!((old.tier.seconds, old.from, old.to), (21_600, 0, 108_000));
        assert_eq!(
            (
                old.starts(NOW).count(),
                old.covered(&since(0), NOW, NOW).share()
            ),
            (0, 0.0)
        );
    }

    #[test]
    fn what_was_not_recorded_is_not_complete() {
        let slices = Window::Last(3_600).slices(Tiers::default(), NOW);
        let length = NOW - slices.from;
        let seconds = |from, until| slices.covered(&since(from), until, NOW).seconds;
        assert_eq!(seconds(i64::MIN, NOW), length);
        assert_eq!(seconds(NOW - 600, NOW), 600);
        assert_eq!(seconds(i64::MIN, NOW - 600), length - 600);
        assert_eq!(seconds(NOW - 100, NOW - 200), 0);
        let share = |from, until| slices.covered(&since(from), until, NOW).share();
        assert_eq!(share(NOW - length / 2, NOW), 0.5);
        // An answer of a store whose clock is ahead.
        assert_eq!(share(i64::MIN, NOW + 7), 1.0);
    }

    #[test]
    fn a_gap_is_not_recorded() {
        let slices = Window::Last(3_600).slices(Tiers::default(), NOW);
        let recorded = RecordedTime::new(NOW - 600, [(NOW - 500, NOW - 200)]);
        let found = |until: i64| {
            let part = slices.covered(&recorded, until, NOW);
            assert_eq!(part.passed, NOW - slices.from);
            (part.seconds, part.not_running_seconds)
        };
        assert_eq!((found(NOW), found(NOW - 300)), ((300, 300), (100, 200)));
        let gaps = slices.not_running(&recorded, NOW - 300, NOW);
        assert_eq!(gaps, [(NOW - 500, NOW - 300)]);
        // Slices that are not retained.
        let old = Window::Between(0, 100_000).slices(Tiers::default(), NOW);
        let gap = RecordedTime::new(0, [(10, 20)]);
        assert_eq!(old.covered(&gap, NOW, NOW).not_running_seconds, 0);
    }

    #[test]
    fn a_short_lag_is_overlooked_unless_nobody_knows_when_it_ends() {
        for (lag, uncertain, until) in [
            (0, false, 0),
            (LAG, false, 0),
            (LAG + 1, false, -LAG - 1),
            (1, true, -1),
            (-7, false, 0),
            (-7, true, 0),
        ] {
            let found = recorded_until(NOW - lag, NOW, uncertain) - NOW;
            assert_eq!(found, until, "{lag} s, {uncertain}");
        }
    }
}
