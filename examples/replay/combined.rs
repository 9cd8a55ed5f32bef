//! Lines of the common log format, with what may follow:
//!
//! ```text
//! 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /users/7 HTTP/1.1" 200 2326
//! … 200 2326 "http://example.com/" "Mozilla/5.0"                           nginx's and Apache's combined
//! … 200 2326 "http://example.com/" "Mozilla/5.0" 0.012                     the same with nginx's $request_time
//! … 200 2326 "-" "-" 1 "router@file" "http://127.0.0.1:8080" 12ms          Traefik
//! ```
//!
//! nginx and Apache write the time when the request has ended or begun; Traefik that at which it has begun.

use std::time::Duration;

use crate::line::{Line, Unreadable, ending_of};
use crate::{template, time};

const COMBINED: Unreadable =
    Unreadable("not the combined log format with nginx's $request_time at the end");

/// Reads a line that ends with a duration, and writes its context to `context`.
pub(crate) fn parse<'a>(line: &[u8], context: &'a mut String) -> Result<Line<'a>, Unreadable> {
    let mut parts = Parts(line);
    let head = Head::read(&mut parts, COMBINED)?;
    let mut next = || parts.next().ok_or(COMBINED);
    let (_referer, between, _agent, tail) = (next()?, next()?, next()?, next()?);
    if between != b" " {
        return Err(COMBINED);
    }
    let (began, took) = match parts.next() {
        None => (false, request_time(tail.trim_ascii())?),
        // Traefik's number of the request, router and server.
        Some(_router) => {
            let (between, _server, tail) = (parts.next(), parts.next(), parts.next());
            if between != Some(b" ") || parts.next().is_some() {
                return Err(COMBINED);
            }
            let tail = tail.ok_or(COMBINED)?.trim_ascii();
            let millis = tail.strip_suffix(b"ms").ok_or(COMBINED)?;
            let took = time::decimal(millis, 1_000_000).ok_or(COMBINED)?;
            (true, took)
        }
    };
    let took = time::recordable(took)?;
    let ended = head.at + if began { took } else { Duration::ZERO };
    Ok(Line {
        second: time::second(ended.as_secs())?,
        duration: Some(took),
        ending: ending_of(head.status)?,
        context: head.context(context),
    })
}

/// Reads a line of the common or the combined format, which says no duration, and writes its context to `context`.
pub(crate) fn parse_untimed<'a>(
    line: &[u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    const CLF: Unreadable = Unreadable("not the common or the combined log format");
    let mut parts = Parts(line);
    let head = Head::read(&mut parts, CLF)?;
    if parts.next().is_some() {
        let (between, agent) = (parts.next(), parts.next());
        if between != Some(b" ") || agent.is_none() || parts.next().is_some() {
            return Err(CLF);
        }
    }
    Ok(Line {
        second: time::second(head.at.as_secs())?,
        duration: None,
        ending: ending_of(head.status)?,
        context: head.context(context),
    })
}

/// The parts of a line that all have in common.
struct Head<'a> {
    at: Duration,
    request: &'a [u8],
    status: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(parts: &mut Parts<'a>, form: Unreadable) -> Result<Self, Unreadable> {
        let mut next = || parts.next().ok_or(form);
        let (head, request, numbers) = (next()?, next()?, next()?);
        // The user is chosen by the client and may have brackets: the time is in the last ones.
        let head = head.strip_suffix(b"] ").ok_or(form)?;
        let at = head.iter().rposition(|byte| *byte == b'[').ok_or(form)?;
        let mut numbers = numbers.trim_ascii().split(|byte| *byte == b' ');
        Ok(Self {
            at: time::common_log(&head[at + 1..])?,
            request,
            status: numbers.next().unwrap_or_default(),
        })
    }

    fn context<'c>(&self, context: &'c mut String) -> &'c str {
        template::of_line(self.request, context);
        context
    }
}

/// nginx's `$request_time`: seconds with a fraction. A whole number is more likely to be Apache's `%D`, which is a
/// million times as much.
fn request_time(text: &[u8]) -> Result<Duration, Unreadable> {
    const NUMBER: Unreadable = Unreadable("$request_time is no number of seconds");
    let took = time::decimal(text, 1_000_000_000).ok_or(NUMBER)?;
    match text.contains(&b'.') {
        true => Ok(took),
        false => Err(Unreadable(
            "the duration is a whole number, in nobody knows which unit: nginx's $request_time has a fraction",
        )),
    }
}

/// The parts of a line between quotes that no backslash precedes. nginx writes a quote within a field as `\x22`, Apache
/// as `\"`.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let bytes = self.0;
        if bytes.is_empty() {
            return None;
        }
        let mut at = 0;
        while at < bytes.len() && bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        let at = at.min(bytes.len());
        self.0 = bytes.get(at + 1..).unwrap_or_default();
        Some(&bytes[..at])
    }
}
