//! The guard of a measurement, which ends exactly once: with a response, an error, a cancelled or panicking
//! request, or the end of a body.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::route::{ContextOverride, Route, Target};
use super::source::Head;
use crate::clock::Tick;
use crate::model::outcome::Outcome;
use crate::recorder::{Core, Ended, Entry, RequestDetails, ResponseHead, Unrecorded};

thread_local! {
    /// The recorder whose request this thread is working on: its id in the lower half; in the upper half
    /// the id of the recorder around that one, and [`OVERRIDDEN`]. A second layer of the same `Pulse`
    /// around the same request reads it, and leaves the measurement to the first.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
    /// Contexts that inner layers have given to requests of outer layers on this thread. An outer layer
    /// takes its context when the inner service returns.
    static OVERRIDES: RefCell<Vec<ContextOverride>> = const { RefCell::new(Vec::new()) };
}

/// The bit of [`WITHIN`] that says that an inner layer has added to [`OVERRIDES`]. Ids of recorders do not
/// use it.
const OVERRIDDEN: u64 = 1 << 63;

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
    /// The status of the response, for the end of its body.
    status: Option<StatusCode>,
}

/// Marks the thread as working on a guard's request, until this value is dropped.
struct ActiveRequest<'a> {
    guard: &'a mut Guard,
    before: u64,
}

impl Drop for ActiveRequest<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let before = self.before;
        let replaced = WITHIN.try_with(|within| within.replace(before));
        if replaced.is_ok_and(|within| within & OVERRIDDEN != 0) {
            self.guard.take_override(before);
        }
    }
}

/// Whether this thread is working on a request of this recorder.
#[inline(always)]
fn is_within(id: u32) -> bool {
    let within = WITHIN.try_with(Cell::get).unwrap_or(0);
    // Checked first, because the outermost layer calls this most often.
    within != 0 && (within as u32 == id || ((within & !OVERRIDDEN) >> 32) as u32 == id)
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
    let _ = WITHIN.try_with(|within| within.set(within.get() | OVERRIDDEN));
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
        let (target, id) = if is_within(core.id()) {
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

    /// Runs a part of the request. If it panics, the guard records a panic, however late it is dropped.
    #[inline(always)]
    pub(super) fn run<T>(&mut self, part: impl FnOnce() -> T) -> T {
        let otherwise = std::mem::replace(&mut self.dropped_as, Outcome::Panicked);
        let within = self.within();
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
        let id = u64::from(self.id);
        let mark = |within: &Cell<u64>| {
            let before = within.get();
            within.set(if id == 0 { before } else { before << 32 | id });
            before
        };
        let before = WITHIN.try_with(mark).unwrap_or(0);
        ActiveRequest {
            guard: self,
            before,
        }
    }

    /// Takes the context that an inner layer has given to this request. Contexts for requests of other
    /// recorders are left to the outer guards, whose mark is `before`.
    #[cold]
    #[inline(never)]
    fn take_override(&mut self, before: u64) {
        let take = |overrides: &RefCell<Vec<ContextOverride>>| {
            let mut overrides = overrides.borrow_mut();
            let mine = overrides.iter().position(|one| one.recorder == self.id);
            let mine = mine.map(|at| overrides.swap_remove(at));
            (mine, overrides.is_empty())
        };
        let (mine, is_last) = OVERRIDES.try_with(take).unwrap_or((None, true));
        if !is_last && before != 0 {
            let _ = WITHIN.try_with(|within| within.set(before | OVERRIDDEN));
        }
        let Some(inner) = mine else { return };
        // Otherwise the request is not recorded, or has ended.
        let Some(target) = self.target.take() else {
            return;
        };
        // Registers the context: the route then remembers it, and its next request allocates nothing.
        let Some((entry, details)) = target.into_entry() else {
            return;
        };
        let is_unmatched = entry.is_unmatched();
        self.target = Some(Target::Registered(entry).with_details(details));
        match inner.target {
            Some(_) if inner.only_unmatched && !is_unmatched => {}
            Some(target) => self.replace_target(target),
            None => self.discard(),
        }
    }

    /// Replaces the context. The details stay those of this layer, which sees the whole request.
    fn replace_target(&mut self, target: Target) {
        let details = self.target.take().and_then(Target::into_entry);
        let details = details.map_or_else(Default::default, |(_, details)| details);
        self.target = Some(target.with_details(details));
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
                record_head(&entry, self.start, &head, NO_DETAILS);
            }
            Some(other) => record_head_of(other, self.start, status, headers, extensions),
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
        match self.target.take() {
            None => {}
            Some(Target::Registered(entry)) => {
                let ended = self.ended(outcome, error);
                finish(&entry, self.start, ended, NO_DETAILS);
            }
            Some(other) => self.end_of(other, outcome, error),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_of(&self, target: Target, outcome: Outcome, error: bool) {
        if let Some((entry, detailed)) = target.into_entry() {
            let ended = self.ended(outcome, error);
            finish(&entry, self.start, ended, detailed.details());
        }
    }

    fn ended(&self, outcome: Outcome, is_error: bool) -> Ended {
        Ended {
            outcome,
            is_error,
            status: self.status,
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

/// Ends with the head of a response.
#[inline(always)]
fn record_head(entry: &Entry, start: Tick, head: &ResponseHead<'_>, details: RequestDetails<'_>) {
    let ended = Ended {
        outcome: Outcome::from_status(head.status.as_u16()),
        is_error: is_error(entry.core(), head),
        status: Some(head.status),
    };
    finish(entry, start, ended, details);
}

/// Ends with the head of a response, where the context is not registered or there are details.
#[cold]
#[inline(never)]
fn record_head_of(
    target: Target,
    start: Tick,
    status: StatusCode,
    headers: &HeaderMap,
    extensions: &Extensions,
) {
    if let Some((entry, detailed)) = target.into_entry() {
        let head = ResponseHead::new(status, headers, extensions);
        record_head(&entry, start, &head, detailed.details());
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
