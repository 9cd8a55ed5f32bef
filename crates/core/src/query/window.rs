//! Windows: the time that a question is about, rounded outward to slices that the store keeps.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::error::QueryError;
use super::span::Covered;
use tower_pulse_model::recorded::{Gap, RecordedTime, length};
use tower_pulse_model::slice::{HOUR, Precision, hour_of};
use tower_pulse_model::tier::TIERS;
use tower_pulse_model::tiers::Tiers;

/// The latest accepted time: the end of the year 9999.
const YEAR_9999: i64 = 253_402_300_799;

/// The lengths, in seconds, of the windows in [`Window::NAMES`] that follow the two UTC hours.
const LENGTHS: [i64; 8] = [
    300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000, 7_776_000,
];

/// The maximum lag of flushing and folding, in seconds. After a longer lag, the missing time counts as not recorded.
const LAG: i64 = 15;

/// The end of the time that counts as recorded at `now`, if all samples until `as_of` can be read. The time since
/// `as_of` counts as recorded too, if it is at most [`LAG`]. While flushes fail, this time does not count, because the
/// lag may last.
pub(super) fn recorded_until(as_of: i64, now: i64, is_failing: bool) -> i64 {
    let is_recent = !is_failing && as_of.saturating_add(LAG) >= now;
    if is_recent { now } else { as_of.min(now) }
}

/// The time that a question is about. A window is rounded outward to slices that are kept: minutes for two hours, half
/// hours for two days, six hours for two weeks, and days for the time that `history` sets.
///
/// ```
/// # mod tower_pulse { pub use tower_pulse_core::query::answers as query; }
/// use std::time::Duration;
/// use tower_pulse::query::Window;
///
/// let hour: Window = "1h".parse()?;
/// assert_eq!(hour, Window::last(Duration::from_secs(3_600)));
/// assert!(Window::between(60, 60).is_err());
/// # Ok::<(), tower_pulse_core::query::answers::QueryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window(Asked);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// The given number of seconds before now.
    Last(i64),
    /// The time between two moments in Unix seconds, the later one excluded.
    Between(i64, i64),
    /// Like `Between`, without the window before it.
    Alone(i64, i64),
    /// The UTC hour that began this many hours before the current one.
    HoursAgo(i64),
}

impl Window {
    /// The current hour, UTC.
    pub const HOUR: Self = Self(Asked::HoursAgo(0));

    /// The hour before the current hour, UTC.
    pub const LAST_HOUR: Self = Self(Asked::HoursAgo(1));

    /// The names that [`FromStr`] reads.
    pub const NAMES: [&str; 10] = [
        "hour",
        "last_hour",
        "5m",
        "15m",
        "1h",
        "6h",
        "24h",
        "7d",
        "30d",
        "90d",
    ];

    /// The time of `length` before now; at least a second.
    pub const fn last(length: Duration) -> Self {
        match length.as_secs() {
            0 => Self::seconds(1),
            seconds if seconds > YEAR_9999 as u64 => Self::seconds(YEAR_9999),
            seconds => Self::seconds(seconds as i64),
        }
    }

    /// The time from `from` to `to`, in Unix seconds, `to` excluded.
    ///
    /// # Errors
    /// `from` is not before `to`, or a bound is negative or after the year 9999.
    pub fn between(from: i64, to: i64) -> Result<Self, QueryError> {
        for (name, time) in [("from", from), ("to", to)] {
            if !(0..=YEAR_9999).contains(&time) {
                let message = format!("{name} must be a time in Unix seconds, not {time}");
                return Err(QueryError::parameter(name, message));
            }
        }
        if from >= to {
            let message = format!("from must be before to, and {from} is not before {to}");
            return Err(QueryError::parameter("from", message));
        }
        Ok(Self::of(from, to))
    }

    /// The time between two valid moments.
    pub(super) const fn of(from: i64, to: i64) -> Self {
        Self(Asked::Between(from, to))
    }

    /// The time between two moments, without the window before it.
    pub(super) const fn alone(from: i64, to: i64) -> Self {
        Self(Asked::Alone(from, to))
    }

    pub(super) const fn seconds(seconds: i64) -> Self {
        Self(Asked::Last(seconds))
    }

    /// Whether the window is one of the UTC hours. Other programs may add to the statistics of these hours.
    pub(super) fn is_hour(self) -> bool {
        matches!(self.0, Asked::HoursAgo(_))
    }

    /// Widens a window between two times to the bounds of its slices at `now`, so that questions about similar times
    /// share an answer.
    #[must_use]
    pub(super) fn rounded(self, tiers: Tiers, now: i64) -> Self {
        let WindowSlices { from, to, .. } = self.slices(tiers, now);
        Self(match self.0 {
            Asked::Between(..) => Asked::Between(from, to),
            Asked::Alone(..) => Asked::Alone(from, to),
            moving => moving,
        })
    }

    /// The bounds at `now`, not rounded.
    pub(super) fn bounds(self, now: i64) -> Range<i64> {
        match self.0 {
            Asked::Last(seconds) => now.saturating_sub(seconds)..now.saturating_add(1),
            Asked::Between(from, to) | Asked::Alone(from, to) => {
                from..to.min(now.saturating_add(1))
            }
            Asked::HoursAgo(hours) => {
                let from = hour_of(now) - hours * HOUR;
                from..from + HOUR
            }
        }
    }

