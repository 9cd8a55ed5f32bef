//! Reads lines of the common log format, and of the formats that extend it:
//!
//! ```text
//! 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /users/7 HTTP/1.1" 200 2326
//! … 200 2326 "http://example.com/" "Mozilla/5.0"                           nginx's and Apache's combined
//! … 200 2326 "http://example.com/" "Mozilla/5.0" "10.0.0.9"                nginx's main
//! … 200 2326 "http://example.com/" "Mozilla/5.0" 0.012                     with nginx's $request_time
//! … 200 2326 "http://example.com/" "Mozilla/5.0" "-" rt=0.012 ut="0.010"   the same, with a name
//! ```
//!
//! nginx writes the time at which the request ended, and Apache the time at which it began. The configuration of nginx:
//!
//! ```text
//! log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
//!                  '"$http_referer" "$http_user_agent" $request_time';
//! access_log /var/log/nginx/access.log timed;
//! ```
//!
//! `$request_time` may also follow the size. Other fields may follow the agent if they are in quotes or have a name,
//! such as `ut="$upstream_response_time"`. If another field has neither quotes nor a name, name the time:
//! `rt=$request_time` or `request_time=$request_time`.
//!
//! `$request_time` includes the time that the client takes to send the request and to read the response. nginx writes
//! seconds with three decimals. A number without decimals at the end of a line, such as Apache's `%D` or `%T`, is
//! refused, because its unit is unknown.

use std::time::Duration;

use super::line::{Ending, Line, Unreadable, ending_of};
use super::{template, time};

const NOT_COMBINED: Unreadable =
    Unreadable("not the combined log format with nginx's $request_time");
const NOT_CLF: Unreadable = Unreadable("not the common or the combined log format");
/// The names of fields that hold nginx's `$request_time`.
const TIME_NAMES: [&[u8]; 2] = [b"rt", b"request_time"];

/// Reads a line, with its duration if `is_timed`, and writes its context to `context`.
pub(crate) fn parse<'a>(
    line: &[u8],
    is_timed: bool,
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    let error = if is_timed { NOT_COMBINED } else { NOT_CLF };
    let mut parts = BetweenQuotes(line);
    let mut next = || parts.next().ok_or(error);
    let (head, request) = (next()?, next()?);
    // The client chooses the user name, which may contain brackets. The time is in the last brackets.
    let head = head.strip_suffix(b"] ").ok_or(error)?;
    let at = head.iter().rposition(|byte| *byte == b'[').ok_or(error)?;
    let second = time::second(time::common_log(&head[at + 1..])?)?;
    let fields = Fields::read(parts);
    // A line with a referer, but no agent, has none of the formats.
    if fields.quoted == 1 {
        return Err(error);
    }
    let duration = match is_timed {
        true => Some(time::recordable(fields.duration()?)?),
        false if fields.bare > 0 || fields.time.is_some() => return Err(NOT_CLF),
        false => None,
    };
    template::write_line(request, context);
    Ok(Line {
        second,
        duration,
        // nginx writes 000 if no response had begun.
        ending: match fields.status {
            b"000" => Ending::GivenUp,
            status => ending_of(status)?,
        },
        context,
    })
}

#[derive(Default)]
struct Fields<'a> {
    status: &'a [u8],
    /// The number of fields in quotes: referer, agent, and others without a name.
    quoted: usize,
    /// The number of fields without quotes or a name, besides status and size. `last` is the last of these fields.
    bare: usize,
    last: &'a [u8],
    /// The value of a field with one of the [`TIME_NAMES`].
    time: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads the remaining parts of a line. The first part is outside of quotes.
    fn read(parts: BetweenQuotes<'a>) -> Self {
        let mut fields = Self::default();
        // The name of a field whose value is in quotes.
        let mut name: Option<&[u8]> = None;
        for (at, part) in parts.enumerate() {
            if at % 2 == 1 {
                match name.take() {
                    Some(name) => fields.add_named(name, part),
                    None => fields.quoted += 1,
                }
                continue;
            }
            let words = part.split(|byte| *byte == b' ');
            let mut words = words.filter(|word| !word.is_empty());
            if at == 0 {
                fields.status = words.next().unwrap_or_default();
                let _size = words.next();
            }
            for word in words {
                match word.iter().position(|byte| *byte == b'=') {
                    Some(end) if end + 1 == word.len() => name = Some(&word[..end]),
                    Some(end) => fields.add_named(&word[..end], &word[end + 1..]),
                    None => (fields.bare, fields.last) = (fields.bare + 1, word),
                }
            }
        }
        fields
    }

    fn add_named(&mut self, name: &[u8], value: &'a [u8]) {
        if TIME_NAMES.contains(&name) {
            self.time = Some(value);
        }
    }

    fn duration(&self) -> Result<Duration, Unreadable> {
        match (self.time, self.bare) {
            (Some(time), _) => request_time(time),
            (None, 0) => Err(NOT_COMBINED),
            (None, 1) => request_time(self.last),
            _ => Err(Unreadable(
                "several fields are without quotes, and none has a name: log nginx's time as `rt=$request_time`",
            )),
        }
    }
}

/// nginx's `$request_time`: seconds with a fraction. A whole number is more likely to be Apache's `%D`, which is in
/// microseconds.
fn request_time(text: &[u8]) -> Result<Duration, Unreadable> {
    const NUMBER: Unreadable = Unreadable("$request_time is no number of seconds");
    let took = time::decimal(text).ok_or(NUMBER)?;
    match text.contains(&b'.') {
        true => Ok(took),
        false => Err(Unreadable(
            "the duration is a whole number, whose unit is unknown: nginx's $request_time has a fraction",
        )),
    }
}

/// The parts of a line between its quotes. A quote after a backslash does not end a part. nginx writes a quote within a
/// field as `\x22`, Apache as `\"`.
struct BetweenQuotes<'a>(&'a [u8]);

impl<'a> Iterator for BetweenQuotes<'a> {
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
