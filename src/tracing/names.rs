//! The names of timers: a verb and an object, never a path, a query string or a literal.

use std::fmt::Debug;
use std::time::Duration;

use tracing::Metadata;
use tracing::field::{Field, Visit};

use super::sql;
use super::text::{Text, prefix};

pub(super) type Name = Text<64>;

/// The most bytes of a statement or a URL that are searched.
const SEARCHED: usize = 1_024;

/// The field that makes a span a timer. A text in this field is the timer's name.
pub(super) const TIMER_FIELD: &str = "pulse.timer";

/// The field that says whether a span is a call of another service.
pub(super) const KIND_FIELD: &str = "otel.kind";

/// The fields of a span or event that determine the name of its timer: those of OpenTelemetry's semantic conventions,
/// of sqlx, and [`TIMER_FIELD`]. A text is empty if the field is missing.
#[derive(Default)]
pub(super) struct NamingFields {
    timer: Name,
    is_client: bool,
    pub(super) statement: Name,
    method: Name,
    host: Name,
    service: Name,
    procedure: Name,
    /// The duration of a statement, if the event has one.
    pub(super) elapsed: Option<Duration>,
}

impl Visit for NamingFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "elapsed_secs" {
            self.elapsed = Duration::try_from_secs_f64(value).ok();
        }
    }

    fn record_i64(&mut self, _: &Field, _: i64) {}

    fn record_u64(&mut self, _: &Field, _: u64) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_text(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Formatting takes time, so only fields of the conventions are formatted: their names have a dot, as in
        // `url.full`.
        if field.name().contains('.') {
            let text = Text::<SEARCHED>::of(format_args!("{value:?}"));
            self.record_text(field.name(), text.as_str());
        }
    }
}

impl NamingFields {
    fn record_text(&mut self, field: &str, value: &str) {
        let value = prefix(value, SEARCHED);
        match field {
            TIMER_FIELD => self.timer = Text::cut(value),
            KIND_FIELD => self.is_client = value.eq_ignore_ascii_case("client"),
            // sqlx cuts a long summary, and then gives the whole statement in another field.
            "summary" if value.ends_with('…') => {}
            "summary" | "db.statement" | "db.query.text" if !value.is_empty() => {
                self.statement = sql::name_of(value);
            }
            "http.request.method" | "http.method" => self.method = Text::cut(value),
            "server.address" | "net.peer.name" => self.host = Text::cut(value),
            "url.full" if self.host.as_str().is_empty() => self.host = Text::cut(host_of(value)),
            "rpc.service" => self.service = Text::cut(value),
            "rpc.method" => self.procedure = Text::cut(value),
            _ => {}
        }
    }

    /// The name of a span; `None` if the span is no timer. `is_chosen`: whether the application has chosen the span.
    pub(super) fn span(&self, metadata: &Metadata<'_>, is_chosen: bool) -> Option<Name> {
        let [timer, method, host] = [&self.timer, &self.method, &self.host].map(Text::as_str);
        let [service, procedure] = [&self.service, &self.procedure].map(Text::as_str);
        let is_timer = metadata.fields().field(TIMER_FIELD).is_some();
        let has_statement = !self.statement.as_str().is_empty();
        match (is_timer, self.is_client) {
            (true, _) if timer == "false" => None,
            (true, _) if !matches!(timer, "" | "true") => Some(self.timer),
            (false, true) if has_statement => Some(self.statement),
            (false, true) if !service.is_empty() => {
                Some(Name::of(format_args!("rpc {service}/{procedure}")))
            }
            (false, true) if !method.is_empty() => {
                Some(Name::of(format_args!("http {method} {host}")))
            }
            (false, false) if !is_chosen => None,
            _ => Some(Name::cut(metadata.name())),
        }
    }
}

fn host_of(url: &str) -> &str {
    let url = url.split_once("://").map_or(url, |(_, url)| url);
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    host.split(':').next().unwrap_or_default()
}

/// The text of the error that a span or event reports; `None` without an error.
pub(super) fn error_of(record: impl FnOnce(&mut dyn Visit)) -> Option<Text<200>> {
    let mut error = None;
    record(&mut |field: &Field, value: &dyn Debug| {
        if !matches!(field.name(), "error" | "error.message" | "otel.status_code") {
            return;
        }
        // `error` may be a flag or a text.
        let text = Text::<200>::of(format_args!("{value:?}"));
        let text = text.as_str().trim_matches('"');
        match (field.name(), text) {
            (_, "" | "false") => {}
            ("otel.status_code", status) if !status.eq_ignore_ascii_case("error") => {}
            ("otel.status_code", _) => _ = error.get_or_insert_default(),
            _ => error = Some(Text::cut(text)),
        }
    });
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_a_host_alone() {
        for (url, host) in [
            ("https://api.example/7?token=secret", "api.example"),
            ("http://me:secret@localhost:8080#x", "localhost"),
            ("", ""),
        ] {
            assert_eq!(host_of(url), host);
        }
    }
}
