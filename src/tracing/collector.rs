//! The layer that turns spans and events into timers, and its filter.
//!
//! A timer belongs to the request that its thread is working on. If the thread works on no request, the timer belongs
//! to the request of a span around it: of the nearest span that was created within a request. Each request has a span.
//! Spawned tasks can run in this span (`in_current_span`), and the threads of sqlx's SQLite do.

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
use tower_pulse_core::recorder::spans::{STATEMENTS, SpanState};
use tower_pulse_core::recorder::{ContextHandle, Recorder, active};

/// The layer. Nothing is logged while the layer handles a span or an event: the thread holds the decisions of per-layer
/// filters about the current event, and another event would overwrite them.
pub(super) struct Collector {
    timers: SpanTimers,
    /// The subscriber that has this layer.
    subscriber: OnceLock<WeakDispatch>,
}

impl Collector {
    pub(super) fn new(timers: SpanTimers) -> Self {
        Self {
            timers,
            subscriber: OnceLock::new(),
        }
    }

    /// Calls `find` with the states of a span and of the spans around it, innermost first, until `find` returns a
    /// value. Asks the registry, because the context of a filtered layer hides spans that only other layers want.
    fn find<T>(&self, id: &Id, mut find: impl FnMut(&mut SpanState) -> Option<T>) -> Option<T> {
        let subscriber = self.subscriber.get()?.upgrade()?;
        let registry = subscriber.downcast_ref::<Registry>()?;
        let mut spans = registry.span(id)?.scope();
        spans.find_map(|span| find(span.extensions_mut().get_mut()?))
    }

    fn name(&self, call: &Call<'_>, usual: Name) -> Name {
        let given = (self.timers.names)(call);
        given.map_or(usual, |name| Name::cut(&name))
    }

    fn record_statement(
        &self,
        recorder: &Recorder,
        event: &Event<'_>,
        parent: impl FnOnce() -> Option<Id>,
    ) {
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
        let scope = scope.or_else(|| self.find(&parent()?, |span| span.request.clone()));
        timer.record_ended_run(elapsed, end, scope.as_deref());
        self.timers.collection.add_statement(*call.metadata.level());
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
            // A span within a span of the same name gets no timer.
            let _: Option<()> = self.find(id, |around| {
                request = request.take().or_else(|| around.request.clone());
                let is_same = |entry: &mut Arc<ContextHandle>| match &around.entry {
                    Some(around) => around.name == entry.name,
                    None => false,
                };
                entry.take_if(is_same);
                None
            });
        }
        if request.is_some() || entry.is_some() {
            let state = SpanState::new(request, entry);
            // The state is dropped with the span, which ends the timer.
            span.extensions_mut().replace(state);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(error) = error_of(|visitor| values.record(visitor)) {
            with_state(id, &context, |span| {
                span.fail(error.as_str());
            });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(recorder) = self.timers.recorder.get() else {
            return;
        };
        let parent = || match event.is_contextual() {
            true => context.current_span().id().cloned(),
            false => event.parent().cloned(),
        };
        if event.metadata().target() == STATEMENTS {
            return self.record_statement(recorder, event, parent);
        }
        if let (Some(parent), Some(error)) = (parent(), error_of(|visitor| event.record(visitor))) {
            self.find(&parent, |span| span.fail(error.as_str()).then_some(()));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_state(id, &context, SpanState::enter);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_state(id, &context, SpanState::exit);
    }
}

fn with_state<S>(id: &Id, context: &Context<'_, S>, with: impl FnOnce(&mut SpanState))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(span) = context.span(id)
        && let Some(state) = span.extensions_mut().get_mut()
    {
        with(state);
    }
}

/// The filter of the layer, which decides by callsite alone. `tracing` skips callsites that no layer wants.
pub(super) struct Wanted(pub(super) SpanTimers);

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == STATEMENTS {
            self.0.collection.add_callsite(metadata);
        }
        match self.0.wants(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The span of a request has the level DEBUG.
        Some(self.0.level.max(LevelFilter::DEBUG))
    }
}

impl SpanTimers {
    fn wants_statements(&self, level: Level) -> bool {
        self.has_statements && level <= self.level
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
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
