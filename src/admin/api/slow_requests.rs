//! `api/slowest_requests`: the slowest requests of an hour, one by one, and those of a context in `api/path`.

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

/// The slowest requests of a context, slowest first.
#[derive(Serialize)]
pub(super) struct BothHours {
    hour: Vec<Request>,
    last_hour: Vec<Request>,
}

/// The slowest requests of a context in this hour and in the last one. Timers have none.
pub(super) async fn both_hours(admin: &Admin, context: &ContextId) -> Result<BothHours, ApiError> {
    let hour = hour_of(admin.source.clock.now_seconds());
    let mut hours = [Vec::new(), Vec::new()];
    if context.kind == Kind::Http {
        let read = |start| admin.reader.slow_requests(context, start);
        let (this, last) = tokio::join!(read(hour), read(hour - HOUR));
        hours = [this?, last?].map(|slowest| slowest.iter().map(Request::from).collect());
    }
    let [hour, last_hour] = hours;
    Ok(BothHours { hour, last_hour })
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
    let slowest = admin.reader.slow_requests(&all, covered.from).await?;
    Ok(SlowestRequests {
        window,
        covered,
        requests: slowest.iter().take(limit).map(Request::from).collect(),
    })
}
