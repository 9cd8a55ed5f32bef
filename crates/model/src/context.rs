//! The names of contexts and counters, and the characters that they may have.

use std::borrow::Cow;
use std::sync::Arc;

use super::pack::{is_name, named, packed};
use super::timer_sums::QUEUE;

/// The name under which changes show the timer [`QUEUE`].
pub const QUEUED: &str = "<queue>";

/// The context of requests that match no route.
pub const UNMATCHED: &str = "<unmatched>";
/// The context of all names beyond `max_contexts`, and the counter of all names beyond `max_counters`.
pub const OVERFLOW: &str = "<overflow>";
/// The context of all timers beyond `max_contexts`.
pub const TIMER_OVERFLOW: &str = "\\<overflow>";
/// The sum of all HTTP contexts. Rankings and lists omit it.
pub const ALL: &str = "<all>";
/// The name of a context whose caller gave an empty name.
pub const EMPTY: &str = "<empty>";
/// The longest name, in bytes. A longer name is cut to [`CUT_AT`] bytes, and a hash of the whole name is appended.
pub const MAX_NAME: usize = 256;
/// The most bytes that remain of a name that is too long.
pub const CUT_AT: usize = 240;
/// The method in the context of a request whose method is none of HTTP's nine.
pub const OTHER_METHOD: &str = METHODS[9];

const METHODS: [&str; 10] = [
    "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE", "OTHER",
];

named! {
    /// Whether a context stands for HTTP requests, other code or the sum of all HTTP contexts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Deserialize, serde::Serialize),
        serde(rename_all = "lowercase")
    )]
    pub enum Kind {
        /// Other code that was timed.
        Timer = "timer",
        /// HTTP requests.
        #[default]
        Http = "http",
        /// The sum of all HTTP contexts, [`ALL`].
        #[cfg_attr(feature = "serde", serde(skip_deserializing))]
        All = "all",
    }
}

packed!(ContextId { name, kind } if |context| is_name(&context.name));

/// Identifies a context by kind and name. A timer and an HTTP context may share a name such as `static`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId {
    /// The kind of the context.
    pub kind: Kind,
    /// The name of the context.
    pub name: Arc<str>,
}

impl ContextId {
    /// The context of this kind and name.
    pub fn new(kind: Kind, name: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// The context that is judged under this name: all HTTP contexts together, the queue, or a single HTTP context.
    pub fn of_judged(name: &str) -> Self {
        match name {
            ALL => Self::all(),
            QUEUED => Self::new(Kind::Timer, QUEUE),
            name => Self::new(Kind::Http, name),
        }
    }

    /// The sum of all HTTP contexts.
    pub fn all() -> Self {
        Self::new(Kind::All, ALL)
    }
}

named! {
    /// The counters that each context has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Metric {
        /// Number of samples.
        Hits = "hits",
        /// Number of samples that were errors.
        Errors = "errors",
        /// Sum of the samples' durations, in microseconds.
        Micros = "micros",
    }
}

impl Metric {
    /// The metric and the context of a counter with this name; `None` for `hits`, `errors` and the user's counters.
    ///
    /// ```
    /// # use tower_pulse_model::context::Metric;
    /// assert_eq!(Metric::of_counter("hits:GET /"), Some((Metric::Hits, "GET /")));
    /// assert_eq!(Metric::of_counter("hits"), None);
    /// ```
    pub fn of_counter(name: &str) -> Option<(Self, &str)> {
        let (metric, context) = name.split_once(':')?;
        let metric = Self::ALL.into_iter().find(|m| m.as_str() == metric)?;
        Some((metric, context))
    }

    /// The name of the counter of `context`: `hits:GET /`, and `hits` for [`ALL`]. The microseconds of
    /// [`ALL`] are `micros:<all>`.
    ///
    /// ```
    /// # use tower_pulse_model::context::{Metric, ALL};
    /// assert_eq!(Metric::Hits.counter("GET /"), "hits:GET /");
    /// assert_eq!(Metric::Hits.counter(ALL), "hits");
    /// ```
    pub fn counter(self, context: &str) -> String {
        if context == ALL && self != Self::Micros {
            self.as_str().to_owned()
        } else {
            format!("{}:{context}", self.as_str())
        }
    }
}

