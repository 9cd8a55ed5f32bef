//! `api/slowest_requests`: the slowest requests of an hour, one by one; and the slowest and the newest failed requests
//! of a context in `api/path`.

use serde::Serialize;

use super::super::Admin;
use super::super::params::Params;
use super::super::response::ApiError;
use super::Name;
use super::window::Covered;
use crate::model::context::{ContextId, Kind};
use crate::model::slice::{HOUR, hour_of};
use crate::model::slow_request::{SLOW_OF_ALL, SlowRequest};
use crate::model::window::Window;

#[derive(Serialize)]
pub(in crate::admin) struct SlowestRequests {
    window: &'static str,
    #[serde(flatten)]
    covered: Covered,
    requests: Vec<Request>,
}

/// A request. What is not known is `null`.
#[derive(Serialize)]
struct Request {
    context: String,
    kind: &'static str,
    method: Option<String>,
    /// The path of the context: a route template.
    path: Option<String>,
    /// In seconds.
    duration: f64,
    /// When it ended, in Unix seconds.
    ended: f64,
    status: Option<u16>,
    outcome: &'static str,
    /// Whether it counts as an error.
    error: bool,
    instance: String,
    trace_id: Option<String>,
    /// The path of the request itself.
    request_path: Option<String>,
}

impl From<&SlowRequest> for Request {
    fn from(request: &SlowRequest) -> Self {
        let name = Name::new(&request.context, Kind::Http);
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            context: name.context.to_owned(),
            kind: name.kind,
            method: name.method.map(str::to_owned),
            path: name.path.map(str::to_owned),
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
#[derive(Default, Serialize)]
struct BothHours {
    hour: Vec<Request>,
    last_hour: Vec<Request>,
}

/// The requests of a context that are listed one by one.
#[derive(Default, Serialize)]
pub(super) struct ListedRequests {
    /// Slowest first.
    slowest_requests: BothHours,
    /// Newest first. One of the slowest may be among them.
    failed_requests: BothHours,
}

/// The slowest and the newest failed requests of a context. Timers have none.
pub(super) async fn listed_requests(
    admin: &Admin,
    context: &ContextId,
) -> Result<ListedRequests, ApiError> {
    if context.kind != Kind::Http {
        return Ok(ListedRequests::default());
    }
    let hour = hour_of(admin.source.clock.now_seconds());
    let read = |start| admin.reader.slow_requests(context, start);
    let (hour, last_hour) = tokio::join!(read(hour), read(hour - HOUR));
    let (hour, last_hour) = (hour?, last_hour?);
    Ok(ListedRequests {
        slowest_requests: BothHours {
            hour: hour.slowest().map(Request::from).collect(),
            last_hour: last_hour.slowest().map(Request::from).collect(),
        },
        failed_requests: BothHours {
            hour: hour.failed().map(Request::from).collect(),
            last_hour: last_hour.failed().map(Request::from).collect(),
        },
    })
}

pub(in crate::admin) async fn slowest_requests(
    admin: &Admin,
    params: &Params,
) -> Result<SlowestRequests, ApiError> {
    let hours = [("hour", ("hour", 0)), ("last_hour", ("last_hour", 1))];
    let (window, hours_ago) = params.choice("window", &hours)?;
    let limit = params.number("limit", SLOW_OF_ALL, SLOW_OF_ALL)?;
    let span = admin.reader.recorded_span().await?;
    let covered = Covered::of(Window::HoursAgo(hours_ago), span);
    let all = ContextId::all();
    let list = admin.reader.slow_requests(&all, covered.from).await?;
    Ok(SlowestRequests {
        window,
        covered,
        requests: list.slowest().take(limit).map(Request::from).collect(),
    })
}
