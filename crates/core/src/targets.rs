//! The targets of requests, from the configuration of an instance or a dashboard. The store contains no data about
//! targets: each answer counts good requests by histograms, so a new target also applies to the past. For the
//! Prometheus text, an instance counts good and bad requests from its start, because Prometheus computes the windows.

use std::sync::Arc;
use std::time::Duration;

use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::records::RecordId;

/// The targets of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// The duration below which all requests should stay.
    pub all: Option<Duration>,
    /// The targets of single contexts, at most one for each.
    pub of_paths: Vec<PathTarget>,
}

/// The target of a context: the share of its requests that should be good.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTarget {
    /// The context.
    pub context: ContextId,
    /// The id of the context's records.
    pub id: RecordId,
    /// The duration below which a request is good.
    pub duration: Duration,
    /// The share of the requests that should be good, between 0 and 1.
    pub share: f64,
}

impl Targets {
    /// The duration below which all requests should stay, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.all.map(|target| target.as_secs_f64())
    }

    /// The duration below which the requests of a context should stay, in seconds: the context's own target, or else
    /// the target of all requests.
    pub fn seconds_of(&self, id: RecordId) -> Option<f64> {
        let own = self.of_paths.iter().find(|target| target.id == id);
        own.map_or(self.seconds(), |own| Some(own.duration.as_secs_f64()))
    }
}

impl PathTarget {
    /// A target: at least this `share` of the requests should take less than `duration`.
    pub fn new(context: impl Into<Arc<str>>, duration: Duration, share: f64) -> Self {
        let context = ContextId::new(Kind::Http, context);
        Self {
            id: RecordId::new(context.kind, &context.name),
            context,
            duration,
            share,
        }
    }

    /// The share of the requests that may be bad.
    pub fn budget(&self) -> f64 {
        1.0 - self.share
    }
}
