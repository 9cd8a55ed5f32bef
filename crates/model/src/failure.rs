//! The failure of a request, as the service describes it: a kind, which is counted, and a message, which is listed.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

use super::context::{escape_hidden, push_escaped};
use super::pack::{Packed, Reader, Writer};

/// The longest kind, in bytes. A longer kind is cut.
pub const MAX_KIND: usize = 64;

/// The longest message, in bytes. A longer message is cut.
pub const MAX_MESSAGE: usize = 200;

const UNKNOWN: &str = "unknown";

/// The kind of an error, and a message about one occurrence. As an extension of a response, a `Failure` says how the
/// request failed:
///
/// ```
/// # use tower_pulse_model::failure as tower_pulse;
/// use axum::http::StatusCode;
/// use axum::response::{IntoResponse, Response};
/// use tower_pulse::Failure;
///
/// enum Error {
///     Database(std::io::Error),
///     SoldOut,
/// }
///
/// impl IntoResponse for Error {
///     fn into_response(self) -> Response {
///         let (status, failure) = match self {
///             Self::Database(error) => (
///                 StatusCode::SERVICE_UNAVAILABLE,
///                 Failure::new("db_timeout").with_message(&error),
///             ),
///             Self::SoldOut => (StatusCode::CONFLICT, Failure::new("sold_out")),
///         };
///         let mut response = status.into_response();
///         response.extensions_mut().insert(failure);
///         response
///     }
/// }
///
/// async fn order() -> Result<&'static str, Error> {
///     Err(Error::SoldOut)
/// }
/// # let app: axum::Router = axum::Router::new().route("/orders", axum::routing::post(order));
/// # let database = Error::Database(std::io::Error::other("no answer within 2 s")).into_response();
/// # let failure = database.extensions().get::<Failure>().expect("it has one");
/// # assert_eq!((failure.kind(), failure.message()), ("db_timeout", Some("no answer within 2 s")));
/// ```
///
/// The layer counts the kind on the path of the request, whatever the status. A `Failure` alone does not make a request
/// an error. A request that is an error is
/// [listed](https://docs.rs/tower-pulse/latest/tower_pulse/guide/slow_requests/index.html) with kind and message.
/// `Pulse::try_time_as` and `Builder::record_panics` make failures too.
///
/// Choose few kinds, in code: never an id, or a text from outside. A process has at most 256 kinds, and a path 8 in a
/// slice; further kinds count together as `<other>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    kind: Cow<'static, str>,
    message: Option<Arc<str>>,
}

impl Failure {
    /// A failure of this kind, a short name such as `db_timeout`. A kind is cut at 64 bytes, hidden characters are
    /// escaped, and an empty kind becomes `unknown`.
    ///
    /// ```
    /// # use tower_pulse_model::failure::Failure;
    /// assert_eq!(Failure::new("db_timeout").kind(), "db_timeout");
    /// assert_eq!(Failure::new(format!("upstream {}", 502)).kind(), "upstream 502");
    /// ```
    pub fn new(kind: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: clean_kind(kind.into()),
            message: None,
        }
    }

    /// Adds a message, which is listed with the request and not counted. Hidden characters are escaped. The formatting
    /// stops at 200 bytes, so a long text is never built.
    ///
    /// A message may hold personal data. `Builder::failure_messages` turns messages off.
    ///
    /// ```
    /// # use tower_pulse_model::failure::Failure;
    /// let error = std::io::Error::other("no answer within 2 s");
    /// let failure = Failure::new("db_timeout").with_message(error);
    /// assert_eq!(failure.message(), Some("no answer within 2 s"));
    /// ```
    #[must_use]
    pub fn with_message(mut self, message: impl Display) -> Self {
        let mut cut = CutText {
            text: String::new(),
            most: MAX_MESSAGE,
        };
        // An error ends the message: the text is full, or the value cannot be formatted further.
        let _ = write!(cut, "{message}");
        self.message = (!cut.text.is_empty()).then(|| cut.text.into());
        self
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The message.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

fn clean_kind(kind: Cow<'static, str>) -> Cow<'static, str> {
    if kind.is_empty() {
        return Cow::Borrowed(UNKNOWN);
    }
    if kind.len() <= MAX_KIND && matches!(escape_hidden(&kind), Cow::Borrowed(_)) {
        return kind;
    }
    let mut cut = String::new();
    push_escaped(&mut cut, &kind, MAX_KIND);
    Cow::Owned(cut)
}

/// Collects a formatted text with its hidden characters escaped, and stops the formatting once the text is full.
struct CutText {
    text: String,
    most: usize,
}

impl Write for CutText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if push_escaped(&mut self.text, text, self.most) {
            return Ok(());
        }
        // No later piece may fit, because a piece before it is missing.
        self.most = self.text.len();
        Err(fmt::Error)
    }
}

