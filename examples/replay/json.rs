//! Lines of JSON: the access logs of Caddy and of Traefik.
//!
//! ```text
//! {"ts":1795639212.27,"msg":"handled request","request":{"method":"GET","uri":"/users/7",…},"duration":0.0037,"status":200,…}
//! {"DownstreamStatus":200,"Duration":3325417,"RequestMethod":"GET","RequestPath":"/users/7","time":"2026-11-25T20:40:12Z",…}
//! ```

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::line::{Ending, Line, Unreadable, ending_of_status};
use crate::{template, time};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// What the name of the logger begins with to which Caddy tells why a request failed, with all that its own line has.
const CADDY_ERRORS: &str = "http.log.error";

/// What Caddy writes, as far as it is read.
#[derive(serde::Deserialize)]
struct CaddyLine<'a> {
    /// `http.log.access`, or `http.log.error`.
    #[serde(borrow)]
    logger: Option<Cow<'a, str>>,
    #[serde(borrow)]
    ts: Scalar<'a>,
    #[serde(borrow)]
    request: CaddyRequest<'a>,
    #[serde(borrow)]
    duration: Scalar<'a>,
    status: u16,
}

#[derive(serde::Deserialize)]
struct CaddyRequest<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

/// What Traefik writes, as far as it is read. Its configuration may leave fields out.
#[derive(serde::Deserialize)]
struct TraefikLine<'a> {
    #[serde(borrow)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "StartUTC")]
    start_utc: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "StartLocal")]
    start_local: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "RequestMethod")]
    method: Cow<'a, str>,
    #[serde(borrow, rename = "RequestPath")]
    path: Cow<'a, str>,
    /// In nanoseconds.
    #[serde(rename = "Duration")]
    nanos: u64,
    #[serde(rename = "DownstreamStatus")]
    status: Option<u16>,
    #[serde(rename = "OriginStatus")]
    origin_status: Option<u16>,
}

/// A number or a text.
enum Scalar<'a> {
    Whole(u64),
    Fraction(f64),
    Text(Cow<'a, str>),
}

/// Reads a line of Caddy's, and writes its context to `context`.
pub(crate) fn parse_caddy<'a>(
    line: &[u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    let line: CaddyLine<'_> = serde_json::from_slice(line)
        .map_err(|_| Unreadable("not a line of Caddy's access log in JSON"))?;
    if line
        .logger
        .is_some_and(|logger| logger.starts_with(CADDY_ERRORS))
    {
        return Err(Unreadable(
            "an error that Caddy tells beside the line about its request",
        ));
    }
    let second = match line.ts {
        Scalar::Whole(number) => caddy_second(number as f64)?,
        Scalar::Fraction(number) => caddy_second(number)?,
        // `rfc3339` and its like, or `common_log`.
        Scalar::Text(text) => {
            let at = time::rfc3339(text.as_bytes());
            let at = at.or_else(|why| time::common_log(text.as_bytes()).map_err(|_| why))?;
            time::second(at.as_secs())?
        }
    };
    let took = match line.duration {
        Scalar::Fraction(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Scalar::Text(text) => time::go_duration(&text),
        // Also 0: what took less than a millisecond.
        Scalar::Whole(_) => {
            return Err(Unreadable(
                "`duration` is a whole number, of milli- or nanoseconds: let `duration_format` be `seconds` or `string`",
            ));
        }
    };
    let took = took.ok_or(Unreadable("`duration` is no duration"))?;
    template::of(&line.request.method, &line.request.uri, context);
    Ok(Line {
        second,
        duration: Some(time::recordable(took)?),
        ending: ending(line.status)?,
        context,
    })
}

/// The second of Caddy's `ts`: seconds, or by its setting milli- or nanoseconds, since the epoch. What could be two of
/// them is a time in 1973 or before, and after the year 2255.
fn caddy_second(ts: f64) -> Result<i64, Unreadable> {
    let seconds = match ts {
        1e11..=9e12 => ts / 1e3,
        1e17..=9e18 => ts / 1e9,
        _ => ts,
    };
    match seconds >= 0.0 {
        // A cast takes what is too large to the largest.
        true => time::second(seconds as u64),
        false => Err(Unreadable("`ts` is before 1970")),
    }
}

/// Reads a line of Traefik's, and writes its context to `context`.
pub(crate) fn parse_traefik<'a>(
    line: &[u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    let line: TraefikLine<'_> = serde_json::from_slice(line)
        .map_err(|_| Unreadable("not a line of Traefik's access log in JSON"))?;
    let took = time::recordable(Duration::from_nanos(line.nanos))?;
    let began = line.start_utc.or(line.start_local);
    let ended = match (&line.time, began) {
        (Some(ended), _) => time::rfc3339(ended.as_bytes())?,
        (None, Some(began)) => time::rfc3339(began.as_bytes())? + took,
        (None, None) => return Err(Unreadable("neither `time` nor `StartUTC`")),
    };
    let status = line.status.or(line.origin_status);
    template::of(&line.method, &line.path, context);
    Ok(Line {
        second: time::second(ended.as_secs())?,
        duration: Some(took),
        ending: ending(status.ok_or(Unreadable("no `DownstreamStatus`"))?)?,
        context,
    })
}

/// How a request with this status ended. 0 is one to which nothing was answered before the client had gone, in Caddy up
/// to 2.6.
fn ending(status: u16) -> Result<Ending, Unreadable> {
    match status {
        0 => Ok(Ending::GivenUp),
        status => ending_of_status(status),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Fraction(number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }
}
