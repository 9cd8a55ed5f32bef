//! Lines `unix_seconds,context,micros,status`.
//!
//! A line is split from both ends, so that a context may have commas: the time up to the first one, the status behind
//! the last one, the microseconds before that.

use std::time::Duration;

use crate::line::{Line, Unreadable, digits, ending_of};
use crate::time;

/// Reads a line without its end.
pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, Unreadable> {
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
    let micros = digits(micros).ok_or(Unreadable(
        "the microseconds are no whole number: are these seconds?",
    ))?;
    let second = second(seconds).ok_or(Unreadable("the time is no number of seconds"))?;
    Ok(Line {
        second: time::second(second)?,
        context: std::str::from_utf8(context)
            .map_err(|_| Unreadable("the context is not UTF-8"))?,
        duration: Some(time::recordable(Duration::from_micros(micros))?),
        ending: ending_of(status)?,
    })
}

/// The whole seconds of a time that may have a fraction, such as nginx's `$msec`.
fn second(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next());
    let is_fraction = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    fraction.is_none_or(is_fraction).then(|| digits(whole))?
}