impl Packed for Failure {
    fn write(&self, out: &mut Writer) {
        out.bytes(self.kind.as_bytes());
        self.message.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (kind, message) = (String::read(from)?, Option::<Arc<str>>::read(from)?);
        let is_short = |message: &Arc<str>| message.len() <= MAX_MESSAGE;
        let is_bounded = kind.len() <= MAX_KIND && message.as_ref().is_none_or(is_short);
        is_bounded.then_some(Self {
            kind: Cow::Owned(kind),
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::context::is_hidden;
    use crate::pack::{pack, unpack};

    /// Writes pieces until the writer is full, and counts the pieces.
    struct Pieces(std::cell::Cell<usize>);

    impl Display for Pieces {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..1_000 {
                self.0.set(self.0.get() + 1);
                f.write_str("a piece; ")?;
            }
            Ok(())
        }
    }

    /// Writes pieces even after the writer is full.
    struct Stubborn;

    impl Display for Stubborn {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for piece in ["x".repeat(MAX_MESSAGE - 1), "é".to_owned(), "y".to_owned()] {
                let _ = f.write_str(&piece);
            }
            Ok(())
        }
    }

    fn message_of(message: impl Display) -> String {
        let failure = Failure::new("k").with_message(message);
        failure.message().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_formatting_stops_where_the_message_is_cut() {
        let pieces = Pieces(Default::default());
        assert_eq!(message_of(&pieces).len(), MAX_MESSAGE);
        assert_eq!(pieces.0.get(), MAX_MESSAGE / "a piece; ".len() + 1);
        assert_eq!(message_of(Stubborn), "x".repeat(MAX_MESSAGE - 1));
        assert_eq!(message_of("x".repeat(1 << 20)).len(), MAX_MESSAGE);
        assert_eq!(message_of("\u{202e}\r\na"), "\\u{202e}\\r\\na");
        assert_eq!(Failure::new("k").with_message("").message(), None);
    }

    #[test]
    fn a_kind_is_short_and_visible() {
        let kind = |kind: &str| Failure::new(kind.to_owned()).kind().to_owned();
        assert_eq!(kind(""), UNKNOWN);
        assert_eq!(kind("größe 名前"), "größe 名前");
        assert_eq!(kind("a\0b"), "a\\u{0}b");
        assert_eq!(kind(&"é".repeat(MAX_KIND)), "é".repeat(MAX_KIND / 2));
        let named = Failure::new("db_timeout");
        assert!(matches!(named.kind, Cow::Borrowed("db_timeout")));
    }

    #[test]
    fn a_failure_that_is_too_long_is_not_read() {
        for (kind, message, is_read) in [
            (MAX_KIND, MAX_MESSAGE, true),
            (MAX_KIND + 1, MAX_MESSAGE, false),
            (MAX_KIND, MAX_MESSAGE + 1, false),
        ] {
            let failure = Failure {
                kind: "k".repeat(kind).into(),
                message: Some("m".repeat(message).into()),
            };
            let read: Option<Failure> = unpack(&pack(&failure));
            assert_eq!(read, is_read.then_some(failure));
        }
    }

    proptest! {
        #[test]
        fn any_failure_is_bounded_and_read_back(text in "\\PC{0,100}[\\x00-\\x1f\u{200b}-\u{202e}\u{feff}]{0,9}\\PC{0,200}") {
            let failure = Failure::new(text.clone()).with_message(text);
            let (kind, message) = (failure.kind(), failure.message().unwrap_or_default());
            prop_assert!((1..=MAX_KIND).contains(&kind.len()) && message.len() <= MAX_MESSAGE);
            prop_assert!(!kind.chars().chain(message.chars()).any(is_hidden));
            prop_assert_eq!(unpack(&pack(&failure)), Some(failure));
        }
    }
}
