//! Single requests, and lists of the slowest and of the newest failed requests of a context.

use std::sync::Arc;

use serde::Serialize;

use super::measured::ContextName;
use super::timers::timer_name;
use crate::query::store_reader::Names;
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
    /// When the request ended, in Unix seconds.
    pub ended: f64,
    /// The status of the response, if the request had a response.
    pub status: Option<u16>,
    /// The outcome, such as `"5xx"`.
    pub outcome: &'static str,
    /// Whether the request counts as an error.
    pub error: bool,
    /// The kind of error that the service gave; `None` if the service gave none.
    pub error_kind: Option<String>,
    /// The message of the error, at most 200 bytes; `None` if the service gave none, or if messages are not recorded.
    pub message: Option<String>,
    /// The instance that answered the request.
    pub instance: String,
    /// The trace id, if the request had one.
    pub trace_id: Option<String>,
    /// The literal path of the request, if paths are recorded.
    pub request_path: Option<String>,
    /// The wait in front of the service, before `duration`, in seconds; `None` if unknown.
    pub queue: Option<f64>,
    /// The time in which the request computed or blocked its worker, in seconds; `None` if its polls were not measured.
    pub computing: Option<f64>,
    /// The longest single poll, in seconds.
    pub longest_poll: Option<f64>,
    /// The time in which no timer ran, in seconds.
    pub untimed: f64,
    /// The timers that ran within the request, at most 8: the timers that cover the most time, longest first.
    pub timers: Vec<ListedTimer>,
}

/// A timer within one request.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ListedTimer {
    /// The name of the timer.
    pub timer: String,
    /// Number of runs that ended within the request.
    pub count: u64,
    /// The time of the request during which the timer ran, in seconds.
    pub seconds: f64,
}

impl ListedRequest {
    pub(super) async fn all(
        source: &Source,
        requests: Vec<&SlowRequest>,
    ) -> Result<Vec<Self>, QueryError> {
        let have_timers = requests.iter().any(|r| !r.parts.timers.is_empty());
        let names = match have_timers {
            true => Some(source.names().await?),
            false => None,
        };
        let requests = requests.into_iter();
        let listed = requests.map(|request| Self::new(request, names.as_deref()));
        Ok(listed.collect())
    }

    fn new(request: &SlowRequest, names: Option<&Names>) -> Self {
        let (parts, failure) = (&request.parts, request.failure.as_ref());
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let timers = parts.timers.iter().map(|part| ListedTimer {
            timer: timer_name(names, part.timer),
            count: part.count,
            seconds: seconds(part.covered),
        });
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            name: ContextName::new(&request.context, Kind::Http),
            duration: seconds(request.nanos),
            ended: request.ended as f64 / 1e3,
            status: request.status,
            outcome: request.outcome.as_str(),
            error: request.is_error,
            error_kind: failure.map(|failure| failure.kind().to_owned()),
            message: failure.and_then(|failure| Some(failure.message()?.to_owned())),
            instance: request.instance.to_string(),
            trace_id: text(&request.trace_id),
            request_path: text(&request.path),
            queue: parts.queue.map(seconds),
            computing: parts.computing.map(seconds),
            longest_poll: parts.computing.map(|_| seconds(parts.longest_poll)),
            untimed: seconds(request.nanos.saturating_sub(parts.timed)),
            timers: timers.collect(),
        }
    }
}

/// Requests of the current hour and of the hour before.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BothHours {
    /// Requests of the current hour.
    pub hour: Vec<ListedRequest>,
    /// Requests of the hour before.
    pub last_hour: Vec<ListedRequest>,
}

impl BothHours {
    pub(super) async fn new<'a, I: Iterator<Item = &'a SlowRequest>>(
        source: &Source,
        [hour, last_hour]: &'a [Arc<Vec<SlowRequests>>; 2],
        choose: fn(&'a SlowRequests) -> I,
    ) -> Result<Self, QueryError> {
        Ok(Self {
            hour: ListedRequest::all(source, hour.iter().flat_map(choose).collect()).await?,
            last_hour: ListedRequest::all(source, last_hour.iter().flat_map(choose).collect())
                .await?,
        })
    }
}

/// Timers have no lists.
pub(super) async fn both_hours(
    source: &Source,
    context: &ContextId,
) -> Result<[Arc<Vec<SlowRequests>>; 2], QueryError> {
    if context.kind != Kind::Http {
        return Ok(Default::default());
    }
    let hour = hour_of(source.clock.now_seconds());
    let contexts = std::slice::from_ref(context);
    let read = |start| source.slow_requests(contexts, start);
    let (hour, last_hour) = tokio::join!(read(hour), read(hour - HOUR));
    Ok([hour?, last_hour?])
}
