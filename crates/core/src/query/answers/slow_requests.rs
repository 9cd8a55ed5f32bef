//! Single requests, and lists of a context's slowest and newest failed ones.

use std::sync::Arc;

use serde::Serialize;

use super::measured::ContextName;
use crate::query::{QueryError, Source};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slow_request::{SlowRequest, SlowRequests};

/// A request.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ListedRequest {
    /// The context. `path` is a route template.
    #[serde(flatten)]
    pub name: ContextName,
    /// The duration, in seconds.
    pub duration: f64,
    /// When it ended, in Unix seconds.
    pub ended: f64,
    /// The status of its response, if it had one.
    pub status: Option<u16>,
    /// The outcome, such as `"5xx"`.
    pub outcome: &'static str,
    /// Whether it counts as an error.
    pub error: bool,
    /// The instance that answered it.
    pub instance: String,
    /// Its trace id, if it had one.
    pub trace_id: Option<String>,
    /// Its literal path, if paths are recorded.
    pub request_path: Option<String>,
}

impl ListedRequest {
    pub(super) fn new(request: &SlowRequest) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            name: ContextName::new(&request.context, Kind::Http),
            duration: request.nanos as f64 / 1e9,
            ended: request.ended as f64 / 1e3,
            status: request.status,
            outcome: request.outcome.as_str(),
            error: request.is_error,
            instance: request.instance.to_string(),
            trace_id: text(&request.trace_id),
            request_path: text(&request.path),
        }
    }
}

/// Requests of this hour and of the last.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BothHours {
    /// Requests of the current hour.
    pub hour: Vec<ListedRequest>,
    /// Requests of the hour before.
    pub last_hour: Vec<ListedRequest>,
}

impl BothHours {
    /// Chooses requests from the lists of both hours.
    pub(super) fn new<'a, I: Iterator<Item = &'a SlowRequest>>(
        lists: &'a [Arc<Vec<SlowRequests>>; 2],
        of: fn(&'a SlowRequests) -> I,
    ) -> Self {
        let [hour, last_hour] = lists.each_ref().map(|lists| {
            let requests = lists.iter().flat_map(of);
            requests.map(ListedRequest::new).collect()
        });
        Self { hour, last_hour }
    }
}

/// The lists of a context in this hour and in the last. Timers have none.
pub(super) async fn both_hours(
    source: &Source,
    context: &ContextId,
) -> Result<[Arc<Vec<SlowRequests>>; 2], QueryError> {
    if context.kind != Kind::Http {
        return Ok(Default::default());
    }
    let hour = hour_of(source.clock.now_seconds());
    let contexts = std::slice::from_ref(context);
    let read = |start| source.reader.slow_requests(contexts, start);
    let (hour, last_hour) = tokio::join!(read(hour), read(hour - HOUR));
    Ok([hour?, last_hour?])
}
