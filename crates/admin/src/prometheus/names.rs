//! The names of request metrics: this crate's, or those of OpenTelemetry's semantic conventions for HTTP servers. Each
//! scraper chooses by the parameter `names`.
//!
//! Metrics without an OpenTelemetry name keep this crate's name. Labels are missing for attributes that this crate does
//! not record: the scheme, the version of the protocol and, for durations, the exact status.

use serde::Deserialize;

use tower_pulse_core::query::answers::QueryError;
use tower_pulse_core::query::params;
use tower_pulse_core::recorder::totals;
use tower_pulse_model::context::{OTHER_METHOD, OVERFLOW, UNMATCHED, method_and_path};

/// The upper bounds of the buckets of a histogram.
type Bounds = [f64; 14];

const PULSE_BOUNDS: Bounds = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// The bounds that the conventions advise. Histograms of several services add up only if their bounds are equal.
const OPENTELEMETRY_BOUNDS: Bounds = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    names: Names,
}

/// The source of the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Names {
    /// This crate's names.
    #[default]
    Pulse,
    /// OpenTelemetry's names, as Prometheus writes them.
    OpenTelemetry,
}

/// The labels of a context.
pub(super) type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Names {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, QueryError> {
        params::parse(query, 0).map(|asked: Asked| asked.names)
    }

    pub(super) fn request_duration(self) -> &'static str {
        match self {
            Self::Pulse => "pulse_request_duration_seconds",
            Self::OpenTelemetry => "http_server_request_duration_seconds",
        }
    }

    pub(super) fn in_flight(self) -> &'static str {
        match self {
            Self::Pulse => "pulse_in_flight",
            Self::OpenTelemetry => "http_server_active_requests",
        }
    }

    pub(super) fn bounds(self) -> Bounds {
        match self {
            Self::Pulse => PULSE_BOUNDS,
            Self::OpenTelemetry => OPENTELEMETRY_BOUNDS,
        }
    }

    /// The labels of an HTTP context. Each context has different labels.
    pub(super) fn labels(self, context: &str) -> Labels<'_> {
        match self {
            Self::Pulse => vec![("context", context)],
            Self::OpenTelemetry => match method_and_path(context) {
                (Some(OTHER_METHOD), Some(route)) => vec![METHOD_OTHER, ("http_route", route)],
                (Some(method), Some(route)) => {
                    vec![("http_request_method", method), ("http_route", route)]
                }
                (None, Some(route)) => vec![("http_route", route)],
                // No route matched, so the requests may have any method.
                _ if context == UNMATCHED => vec![],
                _ if context == OVERFLOW => vec![("otel_metric_overflow", "true")],
                _ => vec![("context", context)],
            },
        }
    }

    /// The labels of a context in the metrics that count requests by outcome. This crate's names add the method and the
    /// path.
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

/// The conventions' label for a method that HTTP does not define.
const METHOD_OTHER: (&str, &str) = ("http_request_method", "_OTHER");

/// The index of each of `bounds` in [`totals::BOUNDS`], and then the index of the last bucket, which has no bound.
pub(super) fn ends(bounds: Bounds) -> impl Iterator<Item = usize> {
    let place = |bound: f64| totals::BOUNDS.partition_point(|other| *other < bound);
    let last = [totals::BOUND_BUCKETS - 1];
    bounds.into_iter().map(place).chain(last)
}
