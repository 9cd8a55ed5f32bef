//! The guard of a measurement. A measurement ends exactly once: with a response, an error, a cancelled or panicking
//! request, or the end of a body.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, StatusCode};

use super::route::{ContextOverride, Recorded, RequestContext, Route};
use super::source::Head;
use super::span::RequestSpan;
use tower_pulse_core::clock::{Clock, Tick};
use tower_pulse_core::recorder::{
    ContextHandle, Ended, RecordingState, RequestDetails, RequestPolls, ResponseHead, Unrecorded,
    active, panics, thread_number,
};
use tower_pulse_model::failure::Failure;
use tower_pulse_model::outcome::Outcome;

thread_local! {
    /// Contexts that inner layers have given to requests of outer layers on this thread. An outer layer
    /// takes its context when the inner service returns.
    static OVERRIDES: RefCell<Vec<ContextOverride>> = const { RefCell::new(Vec::new()) };
}

/// The empty details, for requests whose details are not recorded.
static NO_DETAILS: RequestDetails<'static> = RequestDetails {
    trace_id: None,
    path: None,
    queue: None,
    timers: None,
    failure: None,
};

/// The measurement of one request. Dropping it without an end records the request as cancelled or panicked.
pub(super) struct Guard {
    /// `None` if the request is not recorded, or has ended.
    context: Option<RequestContext>,
    start: Tick,
    /// The recorder's id, or 0 if an outer layer measures the request.
    id: u32,
    /// Whether the response may have a gRPC status: all requests of gRPC are POST.
    may_be_grpc: bool,
    /// Whether the head of the response counted as an error. Used at the end of the body.
    head_error: bool,
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
    /// Ends the work on the request.
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
            .find(|old| old.recorder == new.recorder)
        {
            // A route template does not replace a name or function of another layer.
            Some(old) if new.only_unmatched && !old.only_unmatched => {}
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
    /// Never inlined into a user's crate, so that the functions that it calls are inlined here, once. In
    /// `benches/peers`, this reduced the time from 1.25 to 1.04 times that of a hand-written layer.
    #[inline(never)]
    pub(super) fn start<'a>(
        route: &Arc<Route>,
        method: &Method,
        extensions: &Extensions,
        head: &dyn Fn() -> Head<'a>,
    ) -> Self {
        let recording = &*route.recording;
        if !active::is_within_any()
            && !has_span(recording)
            && let Some(handle) = route.seen(method, extensions)
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
        Self::start_unseen(route, &head())
    }

    /// Begins the measurement of any other request: one whose context is not in the slot, that has a span, or that an
    /// outer layer measures.
    #[cold]
    #[inline(never)]
    fn start_unseen(route: &Arc<Route>, head: &Head<'_>) -> Self {
        let recording = &*route.recording;
        let (context, id) = if active::is_within(recording.id()) {
            if let Some(inner) = route.context_override(head) {
                add_override(inner);
            }
            (None, 0)
        } else {
            // The id is set even if this layer does not record the request, so that no inner layer records it.
            (route.context(head), recording.id())
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

    /// Opens the span of the request, if the request is recorded here. Spans within it find the request by its scope.
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
            head_error: false,
            status: None,
            polls: RequestPolls::new(start),
            span: RequestSpan::default(),
        }
    }

    /// Marks this thread as working on the request, until [`ActiveRequest::leave`]. Used for the call of the service:
    /// no timer of the request has run before, unless it has a span.
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

    /// Like [`enter`](Self::enter), for the polls after the call: also gives the request's timers back to this thread.
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

