//! Lines of Envoy's default format:
//!
//! ```text
//! [2026-11-25T20:40:12.251Z] "GET /users/7 HTTP/1.1" 200 - 0 6 18 17 "-" "curl/7.88.1" "a77c…" "shop" "10.0.0.2:80"
//! ```
//!
//! The time is that at which the request has begun; the duration is the third number after the flags, in milliseconds.
//! Envoy escapes nothing, and a client can write quotes to its path and its agent. But a path has no spaces: all that is
//! read here stands between the first ones, before what a client can fake.

use crate::line::{Ending, Line, Unreadable, ending_of};
use crate::{template, time};

/// Reads a line without its end, and writes its context to `context`.
pub(crate) fn parse<'a>(line: &[u8], context: &'a mut String) -> Result<Line<'a>, Unreadable> {
    const FORMAT: Unreadable = Unreadable("not Envoy's default format");
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next().ok_or(FORMAT);
    let (began, method, path, protocol) = (next()?, next()?, next()?, next()?);
    let (status, _flags, _received, _sent, millis) = (next()?, next()?, next()?, next()?, next()?);
    let (upstream, forwarded) = (next()?, next()?);
    let began = began
        .strip_prefix(b"[")
        .and_then(|at| at.strip_suffix(b"]"));
    let method = method.strip_prefix(b"\"").ok_or(FORMAT)?;
    let protocol = protocol.strip_suffix(b"\"").ok_or(FORMAT)?;
    if upstream.starts_with(b"\"") || !forwarded.starts_with(b"\"") {
        return Err(FORMAT);
    }
    if protocol == b"-" {
        return Err(Unreadable("a connection, and no request"));
    }
    let began = time::rfc3339(began.ok_or(FORMAT)?)?;
    let took = time::decimal(millis, 1_000_000);
    let took = took.ok_or(Unreadable("the milliseconds are no number"))?;
    let took = time::recordable(took)?;
    let text = |part| std::str::from_utf8(part).unwrap_or_default();
    template::of(text(method), text(path), context);
    Ok(Line {
        second: time::second((began + took).as_secs())?,
        duration: Some(took),
        // No response had begun: the client has gone.
        ending: match status {
            b"0" => Ending::GivenUp,
            _ => ending_of(status)?,
        },
        context,
    })
}
