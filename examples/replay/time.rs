//! Points in time and durations, as logs write them.

use std::time::Duration;

use chrono::DateTime;

use super::line::{Unreadable, digits};

/// The last second that is accepted, in the year 2255. A larger number is probably in milliseconds.
const LAST_SECOND: u64 = 9_000_000_000;
/// The longest duration that [`Pulse::record`](tower_pulse::Pulse::record) records unchanged.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);

pub(crate) fn second(seconds: u64) -> Result<i64, Unreadable> {
    let second = i64::try_from(seconds).ok();
    second.filter(|_| seconds <= LAST_SECOND).ok_or(Unreadable(
        "the time is after the year 2255: are these milliseconds?",
    ))
}

pub(crate) fn recordable(duration: Duration) -> Result<Duration, Unreadable> {
    match duration <= LONGEST {
        true => Ok(duration),
        false => Err(Unreadable("the request took more than 7 days")),
    }
}

/// A number of seconds with or without a fraction.
pub(crate) fn decimal(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    digits(fraction.as_bytes())?;
    let nanos = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Duration::new(digits(whole.as_bytes())?, nanos))
}

pub(crate) fn common_log(text: &[u8]) -> Result<u64, Unreadable> {
    let read = since_epoch(text, "%d/%b/%Y:%H:%M:%S %z");
    read.ok_or(Unreadable(
        "the time is not as in 10/Oct/2000:13:55:36 -0700",
    ))
}

/// Parses a time such as `2000-10-10T13:55:36.123-07:00`. A fraction is ignored. The zone may be `Z`, and may lack its
/// colon.
pub(crate) fn rfc3339(text: &[u8]) -> Result<u64, Unreadable> {
    let read = since_epoch(text, "%Y-%m-%dT%H:%M:%S%.f%#z");
    read.ok_or(Unreadable(
        "the time is not as in 2000-10-10T13:55:36.123Z, with a zone",
    ))
}

fn since_epoch(text: &[u8], form: &str) -> Option<u64> {
    let time = DateTime::parse_from_str(std::str::from_utf8(text).ok()?, form);
    u64::try_from(time.ok()?.timestamp()).ok()
}