/// Whether a name is reserved for the counters of contexts. A user's counter must not have a reserved name.
pub fn is_reserved(counter: &str) -> bool {
    let name = counter.split(':').next();
    Metric::ALL.iter().any(|m| Some(m.as_str()) == name)
}

/// The method in the name of a context: one of HTTP's nine, or [`OTHER_METHOD`].
pub fn method_name(method: &http::Method) -> &'static str {
    let known = METHODS.into_iter().find(|name| *name == method.as_str());
    known.unwrap_or(OTHER_METHOD)
}

/// Splits a context into its method and its path. A context that is named by template alone is only a path.
///
/// ```
/// # use tower_pulse_model::context::method_and_path;
/// assert_eq!(method_and_path("GET /users/{id}"), (Some("GET"), Some("/users/{id}")));
/// assert_eq!(method_and_path("/users"), (None, Some("/users")));
/// assert_eq!(method_and_path("db:find_user"), (None, None));
/// ```
pub fn method_and_path(context: &str) -> (Option<&str>, Option<&str>) {
    match context.split_once(' ') {
        Some((method, path)) if METHODS.contains(&method) => (Some(method), Some(path)),
        _ if context.starts_with('/') => (None, Some(context)),
        _ => (None, None),
    }
}

/// Whether a character is invisible, or changes how the text around it is shown: control characters, characters that
/// set the direction of text or have no width, and separators of lines and paragraphs.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Escapes the hidden characters of a text, for example as `\u{202e}`. Borrows a text without hidden characters.
pub fn escape_hidden(text: &str) -> Cow<'_, str> {
    // Almost all names are printable ASCII, which is checked without decoding.
    let bytes = text.bytes();
    let is_printable = bytes.fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    if is_printable || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Appends a text with its [hidden](is_hidden) characters escaped, as long as `to` stays within `most` bytes. Returns
/// whether the whole text was appended.
pub fn push_escaped(to: &mut String, text: &str, most: usize) -> bool {
    for c in text.chars() {
        let before = to.len();
        match is_hidden(c) {
            true => to.extend(c.escape_default()),
            false => to.push(c),
        }
        if to.len() > most {
            to.truncate(before);
            return false;
        }
    }
    true
}

/// A name as it is stored: not empty, not [`ALL`] or [`QUEUED`], at most [`MAX_NAME`] bytes, with
/// [hidden](is_hidden) characters escaped. Borrows a name that needs no change.
pub fn clean_name(name: &str) -> Cow<'_, str> {
    match name {
        "" => return Cow::Borrowed(EMPTY),
        ALL => return Cow::Borrowed("\\<all>"),
        QUEUED => return Cow::Borrowed("\\<queue>"),
        _ => {}
    }
    let escaped = escape_hidden(name);
    if escaped.len() <= MAX_NAME {
        return escaped;
    }
    let hash = fnv1a(escaped.bytes());
    let mut ends = (0..=CUT_AT).rev();
    let cut = ends.find(|at| escaped.is_char_boundary(*at)).unwrap_or(0);
    // `CUT_AT` bytes and 16 hexadecimal digits are `MAX_NAME` bytes.
    Cow::Owned(format!("{}{hash:016x}", &escaped[..cut]))
}

/// The name of a timer as it is stored: a [clean name](clean_name), with a backslash before a name that a page could
/// have. The book's keys do not tell a timer from a page, so they would add such a timer to the page.
///
/// ```
/// # use tower_pulse_model::context::timer_name;
/// assert_eq!(timer_name("db:find_user"), "db:find_user");
/// assert_eq!(timer_name("GET /users/{id}"), "\\GET /users/{id}");
/// ```
pub fn timer_name(name: &str) -> Cow<'_, str> {
    let name = clean_name(name);
    let is_page = matches!(&*name, UNMATCHED | OVERFLOW) || method_and_path(&name).1.is_some();
    match is_page {
        true => Cow::Owned(clean_name(&format!("\\{name}")).into_owned()),
        false => name,
    }
}

