//! The guard of a measurement, which ends exactly once: with a response, an error, a cancelled or panicking
//! request, or the end of a body.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::route::{ContextOverride, Recorded, Route, Target};
use super::source::Head;
use crate::clock::Tick;
use crate::model::outcome::Outcome;
use crate::recorder::{Core, Ended, Entry, RequestDetails, ResponseHead, Unrecorded, active};

thread_local! {
    /// Contexts that inner layers have given to requests of outer layers on this thread. An outer layer
    /// takes its context when the inner service returns.
    static OVERRIDES: RefCell<Vec<ContextOverride>> = const { RefCell::new(Vec::new()) };
}

/// The details of a request of which none are recorded.
const NO_DETAILS: RequestDetails<'static> = RequestDetails {
    trace_id: None,
    path: None,
};

/// The measurement of one request. Dropping it without an end records the request as cancelled or panicked.
pub(super) struct Guard {
    /// `None` if the request is not recorded, or has ended.
    target: Option<Target>,
    start: Tick,
    /// The recorder's id, or 0 if an outer layer measures the request.
    id: u32,
    /// The outcome that is recorded if the guard is dropped now.
    dropped_as: Outcome,
    /// Whether the head of a response counts as an error, for the end of its body.
    head_error: bool,
    /// The status of a head that was sent.
    status: Option<StatusCode>,
}

/// Marks the thread as working on a guard's request. To be ended by [`leave`](Self::leave): dropping it tells the
/// guard that the request has panicked.
pub(super) struct ActiveRequest<'a> {
    guard: &'a mut Guard,
    before: u64,
}

impl ActiveRequest<'_> {
    /// Ends the work on the request.
    #[inline(always)]
    pub(super) fn leave(self) {
        let mut active = ManuallyDrop::new(self);
        active.restore();
    }

    #[inline(always)]
    fn restore(&mut self) {
        if active::leave(self.before) {
            self.guard.settle(self.before);
        }
    }
}

impl Drop for ActiveRequest<'_> {
    /// The caller may catch the panic, and drop the guard later, when the thread is not panicking.
    #[cold]
    fn drop(&mut self) {
        self.guard.dropped_as = Outcome::Panicked;
        self.restore();
    }
}

/// Passes the context of an inner layer to the layer that measures the request. The context of the
/// innermost layer wins.
#[cold]
fn add_override(new: ContextOverride) {
    let _ = OVERRIDES.try_with(|overrides| {
        let mut overrides = overrides.borrow_mut();
        match overrides
            .iter_mut()
            .find(|old| old.recorder == new.recorder)
        {
            // A name from an outer layer wins over a route template.
            Some(old) if new.only_unmatched && !old.only_unmatched => {}
            Some(old) => *old = new,
            None => overrides.push(new),
        }
    });
    active::mark_unsettled();
}

impl Guard {
    /// Begins the measurement of a request, unless it is not recorded, or an outer layer of the same
    /// `Pulse` is measuring it already.
    ///
    /// Never inlined: its parts are then inlined here, once, whatever the compiler chooses to inline in a
    /// user's crate (measured: 1.04 instead of 1.25 times the floor).
    #[inline(never)]
    pub(super) fn start(route: &Arc<Route>, head: &Head<'_>) -> Self {
        let core = &*route.core;
        let (target, id) = if active::is_within(core.id()) {
            if let Some(inner) = route.context_override(head) {
                add_override(inner);
            }
            (None, 0)
        } else {
            // Set even if this layer does not record the request, so that no inner layer does.
            (route.target(head), core.id())
        };
        if target.is_some() {
            core.request_started();
        }
        Self {
            target,
            start: core.clock().tick(),
            id,
            dropped_as: Outcome::Cancelled,
            head_error: false,
            status: None,
        }
    }