    /// The slices that cover the window at `now`. A UTC hour gets half hours. Another window gets slices of the finest
    /// tier that still has the window's first slice. A window of `Last` also needs the first slice of the window
    /// before. If no tier goes back so far, chooses the tier that goes back furthest. No slice starts after `now`,
    /// except in a UTC hour and in a window in the future.
    pub(super) fn slices(self, tiers: Tiers, now: i64) -> WindowSlices {
        let bounds = self.bounds(now);
        if self.is_hour() {
            // Half hours are fewer than minutes, and their histograms have the same precision.
            return WindowSlices::around(&bounds, TIERS[1].seconds, TIERS[1], i64::MIN);
        }
        let of_tier =
            |tier: Precision| WindowSlices::around(&bounds, tier.seconds, tier, tiers.since(tier));
        let is_retained = |slices: &WindowSlices| {
            let first = match self.0 {
                Asked::Last(_) => slices.before().from,
                Asked::Between(..) | Asked::Alone(..) | Asked::HoursAgo(_) => slices.from,
            };
            first >= slices.oldest(now)
        };
        let slices = tiers.iter().map(of_tier);
        let furthest = slices.clone().min_by_key(|slices| slices.oldest(now));
        let retained = slices.clone().find(is_retained).or(furthest);
        retained.unwrap_or_else(|| of_tier(TIERS[0]))
    }

    /// The slices that cover the window, and the slices that cover the window before. `Alone` has no slices of the
    /// window before.
    pub(super) fn parts(self, tiers: Tiers, now: i64) -> [WindowSlices; 2] {
        let slices = self.slices(tiers, now);
        let before = match self.0 {
            Asked::Alone(..) => WindowSlices {
                to: slices.from,
                ..slices
            },
            _ => slices.before(),
        };
        [slices, before]
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::HOUR
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Window {
    type Err = QueryError;

    /// Parses one of the [`NAMES`](Self::NAMES), or two moments such as `1700000000..1700003600`.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        let moments = name.split_once("..");
        let moments = moments.and_then(|(from, to)| from.parse().ok().zip(to.parse().ok()));
        if let Some((from, to)) = moments {
            return Self::between(from, to);
        }
        match Self::NAMES.iter().position(|other| *other == name) {
            Some(0) => Ok(Self::HOUR),
            Some(1) => Ok(Self::LAST_HOUR),
            Some(at) => Ok(Self::seconds(LENGTHS[at - 2])),
            None => {
                let names = Self::NAMES.join(", ");
                let message = format!("window must be one of {names}");
                Err(QueryError::parameter("window", message))
            }
        }
    }
}

/// Adjacent slices of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowSlices {
    pub(super) tier: Precision,
    /// Start of the first slice, in Unix seconds.
    pub(super) from: i64,
    /// End of the last slice, in Unix seconds.
    pub(super) to: i64,
    /// When the store began to keep the tier, in Unix seconds; `i64::MIN` for a tier that is always kept. Slices from
    /// before this time lack samples.
    pub(super) since: i64,
}

impl WindowSlices {
    /// The slices of `length` seconds that cover the bounds: at least one. The store has kept `tier` since `since`, in
    /// Unix seconds.
    pub(super) fn around(bounds: &Range<i64>, length: u32, tier: Precision, since: i64) -> Self {
        let (precision, length) = (Precision::new(length, 1), i64::from(length));
        let from = precision.slice(bounds.start);
        let last = precision.slice(bounds.end.saturating_sub(1)).max(from);
        Self {
            tier,
            from,
            to: last.saturating_add(length),
            since,
        }
    }

    /// The start of the first slice of the tier that is retained at `now`.
    pub(super) fn oldest(&self, now: i64) -> i64 {
        let retained = self.tier.slice(self.tier.cutoff(now)) + i64::from(self.tier.seconds);
        retained.max(self.tier.slice(self.since))
    }

    /// As many slices, which end where these slices begin.
    pub(super) fn before(&self) -> Self {
        Self {
            from: self.from.saturating_sub(self.to.saturating_sub(self.from)),
            to: self.from,
            ..*self
        }
    }

    pub(super) fn seconds(&self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    #[must_use]
    pub(super) fn retained(&self, now: i64) -> Self {
        Self {
            from: self.from.max(self.oldest(now).min(self.to)),
            ..*self
        }
    }

    /// The starts of the slices that are retained at `now`, oldest first.
    pub(super) fn starts(&self, now: i64) -> impl Iterator<Item = i64> + use<> {
        let Self { from, to, .. } = self.retained(now);
        (from..to).step_by(self.tier.seconds as usize)
    }

    pub(super) fn contains(&self, time: i64) -> bool {
        (self.from..self.to).contains(&time)
    }

    /// The number of seconds of the slices that have passed at `now`.
    pub(super) fn passed(&self, now: i64) -> i64 {
        self.to.min(now).saturating_sub(self.from).max(0)
    }

    /// The time that the slices cover, if time counts as recorded until `until`.
    pub(super) fn covered(&self, recorded: &RecordedTime, until: i64, now: i64) -> Covered {
        let (from, to) = self.retained_until(until, now);
        let covered = Covered {
            from: self.from,
            to: self.to,
            not_running_seconds: length(recorded.gaps(from, to)),
            ..Covered::default()
        };
        covered.with_seconds(recorded.seconds(from, to), self.passed(now))
    }

    pub(super) fn not_running(&self, recorded: &RecordedTime, until: i64, now: i64) -> Vec<Gap> {
        let (from, to) = self.retained_until(until, now);
        recorded.gaps(from, to).collect()
    }

    /// The bounds of the part of these slices that is retained at `now` and lies before `until`.
    fn retained_until(&self, until: i64, now: i64) -> (i64, i64) {
        let first = self.from.max(self.since).max(self.oldest(now));
        (first, self.to.min(until).min(now))
    }
}

#[cfg(test)]
mod tests;