/// Identifies the records of a context. The id is the same in every instance and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u64);

impl RecordId {
    /// The id of the records of a context.
    pub fn new(kind: Kind, name: &str) -> Self {
        Self(fnv1a([kind as u8].into_iter().chain(name.bytes())))
    }

    /// The stored form: eight bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Reads the stored form; `None` unless there are eight bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl std::fmt::Display for RecordId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The 64-bit FNV-1a hash, which is the same in all processes, machines and versions.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let bytes = bytes.into_iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_counter_of_a_metric_has_a_reserved_name_with_its_context() {
        for name in ["hits", "errors", "micros", "hits:GET /", "micros:"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["sales", "hit", "hitsy", "my:hits"] {
            assert!(!is_reserved(name), "{name}");
        }
        for (metric, name, all) in [
            (Metric::Hits, "hits:GET /", "hits"),
            (Metric::Errors, "errors:GET /", "errors"),
            (Metric::Micros, "micros:GET /", "micros:<all>"),
        ] {
            assert_eq!(metric.counter("GET /"), name);
            assert_eq!(metric.counter(ALL), all);
            assert_eq!(Metric::of_counter(name), Some((metric, "GET /")));
        }
        for other in ["hits", "sales", "sales:GET /"] {
            assert_eq!(Metric::of_counter(other), None, "{other}");
        }
    }

    #[test]
    fn methods_other_than_the_nine_of_http_share_a_name() {
        for name in METHODS {
            let method = http::Method::from_bytes(name.as_bytes()).expect("it is a token");
            assert_eq!(method_name(&method), name);
        }
        let other = http::Method::from_bytes(b"PROPFIND").expect("it is a token");
        assert_eq!(method_name(&other), OTHER_METHOD);
    }

    #[test]
    fn a_timer_never_has_the_name_of_a_page() {
        for name in ["/", "/a b", "DELETE /a", "OTHER /", UNMATCHED, OVERFLOW] {
            let timer = timer_name(name);
            assert_eq!(timer, format!("\\{name}"));
            assert_eq!(timer_name(&timer), timer);
        }
        for name in ["db", "get /a", "GET", "<all"] {
            assert_eq!(timer_name(name), name);
        }
        assert_eq!(timer_name(OVERFLOW), TIMER_OVERFLOW);
        let long = timer_name(&format!("/{}", "x".repeat(300))).into_owned();
        assert_eq!((long.len(), &long[..2]), (MAX_NAME, "\\/"));
    }

    #[test]
    fn no_context_has_the_name_of_all_pages_or_of_the_queue() {
        for name in [ALL, QUEUED] {
            assert_eq!(clean_name(name), format!("\\{name}"));
        }
    }

    #[test]
    fn names_that_share_a_long_beginning_stay_apart() {
        let long = "x".repeat(300);
        assert_ne!(clean_name(&(long.clone() + "a")), clean_name(&(long + "b")));
        assert_eq!(clean_name("GET /a\r\nb"), "GET /a\\r\\nb");
        let hidden = clean_name("/\u{202e}a\u{200b}");
        assert_eq!(hidden, "/\\u{202e}a\\u{200b}");
        assert!(matches!(clean_name("GET /größe/名前"), Cow::Borrowed(_)));
        assert!(matches!(clean_name("GET /"), Cow::Borrowed("GET /")));
        assert_eq!(clean_name(""), EMPTY);
    }

    proptest! {
        #[test]
        fn a_cleaned_name_is_short_and_visible_and_stays_the_same(name in "\\PC{0,100}[\\x00-\\x1f\u{200b}-\u{202e}\u{feff}]{0,3}\\PC{0,200}") {
            let clean = clean_name(&name);
            prop_assert!(!clean.is_empty() && clean.len() <= MAX_NAME);
            prop_assert!(!clean.chars().any(is_hidden));
            let again = clean_name(&clean);
            prop_assert_eq!(&again, &clean);
        }
    }
}
