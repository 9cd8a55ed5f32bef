//! How large an answer may be: its points, which are counted before they are computed, and its bytes, which are counted
//! as they are written. The answers of a screen have bounds together as well.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::StatusCode;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::response::ApiError;
use tower_pulse_core::query::MAX_POINTS;
use tower_pulse_core::query::answers::QueryError;
use tower_pulse_model::context::is_hidden;

/// The most bytes of an answer: a table of 1,000 rows with the longest names has three quarters of them.
const MAX_BYTES: usize = 4 << 20;

/// The most values of all answers of a screen.
const MAX_SCREEN_POINTS: usize = 4 * MAX_POINTS;

/// The most bytes of all answers of a screen.
const MAX_SCREEN_BYTES: usize = 2 * MAX_BYTES;

/// What the answers to one request have taken of what they may take together.
#[derive(Default)]
pub(super) struct ScreenSize {
    points: AtomicUsize,
    bytes: AtomicUsize,
    is_too_large: AtomicBool,
}

/// The size of one answer.
#[derive(Clone, Copy)]
pub(super) struct AnswerSize<'a> {
    pub(super) screen: &'a ScreenSize,
    /// The parameter by which less can be asked for, and how.
    pub(super) less: (&'static str, &'static str),
}

impl ScreenSize {
    fn add(&self, taken: &AtomicUsize, more: usize, most: usize) -> Result<(), ApiError> {
        let before = taken.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) <= most {
            return Ok(());
        }
        self.is_too_large.store(true, Ordering::Relaxed);
        self.check()
    }

    /// Fails if the answers are too large together, in whatever order they are computed.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if !self.is_too_large.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = format!(
            "the answers have more than {MAX_SCREEN_POINTS} points or {MAX_SCREEN_BYTES} bytes together: ask for \
             fewer rows (limit), for a shorter window (from and to), or for some of them in requests of their own"
        );
        Err(ApiError::parameter("ask", message))
    }
}

impl AnswerSize<'_> {
    /// Counts the values of the series of an answer, of which a question has bounded the number.
    pub(super) fn add_points(self, points: usize) -> Result<(), ApiError> {
        let screen = self.screen;
        screen.add(&screen.points, points, MAX_SCREEN_POINTS)
    }

    /// The error of a question. One of an answer that would be too large says how to ask for less.
    pub(super) fn refusal(self, error: QueryError) -> ApiError {
        match error {
            QueryError::TooLarge { points, most, .. } => {
                self.too_large(&format!("{points} points, and at most {most}"))
            }
            error => error.into(),
        }
    }

    /// The answer as JSON, in which no character is hidden.
    pub(super) fn to_json(self, value: &impl Serialize) -> Result<Vec<u8>, ApiError> {
        let mut text = BoundedText::default();
        let written = value.serialize(&mut Serializer::with_formatter(&mut text, Visible));
        match written {
            Ok(()) => {
                let screen = self.screen;
                screen.add(&screen.bytes, text.bytes.len(), MAX_SCREEN_BYTES)?;
                Ok(text.bytes)
            }
            Err(_) if text.is_full => {
                Err(self.too_large(&format!("more bytes than the {MAX_BYTES} that")))
            }
            Err(error) => {
                let message = format!("the answer cannot be written as JSON: {error}");
                Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message))
            }
        }
    }

    fn too_large(self, what: &str) -> ApiError {
        let (parameter, remedy) = self.less;
        let message = format!("the answer would have {what} are allowed: {remedy}");
        ApiError::parameter(parameter, message)
    }
}

/// The answer to a write, as JSON.
pub(super) fn written(
    value: &impl Serialize,
    less: (&'static str, &'static str),
) -> Result<Vec<u8>, ApiError> {
    let screen = &ScreenSize::default();
    AnswerSize { screen, less }.to_json(value)
}

/// A text that refuses what it has no room for.
#[derive(Default)]
struct BoundedText {
    bytes: Vec<u8>,
    is_full: bool,
}

impl io::Write for BoundedText {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.write_all(part).map(|()| part.len())
    }

    #[inline]
    fn write_all(&mut self, part: &[u8]) -> io::Result<()> {
        if part.len() > MAX_BYTES - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes characters that show nothing or turn the direction of text. Names that this crate makes have none, but other
/// writers of a store's keys may use them, and whoever asks with the name must get it back as it is.
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

    fn size(screen: &ScreenSize) -> AnswerSize<'_> {
        let less = ("limit", "ask for fewer rows");
        AnswerSize { screen, less }
    }

    fn error(result: Result<impl Sized, ApiError>) -> String {
        let error = result.err().expect("refused");
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        String::from_utf8(error.to_json()).expect("JSON")
    }

    #[test]
    fn an_answer_and_all_answers_together_have_a_most() {
        let screen = ScreenSize::default();
        let what = format!("{} points, and at most {MAX_POINTS}", MAX_POINTS + 1);
        let refused = error(Err::<(), _>(size(&screen).too_large(&what)));
        for part in ["16385 points", "16384", "ask for fewer rows", r#""limit""#] {
            assert!(refused.contains(part), "{refused}");
        }
        let refused = error(size(&screen).to_json(&"x".repeat(MAX_BYTES)));
        assert!(refused.contains("4194304"), "{refused}");
        assert!(screen.check().is_ok(), "what is refused takes nothing");

        for _ in 0..4 {
            assert!(size(&screen).add_points(MAX_POINTS).is_ok());
        }
        assert!(screen.check().is_ok());
        assert!(error(size(&screen).add_points(1)).contains(r#""ask""#));
        assert!(screen.check().is_err());

        let screen = ScreenSize::default();
        let largest = "x".repeat(MAX_BYTES - 2);
        for _ in 0..2 {
            let json = size(&screen).to_json(&largest).expect("it has room");
            assert_eq!(json.len(), MAX_BYTES);
        }
        assert!(error(size(&screen).to_json(&7)).contains(r#""ask""#));
    }

    #[test]
    fn what_nobody_sees_is_escaped_and_comes_back() {
        let name = "GET /é/\u{202e}gpj.exe\u{200b}\u{feff}\u{85}\u{e0041}\u{7f}\n\"😀";
        let json = size(&ScreenSize::default()).to_json(&name);
        let json = String::from_utf8(json.expect("it has room")).expect("UTF-8");
        let expected =
            "\"GET /é/\\u202egpj.exe\\u200b\\ufeff\\u0085\\udb40\\udc41\\u007f\\n\\\"😀\"";
        assert_eq!(json, expected);
        let back: String = serde_json::from_str(&json).expect("JSON");
        assert_eq!(back, name);
    }
}
