//! The guard of a measurement, which ends exactly once: with a response, an error, a cancelled or panicking
//! request, or the end of a body.

use std::cell::RefCell;
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::route::{ContextOverride, Route, Target};
use super::source::Head;
use crate::clock::Tick;
use crate::model::outcome::Outcome;
use crate::recorder::{Core, Entry, ResponseHead, Scope, Unrecorded, active};

thread_local! {
    /// Contexts that inner layers have given to requests of outer layers on this thread. An outer layer
    /// takes its context when the inner service returns.
    static OVERRIDES: RefCell<Vec<ContextOverride>> = const { RefCell::new(Vec::new()) };
}

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
}

/// Marks the thread as working on a guard's request, until this value is dropped.
struct ActiveRequest<'a> {
    guard: &'a mut Guard,
    before: u64,
}

impl Drop for ActiveRequest<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if active::leave(self.before) {
            self.guard.settle(self.before);
        }
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
        }
    }

    /// Runs a part of the request. If it panics, the guard records a panic, however late it is dropped.
    #[inline(always)]
    pub(super) fn run<T>(&mut self, part: impl FnOnce() -> T) -> T {
        let otherwise = std::mem::replace(&mut self.dropped_as, Outcome::Panicked);
        let within = self.within();
        if let Some(Target::Timed(timed)) = &within.guard.target {
            active::resume(within.guard.id, &timed.scope);
        }
        let value = part();
        drop(within);
        self.dropped_as = otherwise;
        value
    }

    /// Calls the service. If it panics, the thread is still panicking when the guard is dropped.
    #[inline(always)]
    pub(super) fn call<T>(&mut self, service: impl FnOnce() -> T) -> T {
        let _within = self.within();
        service()
    }

    #[inline(always)]
    fn within(&mut self) -> ActiveRequest<'_> {
        let before = active::enter(self.id);
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

    /// Records this request to the context that an inner layer has given to it.
    fn override_target(&mut self, inner: ContextOverride) {
        // `None` if the request is not recorded, or has ended.
        let Some(target) = self.target.take() else {
            return;
        };
        // Registers the context: the route then remembers it, and its next request allocates nothing.
        self.target = Some(Target::Registered(target.into_entry().0));
        let is_unmatched = self.target.as_ref().is_some_and(Target::is_unmatched);
        match inner.target {
            Some(_) if inner.only_unmatched && !is_unmatched => {}
            Some(target) => self.target = Some(target),
            None => self.discard(),
        }
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
        let Some(target) = self.target.take() else {
            return;
        };
        let (entry, scope) = target.into_entry();
        let head = ResponseHead::new(status, headers, extensions);
        let error = is_error(entry.core(), &head);
        let outcome = Outcome::from_status(status.as_u16());
        finish(&entry, scope, self.start, outcome, error);
    }

    /// The head of a response has been sent, and the body follows.
    pub(super) fn head_sent(&mut self, head: &ResponseHead<'_>) {
        self.dropped_as = Outcome::BodyAborted;
        self.head_error = match &self.target {
            None => false,
            Some(target) => is_error(target.core(), head),
        };
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
        }
    }

    /// Ends without recording.
    #[cold]
    fn discard(&mut self) {
        if let Some(target) = self.target.take() {
            target.core().request_ended();
        }
    }

    /// Ends with an outcome. Further calls do nothing.
    #[inline(always)]
    pub(super) fn end(&mut self, outcome: Outcome, error: bool) {
        if let Some(target) = self.target.take() {
            let (entry, scope) = target.into_entry();
            finish(&entry, scope, self.start, outcome, error);
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
fn finish(
    entry: &Arc<Entry>,
    scope: Option<Arc<Scope>>,
    start: Tick,
    outcome: Outcome,
    error: bool,
) {
    if entry.is_unmatched() {
        warn_unmatched(entry.core(), outcome);
    }
    match scope {
        None => entry.finish_request(start, outcome, error),
        Some(scope) => finish_timed(entry, &scope, start, outcome, error),
    }
}

#[cold]
#[inline(never)]
fn finish_timed(entry: &Arc<Entry>, scope: &Scope, start: Tick, outcome: Outcome, error: bool) {
    // In this order, timers never cover more than the request's time, and are never drained before it.
    let timers = scope.end(entry);
    entry.finish_request(start, outcome, error);
    timers.add_to(entry);
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
