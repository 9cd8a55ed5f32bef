//! The names of what requests measured: this crate's, or those of OpenTelemetry's semantic conventions for HTTP servers. A
//! scraper asks for them by `names`, so that one may have what its dashboards expect while another has what it always had.
//!
//! Whatever OpenTelemetry has no name for keeps this crate's. What is not recorded has no label: neither the exact status of
//! a response beside its duration, nor the scheme and the version of the protocol.

use serde::Deserialize;

use tower_pulse_core::query::answers::QueryError;
use tower_pulse_core::query::params;
use tower_pulse_core::recorder::totals;
use tower_pulse_model::context::{OTHER_METHOD, OVERFLOW, UNMATCHED, method_and_path};

/// Upper bounds of the buckets of a histogram, of which there are as many whatever the names are.
type Bounds = [f64; 14];

const PULSE_BOUNDS: Bounds = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Those that the conventions advise. Histograms of several services add up only with the same bounds.
const OPENTELEMETRY_BOUNDS: Bounds = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

/// Which names are asked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    names: Names,
}

/// Whose names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Names {
    /// Those of this crate.
    #[default]
    Pulse,
    /// Those of OpenTelemetry, as Prometheus writes them.
    OpenTelemetry,
}

/// The labels of a context.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Names {
    /// Those that a query asks for.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, QueryError> {
        params::parse(query, 0).map(|asked: Asked| asked.names)
    }

    /// The histogram of the durations of requests.
    pub(super) fn request_duration(self) -> &'static str {
        match self {
            Self::Pulse => "pulse_request_duration_seconds",
            Self::OpenTelemetry => "http_server_request_duration_seconds",
        }
    }

    /// The requests in flight.
    pub(super) fn in_flight(self) -> &'static str {
        match self {
            Self::Pulse => "pulse_in_flight",
            Self::OpenTelemetry => "http_server_active_requests",
        }
    }

    /// The bounds of the histogram of requests.
    pub(super) fn bounds(self) -> Bounds {
        match self {
            Self::Pulse => PULSE_BOUNDS,
            Self::OpenTelemetry => OPENTELEMETRY_BOUNDS,
        }
    }

    /// The labels of a context of requests. No two contexts have the same ones.
    pub(super) fn labels(self, context: &str) -> Labels<'_> {
        match self {
            Self::Pulse => vec![("context", context)],
            Self::OpenTelemetry => match method_and_path(context) {
                (Some(OTHER_METHOD), Some(route)) => vec![METHOD_OTHER, ("http_route", route)],
                (Some(method), Some(route)) => {
                    vec![("http_request_method", method), ("http_route", route)]
                }
                (None, Some(route)) => vec![("http_route", route)],
                // No route matched, and the requests may have any method.
                _ if context == UNMATCHED => vec![],
                _ if context == OVERFLOW => vec![("otel_metric_overflow", "true")],
                _ => vec![("context", context)],
            },
        }
    }

    /// The labels of a context where its requests are counted by how they ended.
    pub(super) fn labels_with_parts(self, context: &str) -> Labels<'_> {
        let mut labels = self.labels(context);
        if self == Self::Pulse {
            let (method, path) = method_and_path(context);
            labels.push(("method", method.unwrap_or_default()));
            labels.push(("path", path.unwrap_or_default()));
        }
        labels
    }
}

/// What the conventions call a method that HTTP does not define.
const METHOD_OTHER: (&str, &str) = ("http_request_method", "_OTHER");

/// The places of [`totals::BOUNDS`] that end a bucket with one of `bounds`, and the last place, which ends them all.
pub(super) fn ends(bounds: Bounds) -> impl Iterator<Item = usize> {
    let place = |bound: f64| totals::BOUNDS.partition_point(|other| *other < bound);
    let last = [totals::PLACES - 1];
    bounds.into_iter().map(place).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_one_that_is_counted() {
        for bounds in [PULSE_BOUNDS, OPENTELEMETRY_BOUNDS] {
            assert!(bounds.is_sorted());
            let mut counted: Vec<_> = ends(bounds).collect();
            assert_eq!(counted.pop(), Some(totals::BOUNDS.len()));
            let counted = counted.into_iter().map(|place| totals::BOUNDS[place]);
            assert!(counted.eq(bounds));
        }
    }

    #[test]
    fn opentelemetry_has_no_label_for_what_is_not_known() {
        let contexts = [
            (
                "GET /users/{id}",
                "http_request_method=GET http_route=/users/{id}",
            ),
            (
                "OTHER /users/{id}",
                "http_request_method=_OTHER http_route=/users/{id}",
            ),
            ("/users", "http_route=/users"),
            (UNMATCHED, ""),
            (OVERFLOW, "otel_metric_overflow=true"),
            ("static", "context=static"),
            ("_OTHER /users/{id}", "context=_OTHER /users/{id}"),
        ];
        for (context, expected) in contexts {
            let labels = Names::OpenTelemetry.labels(context).into_iter();
            let labels: Vec<_> = labels
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            assert_eq!(labels.join(" "), expected);
        }
    }
}
