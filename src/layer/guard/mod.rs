//! The guard of a measurement. A measurement ends exactly once: with a response, the end of a body, an error, a panic,
//! or the drop of the request.

mod end;

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use http::{Extensions, Method, StatusCode};

use super::route::{ContextOverride, RequestContext, ServiceState};
use super::source::Head;
use super::span::RequestSpan;
use tower_pulse_core::clock::{Clock, Tick};
use tower_pulse_core::recorder::{RecordingState, RequestPolls, active, panics, thread_number};
use tower_pulse_model::outcome::Outcome;

pub(super) use end::is_unrecorded;

thread_local! {
    /// Contexts that inner layers have given to requests of outer layers on this thread. When the inner service
    /// returns, an outer layer takes the context for its request.
    static OVERRIDES: RefCell<Vec<ContextOverride>> = const { RefCell::new(Vec::new()) };
}

/// The measurement of one request. If the guard is dropped before the end, the request counts as cancelled, as panicked
/// or, after the head of the response, as `body_aborted`.
pub(super) struct Guard {
    /// `None` if the request is not recorded, or has ended.
    context: Option<RequestContext>,
    start: Tick,
    /// The recorder's id, or 0 if an outer layer measures the request.
    id: u32,
    /// Whether the response may have a gRPC status: all requests of gRPC are POST.
    may_be_grpc: bool,
    /// Whether the head of the response counted as an error.
    is_head_error: bool,
    /// The status of the response, once its head was sent.
    status: Option<StatusCode>,
    polls: RequestPolls,
    span: RequestSpan,
}

/// While this value exists, the thread is marked as working on the guard's request. [`leave`](Self::leave) ends the
/// work. A drop without `leave` means that the request has panicked.
pub(super) struct ActiveRequest<'a> {
    guard: &'a mut Guard,
    before: u64,
}

impl ActiveRequest<'_> {
    #[inline(always)]
    pub(super) fn leave(self) {
        let mut active = ManuallyDrop::new(self);
        let before = active.before;
        active.guard.leave(before);
    }
}

impl Drop for ActiveRequest<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.guard.panicked(self.before);
    }
}

/// Passes the context of an inner layer to the layer that measures the request. The innermost layer's context wins.
#[cold]
fn add_override(new: ContextOverride) {
    let _ = OVERRIDES.try_with(|overrides| {
        let mut overrides = overrides.borrow_mut();
        match overrides
            .iter_mut()
            .find(|old| old.recorder_id == new.recorder_id)
        {
            // A route template does not replace the context that a name or a function gives.
            Some(old) if new.is_for_unmatched && !old.is_for_unmatched => {}
            Some(old) => *old = new,
            None => overrides.push(new),
        }
    });
    active::mark_unsettled();
}

