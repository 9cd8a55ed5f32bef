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

use super::names::{ErrorFields, KIND_FIELD, Name, NamingFields, TIMER_FIELD};
use super::{Call, Choice, Fields, REQUEST_TARGET, SpanTimers};
use tower_pulse_core::recorder::spans::{STATEMENTS, SpanTimer};
use tower_pulse_core::recorder::{Recorder, Scope, active};

/// The target of the events by which sqlx reports waits for a connection.
const WAITS: &str = "sqlx::pool::acquire";

/// The timer of these waits.
const WAIT: &str = "sql acquire";

/// The layer. Logs nothing while it handles a span or an event: per-layer filters keep their decisions in the thread,
/// and an event within another one would change them.
pub(super) struct Collector {
    timers: SpanTimers,
    /// The subscriber that has this layer.
    subscriber: OnceLock<WeakDispatch>,
}

/// The request and the timer of a span, in its extensions.
#[derive(Default)]
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

    fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.timers.state.recorder.get()
    }

    /// Searches a span and the spans around it, innermost first. A span that only other layers want has no state, but
    /// the spans around it may have one. The context of a filtered layer does not show such a span.
    fn find<T>(&self, id: &Id, mut find: impl FnMut(&mut SpanState) -> Option<T>) -> Option<T> {
        let subscriber = self.subscriber.get()?.upgrade()?;
        let registry = subscriber.downcast_ref::<Registry>()?;
        let mut spans = registry.span(id)?.scope();
        spans.find_map(|span| find(span.extensions_mut().get_mut()?))
    }

    fn name(&self, call: &Call<'_>, usual: impl FnOnce() -> Option<Name>) -> Option<Name> {
        let named = self.timers.choice.name_by.as_ref();
        let named = named.and_then(|name_by| name_by(call));
        named.map(|name| Name::from(&*name)).or_else(usual)
    }

    /// Records a call that has just ended, and whose event tells how long it took.
    fn record_ended(&self, recorder: &Recorder, event: &Event<'_>, parent: Option<Id>) {
        let end = recorder.recording.clock().tick();
        let metadata = event.metadata();
        let mut fields = NamingFields::default();
        event.record(&mut fields);
        let Some(elapsed) = fields.elapsed else {
            return;
        };
        let usual = || match metadata.target() {
            WAITS => Some(Name::from(WAIT)),
            _ => fields.statement(),
        };
        let call = Call {
            metadata,
            fields: Fields::Event(event),
        };
        let Some(name) = self.name(&call, usual) else {
            return;
        };
        self.timers.state.collection.statement(*metadata.level());
        let scope = active::scope(&recorder.recording);
        let scope = scope.or_else(|| self.find(&parent?, |span| span.request.clone()));
        let timer = recorder.span_timer(name.as_str());
        timer.record_ended_run(elapsed, end, scope.as_deref());
    }
}

impl<S> Layer<S> for Collector
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        let _ = self.subscriber.set(subscriber.downgrade());
        let wants_statements = self.timers.choice.wants_statements();
        self.timers.state.collection.installed(wants_statements);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let (Some(recorder), Some(span)) = (self.recorder(), context.span(id)) else {
            return;
        };
        let metadata = attributes.metadata();
        let mut fields = NamingFields::default();
        attributes.record(&mut fields);
        let call = Call {
            metadata,
            fields: Fields::Span(attributes),
        };
        let usual = fields.span(metadata, self.timers.choice.chooses(metadata));
        let name = usual.and_then(|usual| self.name(&call, || Some(usual)));
        let entry = name.map(|name| recorder.span_timer(name.as_str()));
        let mut request = active::scope(&recorder.recording);
        let mut is_within_itself = false;
        if request.is_none() || entry.is_some() {
            // A span within one of the same name is a part of it.
            let _: Option<()> = self.find(id, |around| {
                request = request.take().or_else(|| around.request.clone());
                is_within_itself |= match (&around.timer, &entry) {
                    (Some(around), Some(entry)) => around.has_name_of(entry),
                    _ => false,
                };
                None
            });
        }
        let mut timer = entry
            .filter(|_| !is_within_itself)
            .map(|entry| SpanTimer::new(entry, request.clone()));
        if let Some(timer) = &mut timer {
            let mut errors = ErrorFields::default();
            attributes.record(&mut errors);
            errors.fail(timer);
        }
        if request.is_some() || timer.is_some() {
            let state = SpanState { request, timer };
            span.extensions_mut().replace(state);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut errors = ErrorFields::default();
        values.record(&mut errors);
        with_timer(id, &context, |timer| errors.fail(timer));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(recorder) = self.recorder() else {
            return;
        };
        let parent = match event.is_contextual() {
            true => context.current_span().id().cloned(),
            false => event.parent().cloned(),
        };
        if is_ended_call(event.metadata()) {
            return self.record_ended(recorder, event, parent);
        }
        // An error, such as the one that `#[instrument(err)]` reports.
        let mut errors = ErrorFields::default();
        event.record(&mut errors);
        let fail = |span: &mut SpanState| {
            let timer = span.timer.as_mut()?;
            errors.fail(timer);
            Some(())
        };
        parent.and_then(|parent| self.find(&parent, fail));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_timer(id, &context, SpanTimer::enter);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_timer(id, &context, SpanTimer::exit);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let state = span.extensions_mut().remove::<SpanState>();
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

impl ErrorFields {
    fn fail(&self, timer: &mut SpanTimer) {
        if self.has_failed {
            timer.fail(self.message.as_str());
        }
    }
}

/// Whether events tell of a call that has just ended.
fn is_ended_call(metadata: &Metadata<'_>) -> bool {
    matches!(metadata.target(), STATEMENTS | WAITS)
}

/// The filter of the layer, which decides by callsite alone. Where no layer wants a callsite, `tracing` asks no more.
pub(super) struct Wanted(pub(super) SpanTimers);

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.0.choice.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() == STATEMENTS {
            self.0.state.collection.statement_callsite(metadata);
        }
        match self.0.choice.wants(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The span of a request has this level.
        Some(self.0.choice.level.max(LevelFilter::DEBUG))
    }
}

impl Choice {
    fn wants_statements(&self) -> bool {
        self.statements && self.level >= LevelFilter::DEBUG
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        if !metadata.is_span() {
            let is_error =
                || *metadata.level() == Level::ERROR && metadata.fields().field("error").is_some();
            return match is_ended_call(metadata) {
                true => self.statements && *metadata.level() <= self.level,
                false => is_error(),
            };
        }
        if metadata.target() == REQUEST_TARGET {
            return true;
        }
        let has = |name: &str| metadata.fields().field(name).is_some();
        *metadata.level() <= self.level
            && (has(TIMER_FIELD) || has(KIND_FIELD) || self.chooses(metadata))
    }

    /// Whether the application has chosen a span by its target or its name.
    fn chooses(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let mut targets = self.targets.iter();
        let is_below = |chosen: &String| {
            let below = target.strip_prefix(&**chosen);
            below.is_some_and(|below| below.is_empty() || below.starts_with("::"))
        };
        self.spans.iter().any(|span| span == metadata.name()) || targets.any(is_below)
    }
}
