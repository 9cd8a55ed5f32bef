//! A line of the log, and the formats that it may have.
//!
//! The first line that can be read in any format decides the format of all lines. A line of another format, or with an
//! impossible time, duration or status, is not recorded. The formats are tested with logs of nginx 1.22 and Caddy 2.6
//! and 2.11.
//!
//! | Log | Its time | Its duration |
//! |---|---|---|
//! | CSV, as below | Unix seconds, with or without a fraction | whole microseconds |
//! | nginx: combined, with `$request_time` (`combined`) | when the request ended, in any zone | seconds with a fraction |
//! | Caddy: JSON (`caddy`) | `ts`: when the request ended | `duration`: seconds |
//! | common or combined, of Apache, nginx and others (`combined`) | begin or end: the log does not say which | none: only counted (`counts`) |
//!
//! A line of CSV is `unix_seconds,context,micros,status`. The context may have commas, the duration is at most 7 days,
//! and the status is 100 to 599. The best contexts are method and route template:
//!
//! ```text
//! 1700000000,GET /users/{id},1250,200
//! 1700000000.123,POST /orders,48300,503
//! ```
//!
//! nginx writes CSV with this configuration, in which a `map` makes contexts of `$uri`:
//!
//! ```text
//! map $request_time $request_micros { "~^(?<s>\d+)\.(?<f>\d+)$" "${s}${f}000"; }
//! map $uri $page { "~^/users/\d+$" "/users/{id}"; default "/other"; }
//! map $request_method $context { "" "<unmatched>"; default "$request_method $page"; }
//! log_format pulse '$msec,$context,$request_micros,$status';
//! ```
//!
//! Other logs have no route templates: `template` makes a context of the path. A request counts as cancelled, not as
//! 4xx, if the client went away before the response. Its status is 499, 000 (nginx) or 0 (Caddy up to 2.6).

use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Outcome, RequestOutcome};

use super::{caddy, combined, time};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The time of the line, in Unix seconds.
    pub(crate) second: i64,
    pub(crate) context: &'a str,
    /// `None` if the format has no durations.
    pub(crate) duration: Option<Duration>,
    pub(crate) ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Responded(StatusCode),
    /// The client went away before the response.
    GivenUp,
}

impl Ending {
    pub(crate) fn outcome(self) -> RequestOutcome {
        match self {
            Self::Responded(status) => status.into(),
            Self::GivenUp => Outcome::Cancelled.into(),
        }
    }

    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Responded(status) if status.is_server_error())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    /// The combined log format with nginx's `$request_time`.
    Combined,
    /// The common and the combined log format, without a duration.
    Untimed,
    Caddy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) &'static str);

impl Format {
    pub(crate) fn has_durations(self) -> bool {
        self != Self::Untimed
    }
}

/// Reads a line without its line break. If the line does not contain the context, the context is written to `context`.
pub(crate) fn parse<'a>(
    format: Format,
    line: &'a [u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    match format {
        Format::Csv => parse_csv(line),
        Format::Combined | Format::Untimed => {
            combined::parse(line, format.has_durations(), context)
        }
        Format::Caddy => caddy::parse(line, context),
    }
}

/// The format in which a line can be read. An error is about the format that the line seems to have.
pub(crate) fn format_of(line: &[u8]) -> Result<Format, Unreadable> {
    let read = |format| parse(format, line, &mut String::new()).map(|_| format);
    match line.first() {
        Some(b'{') => read(Format::Caddy),
        // The context of a CSV line may have quotes and brackets.
        _ if line.windows(3).any(|part| part == b"] \"") => read(Format::Csv)
            .or_else(|_| read(Format::Combined))
            .or_else(|why| read(Format::Untimed).map_err(|_| why)),
        _ => read(Format::Csv),
    }
}

/// Reads `unix_seconds,context,micros,status`. The line is split from both ends, so that a context may have commas.
fn parse_csv(line: &[u8]) -> Result<Line<'_>, Unreadable> {
    const FIELDS: Unreadable = Unreadable("not unix_seconds,context,micros,status");
    let line = std::str::from_utf8(line).map_err(|_| Unreadable("the context is not UTF-8"))?;
    let (seconds, fields) = line.split_once(',').ok_or(FIELDS)?;
    let (fields, status) = fields.rsplit_once(',').ok_or(FIELDS)?;
    let (context, micros) = fields.rsplit_once(',').ok_or(FIELDS)?;
    let micros = digits(micros.as_bytes()).ok_or(Unreadable(
        "the microseconds are no whole number: are these seconds?",
    ))?;
    // nginx's `$msec` has a fraction.
    let second = time::decimal(seconds.as_bytes());
    let second = second.ok_or(Unreadable(
        "the time is no number of seconds: are these milliseconds?",
    ))?;
    Ok(Line {
        second: time::second(second.as_secs())?,
        context,
        duration: Some(time::recordable(Duration::from_micros(micros))?),
        ending: ending_of(status.as_bytes())?,
    })
}

/// nginx's status if the client went away before the response.
const CLIENT_CLOSED_REQUEST: u16 = 499;

const STATUS: Unreadable = Unreadable("the status is not 100 to 599");

pub(crate) fn ending_of(text: &[u8]) -> Result<Ending, Unreadable> {
    let status = digits(text).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|_| text.len() == 3);
    ending_of_status(status.ok_or(STATUS)?)
}

pub(crate) fn ending_of_status(status: u16) -> Result<Ending, Unreadable> {
    match StatusCode::from_u16(status).map_err(|_| STATUS)? {
        status if status == CLIENT_CLOSED_REQUEST => Ok(Ending::GivenUp),
        status if status.as_u16() < 600 => Ok(Ending::Responded(status)),
        _ => Err(STATUS),
    }
}

/// A number without a sign.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    let are_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| are_digits);
    text?.parse().ok()
}
