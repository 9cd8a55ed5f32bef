//! The ends of a measurement: a response, the end of a body, a drop, or no record at all.

use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::Guard;
use crate::layer::route::{Recorded, RequestContext};
use tower_pulse_core::clock::Tick;
use tower_pulse_core::recorder::{
    ContextHandle, Ended, RecordingState, RequestDetails, RequestPolls, ResponseHead, Unrecorded,
};
use tower_pulse_model::failure::Failure;
use tower_pulse_model::outcome::Outcome;

static NO_DETAILS: RequestDetails<'static> = RequestDetails {
    trace_id: None,
    path: None,
    queue: None,
    timers: None,
    failure: None,
};

impl Guard {
    /// Ends the request with the head of its response. Never inlined, for the reason that [`start`](Self::start) gives.
    #[inline(never)]
    pub(in crate::layer) fn responded(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) {
        let is_success = status.is_success() && !self.may_be_grpc;
        let start = self.start;
        let registered = match extensions.is_empty() {
            true => self.take_registered(),
            false => None,
        };
        match registered {
            Some(handle) if is_success && !handle.inspects_heads() => {
                let ended = Ended {
                    outcome: Outcome::Success,
                    is_error: false,
                    status: Some(status),
                };
                handle.finish_request(start, ended, &self.polls, &NO_DETAILS);
            }
            Some(handle) => {
                let head = ResponseHead::new(status, headers, extensions, self.may_be_grpc);
                let ended = ended_with(&handle, &head);
                finish(&handle, start, ended, &self.polls, &NO_DETAILS);
            }
            None if is_unrecorded(extensions) => self.discard(),
            None => {
                let head = ResponseHead::new(status, headers, extensions, self.may_be_grpc);
                self.finish_other(|handle| ended_with(handle, &head), extensions.get());
            }
        }
    }

    /// Moves the context out, if it is registered and the request has no details or timers.
    #[inline(always)]
    fn take_registered(&mut self) -> Option<Arc<ContextHandle>> {
        // Without this match, the function would need code that drops the other variants.
        let Some(RequestContext::Registered(_)) = self.context else {
            return None;
        };
        match self.context.take() {
            Some(RequestContext::Registered(handle)) => Some(handle),
            _ => None,
        }
    }

    /// Ends a request whose context is not registered, or that may have details, timers or a failure. Does nothing if
    /// the request has ended.
    #[cold]
    #[inline(never)]
    fn finish_other(
        &mut self,
        ended: impl FnOnce(&ContextHandle) -> Ended,
        failure: Option<&Failure>,
    ) {
        let recorded = self.context.take().and_then(RequestContext::into_recorded);
        let Some(Recorded {
            handle,
            details,
            scope,
        }) = recorded
        else {
            return;
        };
        let ended = ended(&handle);
        // The timers end before the request, so that they cover no more than its time. They are added after the
        // request, so that no drain takes them without the request.
        let timers = scope.map(|scope| scope.end(&handle));
        let error_timers = timers.as_ref().filter(|_| ended.is_error);
        let failure = failure.or_else(|| error_timers?.failure.as_ref());
        let request_details = RequestDetails {
            timers: timers.as_ref(),
            failure,
            ..details.details()
        };
        finish(&handle, self.start, ended, &self.polls, &request_details);
        if let Some(failure) = failure {
            handle.count_failure(failure);
        }
        if let Some(timers) = timers {
            timers.add_to(&handle);
        }
        if let Some(time) = details.queue_time() {
            time.record(&handle);
        }
    }

    /// Marks the head of the response as sent; the body follows.
    pub(in crate::layer) fn head_sent(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) {
        self.status = Some(status);
        let head = ResponseHead::new(status, headers, extensions, self.may_be_grpc);
        self.poll_ended();
        let recording = self.context.as_ref().and_then(RequestContext::recording);
        self.is_head_error = recording.is_some_and(|recording| is_error(recording, &head));
    }

    /// Ends the request with the body of its response. `failure` is that of the head.
    pub(in crate::layer) fn body_ended(&mut self, outcome: Outcome, failure: Option<&Failure>) {
        self.end(outcome, self.is_head_error, failure);
    }

    /// Moves the measurement out, so that the body can end it.
    pub(in crate::layer) fn move_to_body(&mut self) -> Self {
        Self {
            context: self.context.take(),
            span: std::mem::take(&mut self.span),
            ..*self
        }
    }

    #[cold]
    pub(super) fn discard(&mut self) {
        let context = self.context.take();
        if let Some(recording) = context.as_ref().and_then(RequestContext::recording) {
            recording.request_ended();
        }
        if let Some(handle) = context.as_ref().and_then(RequestContext::handle) {
            handle.abandon();
        }
    }

    /// Ends the request with an outcome. Further calls do nothing.
    #[inline(never)]
    pub(in crate::layer) fn end(
        &mut self,
        outcome: Outcome,
        is_error: bool,
        failure: Option<&Failure>,
    ) {
        let ended = Ended {
            outcome,
            is_error,
            status: self.status,
        };
        let registered = match failure {
            None => self.take_registered(),
            Some(_) => None,
        };
        match registered {
            Some(handle) => finish(&handle, self.start, ended, &self.polls, &NO_DETAILS),
            None => self.finish_other(|_| ended, failure),
        }
    }

    /// Ends a request that is dropped before its end. `failure` is that of the response's head.
    #[cold]
    pub(in crate::layer) fn end_dropped(&mut self, failure: Option<&Failure>) {
        let outcome = match self.status {
            _ if std::thread::panicking() => Outcome::Panicked,
            None => Outcome::Cancelled,
            Some(_) => Outcome::BodyAborted,
        };
        self.polls.drop_between();
        self.end(outcome, outcome.is_error() || self.is_head_error, failure);
    }
}

#[inline(never)]
fn finish(
    handle: &ContextHandle,
    start: Tick,
    ended: Ended,
    polls: &RequestPolls,
    details: &RequestDetails<'_>,
) {
    if handle.is_unmatched() && ended.outcome == Outcome::Success {
        handle.recording().note_unmatched();
    }
    handle.finish_request(start, ended, polls, details);
}

fn ended_with(handle: &ContextHandle, head: &ResponseHead<'_>) -> Ended {
    Ended {
        outcome: Outcome::from_status(head.status.as_u16()),
        is_error: is_error(handle.recording(), head),
        status: Some(head.status),
    }
}

fn is_error(recording: &RecordingState, head: &ResponseHead<'_>) -> bool {
    match recording.error_rule() {
        None => head.is_error(),
        Some(rule) => rule(head),
    }
}

#[inline]
pub(in crate::layer) fn is_unrecorded(extensions: &Extensions) -> bool {
    extensions.get::<Unrecorded>().is_some()
}
