//! The slowest requests of a window, of all or of selected contexts, as far back as requests are kept.
//!
//! The store keeps few requests: a list of the slowest requests of all contexts, and for each context its own list of
//! the slowest and the newest failed requests. One page's requests may fill the list of all contexts. So a question
//! with a filter also reads the own lists of the contexts with the slowest requests. The number of these lists is
//! bounded, so the number of reads does not grow with the number of contexts.

use std::collections::HashMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::slow_requests::ListedRequest;
use super::{MAX_ROWS, NameFilter, check_limit, check_number};
use crate::query::window::WindowSlices;
use crate::query::windows::sums::Summary;
use crate::query::{Covered, QueryError, Source, Window};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::order::{InOrder, keep_first};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slow_request::{SLOW_OF_ALL, SlowRequest, SlowRequests};
use tower_pulse_model::tier::FINEST;

/// The maximum number of contexts whose own lists are read for an hour: as many as an answer has requests.
const MAX_LISTS: usize = SLOW_OF_ALL;

const MAX_INSTANCES: usize = 100;

/// Asks for the slowest requests.
/// The answer is [`SlowestRequests`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SlowestRequestsQuery {
    /// The window in which the requests ended. Requests are kept for the current hour and the hour before.
    pub window: Window,
    /// Only requests of this context.
    pub context: Option<String>,
    /// Only requests of contexts whose name contains this text, ignoring case.
    #[serde(rename = "q")]
    pub contains: String,
    /// Only requests that this instance answered.
    pub instance: Option<String>,
    /// Only requests that ended this way.
    pub status: Option<RequestStatus>,
    /// The maximum number of requests of each context, 1 to 1,000.
    pub per_path: Option<usize>,
    /// The maximum number of requests, at most 100.
    pub limit: Option<usize>,
}

/// The end of a request: a status, a class of statuses, an outcome, or any error.
///
/// ```
/// # mod tower_pulse { pub use tower_pulse_core::query::answers as query; }
/// use tower_pulse::query::RequestStatus;
///
/// for name in ["502", "5xx", "cancelled", "failed"] {
///     assert!(name.parse::<RequestStatus>().is_ok());
/// }
/// assert!("99".parse::<RequestStatus>().is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestStatus(Ending);

#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The request counts as an error.
    Failed,
    /// The request has this outcome. If the whole response was sent, the outcome is the class of the status.
    Outcome(Outcome),
    /// The response has this status.
    Code(u16),
}

impl RequestStatus {
    /// Requests that count as errors.
    pub const FAILED: Self = Self(Ending::Failed);

    fn matches(self, request: &SlowRequest) -> bool {
        match self.0 {
            Ending::Failed => request.is_error,
            Ending::Outcome(outcome) => request.outcome == outcome,
            Ending::Code(code) => request.status == Some(code),
        }
    }

    /// Whether one of the requests in `summary` may have ended this way.
    fn may_match(self, summary: &Summary) -> bool {
        let has = |outcome| summary.outcomes.count(outcome) > 0;
        match self.0 {
            Ending::Failed => summary.outcomes.errors > 0,
            Ending::Outcome(outcome) => has(outcome),
            // Requests whose body failed or was aborted also have a status.
            Ending::Code(code) => {
                has(Outcome::from_status(code))
                    || has(Outcome::BodyAborted)
                    || has(Outcome::BodyFailed)
            }
        }
    }
}

impl<'de> Deserialize<'de> for RequestStatus {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for RequestStatus {
    type Err = QueryError;

    /// Parses a status of three digits, a class such as `5xx`, an outcome such as `cancelled`, or `failed`.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        let outcomes = || {
            let all = Outcome::ALL.into_iter();
            all.filter(|outcome| *outcome != Outcome::Completed)
        };
        if name == "failed" {
            return Ok(Self::FAILED);
        }
        if let Some(outcome) = outcomes().find(|outcome| outcome.as_str() == name) {
            return Ok(Self(Ending::Outcome(outcome)));
        }
        let is_code = name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit());
        let code = name.parse().ok().filter(|code| is_code && *code >= 100);
        code.map(|code| Self(Ending::Code(code))).ok_or_else(|| {
            let names: Vec<_> = outcomes().map(Outcome::as_str).collect();
            let names = names.join(", ");
            let message =
                format!("status must be one of failed, {names}, or a status of 100 to 999");
            QueryError::parameter("status", message)
        })
    }
}

/// The slowest requests of a window.
///
/// The answer to [`SlowestRequestsQuery`](crate::query::SlowestRequestsQuery).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SlowestRequests {
    /// The part of the window whose requests are kept.
    #[serde(flatten)]
    pub covered: Covered,
    /// When the kept requests begin, in Unix seconds.
    pub kept_since: i64,
    /// Number of contexts whose own lists were read, in addition to the list of all contexts.
    ///
    /// A context counts once per hour.
    pub lists: usize,
    /// Number of contexts whose own lists may have a matching request.
    ///
    /// If greater than `lists`, only the lists of the contexts with the slowest requests were read.
    pub lists_in_all: usize,
    /// The instances of the requests that match all parameters except `instance`, by name, at most 100.
    pub instances: Vec<String>,
    /// Number of listed requests that match.
    pub total: usize,
    /// The requests, slowest first.
    pub requests: Vec<ListedRequest>,
}

