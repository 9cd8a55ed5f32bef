//! The layer that turns spans and events into timers, and its filter.
//!
//! A timer belongs to the request that its thread is working on, or else to the request of the nearest span around it
//! that was created within a request. Each request has a span, which spawned tasks and the threads of sqlx's SQLite
//! take over.

use std::sync::{Arc, OnceLock};

use tracing::dispatcher::WeakDispatch;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::names::{KIND_FIELD, Name, NamingFields, TIMER_FIELD, error_of};
use super::{Call, REQUEST_TARGET, SpanTimers};
use tower_pulse_core::recorder::spans::{STATEMENTS, SpanTimer};
use tower_pulse_core::recorder::{Recorder, Scope, active};

/// The layer. Logs nothing while it handles a span or an event: per-layer filters keep their decisions in the thread,
/// and an event within another one would change them.
pub(super) struct Collector {
    timers: SpanTimers,
    /// The subscriber that has this layer.
    subscriber: OnceLock<WeakDispatch>,
}

/// The request and the timer of a span, in its extensions.
struct SpanState {
    request: Option<Arc<Scope>>,
    timer: Option<SpanTimer>,
}

impl Collector {
    pub(super) fn new(timers: SpanTimers) -> Self {
        Self {
            timers,
            subscriber: OnceLock::new(),
        }
    }

    /// Searches a span and the spans around it, innermost first. A span that only other layers want has no state, but
    /// the spans around it may have one. The context of a filtered layer does not show such a span.
    fn find<T>(&self, id: &Id, mut find: impl FnMut(&mut SpanState) -> Option<T>) -> Option<T> {
        let subscriber = self.subscriber.get()?.upgrade()?;
        let registry = subscriber.downcast_ref::<Registry>()?;
        let mut spans = registry.span(id)?.scope();
        spans.find_map(|span| find(span.extensions_mut().get_mut()?))
    }

    /// The name that the application gives, or else the usual one.
    fn name(&self, call: &Call<'_>, usual: Name) -> Name {
        let given = (self.timers.names)(call);
        given.map_or(usual, |name| Name::of(format_args!("{name}")))
    }

    /// Records a statement, which has just ended.
    fn record_statement(&self, recorder: &Recorder, event: &Event<'_>, parent: Option<Id>) {
        let end = recorder.recording.clock().tick();
        let mut fields = NamingFields::default();
        event.record(&mut fields);
        let Some(elapsed) = fields.elapsed else {
            return;
        };
        let call = Call {
            metadata: event.metadata(),
            record: &|visitor| event.record(visitor),
        };
        let name = self.name(&call, fields.statement);
        let timer = recorder.span_timer(name.as_str());
        let scope = active::scope(&recorder.recording);
        let scope = scope.or_else(|| self.find(&parent?, |span| span.request.clone()));
        timer.record_ended_run(elapsed, end, scope.as_deref());
        self.timers.collection.has_statement(*call.metadata.level());
    }
}

impl<S> Layer<S> for Collector
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        let _ = self.subscriber.set(subscriber.downgrade());
        let wants_statements = self.timers.wants_statements(Level::DEBUG);
        self.timers.collection.install(wants_statements);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (Some(recorder), Some(span)) = (self.timers.recorder.get(), context.span(id)) else {
            return;
        };
        let mut fields = NamingFields::default();
        attributes.record(&mut fields);
        let call = Call {
            metadata: attributes.metadata(),
            record: &|visitor| attributes.record(visitor),
        };
        let usual = fields.span(call.metadata, (self.timers.chooses)(call.metadata));
        let name = usual.map(|usual| self.name(&call, usual));
        let mut entry = name.map(|name| recorder.span_timer(name.as_str()));
        let mut request = active::scope(&recorder.recording);
        if request.is_none() || entry.is_some() {
            // A span within one of the same name is a part of it.
            let _: Option<()> = self.find(id, |around| {
                request = request.take().or_else(|| around.request.clone());
                entry.take_if(|entry| around.timer.as_ref().is_some_and(|of| of.is_of(entry)));
                None
            });
        }
        let mut timer = entry.map(|entry| SpanTimer::new(entry, request.clone()));
        if let Some(timer) = &mut timer {
            fail(timer, |visitor| attributes.record(visitor));
        }
        if request.is_some() || timer.is_some() {
            let state = SpanState { request, timer };
            span.extensions_mut().replace(state);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        with_timer(id, &context, |timer| {
            fail(timer, |visitor| values.record(visitor));
        });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(recorder) = self.timers.recorder.get() else {
            return;
        };
        let parent = match event.is_contextual() {
            true => context.current_span().id().cloned(),
            false => event.parent().cloned(),
        };
        if event.metadata().target() == STATEMENTS {
            return self.record_statement(recorder, event, parent);
        }
        // An error, such as the one that `#[instrument(err)]` reports.
        let within = |span: &mut SpanState| {
            fail(span.timer.as_mut()?, |visitor| event.record(visitor));
            Some(())
        };
        parent.and_then(|parent| self.find(&parent, within));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_timer(id, &context, SpanTimer::enter);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_timer(id, &context, SpanTimer::exit);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id);
        let state = span.and_then(|span| span.extensions_mut().remove::<SpanState>());
        // The extensions are released before the timer is recorded.
        if let Some(timer) = state.and_then(|state| state.timer) {
            timer.finish();
        }
    }
}

/// Calls a function with the timer of a span, if it has one.
fn with_timer<S>(id: &Id, context: &Context<'_, S>, with: impl FnOnce(&mut SpanTimer))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(span) = context.span(id) else {
        return;
    };
    let mut extensions = span.extensions_mut();
    let state = extensions.get_mut::<SpanState>();
    if let Some(timer) = state.and_then(|state| state.timer.as_mut()) {
        with(timer);
    }
}

/// Marks a timer as failed if the fields of its span, or of an event within it, tell of an error.
fn fail(timer: &mut SpanTimer, record: impl FnOnce(&mut dyn tracing::field::Visit)) {
    if let Some(error) = error_of(record) {
        timer.fail(error.as_str().trim_matches('"'));
    }
}

/// The filter of the layer, which decides by callsite alone. `tracing` skips callsites that no layer wants.
pub(super) struct Wanted(pub(super) SpanTimers);

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.want(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == STATEMENTS {
            self.0.collection.sees_callsite(metadata);
        }
        match self.0.want(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The span of a request has this level.
        Some(self.0.level.max(LevelFilter::DEBUG))
    }
}

impl SpanTimers {
    fn wants_statements(&self, level: Level) -> bool {
        self.has_statements && level <= self.level
    }

    fn want(&self, metadata: &Metadata<'_>) -> bool {
        let has = |name: &str| metadata.fields().field(name).is_some();
        let (target, level) = (metadata.target(), *metadata.level());
        match metadata.is_span() {
            false if target == STATEMENTS => self.wants_statements(level),
            false => level == Level::ERROR && has("error"),
            true if target == REQUEST_TARGET => true,
            true if level > self.level => false,
            true => has(TIMER_FIELD) || has(KIND_FIELD) || (self.chooses)(metadata),
        }
    }
}
