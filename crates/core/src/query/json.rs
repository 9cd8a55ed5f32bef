//! Answers as JSON. Reads the question from a text, and bounds the size of an answer, in points (values of series) and
//! in bytes. All answers to one request are a *screen*, which has bounds too.

use std::future::ready;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};

use super::answers::{self, Question, Reader};
use super::error::{MAX_POINTS, QueryError};
use super::params::{self, NO_PARAMETER};
use super::question::named;
use super::reader::source;
use crate::task::{BoxFuture, boxed};
use tower_pulse_model::context::is_hidden;

/// The maximum size of an answer in bytes. An answer of 1,000 rows with the longest names takes three quarters of this
/// size.
const MAX_BYTES: usize = 4 << 20;

/// The maximum number of points in all answers of a screen.
const MAX_SCREEN_POINTS: usize = 4 * MAX_POINTS;

/// The maximum size of all answers of a screen, in bytes.
const MAX_SCREEN_BYTES: usize = 2 * MAX_BYTES;

/// The parameter that makes an answer smaller, and how to use it.
pub type Less = (&'static str, &'static str);

/// An answer as a JSON object.
#[derive(Debug)]
pub struct Written {
    /// The object without `as_of`.
    pub json: Vec<u8>,
    /// The time up to which the answer includes all samples, in Unix seconds, if known.
    pub as_of: Option<i64>,
}

impl Written {
    /// The object with `as_of`.
    pub fn whole(mut self) -> Vec<u8> {
        if self.json.pop() == Some(b'}') {
            let as_of = self.as_of.map_or("null".to_owned(), |at| at.to_string());
            let end = format!(",\"as_of\":{as_of}}}");
            self.json.extend_from_slice(end.as_bytes());
        }
        self.json
    }
}

/// A future that writes an answer, or refuses the question.
pub type Writing<'a> = BoxFuture<'a, Result<Written, QueryError>>;

/// Answers a question with the parameters of a URL.
pub type Endpoint = for<'a> fn(&'a Reader, Option<&'a str>, &'a ScreenSize) -> Writing<'a>;

/// Answers a question such as `paths?window=1h`.
pub fn ask<'a>(reader: &'a Reader, question: &'a str, screen: &'a ScreenSize) -> Writing<'a> {
    let (name, query) = match question.split_once('?') {
        Some((name, query)) => (name, Some(query)),
        None => (question, None),
    };
    match named(name, query) {
        Some(endpoint) => endpoint(reader, query, screen),
        None => Box::pin(async { Err(QueryError::NotFound("no endpoint has this path")) }),
    }
}

pub(super) fn answer<'a, Q: Question>(
    reader: &'a Reader,
    query: Option<&'a str>,
    screen: &'a ScreenSize,
) -> Writing<'a> {
    let source = source(reader);
    let question: Q = match params::parse(query, source.clock.now_seconds()) {
        Ok(question) => question,
        Err(error) => return Box::pin(ready(Err(or_less(error, Q::LESS)))),
    };
    let writing = boxed(async move {
        let answer = question.answer(source).await?;
        screen.add(&screen.points, Q::points(&answer), MAX_SCREEN_POINTS)?;
        screen.to_json(&answer, Q::LESS)
    });
    with_as_of(reader, writing)
}

// This function is compiled once, because it does not depend on the type of the question.
fn with_as_of<'a>(
    reader: &'a Reader,
    writing: BoxFuture<'a, Result<Vec<u8>, QueryError>>,
) -> Writing<'a> {
    Box::pin(async move {
        let answer = reader.with_as_of(writing).await?;
        Ok(Written {
            json: answer.value,
            as_of: Some(answer.as_of),
        })
    })
}

/// If the question accepts no parameters, adds to the error how to ask instead. For example, the error of
/// `api/rankings?limit=5` says that `name` chooses one ranking, because only a question with `name` accepts `limit`.
fn or_less(error: QueryError, (_, how): Less) -> QueryError {
    match error {
        QueryError::Parameter { name, message } if message.ends_with(NO_PARAMETER) => {
            QueryError::parameter(name, format!("{message}: {how}"))
        }
        error => error,
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HealthQuery {
    part: Part,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    #[default]
    All,
    Status,
}

/// Answers with the health of this process, even if the store cannot be read.
pub(super) fn health<'a>(
    reader: &'a Reader,
    query: Option<&'a str>,
    screen: &'a ScreenSize,
) -> Writing<'a> {
    Box::pin(async move {
        let (source, less) = (source(reader), ("part", "ask for part=status"));
        let as_of = source.as_of();
        let (json, as_of) = match params::parse::<HealthQuery>(query, 0)?.part {
            Part::All => {
                let (health, as_of) = tokio::join!(answers::health(source), as_of);
                (screen.to_json(&health, less), as_of)
            }
            Part::Status => {
                let (status, as_of) = tokio::join!(answers::status(source), as_of);
                (screen.to_json(&status, less), as_of)
            }
        };
        Ok(Written {
            json: json?,
            as_of: as_of.ok(),
        })
    })
}

