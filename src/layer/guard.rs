//! What ends a measurement, exactly once: a response, an error, a cancelled or a panicking request,
//! the end of a body.

use std::cell::Cell;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Request, StatusCode};

use super::route::{Route, Target};
use crate::clock::Tick;
use crate::model::outcome::Outcome;
use crate::recorder::{Core, Unrecorded};

thread_local! {
    /// The recorder whose request this thread is working on: a second layer of the same `Pulse`
    /// around the same request sees it, and leaves the counting to the first.
    static WITHIN: Cell<usize> = const { Cell::new(0) };
}

/// The measurement of one request. Dropped without an end, it was cancelled, or it panicked.
pub(super) struct Guard {
    target: Target,
    start: Tick,
    /// What it is if it is dropped now.
    dropped_as: Outcome,
    /// A response whose body is still to come counts as an error for its head.
    head_error: bool,
}

/// Marks the thread as working on a request of a recorder, until it is dropped.
pub(super) struct Within(usize);

impl Within {
    #[inline(always)]
    fn of(id: usize) -> Self {
        Self(WITHIN.try_with(|within| within.replace(id)).unwrap_or(0))
    }
}

impl Drop for Within {
    #[inline(always)]
    fn drop(&mut self) {
        let before = self.0;
        let _ = WITHIN.try_with(|within| within.set(before));
    }
}

#[inline(always)]
fn id(core: &Arc<Core>) -> usize {
    Arc::as_ptr(core) as usize
}

impl Guard {
    /// Begins the measurement of a request, unless it is not to be recorded, or a layer of the same
    /// `Pulse` further out is measuring it already.
    #[inline(always)]
    pub(super) fn start<B>(route: &Arc<Route>, request: &Request<B>) -> Self {
        let core = &route.recorder.core;
        let nested = WITHIN
            .try_with(|within| within.get() == id(core))
            .unwrap_or(false);
        let target = if nested {
            Target::Nowhere
        } else {
            route.target(request)
        };
        if !matches!(target, Target::Nowhere) {
            core.request_started();
        }
        Self {
            target,
            start: core.clock().tick(),
            dropped_as: Outcome::Cancelled,
            head_error: false,
        }
    }

    /// A part of the request is about to run. If it panics, the guard knows, however late it is
    /// dropped.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> Option<(Within, Outcome)> {
        let within = Within::of(id(self.target.core()?));
        let otherwise = std::mem::replace(&mut self.dropped_as, Outcome::Panicked);
        Some((within, otherwise))
    }

    /// It has run.
    #[inline(always)]
    pub(super) fn leave(&mut self, entered: Option<(Within, Outcome)>) {
        if let Some((within, otherwise)) = entered {
            drop(within);
            self.dropped_as = otherwise;
        }
    }

    /// The same, of a guard on its way to its place.
    #[inline(always)]
    pub(super) fn left(mut self, entered: Option<(Within, Outcome)>) -> Self {
        self.leave(entered);
        self
    }

    /// Ends with the head of a response.
    #[inline(always)]
    pub(super) fn responded(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) {
        let outcome = Outcome::of_status(status.as_u16());
        let error = outcome.is_error() || grpc_failed(headers);
        if is_unrecorded(extensions) {
            return self.discard();
        }
        // Nearly all requests end here.
        #[cfg(feature = "axum")]
        if let Target::Remembered(route) = &self.target
            && let Some(entry) = route.remembered()
        {
            entry.finish_request(self.start, outcome, error);
            if let Target::Remembered(route) = std::mem::replace(&mut self.target, Target::Nowhere)
            {
                drop(route);
            }
            return;
        }
        self.end(outcome, error);
    }

    /// The head of a response is there, its body is still to come.
    pub(super) fn head_sent(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.dropped_as = Outcome::BodyAborted;
        self.head_error = Outcome::of_status(status.as_u16()).is_error() || grpc_failed(headers);
    }

    /// Ends with the body of a response.
    pub(super) fn body_ended(&mut self, outcome: Outcome) {
        self.end(outcome, self.head_error);
    }

    /// What is left of the measurement, for the body to end it.
    pub(super) fn hand_over(&mut self) -> Self {
        Self {
            target: std::mem::replace(&mut self.target, Target::Nowhere),
            start: self.start,
            dropped_as: self.dropped_as,
            head_error: self.head_error,
        }
    }

    /// Whether it has ended, or was never begun.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.target, Target::Nowhere)
    }

    /// Ends without a trace.
    #[cold]
    fn discard(&mut self) {
        let target = std::mem::replace(&mut self.target, Target::Nowhere);
        if let Some(core) = target.core() {
            core.request_ended();
        }
        if let Target::New(new) = target {
            new.skip();
        }
    }

    /// Ends with an outcome. Only the first end counts.
    #[inline(never)]
    pub(super) fn end(&mut self, outcome: Outcome, error: bool) {
        let entry = match std::mem::replace(&mut self.target, Target::Nowhere) {
            Target::Nowhere => return,
            #[cfg(feature = "axum")]
            Target::Remembered(route) => match route.remembered() {
                Some(entry) => entry.clone(),
                None => return,
            },
            Target::Known(entry) => entry,
            Target::New(new) => new.entry(),
        };
        if outcome == Outcome::Success && entry.is_unmatched() {
            entry.core().warn_unmatched();
        }
        entry.finish_request(self.start, outcome, error);
    }

    #[cold]
    fn end_dropped(&mut self) {
        let outcome = if std::thread::panicking() {
            Outcome::Panicked
        } else {
            self.dropped_as
        };
        self.end(outcome, outcome.is_error() || self.head_error);
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_over() {
            self.end_dropped();
        }
    }
}

/// Whether a response says that it is not to be recorded.
#[inline]
pub(super) fn is_unrecorded(extensions: &Extensions) -> bool {
    extensions.get::<Unrecorded>().is_some()
}

/// Whether the head carries a gRPC status that is not OK. Most responses have few headers, and
/// comparing names is cheaper than hashing one.
#[inline]
fn grpc_failed(headers: &HeaderMap) -> bool {
    const GRPC_STATUS: &str = "grpc-status";
    let status = if headers.len() <= 4 {
        headers
            .iter()
            .find_map(|(name, value)| (name.as_str() == GRPC_STATUS).then_some(value))
    } else {
        headers.get(GRPC_STATUS)
    };
    status.is_some_and(|status| status != "0")
}
