//! Points in time and durations, as logs write them.

use std::time::Duration;

use crate::line::{Unreadable, digits};

/// The last second that is read as one, in the year 2255. What is above is probably in milliseconds.
const LAST_SECOND: u64 = 9_000_000_000;
/// The longest duration that [`Pulse::record`](tower_pulse::Pulse::record) records as it is.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// A time that the clock can show.
pub(crate) fn second(seconds: u64) -> Result<i64, Unreadable> {
    let second = i64::try_from(seconds).ok();
    second.filter(|_| seconds <= LAST_SECOND).ok_or(Unreadable(
        "the time is after the year 2255: are these milliseconds?",
    ))
}

/// A duration that is recorded as it is.
pub(crate) fn recordable(duration: Duration) -> Result<Duration, Unreadable> {
    match duration <= LONGEST {
        true => Ok(duration),
        false => Err(Unreadable("the request took more than 7 days")),
    }
}

/// A number with or without a fraction, of a unit of so many nanoseconds.
pub(crate) fn decimal(text: &[u8], unit: u64) -> Option<Duration> {
    let at = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match at {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    let places = u32::try_from(fraction.len()).ok()?;
    let parts = 10u64.checked_pow(places)?;
    let part = u128::from(digits(fraction)?) * u128::from(unit) / u128::from(parts);
    let whole = digits(whole)?.checked_mul(unit)?;
    // The part is below one unit.
    Some(Duration::from_nanos(
        whole.checked_add(u64::try_from(part).ok()?)?,
    ))
}

/// `10/Oct/2000:13:55:36 -0700`
pub(crate) fn common_log(text: &[u8]) -> Result<u64, Unreadable> {
    const TIME: Unreadable = Unreadable("the time is not as in 10/Oct/2000:13:55:36 -0700");
    if !has_form(text, b"00/aaa/0000:00:00:00 +0000") {
        return Err(TIME);
    }
    let month = MONTHS.iter().position(|month| text[3..6] == month[..]);
    let month = month.ok_or(TIME)? as i64 + 1;
    let date = (number(&text[7..11]), month, number(&text[..2]));
    let offset = offset(text[21], &text[22..24], &text[24..26]);
    since_epoch(date, &text[12..20], offset).ok_or(TIME)
}

/// `2000-10-10T13:55:36.123-07:00`, with or without a fraction, which is left out; the zone may be `Z`, and lack its
/// colon.
pub(crate) fn rfc3339(text: &[u8]) -> Result<u64, Unreadable> {
    const TIME: Unreadable =
        Unreadable("the time is not as in 2000-10-10T13:55:36.123Z, with a zone");
    let (head, tail) = text.split_at_checked(19).ok_or(TIME)?;
    if !has_form(head, b"0000-00-00T00:00:00") {
        return Err(TIME);
    }
    let zone = tail
        .iter()
        .position(|byte| matches!(byte, b'Z' | b'+' | b'-'));
    let (fraction, zone) = tail.split_at(zone.ok_or(TIME)?);
    if !fraction.is_empty() && (fraction[0] != b'.' || digits(&fraction[1..]).is_none()) {
        return Err(TIME);
    }
    let offset = match zone {
        b"Z" => 0,
        [sign, zone @ ..] if has_form(zone, b"00:00") => offset(*sign, &zone[..2], &zone[3..]),
        [sign, zone @ ..] if has_form(zone, b"0000") => offset(*sign, &zone[..2], &zone[2..]),
        _ => return Err(TIME),
    };
    let date = (
        number(&head[..4]),
        number(&head[5..7]),
        number(&head[8..10]),
    );
    since_epoch(date, &head[11..19], offset).ok_or(TIME)
}

/// Whether a text has a digit where the form has `0`, a letter for `a`, a sign for `+`, and all else as the form.
fn has_form(text: &[u8], form: &[u8]) -> bool {
    text.len() == form.len()
        && text.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'a' => byte.is_ascii_alphabetic(),
            b'+' => matches!(byte, b'+' | b'-'),
            _ => byte == form,
        })
}

/// The number of some digits: [`has_form`] has seen that they are digits.
fn number(text: &[u8]) -> i64 {
    digits(text).unwrap_or(0).cast_signed()
}

/// A zone's seconds to the east.
fn offset(sign: u8, hours: &[u8], minutes: &[u8]) -> i64 {
    let offset = number(hours) * 3_600 + number(minutes) * 60;
    if sign == b'-' { -offset } else { offset }
}

/// The time of a date, year first, and a time of its day in the form `00:00:00`.
fn since_epoch((year, month, day): (i64, i64, i64), of_day: &[u8], offset: i64) -> Option<u64> {
    let [hour, minute, second] = [0, 3, 6].map(|at| number(&of_day[at..at + 2]));
    // 60 is a leap second.
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let of_day = hour * 3_600 + minute * 60 + second;
    let seconds = days_to(year, month, day) * 86_400 + of_day - offset;
    u64::try_from(seconds).ok()
}

/// Days from the Unix epoch to a date. Years are counted from March, so that the leap day is the last of a year.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + day_of_year - 719_468
}
