//! The window with which a window is compared.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::error::QueryError;
use super::window::Window;
use tower_pulse_model::tier::DAY;

/// The window with which a window is compared, rounded outward to slices that are still kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Against {
    /// The window before: of the same length, up to the beginning of the window.
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
    /// The window with which `window` is compared at `now`; `None` for the window before, because the sums of `window`
    /// include the window before.
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

    /// Parses `before`, `yesterday`, `week_ago`, or the start of the window in Unix seconds.
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

    #[test]
    fn the_part_of_an_hour_that_has_passed_is_compared() {
        let now = 1_700_003_400; // ten minutes past an hour
        let (yesterday, day) = (Against::Yesterday.of(Window::HOUR, now), i64::from(DAY));
        assert_eq!(yesterday, Some(Window::alone(now - 600 - day, now - day)));
        let ahead = Window::of(now + 600, now + 700);
        assert!(Against::Yesterday.of(ahead, now).is_some());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "tomorrow", "-1", "9999999999999999999", "1..2"] {
            let refused = text.parse::<Against>().expect_err(text);
            assert!(format!("{refused:?}").contains("yesterday"), "{refused:?}");
        }
    }
}