    /// Takes the request's timers and its last panic off the thread, and also the context that an inner layer has given
    /// to the request. Timers and contexts of other recorders, and the panic, stay on the thread for the outer guards.
    /// `before` is the thread's mark from before [`enter`](Self::enter); 0 means that no outer guard is active.
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
            let mine = overrides.iter().position(|new| new.recorder == self.id);
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
        // Registering lets the route remember the context, so that the route's next request allocates nothing.
        let Some(recorded) = context.into_recorded() else {
            return;
        };
        let (handle, details) = (recorded.handle, recorded.details);
        let is_unmatched = handle.is_unmatched();
        self.context = Some(match inner.context {
            Some(context) if is_unmatched || !inner.only_unmatched => {
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

    /// Ends the request with the head of its response. Never inlined, like [`start`](Self::start).
    #[inline(never)]
    pub(super) fn responded(
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
            // Most requests end here.
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
        // Matching before the move saves a drop of the parts that are not moved.
        let Some(RequestContext::Registered(_)) = self.context else {
            return None;
        };
        match self.context.take() {
            Some(RequestContext::Registered(handle)) => Some(handle),
            _ => None,
        }
    }

    /// Ends a request whose context is not registered, or that has details, timers or a failure. Does nothing if the
    /// request has ended.
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
        // This order keeps timers from covering more than the request's time, and from being drained before the
        // request.
        let timers = scope.map(|scope| scope.end(&handle));
        let within = timers.as_ref().filter(|_| ended.is_error);
        let failure = failure.or_else(|| within?.failure.as_ref());
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
    pub(super) fn head_sent(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) {
        self.status = Some(status);
        let head = ResponseHead::new(status, headers, extensions, self.may_be_grpc);
        self.poll_ended();
        let recording = self.context.as_ref().and_then(RequestContext::recording);
        self.head_error = recording.is_some_and(|recording| is_error(recording, &head));
    }

    /// Ends the request with the body of its response. The head of the response had this failure.
    pub(super) fn body_ended(&mut self, outcome: Outcome, failure: Option<&Failure>) {
        self.end(outcome, self.head_error, failure);
    }

    /// Moves the measurement out, so that the body can end it.
    pub(super) fn move_to_body(&mut self) -> Self {
        Self {
            context: self.context.take(),
            span: std::mem::take(&mut self.span),
            ..*self
        }
    }

    /// Ends the request without recording it.
    #[cold]
    fn discard(&mut self) {
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
    pub(super) fn end(&mut self, outcome: Outcome, error: bool, failure: Option<&Failure>) {
        let ended = Ended {
            outcome,
            is_error: error,
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

    /// Ends a request that is dropped before its end. The head of the response had this failure.
    #[cold]
    pub(super) fn end_dropped(&mut self, failure: Option<&Failure>) {
        let outcome = match self.status {
            _ if std::thread::panicking() => Outcome::Panicked,
            None => Outcome::Cancelled,
            Some(_) => Outcome::BodyAborted,
        };
        self.polls.drop_between();
        self.end(outcome, outcome.is_error() || self.head_error, failure);
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

/// Whether a request of this recorder needs a span.
#[inline(always)]
fn has_span(recording: &RecordingState) -> bool {
    cfg!(feature = "tracing")
        && matches!(recording.spans.get(), Some(spans) if spans.is_installed())
}

/// The clock of the recorder, if the request is recorded. Optimized for registered contexts, because each poll calls
/// this function twice.
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

#[inline(never)]
fn finish(
    handle: &ContextHandle,
    start: Tick,
    ended: Ended,
    polls: &RequestPolls,
    details: &RequestDetails<'_>,
) {
    if handle.is_unmatched() && ended.outcome == Outcome::Success {
        handle.recording().warn_unmatched();
    }
    handle.finish_request(start, ended, polls, details);
}

/// The outcome of a request that ends with the head of its response.
fn ended_with(handle: &ContextHandle, head: &ResponseHead<'_>) -> Ended {
    Ended {
        outcome: Outcome::from_status(head.status.as_u16()),
        is_error: is_error(handle.recording(), head),
        status: Some(head.status),
    }
}

/// Whether a response counts as an error, by the user's rule if there is one.
fn is_error(recording: &RecordingState, head: &ResponseHead<'_>) -> bool {
    match recording.error_rule() {
        None => head.is_error(),
        Some(rule) => rule(head),
    }
}

/// Whether a response is marked as not to be recorded.
#[inline]
pub(super) fn is_unrecorded(extensions: &Extensions) -> bool {
    extensions.get::<Unrecorded>().is_some()
}