impl Guard {
    /// Begins the measurement of a request. Measures nothing if the request is not recorded, or if an outer layer of
    /// the same `Pulse` already measures it. The method and the extensions are those of the head.
    ///
    /// Never inlined into a user's crate, so that the functions that it calls are inlined into it, once. A request is
    /// then faster in `benches/peers`.
    #[inline(never)]
    pub(super) fn start<'a>(
        state: &Arc<ServiceState>,
        method: &Method,
        extensions: &Extensions,
        head: &dyn Fn() -> Head<'a>,
    ) -> Self {
        let recording = &*state.recording;
        if !active::is_within_any()
            && !has_span(recording)
            && let Some(handle) = state.seen(method, extensions)
        {
            let thread = thread_number();
            recording.request_started(thread);
            handle.begin(thread);
            // The clock is read before the clone is made. In the other order, the function would need code that drops
            // the clone if the clock panics.
            let start = recording.clock().tick();
            let context = Some(RequestContext::Registered(handle.clone()));
            return Self::new(context, start, recording.id(), method);
        }
        Self::start_unseen(state, &head())
    }

    /// Begins the measurement of a request whose context is not in the slot of its service, or that has a span, or that
    /// an outer layer may measure.
    #[cold]
    #[inline(never)]
    fn start_unseen(state: &Arc<ServiceState>, head: &Head<'_>) -> Self {
        let recording = &*state.recording;
        let (context, id) = if active::is_within(recording.id()) {
            if let Some(inner) = state.context_override(head) {
                add_override(inner);
            }
            (None, 0)
        } else {
            // The id is set even if this layer does not record the request, so that no inner layer records it.
            (state.context(head), recording.id())
        };
        if let Some(context) = &context {
            recording.request_started(thread_number());
            context.begin();
        }
        let mut guard = Self::new(context, recording.clock().tick(), id, head.method);
        if has_span(recording) {
            guard.open_span(recording);
        }
        guard
    }

    /// Opens the span of the request, if the request is recorded here.
    fn open_span(&mut self, recording: &RecordingState) {
        if self.context.is_some()
            && let Some((span, scope)) = RequestSpan::open(recording, self.start)
        {
            self.span = span;
            self.context = self.context.take().map(|context| context.timed(scope));
        }
    }

    #[inline(always)]
    fn new(context: Option<RequestContext>, start: Tick, id: u32, method: &Method) -> Self {
        Self {
            context,
            start,
            id,
            may_be_grpc: *method == Method::POST,
            is_head_error: false,
            status: None,
            polls: RequestPolls::new(start),
            span: RequestSpan::default(),
        }
    }

    /// Marks this thread as working on the request, until [`ActiveRequest::leave`]. Used for the call of the service:
    /// before this call, only a request with a span has timers to restore.
    #[inline(always)]
    pub(super) fn enter(&mut self) -> ActiveRequest<'_> {
        let before = active::enter(self.id);
        if cfg!(feature = "tracing") {
            self.restore();
        }
        ActiveRequest {
            guard: self,
            before,
        }
    }

    /// Gives the timers and the span of the request back to this thread.
    #[inline(always)]
    fn restore(&self) {
        if let Some(RequestContext::Timed(timed)) = &self.context {
            active::resume(self.id, &timed.scope);
        }
        self.span.enter();
    }

    /// Like [`enter`](Self::enter), for the polls after the call. Also begins the poll if an earlier poll has ended,
    /// and always restores the request's timers.
    #[inline(always)]
    pub(super) fn resume(&mut self) -> ActiveRequest<'_> {
        if self.polls.has_ended_one()
            && let Some(clock) = clock(self.context.as_ref())
        {
            self.polls.begin(clock);
        }
        let before = active::enter(self.id);
        let active = ActiveRequest {
            guard: self,
            before,
        };
        active.guard.restore();
        active
    }

    /// Ends a poll that did not end the request.
    #[inline(always)]
    pub(super) fn poll_ended(&mut self) {
        if let Some(clock) = clock(self.context.as_ref()) {
            self.polls.end(clock);
        }
    }

    /// Restores the mark that the thread had before [`enter`](Self::enter).
    #[inline(always)]
    fn leave(&mut self, before: u64) {
        self.span.exit();
        if active::leave(before) {
            self.settle(before);
        }
    }

    /// Ends the request at once. Otherwise, a caller that catches the panic would drop the guard after the panic, and
    /// the request would count as cancelled.
    #[cold]
    #[inline(never)]
    fn panicked(&mut self, before: u64) {
        self.leave(before);
        self.end(Outcome::Panicked, true, None);
    }

    /// Takes the request's timers off the thread, and the context that an inner layer has given to the request. Adds
    /// the last panic to the request. For outer guards, the panic stays on the thread, and so do timers and contexts of
    /// other recorders. `before` is the thread's mark from before [`enter`](Self::enter); 0 means that no outer guard
    /// is active.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, before: u64) {
        let scope = active::suspend(self.id, before);
        let has_overrides = self.take_override();
        if let Some(scope) = scope {
            self.context = self.context.take().map(|context| context.timed(scope));
        }
        // A `Within` outside of a layer may have set the bit `UNSETTLED`, although no outer guard is active.
        let panic = panics::last_panic(before & !active::UNSETTLED == 0);
        let has_panic = panic.is_some();
        if let Some(failure) = panic {
            let context = self.context.take();
            self.context = context.map(|context| context.failed(failure, self.start));
        }
        if before != 0 && (has_overrides || has_panic || active::has_scopes()) {
            active::mark_unsettled();
        }
    }

    /// Takes the context that an inner layer has given to this request. Returns whether there are contexts of other
    /// requests.
    fn take_override(&mut self) -> bool {
        let take = |overrides: &RefCell<Vec<ContextOverride>>| {
            let mut overrides = overrides.borrow_mut();
            let mine = overrides.iter().position(|new| new.recorder_id == self.id);
            let mine = mine.map(|at| overrides.swap_remove(at));
            (mine, overrides.is_empty())
        };
        let (mine, is_last) = OVERRIDES.try_with(take).unwrap_or((None, true));
        if let Some(inner) = mine {
            self.override_context(inner);
        }
        !is_last
    }

    /// Replaces the context with the one that an inner layer has given to this request. Keeps the details of this
    /// layer, which sees the whole request.
    fn override_context(&mut self, inner: ContextOverride) {
        // Without a context, the request is not recorded, or has ended.
        let Some(context) = self.context.take() else {
            return;
        };
        // The registration fills the slot, so that the route's next request allocates nothing.
        let Some(recorded) = context.into_recorded() else {
            return;
        };
        let (handle, details) = (recorded.handle, recorded.details);
        let is_unmatched = handle.is_unmatched();
        self.context = Some(match inner.context {
            Some(context) if is_unmatched || !inner.is_for_unmatched => {
                handle.abandon();
                context.begin();
                context.with_details(details)
            }
            Some(_) => RequestContext::Registered(handle).with_details(details),
            None => {
                self.context = Some(RequestContext::Registered(handle));
                return self.discard();
            }
        });
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if self.context.is_some() {
            self.end_dropped(None);
        }
    }
}

#[inline(always)]
fn has_span(recording: &RecordingState) -> bool {
    cfg!(feature = "tracing")
        && matches!(recording.spans.get(), Some(spans) if spans.is_installed())
}

/// The clock of the recorder, if the request is recorded. Optimized for registered contexts, because most polls call
/// this function.
#[inline(always)]
fn clock(context: Option<&RequestContext>) -> Option<&Clock> {
    match context {
        Some(RequestContext::Registered(handle)) => Some(handle.recording().clock()),
        other => clock_of_other(other),
    }
}

#[cold]
#[inline(never)]
fn clock_of_other(context: Option<&RequestContext>) -> Option<&Clock> {
    Some(context?.recording()?.clock())
}
