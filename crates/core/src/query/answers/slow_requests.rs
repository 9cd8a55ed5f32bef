//! Requests one by one, and the slowest and the newest failed ones of a context.

use serde::Serialize;

use super::measured::ContextName;
use crate::query::error::QueryError;
use crate::query::source::Source;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slow_request::{SlowRequest, SlowRequests};

/// A request.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[non_exhaustive]
pub struct ListedRequest {
    /// Its context. `path` is a route template.
    #[serde(flatten)]
    pub name: ContextName,
    /// How long it took, in seconds.
    pub duration: f64,
    /// When it ended, in Unix seconds.
    pub ended: f64,
    /// The status of its response; `None` if it had none.
    pub status: Option<u16>,
    /// How it ended, such as `"5xx"`.
    pub outcome: &'static str,
    /// Whether it counts as an error.
    pub error: bool,
    /// The name of the instance that answered it.
    pub instance: String,
    /// The id of its trace, if it had one.
    pub trace_id: Option<String>,
    /// The path of the request itself, if paths are recorded.
    pub request_path: Option<String>,
}

impl From<&SlowRequest> for ListedRequest {
    fn from(request: &SlowRequest) -> Self {
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

/// Requests of this hour and of the last one.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BothHours {
    /// Those of the current hour.
    pub hour: Vec<ListedRequest>,
    /// Those of the hour before.
    pub last_hour: Vec<ListedRequest>,
}

/// The requests of a context that are listed one by one.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ListedRequests {
    /// The 5 slowest of each hour, slowest first.
    pub slowest_requests: BothHours,
    /// The 5 newest failed ones of each hour, newest first. One of the slowest may be among them.
    pub failed_requests: BothHours,
}

/// The slowest and the newest failed requests of a context. Timers have none.
pub(super) async fn listed_requests(
    source: &Source,
    context: &ContextId,
) -> Result<ListedRequests, QueryError> {
    if context.kind != Kind::Http {
        return Ok(ListedRequests::default());
    }
    let hour = hour_of(source.clock.now_seconds());
    let contexts = std::slice::from_ref(context);
    let read = |start| source.reader.slow_requests(contexts, start);
    let (hour, last_hour) = tokio::join!(read(hour), read(hour - HOUR));
    let (hour, last_hour) = (hour?, last_hour?);
    let slowest = |lists: &[SlowRequests]| {
        let requests = lists.iter().flat_map(SlowRequests::slowest);
        requests.map(ListedRequest::from).collect()
    };
    let failed = |lists: &[SlowRequests]| {
        let requests = lists.iter().flat_map(SlowRequests::failed);
        requests.map(ListedRequest::from).collect()
    };
    Ok(ListedRequests {
        slowest_requests: BothHours {
            hour: slowest(&hour),
            last_hour: slowest(&last_hour),
        },
        failed_requests: BothHours {
            hour: failed(&hour),
            last_hour: failed(&last_hour),
        },
    })
}
