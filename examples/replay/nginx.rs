//! Lines of nginx's combined format with `$request_time` at the end:
//!
//! ```text
//! log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
//!                  '"$http_referer" "$http_user_agent" $request_time';
//! ```
//!
//! The context is the method and the path without its query. A log has no route templates, so each segment of
//! the path that looks like an id becomes `{id}`: a number, a UUID, 16 or more hexadecimal digits. A request
//! without a method and a path, as of a port scanner, is `<unmatched>`.

use http::Method;

use crate::line::{Line, Unreadable, digits, duration, outcome_of, second};

/// Hexadecimal digits from which on a segment is an id and not a word.
const LONG_HEX: usize = 16;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Reads a line without its end, and writes its context to `context`.
pub(crate) fn parse<'a>(line: &[u8], context: &'a mut String) -> Result<Line<'a>, Unreadable> {
    const FORMAT: Unreadable =
        Unreadable("not nginx's combined format with $request_time at the end");
    // nginx writes a quote within a field as \x22, Apache as \".
    let mut parts = Parts(line);
    let mut next = || parts.next().ok_or(FORMAT);
    let (head, request, numbers) = (next()?, next()?, next()?);
    let (_referer, between, _agent, tail) = (next()?, next()?, next()?, next()?);
    if parts.next().is_some() || between != b" " {
        return Err(FORMAT);
    }
    // The user is chosen by the client and may have brackets: the time is in the last ones.
    let head = head.strip_suffix(b"] ").ok_or(FORMAT)?;
    let at = head.iter().rposition(|byte| *byte == b'[').ok_or(FORMAT)?;
    let second = time(&head[at + 1..])?;
    let numbers = numbers.trim_ascii();
    let status = numbers
        .split(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    let micros = micros(tail.trim_ascii()).ok_or(Unreadable("$request_time is no number"))?;
    context.clear();
    if template(request, context).is_none() {
        context.clear();
        context.push_str("<unmatched>");
    }
    Ok(Line {
        second,
        duration: duration(micros)?,
        outcome: outcome_of(status)?,
        context,
    })
}

/// The parts of a line between quotes that no backslash precedes.
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

/// Seconds with a fraction, in microseconds.
fn micros(text: &[u8]) -> Option<u64> {
    let at = text.iter().position(|byte| *byte == b'.');
    let (seconds, fraction) = match at {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    let scale = 10u64.pow(6u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    let micros = digits(seconds)?.checked_mul(1_000_000)?;
    micros.checked_add(digits(fraction)? * scale)
}

/// `10/Oct/2000:13:55:36 -0700` in Unix seconds.
fn time(text: &[u8]) -> Result<i64, Unreadable> {
    const TIME: Unreadable = Unreadable("the time is not as in 10/Oct/2000:13:55:36 -0700");
    let form = b"00/aaa/0000:00:00:00 +0000";
    let has_form = text.len() == form.len()
        && text.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            b'a' => byte.is_ascii_alphabetic(),
            b'+' => matches!(byte, b'+' | b'-'),
            _ => byte == form,
        });
    if !has_form {
        return Err(TIME);
    }
    // Digits, as the form says.
    let number = |from: usize, to: usize| digits(&text[from..to]).unwrap_or(0).cast_signed();
    let month = MONTHS.iter().position(|month| text[3..6] == month[..]);
    let month = month.ok_or(TIME)? as i64 + 1;
    let (day, year) = (number(0, 2), number(7, 11));
    let (hour, minute, of_minute) = (number(12, 14), number(15, 17), number(18, 20));
    // 60 is a leap second.
    if !(1..=31).contains(&day) || hour > 23 || minute > 59 || of_minute > 60 {
        return Err(TIME);
    }
    let offset = number(22, 24) * 3_600 + number(24, 26) * 60;
    let offset = if text[21] == b'-' { -offset } else { offset };
    let of_day = hour * 3_600 + minute * 60 + of_minute;
    let seconds = days_to(year, month, day) * 86_400 + of_day - offset;
    second(u64::try_from(seconds).map_err(|_| TIME)?)
}

/// Days from the Unix epoch to a date. Years are counted from March, so that the leap day is the last of a year.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + day_of_year - 719_468
}

/// Writes method and path of a request line to `context`, with `{id}` for segments that look like one.
fn template(request: &[u8], context: &mut String) -> Option<()> {
    let request = std::str::from_utf8(request).ok()?;
    let (method, target) = request.split_once(' ')?;
    let target = target.split(' ').next()?;
    // A proxy's request has the whole URL.
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => &rest[rest.find('/')?..],
        _ => target,
    };
    let path = path.split(['?', '#']).next()?;
    if !path.starts_with('/') {
        return None;
    }
    context.push_str(folded(method)?);
    context.push(' ');
    for segment in path[1..].split('/') {
        context.push('/');
        context.push_str(if is_id(segment.as_bytes()) {
            "{id}"
        } else {
            segment
        });
    }
    Some(())
}

/// One of HTTP's nine methods or `OTHER`, as the layer names it; `None` for what is no method.
fn folded(method: &str) -> Option<&str> {
    const METHODS: [Method; 9] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::CONNECT,
        Method::TRACE,
    ];
    if METHODS.iter().any(|known| known == method) {
        return Some(method);
    }
    Method::from_bytes(method.as_bytes()).ok().map(|_| "OTHER")
}

fn is_id(segment: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let is_number = !segment.is_empty() && segment.iter().all(u8::is_ascii_digit);
    let is_uuid = || {
        let parts = segment.split(|byte| *byte == b'-');
        let lens = [8, 4, 4, 4, 12];
        segment.len() == 36
            && parts.clone().map(<[u8]>::len).eq(lens)
            && parts.into_iter().all(is_hex)
    };
    is_number || (segment.len() >= LONG_HEX && is_hex(segment)) || is_uuid()
}
