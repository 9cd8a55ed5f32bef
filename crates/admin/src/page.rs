//! The HTML of the dashboard as it is served, with the URLs of its files.

use axum::response::Response;
use http::HeaderValue;
use serde_json::json;

use super::assets::{HASH, INDEX};
use super::response;
use super::{Permission, Source};
use tower_pulse_core::query;
use tower_pulse_core::query::answers::{ENOUGH_FOR_P99, ENOUGH_REQUESTS};
use tower_pulse_model::context::escape_hidden;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The parts of the dashboard's HTML that depend on the router.
pub(super) struct Page {
    title: String,
    /// The dashboard's configurations, in JSON: for callers who may only read, for callers with a name who may write,
    /// and for callers without a name who may write.
    configs: [String; 3],
}

impl Page {
    pub(super) fn new(source: &Source) -> Self {
        let service = source.service.as_deref().map(escape_hidden);
        let (service, version) = (service.as_deref(), source.app_version.as_deref());
        let is_instance = source.instance.is_some();
        let answers = query::source(&source.query);
        let precisions = answers.store.precisions().counters.iter();
        let precisions: Vec<_> = precisions.map(|precision| precision.seconds).collect();
        let config = |(may_write, asks_name)| {
            json!({
                "service": service,
                "version": version,
                "precisions": precisions,
                // The duration below which all requests should stay, in seconds.
                "target": answers.targets.seconds(),
                "trace_url": source.trace_url,
                "is_instance": is_instance,
                // Whether marks can be added and removed, and changes be acknowledged.
                "may_write": may_write && is_instance,
                // Whether the dashboard asks for the name of the person who acknowledges a change.
                "asks_name": asks_name,
                "rankings": cfg!(feature = "rankings"),
                "row_cache": cfg!(feature = "row-cache") && is_instance,
                // The fewest requests for which a statistic is meaningful.
                "enough": { "requests": ENOUGH_REQUESTS, "p99": ENOUGH_FOR_P99 },
            })
        };
        let title = match (service, version) {
            (Some(service), Some(version)) => format!("{service} {version} · tower-pulse"),
            (Some(service), None) => format!("{service} · tower-pulse"),
            (None, _) => "tower-pulse".to_owned(),
        };
        Self {
            title,
            configs: [(false, false), (true, false), (true, true)]
                .map(|caller| config(caller).to_string()),
        }
    }

    /// Serves the HTML. `path` is the path of the request, from which a proxy may have removed the beginning.
    /// The permission of the caller chooses the configuration.
    pub(super) fn serve(&self, path: &str, permission: &Permission) -> Response {
        response::body(self.index(&base(path), permission), HTML)
    }

    fn index(&self, base: &str, permission: &Permission) -> String {
        let asks_name = permission.name().is_none();
        let config = &self.configs[usize::from(permission.may_write()) << usize::from(asks_name)];
        filled(INDEX, |placeholder| match placeholder {
            "hash" => HASH.clone(),
            "base" => escaped(base),
            "title" => escaped(&self.title),
            "config" => escaped(config),
            other => format!("{{{{{other}}}}}"),
        })
    }
}

/// Replaces the placeholders of a text, such as `{{base}}`. Placeholders in inserted values stay as they are.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((placeholder, after)) => {
                text.push_str(&value(placeholder));
                text.push_str(after);
            }
            None => {
                text.push_str("{{");
                text.push_str(part);
            }
        }
    }
    text
}

/// The prefix of all relative URLs of the dashboard at `path`. Only the end of the path counts: a proxy may have
/// removed the beginning.
fn base(path: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("") => String::new(),
        // "a:b/" alone would be a URL of the scheme "a".
        Some(last) if last.contains(':') => format!("./{last}/"),
        Some(last) => format!("{last}/"),
    }
}

/// Escapes text for an HTML attribute or element.
fn escaped(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let escaped = escaped.replace('>', "&gt;").replace('"', "&quot;");
    escaped.replace('\'', "&#39;")
}
