//! The window that a question is about.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::error::QueryError;
use tower_pulse_model::window::{NAMED, Window as Slices};

/// The latest time that is accepted: the end of the year 9999.
const YEAR_9999: i64 = 253_402_300_799;

/// A span of time that a question is about. It is rounded outward to the slices that are kept: minutes for two hours,
/// half hours for two days, six hours for two weeks, days for as long as
/// `history` asks for.
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
pub struct Window(Slices);

impl Window {
    /// The current hour, UTC.
    pub const HOUR: Self = Self(Slices::HoursAgo(0));

    /// The hour before the current one.
    pub const LAST_HOUR: Self = Self(Slices::HoursAgo(1));

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

    /// The time before now: at least a second of it.
    pub const fn last(length: Duration) -> Self {
        let seconds = length.as_secs();
        let seconds = match seconds {
            0 => 1,
            _ if seconds > YEAR_9999 as u64 => YEAR_9999,
            seconds => seconds as i64,
        };
        Self(Slices::Last(seconds))
    }

    /// The time between two moments, in Unix seconds, without `to`.
    ///
    /// # Errors
    /// `from` is not before `to`, or one of them is negative or after the year 9999.
    pub fn between(from: i64, to: i64) -> Result<Self, QueryError> {
        for (name, time) in [("from", from), ("to", to)] {
            if !(0..=YEAR_9999).contains(&time) {
                let message = format!("{name} must be a time in Unix seconds");
                return Err(QueryError::parameter(name, message));
            }
        }
        if from >= to {
            return Err(QueryError::parameter("from", "from must be before to"));
        }
        Ok(Self(Slices::Between(from, to)))
    }

    /// The window of the records.
    pub fn slices(self) -> Slices {
        self.0
    }

    /// Whether it is one of the hours of which other programs have statistics too.
    pub fn is_hour(self) -> bool {
        matches!(self.0, Slices::HoursAgo(_))
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

    /// Reads one of [`NAMES`](Self::NAMES), or two moments such as `1700000000..1700003600`.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        let moments = name.split_once("..");
        let moments = moments.and_then(|(from, to)| from.parse().ok().zip(to.parse().ok()));
        if let Some((from, to)) = moments {
            return Self::between(from, to);
        }
        let named = NAMED.iter().find(|(other, _)| *other == name);
        match name {
            "hour" => Ok(Self::HOUR),
            "last_hour" => Ok(Self::LAST_HOUR),
            _ => named
                .map(|(_, seconds)| Self(Slices::Last(*seconds)))
                .ok_or_else(|| {
                    let names = Self::NAMES.join(", ");
                    QueryError::parameter("window", format!("window must be one of {names}"))
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_window() {
        for name in Window::NAMES {
            let window: Window = name.parse().expect("it is a name");
            let hours = ["hour", "last_hour"].contains(&name);
            assert_eq!(window.is_hour(), hours, "{name}");
        }
        assert_eq!(Window::NAMES.len(), NAMED.len() + 2);
        let error = "2h".parse::<Window>().expect_err("it is none").to_string();
        assert!(error.contains("24h, 7d, 30d, 90d"), "{error}");
    }

    #[test]
    fn a_window_has_a_length() {
        let seconds = |seconds| Window::last(Duration::from_secs(seconds)).slices();
        assert_eq!(seconds(0), Slices::Last(1));
        assert_eq!(seconds(u64::MAX), Slices::Last(YEAR_9999));
        for (from, to, field) in [
            (5, 5, "from"),
            (6, 5, "from"),
            (-1, 5, "from"),
            (1, i64::MAX, "to"),
        ] {
            let error = Window::between(from, to).expect_err("it is refused");
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }
}
