//! Slices of time, precisions and hours.

use super::pack::packed;
use crate::order::InOrder;

/// The seconds of an hour.
pub const HOUR: i64 = 3_600;

/// The most seconds by which the hour of a sample may start after the time at which the sample is appended.
pub const SKEW_ALLOWED: i64 = 3_600;

/// The last second of the samples that are accepted at `now`, in Unix seconds. Whole hours are accepted, so that the
/// records, the counters and the statistics of an hour have the same samples.
pub fn latest_accepted(now: i64) -> i64 {
    hour_of(now.saturating_add(SKEW_ALLOWED)).saturating_add(HOUR - 1)
}

/// The book's precisions, in seconds: 1 s, 5 s, 1 min, 5 min, 1 h, 5 h and 1 day.
pub const DEFAULT_PRECISIONS: [u32; 7] = [1, 5, 60, 300, 3_600, 18_000, 86_400];

/// The default number of retained slices of each precision.
pub const DEFAULT_RETAINED: u32 = 120;

/// The most retained slices of a precision that can be configured.
pub const MAX_RETAINED: u32 = 10_000;

/// The most precisions that can be configured.
pub const MAX_PRECISIONS: usize = 16;

/// The length of a slice in seconds, and the number of slices that are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Precision {
    /// The length of a slice in seconds, at least 1.
    pub seconds: u32,
    /// The number of retained slices, at least 1.
    pub retained: u32,
}

packed!(Precision { seconds, retained } if |precision| {
    precision.seconds > 0 && (1..=MAX_RETAINED).contains(&precision.retained)
});

impl Precision {
    /// A precision of `seconds` that retains `retained` slices.
    pub const fn new(seconds: u32, retained: u32) -> Self {
        Self { seconds, retained }
    }

    /// The start of the slice that contains `unix_seconds`: `floor(t / p) * p`, as in the recipe *time-series
    /// counters*.
    ///
    /// ```
    /// # use tower_pulse_model::slice::Precision;
    /// assert_eq!(Precision::new(5, 120).slice(1_336_376_413), 1_336_376_410);
    /// ```
    pub const fn slice(self, unix_seconds: i64) -> i64 {
        let width = self.seconds as i64;
        unix_seconds.div_euclid(width).saturating_mul(width)
    }

    /// The span of all retained slices, in seconds.
    pub const fn span(self) -> i64 {
        self.seconds as i64 * self.retained as i64
    }

    /// Slices that start at this time or earlier are no longer retained at `unix_seconds`, as in the recipe *cleaning
    /// counters*.
    pub const fn cutoff(self, unix_seconds: i64) -> i64 {
        unix_seconds.saturating_sub(self.span())
    }

    /// The seconds after its last write for which a key lives: `retained * p + max(10 min, 2p)` for slices of `p`
    /// seconds.
    pub const fn key_ttl(self) -> i64 {
        let margin = 2 * self.seconds as i64;
        self.span() + if margin > 600 { margin } else { 600 }
    }
}

/// The precisions of all counters of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Precisions {
    /// The precisions, finest first.
    pub counters: Vec<Precision>,
}

impl Default for Precisions {
    fn default() -> Self {
        Self::new(DEFAULT_PRECISIONS, DEFAULT_RETAINED)
    }
}

impl Precisions {
    /// Precisions with these slice lengths in seconds, each of which retains the newest `retained` slices.
    pub fn new(seconds: impl IntoIterator<Item = u32>, retained: u32) -> Self {
        let seconds = seconds.into_iter();
        let mut counters: Vec<_> = seconds.map(|p| Precision::new(p, retained)).collect();
        counters.order();
        Self { counters }
    }

    /// The precision with slices of `seconds`, if there is one.
    pub fn counter(&self, seconds: u32) -> Option<Precision> {
        self.counters.iter().copied().find(|p| p.seconds == seconds)
    }
}

impl std::fmt::Display for Precisions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |p: &Precision| format!("{} s x {}", p.seconds, p.retained);
        let all: Vec<_> = self.counters.iter().map(text).collect();
        f.write_str(&all.join(", "))
    }
}

/// A slice of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct SliceCount {
    /// The start of the slice, in Unix seconds.
    pub start: i64,
    /// The sum of all additions within the slice.
    pub count: i64,
}

