//! What ends a measurement, exactly once: a response, an error, a cancelled or a panicking request,
//! the end of a body.

use std::cell::Cell;
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, StatusCode};

use super::route::{Route, Target};
use super::source::Head;
use crate::clock::Tick;
use crate::model::outcome::Outcome;
use crate::recorder::{Core, Unrecorded};

thread_local! {
    /// The id of the recorder whose request this thread is working on, and of the one around that: a
    /// second layer of the same `Pulse` around the same request sees it, and leaves the counting to
    /// the first.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
}

/// The measurement of one request. Dropped without an end, it was cancelled, or it panicked.
pub(super) struct Guard {
    /// `None`: the request is not recorded, or it has ended.
    target: Option<Target>,
    start: Tick,
    /// That of the recorder, or 0 when it was never to be recorded.
    id: u32,
    /// What it is if it is dropped now.
    dropped_as: Outcome,
    /// A response whose body is still to come counts as an error for its head.
    head_error: bool,
}

/// Marks the thread as working on a request of a recorder, until it is dropped.
pub(super) struct Within(u64);

impl Within {
    /// 0 leaves the mark as it is.
    #[inline(always)]
    fn of(id: u32) -> Self {
        let replace = |within: &Cell<u64>| {
            let before = within.get();
            within.set(if id == 0 {
                before
            } else {
                before << 32 | u64::from(id)
            });
            before
        };
        Self(WITHIN.try_with(replace).unwrap_or(0))
    }

    /// Whether the thread is working on a request of this recorder.
    #[inline(always)]
    fn is(id: u32) -> bool {
        let within = WITHIN.try_with(Cell::get).unwrap_or(0);
        within as u32 == id || (within >> 32) as u32 == id
    }
}

impl Drop for Within {
    #[inline(always)]
    fn drop(&mut self) {
        let before = self.0;
        let _ = WITHIN.try_with(|within| within.set(before));
    }
}

impl Guard {
    /// Begins the measurement of a request, unless it is not to be recorded, or a layer of the same
    /// `Pulse` further out is measuring it already.
    ///
    /// Not inlined: what it consists of is then put together here, once, and not left to how much a
    /// user's crate takes for worth inlining (measured: 1.04 instead of 1.25 of the floor).
    #[inline(never)]
    pub(super) fn start(route: &Arc<Route>, head: &Head<'_>) -> Self {
        let core = &*route.core;
        let target = if Within::is(core.id()) {
            None
        } else {
            route.target(head)
        };
        let mut id = 0;
        if target.is_some() {
            core.request_started();
            id = core.id();
        }
        Self {
            target,
            start: core.clock().tick(),
            id,
            dropped_as: Outcome::Cancelled,
            head_error: false,
        }
    }

    /// The service is about to be called. If it panics, so is the thread when the guard is dropped.
    #[inline(always)]
    pub(super) fn within(&self) -> Within {
        Within::of(self.id)
    }

    /// A part of the request is about to run. If it panics, the guard knows, however late it is
    /// dropped.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> (Within, Outcome) {
        let otherwise = std::mem::replace(&mut self.dropped_as, Outcome::Panicked);
        (self.within(), otherwise)
    }

    /// It has run.
    #[inline(always)]
    pub(super) fn leave(&mut self, (within, otherwise): (Within, Outcome)) {
        drop(within);
        self.dropped_as = otherwise;
    }

    /// Ends with the head of a response. Not inlined, as [`start`](Self::start).
    #[inline(never)]
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
            target: self.target.take(),
            start: self.start,
            id: self.id,
            dropped_as: self.dropped_as,
            head_error: self.head_error,
        }
    }

    /// Ends without a trace.
    #[cold]
    fn discard(&mut self) {
        match self.target.take() {
            None => {}
            Some(Target::Known(entry)) => entry.core().request_ended(),
            Some(Target::New(new)) => new.core().request_ended(),
        }
    }

    /// Ends with an outcome. Only the first end counts.
    #[inline(always)]
    pub(super) fn end(&mut self, outcome: Outcome, error: bool) {
        let entry = match self.target.take() {
            None => return,
            Some(Target::Known(entry)) => entry,
            Some(Target::New(new)) => new.entry(),
        };
        if entry.is_unmatched() {
            warn_unmatched(entry.core(), outcome);
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
        if self.target.is_some() {
            self.end_dropped();
        }
    }
}

/// Whether a response says that it is not to be recorded.
#[inline]
pub(super) fn is_unrecorded(extensions: &Extensions) -> bool {
    extensions.get::<Unrecorded>().is_some()
}

#[cold]
fn warn_unmatched(core: &Core, outcome: Outcome) {
    if outcome == Outcome::Success {
        core.warn_unmatched();
    }
}

/// Whether the head carries a gRPC status that is not OK. Most responses have few headers, and
/// comparing names is cheaper than hashing one.
#[inline]
fn grpc_failed(headers: &HeaderMap) -> bool {
    static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
    let status = if headers.len() <= 4 {
        headers
            .iter()
            .find_map(|(name, value)| (*name == GRPC_STATUS).then_some(value))
    } else {
        headers.get(&GRPC_STATUS)
    };
    status.is_some_and(|status| status != "0")
}
