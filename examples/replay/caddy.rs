//! Reads lines of Caddy's access log in JSON:
//!
//! ```text
//! {"ts":1795639212.27,"msg":"handled request","request":{"method":"GET","uri":"/users/7",…},"duration":0.0037,"status":200,…}
//! ```
//!
//! Caddy's `log` with `format json` writes such lines. `time_format` is one of `unix_seconds_float` (its default),
//! `unix_milli_float`, `unix_nano`, `iso8601`, `rfc3339` and `rfc3339_nano`; `duration_format` is `seconds`, its
//! default. Lines with other formats are refused, and so are the lines of `http.log.error`, which repeat failed
//! requests.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use super::line::{Ending, Line, Unreadable, ending_of_status};
use super::{template, time};

/// The beginning of the names of Caddy's loggers for errors, whose lines repeat the lines of failed requests.
const CADDY_ERRORS: &str = "http.log.error";

#[derive(serde::Deserialize)]
struct Caddy<'a> {
    /// `http.log.access`, or `http.log.error`.
    #[serde(borrow)]
    logger: Option<Cow<'a, str>>,
    ts: Value,
    #[serde(borrow)]
    request: Request<'a>,
    duration: Value,
    status: u16,
}

#[derive(serde::Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

/// Reads a line, and writes its context to `context`.
pub(crate) fn parse<'a>(line: &[u8], context: &'a mut String) -> Result<Line<'a>, Unreadable> {
    let line: Caddy<'_> = serde_json::from_slice(line)
        .map_err(|_| Unreadable("not a line of Caddy's access log in JSON"))?;
    if (line.logger).is_some_and(|logger| logger.starts_with(CADDY_ERRORS)) {
        return Err(Unreadable(
            "an error of Caddy, whose request has a line of its own",
        ));
    }
    let second = match &line.ts {
        Value::String(text) => time::rfc3339(text.as_bytes())?,
        number => seconds_of(number.as_f64())?,
    };
    // By a setting of Caddy, durations are whole numbers of milliseconds or of nanoseconds. The unit of a whole number
    // is unknown, so even 0 is refused.
    let seconds = line.duration.as_f64().filter(|_| !line.duration.is_u64());
    let took = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let took = took.ok_or(Unreadable(
        "`duration` is no fraction of seconds: set `duration_format` to `seconds`",
    ))?;
    template::write(&line.request.method, &line.request.uri, context);
    Ok(Line {
        second: time::second(second)?,
        duration: Some(time::recordable(took)?),
        ending: match line.status {
            // Caddy up to 2.6 writes 0 if the client went away before the response.
            0 => Ending::GivenUp,
            status => ending_of_status(status)?,
        },
        context,
    })
}

/// The second of Caddy's `ts`, which is in seconds since the epoch or, by a setting, in milliseconds or nanoseconds.
/// The unit is unclear only for times up to 1973 and after the year 2255.
fn seconds_of(ts: Option<f64>) -> Result<u64, Unreadable> {
    let seconds = match ts.filter(|ts| *ts >= 0.0) {
        Some(ts @ 1e11..=9e12) => ts / 1e3,
        Some(ts @ 1e17..=9e18) => ts / 1e9,
        Some(ts) => ts,
        None => return Err(Unreadable("`ts` is no time since 1970")),
    };
    // The cast saturates.
    Ok(seconds as u64)
}
