//! A line of the log, and the two formats that it may have.
//!
//! The first line that can be read in either format settles the format of all. A line of CSV is split from both
//! ends, so that a context may have commas: the time up to the first one, the status behind the last one, the
//! microseconds before that.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Outcome, RequestOutcome};

use crate::nginx;

/// The last second that is read as one, in the year 2255. What is above is probably in milliseconds.
const LAST_SECOND: u64 = 9_000_000_000;
/// The longest duration that [`Pulse::record`](tower_pulse::Pulse::record) records as it is.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A request of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Unix seconds.
    pub(crate) second: i64,
    pub(crate) context: &'a str,
    pub(crate) duration: Duration,
    pub(crate) outcome: RequestOutcome,
}

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Nginx,
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) &'static str);

/// Reads a line without its end. `context` holds the context where it is not a part of the line.
pub(crate) fn parse<'a>(
    format: Format,
    line: &'a [u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    match format {
        Format::Csv => parse_csv(line),
        Format::Nginx => nginx::parse(line, context),
    }
}

/// The format in which a line can be read.
pub(crate) fn format_of(line: &[u8]) -> Result<Format, Unreadable> {
    match parse_csv(line) {
        Ok(_) => Ok(Format::Csv),
        Err(_) if nginx::parse(line, &mut String::new()).is_ok() => Ok(Format::Nginx),
        Err(unreadable) => Err(unreadable),
    }
}

fn parse_csv(line: &[u8]) -> Result<Line<'_>, Unreadable> {
    const FIELDS: Unreadable = Unreadable("not unix_seconds,context,micros,status");
    let first = line.iter().position(|byte| *byte == b',').ok_or(FIELDS)?;
    let (seconds, fields) = (&line[..first], &line[first + 1..]);
    let last = fields
        .iter()
        .rposition(|byte| *byte == b',')
        .ok_or(FIELDS)?;
    let (fields, status) = (&fields[..last], &fields[last + 1..]);
    let last = fields
        .iter()
        .rposition(|byte| *byte == b',')
        .ok_or(FIELDS)?;
    let (context, micros) = (&fields[..last], &fields[last + 1..]);
    let micros = digits(micros).ok_or(Unreadable("the microseconds are no number"))?;
    Ok(Line {
        second: second(digits(seconds).ok_or(Unreadable("the time is no number of seconds"))?)?,
        context: std::str::from_utf8(context)
            .map_err(|_| Unreadable("the context is not UTF-8"))?,
        duration: duration(micros)?,
        outcome: outcome_of(status)?,
    })
}

/// A time that the clock can show.
pub(crate) fn second(seconds: u64) -> Result<i64, Unreadable> {
    match i64::try_from(seconds) {
        Ok(second) if seconds <= LAST_SECOND => Ok(second),
        _ => Err(Unreadable(
            "the time is after the year 2255: are these milliseconds?",
        )),
    }
}

/// A duration that is recorded as it is.
pub(crate) fn duration(micros: u64) -> Result<Duration, Unreadable> {
    let duration = Duration::from_micros(micros);
    match duration <= LONGEST {
        true => Ok(duration),
        false => Err(Unreadable("the request took more than 7 days")),
    }
}

/// nginx's status of a request that the client has given up.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// How a request with this status ended.
pub(crate) fn outcome_of(text: &[u8]) -> Result<RequestOutcome, Unreadable> {
    let status = digits(text).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (100..600).contains(status) && text.len() == 3);
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    match status.ok_or(Unreadable("the status is not 100 to 599"))? {
        status if status == CLIENT_CLOSED_REQUEST => Ok(Outcome::Cancelled.into()),
        status => Ok(status.into()),
    }
}

/// A number without a sign.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let number = number.checked_mul(10)?;
        (digit < 10).then(|| number.checked_add(digit.into()))?
    })
}
