//! The span of a request, by which spawned tasks and other threads find the request. Without the feature `tracing`, a
//! request has no span.

use std::sync::Arc;

use tower_pulse_core::clock::Tick;
use tower_pulse_core::recorder::{RecordingState, Scope};

#[derive(Default)]
pub(super) struct RequestSpan(#[cfg(feature = "tracing")] Option<tracing::Span>);

impl RequestSpan {
    /// Opens the span of a request that began at `start`. Returns the span with the scope of the request, which the
    /// span timers' layer has stored in the span; `None` if no subscriber wants the span.
    #[cfg(feature = "tracing")]
    pub(super) fn open(recording: &RecordingState, start: Tick) -> Option<(Self, Arc<Scope>)> {
        let scope = Arc::new(Scope::new(start));
        let open = || tracing::debug_span!(target: crate::tracing::REQUEST_TARGET, "request");
        let span = tower_pulse_core::recorder::active::within(recording.id(), &scope, open);
        (!span.is_disabled()).then_some((Self(Some(span)), scope))
    }

    #[cfg(not(feature = "tracing"))]
    pub(super) fn open(_: &RecordingState, _: Tick) -> Option<(Self, Arc<Scope>)> {
        None
    }

    #[inline(always)]
    pub(super) fn enter(&self) {
        #[cfg(feature = "tracing")]
        if let Some(span) = &self.0 {
            span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        }
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        #[cfg(feature = "tracing")]
        if let Some(span) = &self.0 {
            span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
        }
    }
}
