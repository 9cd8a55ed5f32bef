//! The names of timers: what a call does and to whom, never a path, a query string or a literal.

use std::fmt::{Debug, Write};
use std::time::Duration;

use tracing::Metadata;
use tracing::field::{Field, Visit};

use super::sql;
use super::text::Text;

/// The longest name, in bytes.
const MAX_NAME: usize = 64;

/// The longest value of a field that is read if the value must be formatted, in bytes.
const MAX_VALUE: usize = 1_024;

/// The name of a timer.
pub(super) type Name = Text<MAX_NAME>;

/// The field that makes a span a timer. Its value is the timer's name, if it is a text.
pub(super) const TIMER_FIELD: &str = "pulse.timer";

/// The field that says whether a span is a call of another service.
pub(super) const KIND_FIELD: &str = "otel.kind";

/// The fields that tell the name of a timer.
const READ: [&str; 14] = [
    TIMER_FIELD,
    KIND_FIELD,
    "summary",
    "db.statement",
    "db.query.text",
    "http.request.method",
    "http.method",
    "server.address",
    "net.peer.name",
    "http.host",
    "url.full",
    "http.url",
    "rpc.service",
    "rpc.method",
];

/// The fields of a span or event that tell its name and its duration. The names of fields are those of OpenTelemetry's
/// semantic conventions, of sqlx, and [`TIMER_FIELD`].
#[derive(Default)]
pub(super) struct NamingFields {
    timer: Option<Name>,
    is_client: bool,
    /// The name of a statement, and whether it has its table.
    statement: Option<(Name, bool)>,
    method: Option<Name>,
    host: Option<Name>,
    service: Option<Name>,
    procedure: Option<Name>,
    /// How long the call took, if the event tells it.
    pub(super) elapsed: Option<Duration>,
}

impl Visit for NamingFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // sqlx 0.8 spells the third one like this.
        if let "elapsed_secs" | "acquired_after_secs" | "aquired_after_secs" = field.name() {
            self.elapsed = Duration::try_from_secs_f64(value).ok();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if READ.contains(&field.name()) {
            let mut text = Text::<MAX_VALUE>::default();
            // A text that is too long is cut.
            let _ = write!(text, "{value:?}");
            self.text(field.name(), text.as_str().trim_matches('"'));
        }
    }
}

impl NamingFields {
    fn text(&mut self, field: &str, value: &str) {
        let text = || Some(Name::from(value));
        match field {
            TIMER_FIELD => self.timer = text(),
            KIND_FIELD => self.is_client = value.eq_ignore_ascii_case("client"),
            "summary" | "db.statement" | "db.query.text" => {
                // sqlx gives the whole statement after a summary, unless the summary is the whole.
                if !value.is_empty() && self.statement.is_none_or(|(_, is_complete)| !is_complete) {
                    self.statement = Some(sql::name_of(value));
                }
            }
            "http.request.method" | "http.method" => self.method = text(),
            "server.address" | "net.peer.name" | "http.host" => self.host = text(),
            "url.full" | "http.url" if self.host.is_none() => {
                self.host = Some(Name::from(host_of(value)));
            }
            "rpc.service" => self.service = text(),
            "rpc.method" => self.procedure = text(),
            _ => {}
        }
    }

    /// The name of a statement.
    pub(super) fn statement(&self) -> Option<Name> {
        self.statement.map(|(name, _)| name)
    }

    /// The name of a span; `None` if the span is no timer. `is_chosen`: whether the application has chosen the span.
    pub(super) fn span(&self, metadata: &Metadata<'_>, is_chosen: bool) -> Option<Name> {
        let name = || Some(Name::from(metadata.name()));
        if metadata.fields().field(TIMER_FIELD).is_some() {
            return match self.timer.as_ref().map(Text::as_str) {
                Some("false") => None,
                None | Some("" | "true") => name(),
                Some(_) => self.timer,
            };
        }
        if !self.is_client {
            return is_chosen.then(name).flatten();
        }
        let joined = |begin: &str, first: Option<Name>, between: &str, second: Option<Name>| {
            let mut name = Name::from(begin);
            name.push(first?.as_str());
            if let Some(second) = second {
                name.push(between);
                name.push(second.as_str());
            }
            Some(name)
        };
        let remote = || joined("rpc ", self.service, "/", self.procedure);
        let http = || joined("http ", self.method, " ", self.host);
        self.statement().or_else(remote).or_else(http).or_else(name)
    }
}

/// The host of a URL.
fn host_of(url: &str) -> &str {
    let url = url.split_once("://").map_or(url, |(_, url)| url);
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether the fields of a span or event tell of an error, and its text.
#[derive(Default)]
pub(super) struct ErrorFields {
    pub(super) has_failed: bool,
    pub(super) message: Text<MAX_MESSAGE>,
}

/// The longest text of an error, in bytes.
const MAX_MESSAGE: usize = 200;

impl Visit for ErrorFields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.has_failed |= value && field.name() == "error";
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Without quotes.
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "error" | "error.message" | "exception.message" => {
                self.has_failed = true;
                let _ = write!(self.message, "{value:?}");
            }
            "otel.status_code" => {
                let mut status = Text::<16>::default();
                let _ = write!(status, "{value:?}");
                let status = status.as_str().trim_matches('"');
                self.has_failed |= status.eq_ignore_ascii_case("error");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_a_host_alone() {
        for (url, host) in [
            (
                "https://api.example.com/users/7?token=secret",
                "api.example.com",
            ),
            ("http://me:secret@localhost:8080#x", "localhost"),
            ("http://[::1]:3000/", "::1"),
            ("api.example.com:443", "api.example.com"),
            ("", ""),
        ] {
            assert_eq!(host_of(url), host);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut text = Text::<5>::default();
        assert!(text.push("ab") && !text.push("éé") && text.push("c"));
        assert_eq!(text.as_str(), "abéc");
    }
}
