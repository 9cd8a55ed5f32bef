//! The window with which a window is compared.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::error::QueryError;
use super::window::Window;
use tower_pulse_model::tier::DAY;

/// The window with which a window is compared. The window is rounded outward to slices that are still kept: yesterday
/// to half hours, a week ago to six hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Against {
    /// The window of the same length that ends where the window begins.
    #[default]
    Before,
    /// The same time a day earlier.
    Yesterday,
    /// The same time a week earlier.
    WeekAgo,
    /// A window of the same length that begins at this time, in Unix seconds.
    From(i64),
}

impl Against {
    /// The window with which `window` is compared at `now`; `None` for the window before, which is held together with
    /// `window`.
    pub(super) fn of(self, window: Window, now: i64) -> Option<Window> {
        let bounds = window.bounds(now);
        let length = (bounds.end.min(now) - bounds.start).max(1);
        let day = i64::from(DAY);
        let from = match self {
            Self::Before => return None,
            Self::Yesterday => bounds.start - day,
            Self::WeekAgo => bounds.start - 7 * day,
            Self::From(from) => from,
        };
        Some(Window::alone(from, from.saturating_add(length)))
    }
}

impl<'de> Deserialize<'de> for Against {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Against {
    type Err = QueryError;

    /// Parses `before`, `yesterday`, `week_ago`, or the begin of the window in Unix seconds.
    fn from_str(text: &str) -> Result<Self, QueryError> {
        let is_time = |from: &i64| Window::between(*from, from.saturating_add(1)).is_ok();
        match (text, text.parse().ok().filter(is_time)) {
            ("before", _) => Ok(Self::Before),
            ("yesterday", _) => Ok(Self::Yesterday),
            ("week_ago", _) => Ok(Self::WeekAgo),
            (_, Some(from)) => Ok(Self::From(from)),
            (_, None) => Err(QueryError::parameter(
                "against",
                "against must be before, yesterday, week_ago or a time in Unix seconds",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::tiers::Tiers;

    const NOW: i64 = 1_700_003_400; // ten minutes past an hour

    /// How far the slices begin before `NOW`, how long they are together, and the length of one.
    fn slices(against: &str, window: Window) -> Option<(i64, i64, u32)> {
        let against: Against = against.parse().expect("valid");
        let [of, before] = against.of(window, NOW)?.parts(Tiers::default(), NOW);
        assert_eq!((before.from, before.to), (of.from, of.from), "it is alone");
        Some((NOW - of.from, of.seconds(), of.tier.seconds))
    }

    #[test]
    fn a_window_is_widened_to_slices_that_are_kept() {
        let hour = Window::seconds(3_600);
        let day = 86_400;
        assert_eq!(slices("before", hour), None);
        assert_eq!(slices("yesterday", hour), Some((day + 4_200, 5_400, 1_800)));
        let (ago, long, slice) = slices("week_ago", hour).expect("another window");
        assert_eq!((long, slice), (21_600, 21_600));
        assert!((7 * day + 3_600..7 * day + 21_600).contains(&ago), "{ago}");
        let begin = NOW - 7_200;
        let own = slices(&begin.to_string(), hour);
        assert_eq!(
            own,
            Some((7_200, 3_600, 60)),
            "minutes are kept for two hours"
        );
        // Of an hour that is not over, the part that has passed is compared.
        let part = slices("yesterday", Window::HOUR);
        assert_eq!(part, Some((day + 600, 1_800, 1_800)));
        assert!(slices("yesterday", Window::of(NOW + 600, NOW + 700)).is_some());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "tomorrow", "-1", "9999999999999999999", "1..2"] {
            let refused = text.parse::<Against>().expect_err(text);
            assert!(format!("{refused:?}").contains("yesterday"), "{refused:?}");
        }
    }
}
