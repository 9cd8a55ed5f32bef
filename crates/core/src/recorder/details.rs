//! The details of a request, which are recorded if the request is slow or fails.

use super::scope::RequestTimers;
use tower_pulse_model::failure::Failure;

/// Options for the details of slow and failed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailOptions {
    /// Whether the id of the trace, or else of the request, is recorded.
    pub trace_ids: bool,
    /// Whether the path without the query is recorded.
    pub paths: bool,
    /// Whether failures are listed without their messages.
    pub hides_messages: bool,
}

impl DetailOptions {
    /// Whether any details from the request's head are recorded.
    pub fn any(self) -> bool {
        self.trace_ids | self.paths
    }
}

/// The details of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestDetails<'a> {
    /// The id of the trace, or else of the request.
    pub trace_id: Option<&'a str>,
    /// The path without the query.
    pub path: Option<&'a str>,
    /// The nanoseconds that the request has waited in front of this process, if the wait is known.
    pub queue: Option<u64>,
    /// The timers that ran within the request.
    pub timers: Option<&'a RequestTimers>,
    /// The failure, as the service describes it.
    pub failure: Option<&'a Failure>,
}