impl SliceCount {
    /// A slice that begins at `start`, in Unix seconds, with its sum.
    pub const fn new(start: i64, count: i64) -> Self {
        Self { start, count }
    }
}

/// The start of the hour that contains `unix_seconds`.
pub const fn hour_of(unix_seconds: i64) -> i64 {
    unix_seconds.div_euclid(HOUR).saturating_mul(HOUR)
}

/// An hour in ISO form, in UTC but without a time zone, as in the recipe *statistics*.
///
/// ```
/// # use tower_pulse_model::slice::{hour_from_iso, iso_hour};
/// assert_eq!(iso_hour(1_336_374_000), "2012-05-07T07:00:00");
/// assert_eq!(hour_from_iso("2012-05-07T07:00:00"), Some(1_336_374_000));
/// assert_eq!(hour_from_iso("yesterday"), None);
/// ```
pub fn iso_hour(unix_seconds: i64) -> String {
    let (year, month, day) = date_of(unix_seconds.div_euclid(86_400));
    let hour = unix_seconds.rem_euclid(86_400) / HOUR;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:00:00")
}

/// The start of the hour that an [`iso_hour`] names.
pub fn hour_from_iso(text: &str) -> Option<i64> {
    let mut parts = text.split(['-', 'T', ':']);
    let mut number = || parts.next()?.parse::<u16>().ok().map(i64::from);
    let days = days_to(number()?, number()?, number()?);
    let hour = days * 86_400 + number()? * HOUR;
    (iso_hour(hour) == text).then_some(hour)
}

/// Days from the Unix epoch to a date of the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last day of a year.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_to`].
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn precisions_are_sorted_and_found_by_their_seconds() {
        let precisions = Precisions::new([60, 5], 7);
        assert_eq!(precisions.to_string(), "5 s x 7, 60 s x 7");
        let expected = [Precision::new(5, 7), Precision::new(60, 7)];
        assert_eq!(precisions.counters, expected);
        assert_eq!(precisions.counter(60), Some(expected[1]));
        assert_eq!(precisions.counter(7), None);
    }

    #[test]
    fn a_slice_expires_when_as_many_newer_ones_are_retained() {
        let precision = Precision::new(60, 120);
        assert_eq!(precision.span(), 7_200);
        assert_eq!(precision.cutoff(60_059), 52_859);
        assert_eq!(precision.key_ttl(), 7_200 + 600);
        assert_eq!(Precision::new(300, 120).key_ttl(), 36_000 + 600);
        assert_eq!(Precision::new(301, 120).key_ttl(), 36_120 + 602);
    }

    #[test]
    fn hours_convert_to_iso_and_back() {
        assert_eq!(iso_hour(0), "1970-01-01T00:00:00");
        assert_eq!(iso_hour(951_782_400 + 23 * 3_600), "2000-02-29T23:00:00");
        assert_eq!(iso_hour(4_107_542_399), "2100-02-28T23:00:00");
        assert_eq!(hour_from_iso("2100-02-29T00:00:00"), None);
        assert_eq!(hour_from_iso("2012-05-07T24:00:00"), None);
        let last = hour_from_iso("2000-02-29T23:00:00");
        assert_eq!(last, Some(951_782_400 + 23 * 3_600));
        for text in [
            "+012-05-07T07:00:00",
            "2012:05-07T07:00:00",
            "2012-05:07T07:00:00",
            "2012-05-07 07:00:00",
            "2012-05-07T07:30:00",
            "2012-05-07T07:00:00:00:00",
            "2012-05-éT07:00:00",
        ] {
            assert_eq!(hour_from_iso(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn slices_align_and_contain_their_time(t in -10_000_000_000i64..10_000_000_000, p in 1u32..1_000_000) {
            let slice = Precision::new(p, 120).slice(t);
            prop_assert_eq!(slice.rem_euclid(i64::from(p)), 0);
            prop_assert!(slice <= t && t < slice + i64::from(p));
        }

        #[test]
        fn hours_are_read_back_from_their_iso_form_and_sort_like_it(a in 0i64..70_000_000, b in 0i64..70_000_000) {
            let (a, b) = (a * HOUR, b * HOUR);
            prop_assert_eq!(hour_from_iso(&iso_hour(a)), Some(a));
            prop_assert_eq!(a.cmp(&b), iso_hour(a).cmp(&iso_hour(b)));
        }
    }
}
