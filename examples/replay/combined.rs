//! Lines of the common log format, with what may follow:
//!
//! ```text
//! 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /users/7 HTTP/1.1" 200 2326
//! … 200 2326 "http://example.com/" "Mozilla/5.0"                           nginx's and Apache's combined
//! … 200 2326 "http://example.com/" "Mozilla/5.0" "10.0.0.9"                nginx's main
//! … 200 2326 "http://example.com/" "Mozilla/5.0" 0.012                     with nginx's $request_time
//! … 200 2326 "http://example.com/" "Mozilla/5.0" "-" rt=0.012 ut="0.010"   the same by its name
//! … 200 2326 "-" "-" 1 "router@file" "http://127.0.0.1:8080" 12ms          Traefik
//! ```
//!
//! nginx and Apache write the time when the request has ended or begun; Traefik that at which it has begun.

use std::time::Duration;

use crate::line::{Ending, Line, Unreadable, digits, ending_of};
use crate::{template, time};

const COMBINED: Unreadable = Unreadable("not the combined log format with nginx's $request_time");
/// The names of fields that hold nginx's `$request_time`.
const TIME_NAMES: [&[u8]; 2] = [b"rt", b"request_time"];

/// Reads a line that has a duration, and writes its context to `context`.
pub(crate) fn parse<'a>(line: &[u8], context: &'a mut String) -> Result<Line<'a>, Unreadable> {
    let (head, fields) = read(line, COMBINED)?;
    let (began, took) = fields.duration()?;
    let took = time::recordable(took)?;
    let ended = head.at + if began { took } else { Duration::ZERO };
    Ok(Line {
        second: time::second(ended.as_secs())?,
        duration: Some(took),
        ending: fields.ending()?,
        context: head.context(context),
    })
}

/// Reads a line that says no duration, and writes its context to `context`.
pub(crate) fn parse_untimed<'a>(
    line: &[u8],
    context: &'a mut String,
) -> Result<Line<'a>, Unreadable> {
    const CLF: Unreadable = Unreadable("not the common or the combined log format");
    let (head, fields) = read(line, CLF)?;
    if fields.bare > 0 || fields.time.is_some() {
        return Err(CLF);
    }
    Ok(Line {
        second: time::second(head.at.as_secs())?,
        duration: None,
        ending: fields.ending()?,
        context: head.context(context),
    })
}

/// The parts of a line in the form that an error names.
fn read(line: &[u8], form: Unreadable) -> Result<(Head<'_>, Fields<'_>), Unreadable> {
    let mut parts = Parts(line);
    let head = Head::read(&mut parts, form)?;
    let fields = Fields::read(parts);
    // A referer without an agent.
    match fields.quoted {
        1 => Err(form),
        _ => Ok((head, fields)),
    }
}

/// What all lines begin with.
struct Head<'a> {
    at: Duration,
    request: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(parts: &mut Parts<'a>, form: Unreadable) -> Result<Self, Unreadable> {
        let mut next = || parts.next().ok_or(form);
        let (head, request) = (next()?, next()?);
        // The user is chosen by the client and may have brackets: the time is in the last ones.
        let head = head.strip_suffix(b"] ").ok_or(form)?;
        let at = head.iter().rposition(|byte| *byte == b'[').ok_or(form)?;
        Ok(Self {
            at: time::common_log(&head[at + 1..])?,
            request,
        })
    }

    fn context<'c>(&self, context: &'c mut String) -> &'c str {
        template::of_line(self.request, context);
        context
    }
}

/// The fields behind the request: status and size, and those that an operator has added.
#[derive(Default)]
struct Fields<'a> {
    status: &'a [u8],
    /// Number of fields in quotes: referer, agent, and others without a name.
    quoted: usize,
    /// Number of fields without quotes and without a name, but for status and size; the first and the last of them.
    bare: usize,
    first: &'a [u8],
    last: &'a [u8],
    /// The value of a field that is named as `$request_time`.
    time: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads parts that begin outside of quotes.
    fn read(parts: Parts<'a>) -> Self {
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
                    None => fields.add_bare(word),
                }
            }
        }
        fields
    }

    fn add_bare(&mut self, word: &'a [u8]) {
        if self.bare == 0 {
            self.first = word;
        }
        self.last = word;
        self.bare += 1;
    }

    fn add_named(&mut self, name: &[u8], value: &'a [u8]) {
        if TIME_NAMES.contains(&name) {
            self.time = Some(value);
        }
    }

    /// nginx writes 000 where no response had begun.
    fn ending(&self) -> Result<Ending, Unreadable> {
        match self.status {
            b"000" => Ok(Ending::GivenUp),
            status => ending_of(status),
        }
    }

    /// Whether the time of the line is that at which the request has begun, and how long it took.
    fn duration(&self) -> Result<(bool, Duration), Unreadable> {
        match (self.time, self.bare) {
            (Some(time), _) => Ok((false, request_time(time)?)),
            (None, 0) => Err(COMBINED),
            (None, 1) => Ok((false, request_time(self.last)?)),
            // Traefik's number of the request, router, server, and milliseconds.
            (None, 2) if self.quoted == 4 && digits(self.first).is_some() => {
                let millis = self.last.strip_suffix(b"ms").ok_or(COMBINED)?;
                let took = time::decimal(millis, 1_000_000).ok_or(COMBINED)?;
                Ok((true, took))
            }
            _ => Err(Unreadable(
                "several fields are without quotes, and none has a name: call nginx's $request_time `rt=$request_time`",
            )),
        }
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
