//! A line of the log, and the formats that it may have.
//!
//! The first line that can be read in any format settles the format of all.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Outcome, RequestOutcome};

use crate::{combined, csv, envoy, json};

/// A request of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The second in which it has ended, in Unix seconds.
    pub(crate) second: i64,
    pub(crate) context: &'a str,
    /// `None` where the format says none.
    pub(crate) duration: Option<Duration>,
    pub(crate) ending: Ending,
}

/// How a request of the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Responded(StatusCode),
    /// The client has gone before the response.
    GivenUp,
}

impl Ending {
    /// As it is recorded.
    pub(crate) fn outcome(self) -> RequestOutcome {
        match self {
            Self::Responded(status) => status.into(),
            Self::GivenUp => Outcome::Cancelled.into(),
        }
    }

    /// Whether the service has failed.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Responded(status) if status.is_server_error())
    }
}

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    /// The combined log format with nginx's `$request_time`, and that of Traefik.
    Combined,
    /// The common and the combined log format, without a duration.
    Untimed,
    Envoy,
    Caddy,
    Traefik,
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) &'static str);

impl Format {
    /// Whether its lines say how long requests took.
    pub(crate) fn has_durations(self) -> bool {
        self != Self::Untimed
    }
}

/// Reads a line without its end. `context` holds the context where it is not a part of the line.
pub(crate) fn parse<'a>(
    format: Format,
    line: &'a [u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    match format {
        Format::Csv => csv::parse(line),
        Format::Combined => combined::parse(line, context),
        Format::Untimed => combined::parse_untimed(line, context),
        Format::Envoy => envoy::parse(line, context),
        Format::Caddy => json::parse_caddy(line, context),
        Format::Traefik => json::parse_traefik(line, context),
    }
}

/// The format in which a line can be read. An error is about the format that its first byte makes likely.
pub(crate) fn format_of(line: &[u8]) -> Result<Format, Unreadable> {
    let formats = match line.first() {
        Some(b'{') if has(line, b"\"RequestMethod\"") => [Format::Traefik, Format::Caddy],
        Some(b'{') => [Format::Caddy, Format::Traefik],
        Some(b'[') => [Format::Envoy, Format::Csv],
        // Of a CSV line, a context may have quotes and brackets.
        _ if csv::parse(line).is_ok() => return Ok(Format::Csv),
        _ if has(line, b"] \"") => [Format::Combined, Format::Untimed],
        _ => [Format::Csv, Format::Combined],
    };
    let read = |format| parse(format, line, &mut String::new()).map(|_| format);
    let [likely, other] = formats.map(read);
    likely.or_else(|why| other.map_err(|_| why))
}

fn has(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// nginx's status of a request that the client has given up.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// What is said of a status that is none.
const STATUS: Unreadable = Unreadable("the status is not 100 to 599");

/// How a request with this status ended.
pub(crate) fn ending_of(text: &[u8]) -> Result<Ending, Unreadable> {
    let status = digits(text).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|_| text.len() == 3);
    ending_of_status(status.ok_or(STATUS)?)
}

/// How a request with this status ended.
pub(crate) fn ending_of_status(status: u16) -> Result<Ending, Unreadable> {
    let status = Some(status).filter(|status| (100..600).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    match status.ok_or(STATUS)? {
        status if status == CLIENT_CLOSED_REQUEST => Ok(Ending::GivenUp),
        status => Ok(Ending::Responded(status)),
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