impl SlowestRequestsQuery {
    /// Whether the question has a filter. If so, the list of all contexts may lack matching requests.
    fn is_selective(&self) -> bool {
        let has_filter = self.context.is_some() || !self.contains.is_empty();
        has_filter || self.instance.is_some() || self.status.is_some() || self.per_path.is_some()
    }

    /// Chooses the contexts whose own lists are read for an hour. Also returns the number of lists that may have a
    /// matching request.
    async fn contexts(
        &self,
        source: &Source,
        contains: &NameFilter,
        start: i64,
    ) -> Result<(Vec<ContextId>, usize), QueryError> {
        if !self.is_selective() {
            return Ok((Vec::new(), 0));
        }
        if let Some(context) = &self.context {
            let is_asked_for = contains.matches(context);
            let context = is_asked_for.then(|| ContextId::new(Kind::Http, context.as_str()));
            return Ok((context.into_iter().collect(), usize::from(is_asked_for)));
        }
        let hours = source.window(Window::HOUR).await?;
        let parts = [&hours.now, &hours.before];
        let Some(part) = parts.into_iter().find(|part| part.covered.from == start) else {
            return Ok((Vec::new(), 0));
        };
        let pages = hours.contexts().filter(|id| id.kind == Kind::Http);
        let pages = pages.filter(|id| contains.matches(&id.name));
        let mut slowest: Vec<(f64, &ContextId)> = pages
            .filter_map(|id| {
                let summary = part.get(id)?;
                let may_match = self.status.is_none_or(|status| status.may_match(summary));
                may_match.then_some((summary.times.largest()?, id))
            })
            .collect();
        let count = slowest.len();
        keep_first(&mut slowest, MAX_LISTS, |(a, id), (b, other)| {
            b.total_cmp(a).then_with(|| id.cmp(other))
        });
        Ok((
            slowest.into_iter().map(|(_, id)| id.clone()).collect(),
            count,
        ))
    }

    /// The requests of an hour in the list of all contexts and in the contexts' own lists, without duplicates.
    fn requests<'a>(
        &self,
        all: &'a SlowRequests,
        others: &'a [SlowRequests],
    ) -> Vec<&'a SlowRequest> {
        let mut requests: Vec<&SlowRequest> = match self.status {
            // Without a status, the newest failed requests are left out, because requests in no list may be slower.
            None => others.iter().flat_map(SlowRequests::slowest).collect(),
            Some(_) => others.iter().flat_map(SlowRequests::iter).collect(),
        };
        // Keeps one copy of a request that is in both lists. Different requests may be equal in all fields, so a
        // request of one list counts as the copy of at most one request of the other list.
        let mut unmatched = requests.clone();
        for request in all.slowest() {
            match unmatched.iter().position(|other| *other == request) {
                Some(at) => _ = unmatched.swap_remove(at),
                None => requests.push(request),
            }
        }
        requests
    }
}

pub(in crate::query) async fn slowest_requests(
    source: &Source,
    query: &SlowestRequestsQuery,
) -> Result<SlowestRequests, QueryError> {
    let limit = check_limit(query.limit, SLOW_OF_ALL)?;
    check_number("per_path", query.per_path.unwrap_or(1), 1..=MAX_ROWS)?;
    let span = source.recorded_span().await?;
    let this = hour_of(span.now);
    let bounds = query.window.bounds(span.now);
    let bounds = bounds.start.max(this - HOUR)..bounds.end;
    let is_within = |start: &i64| bounds.start < start + HOUR && *start < bounds.end;
    let contains = NameFilter::new(&query.contains);
    let (mut lists, mut lists_in_all, mut read) = (0, 0, Vec::new());
    for start in [this, this - HOUR].into_iter().filter(is_within) {
        let (contexts, count) = query.contexts(source, &contains, start).await?;
        lists += contexts.len();
        lists_in_all += count;
        let contexts = [vec![ContextId::all()], contexts].concat();
        read.push(source.slow_requests(&contexts, start).await?);
    }
    let mut requests = Vec::new();
    for lists in &read {
        if let [all, others @ ..] = &lists[..] {
            requests.extend(query.requests(all, others));
        }
    }
    let is_asked = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|a| *a == name);
    requests.retain(|request| {
        bounds.contains(&request.ended.div_euclid(1_000))
            && is_asked(&query.context, &request.context)
            && contains.matches(&request.context)
            && query.status.is_none_or(|status| status.matches(request))
    });
    requests.order_by(|a, b| a.order(b));
    let mut instances: Vec<&str> = requests.iter().map(|request| &*request.instance).collect();
    instances.order();
    instances.dedup();
    let instances = instances.into_iter().take(MAX_INSTANCES);
    let instances = instances.map(str::to_owned).collect();
    requests.retain(|request| is_asked(&query.instance, &request.instance));
    if let Some(most) = query.per_path {
        let mut of_context: HashMap<&str, usize> = HashMap::new();
        requests.retain(|request| {
            let count = of_context.entry(&request.context).or_default();
            *count += 1;
            *count <= most
        });
    }
    // Covers whole minutes, so that `from` and `to` stay the same for a minute.
    let slices = WindowSlices::around(&bounds, FINEST.seconds, FINEST, i64::MIN);
    Ok(SlowestRequests {
        covered: Covered::read(source, slices, &span).await?,
        kept_since: this - HOUR,
        lists,
        lists_in_all,
        instances,
        total: requests.len(),
        requests: ListedRequest::all(source, requests.into_iter().take(limit).collect()).await?,
    })
}