    /// Marks this thread as working on the request, until [`ActiveRequest::leave`].
    #[inline(always)]
    pub(super) fn enter(&mut self) -> ActiveRequest<'_> {
        let before = active::enter(self.id);
        if let Some(Target::Timed(timed)) = &self.target {
            active::resume(self.id, &timed.scope);
        }
        ActiveRequest {
            guard: self,
            before,
        }
    }

    /// Takes the timers of this request off the thread, and the context that an inner layer has given to it. What
    /// belongs to requests of other recorders is left to the outer guards, whose mark is `before`.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, before: u64) {
        let scope = active::suspend(self.id, before);
        let has_overrides = self.take_override();
        if let Some(scope) = scope {
            self.target = self.target.take().map(|target| target.timed(scope));
        }
        if before != 0 && (has_overrides || active::has_scopes()) {
            active::mark_unsettled();
        }
    }

    /// Takes the context that an inner layer has given to this request. Returns whether there are contexts of other
    /// requests.
    fn take_override(&mut self) -> bool {
        let take = |overrides: &RefCell<Vec<ContextOverride>>| {
            let mut overrides = overrides.borrow_mut();
            let mine = overrides.iter().position(|one| one.recorder == self.id);
            let mine = mine.map(|at| overrides.swap_remove(at));
            (mine, overrides.is_empty())
        };
        let (mine, is_last) = OVERRIDES.try_with(take).unwrap_or((None, true));
        if let Some(inner) = mine {
            self.override_target(inner);
        }
        !is_last
    }

    /// Records this request to the context that an inner layer has given to it. The details stay those of this
    /// layer, which sees the whole request.
    fn override_target(&mut self, inner: ContextOverride) {
        // Otherwise the request is not recorded, or has ended.
        let Some(target) = self.target.take() else {
            return;
        };
        // Registers the context: the route then remembers it, and its next request allocates nothing.
        let Some(Recorded { entry, details, .. }) = target.into_recorded() else {
            return;
        };
        let is_unmatched = entry.is_unmatched();
        self.target = Some(match inner.target {
            Some(target) if is_unmatched || !inner.only_unmatched => target.with_details(details),
            Some(_) => Target::Registered(entry).with_details(details),
            None => {
                self.target = Some(Target::Registered(entry));
                return self.discard();
            }
        });
    }

    /// Ends with the head of a response. Never inlined, like [`start`](Self::start).
    #[inline(never)]
    pub(super) fn responded(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) {
        if is_unrecorded(extensions) {
            return self.discard();
        }
        match self.target.take() {
            None => {}
            Some(Target::Registered(entry)) => {
                let head = ResponseHead::new(status, headers, extensions);
                finish(&entry, self.start, ended_with(&entry, &head), NO_DETAILS);
            }
            Some(other) => {
                let head = ResponseHead::new(status, headers, extensions);
                let ended = |entry: &Entry| ended_with(entry, &head);
                finish_other(other, self.start, ended);
            }
        }
    }

    /// The head of a response has been sent, and the body follows.
    pub(super) fn head_sent(&mut self, head: &ResponseHead<'_>) {
        self.dropped_as = Outcome::BodyAborted;
        self.status = Some(head.status);
        let core = self.target.as_ref().and_then(Target::core);
        self.head_error = core.is_some_and(|core| is_error(core, head));
    }

    /// Ends with the body of a response.
    pub(super) fn body_ended(&mut self, outcome: Outcome) {
        self.end(outcome, self.head_error);
    }

    /// Moves the measurement out, for the body to end it.
    pub(super) fn hand_over(&mut self) -> Self {
        Self {
            target: self.target.take(),
            start: self.start,
            id: self.id,
            dropped_as: self.dropped_as,
            head_error: self.head_error,
            status: self.status,
        }
    }

    /// Ends without recording.
    #[cold]
    fn discard(&mut self) {
        if let Some(core) = self.target.take().as_ref().and_then(Target::core) {
            core.request_ended();
        }
    }

    /// Ends with an outcome. Further calls do nothing.
    #[inline(always)]
    pub(super) fn end(&mut self, outcome: Outcome, error: bool) {
        let ended = Ended {
            outcome,
            is_error: error,
            status: self.status,
        };
        match self.target.take() {
            None => {}
            Some(Target::Registered(entry)) => finish(&entry, self.start, ended, NO_DETAILS),
            Some(other) => finish_other(other, self.start, |_| ended),
        }
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

#[inline(always)]
fn finish(entry: &Entry, start: Tick, ended: Ended, details: RequestDetails<'_>) {
    if entry.is_unmatched() {
        warn_unmatched(entry.core(), ended.outcome);
    }
    entry.finish_request(start, ended, details);
}

/// Ends a request whose context is not registered, which has details, or within which timers ran.
#[cold]
#[inline(never)]
fn finish_other(target: Target, start: Tick, ended: impl FnOnce(&Entry) -> Ended) {
    let Some(Recorded {
        entry,
        details,
        scope,
    }) = target.into_recorded()
    else {
        return;
    };
    let ended = ended(&entry);
    // In this order, timers never cover more than the request's time, and are never drained before it.
    let timers = scope.map(|scope| scope.end(&entry));
    finish(&entry, start, ended, details.details());
    if let Some(timers) = timers {
        timers.add_to(&entry);
    }
}

/// The end with the head of a response.
#[inline(always)]
fn ended_with(entry: &Entry, head: &ResponseHead<'_>) -> Ended {
    Ended {
        outcome: Outcome::from_status(head.status.as_u16()),
        is_error: is_error(entry.core(), head),
        status: Some(head.status),
    }
}

/// Whether a response counts as an error, by the user's rule if there is one.
#[inline(always)]
fn is_error(core: &Core, head: &ResponseHead<'_>) -> bool {
    match core.error_rule() {
        None => head.is_error(),
        Some(rule) => rule(head),
    }
}

/// Whether a response is marked as not to be recorded.
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