/// The total size of the answers to one request.
#[derive(Default)]
pub struct ScreenSize {
    points: AtomicUsize,
    bytes: AtomicUsize,
    is_too_large: AtomicBool,
}

impl ScreenSize {
    fn add(&self, taken: &AtomicUsize, more: usize, most: usize) -> Result<(), QueryError> {
        let before = taken.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) <= most {
            return Ok(());
        }
        self.is_too_large.store(true, Ordering::Relaxed);
        self.check()
    }

    /// Fails if the answers together are too large. The result does not depend on the order of the answers.
    pub fn check(&self) -> Result<(), QueryError> {
        if !self.is_too_large.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = format!(
            "the answers have more than {MAX_SCREEN_POINTS} points or {MAX_SCREEN_BYTES} bytes together: ask for \
             fewer rows (limit), for a shorter window (from and to), or in several requests"
        );
        Err(QueryError::parameter("ask", message))
    }

    /// Serializes an answer as JSON, with invisible characters escaped.
    pub fn to_json(&self, value: &impl Serialize, less: Less) -> Result<Vec<u8>, QueryError> {
        let mut text = BoundedText::default();
        let written = value.serialize(&mut Serializer::with_formatter(&mut text, Visible));
        // The size is the only possible error, because the keys of all maps are strings.
        written.map_err(|_| too_large(less, &format!("more bytes than the {MAX_BYTES} that")))?;
        self.add(&self.bytes, text.0.len(), MAX_SCREEN_BYTES)?;
        Ok(text.0)
    }
}

fn too_large((parameter, remedy): Less, what: &str) -> QueryError {
    let message = format!("the answer would have {what} are allowed: {remedy}");
    QueryError::parameter(parameter, message)
}

/// Refuses too many points. Call this before the points are computed.
pub(super) fn check_points<Q: Question>(points: usize) -> Result<(), QueryError> {
    match points > MAX_POINTS {
        true => Err(too_large(
            Q::LESS,
            &format!("{points} points, and at most {MAX_POINTS}"),
        )),
        false => Ok(()),
    }
}

/// A text of bounded length. Writing beyond the bound fails.
#[derive(Default)]
struct BoundedText(Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.write_all(part).map(|()| part.len())
    }

    // Not inlined: answers have several hundred fields, and the code for each field calls this function three times.
    #[inline(never)]
    fn write_all(&mut self, part: &[u8]) -> io::Result<()> {
        if part.len() > MAX_BYTES - self.0.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.0.extend_from_slice(part);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes characters that are invisible or change the direction of text. Names that this crate records have no such
/// characters, but names from other programs may. A client that parses the JSON gets the name unchanged, and can ask
/// for the name.
struct Visible;

impl Formatter for Visible {
    #[inline]
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut written = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_hidden(*c)) {
            writer.write_all(&fragment.as_bytes()[written..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            written = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LESS: Less = ("limit", "ask for fewer rows");

    fn error(result: Result<impl Sized, QueryError>) -> String {
        format!("{:?}", result.err().expect("refused"))
    }

    #[test]
    fn an_answer_and_a_screen_have_a_maximum_size() {
        let screen = ScreenSize::default();
        let refused = error(screen.to_json(&"x".repeat(MAX_BYTES), LESS));
        for part in ["4194304", "ask for fewer rows", r#""limit""#] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(screen.check().is_ok(), "a refused answer counts no bytes");
        let largest = "x".repeat(MAX_BYTES - 2);
        for _ in 0..2 {
            assert!(screen.to_json(&largest, LESS).is_ok());
        }
        assert!(error(screen.to_json(&7, LESS)).contains(r#""ask""#));
        assert!(screen.check().is_err());
    }

    #[test]
    fn invisible_characters_are_escaped_and_read_back() {
        let name = "GET /é/\u{202e}gpj.exe\u{200b}\u{feff}\u{85}\u{e0041}\u{7f}\n\"😀";
        let json = ScreenSize::default().to_json(&name, LESS);
        let json = String::from_utf8(json.expect("it has room")).expect("UTF-8");
        let expected =
            "\"GET /é/\\u202egpj.exe\\u200b\\ufeff\\u0085\\udb40\\udc41\\u007f\\n\\\"😀\"";
        assert_eq!(json, expected);
        let back: String = serde_json::from_str(&json).expect("JSON");
        assert_eq!(back, name);
    }
}
