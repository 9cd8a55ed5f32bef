//! Timers of spans and events of `tracing`: their bounded names, the time of a span, and whether a filter hides the
//! statements of sqlx.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tracing::callsite::{DefaultCallsite, Identifier};
use tracing::dispatcher::get_default;
use tracing::field::FieldSet;
use tracing::level_filters::STATIC_MAX_LEVEL;
use tracing::metadata::Kind as CallsiteKind;
use tracing::{Level, Metadata};

use super::polls::RequestPolls;
use super::scope::Scope;
use super::timer::Timer;
use super::{ContextHandle, Recorder, nanos_of};
use crate::clock::Tick;
use tower_pulse_model::context::{self, Kind};
use tower_pulse_model::failure::Failure;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::timer_sums::OTHER;

/// The most timers of spans and events. Further names count as [`OTHER`].
pub const MAX_SPAN_TIMERS: usize = 200;

/// The target of the events by which sqlx reports statements.
pub const STATEMENTS: &str = "sqlx::query";

impl Recorder {
    /// The timer of a span or event of this name. Allocates nothing once the timer exists. Logs nothing, because
    /// `tracing` calls this while it handles a span or an event.
    pub fn span_timer(&self, name: &str) -> Arc<ContextHandle> {
        let name = context::timer_name(name);
        if let Some(timer) = self.timers.get(&name) {
            return timer;
        }
        let has_room = self.span_timers.load(Ordering::Relaxed) < MAX_SPAN_TIMERS;
        let name = if has_room { &*name } else { OTHER };
        self.timers.get_or_insert(name, |name, dirty_bit| {
            self.span_timers.fetch_add(1, Ordering::Relaxed);
            ContextHandle::new(name, Kind::Timer, dirty_bit, self.shards, &self.recording)
        })
    }
}

impl ContextHandle {
    /// Records a run that ended at `end` and took `duration`, within the request of this scope.
    pub fn record_ended_run(&self, duration: Duration, end: Tick, scope: Option<&Scope>) {
        self.record_measured(duration, Outcome::Completed);
        if let Some(scope) = scope {
            scope.add_ended(self, end, nanos_of(duration));
        }
    }
}

/// The request of a span, and the span's timer. The timer runs from the first entry into the span until this value is
/// dropped. While any thread is within the span, the timer computes; otherwise, it waits.
pub struct SpanState {
    /// The timers of the request within which the span was created.
    pub request: Option<Arc<Scope>>,
    /// The timer's context; `None` if the span has no timer.
    pub entry: Option<Arc<ContextHandle>>,
    timer: Option<Timer>,
    /// The number of times that the span was entered, but not left.
    entered: u32,
}

impl SpanState {
    /// The state of a span that was not entered yet.
    pub fn new(request: Option<Arc<Scope>>, entry: Option<Arc<ContextHandle>>) -> Self {
        Self {
            request,
            entry,
            timer: None,
            entered: 0,
        }
    }

    /// Notes that a thread enters the span.
    pub fn enter(&mut self) {
        let Some(entry) = &self.entry else {
            return;
        };
        let start = || Timer::start_within(entry.clone(), self.request.clone());
        let timer = self.timer.get_or_insert_with(start);
        let clock = entry.recording.clock();
        let polls = (timer.polls).get_or_insert_with(|| RequestPolls::new(clock.tick()));
        if self.entered == 0 {
            polls.begin(clock);
        }
        self.entered += 1;
    }

    /// Notes that a thread leaves the span.
    pub fn exit(&mut self) {
        self.entered = self.entered.saturating_sub(1);
        if self.entered == 0
            && let (Some(entry), Some(timer)) = (&self.entry, &mut self.timer)
            && let Some(polls) = &mut timer.polls
        {
            polls.end(entry.recording.clock());
            // In case the span is dropped before a thread enters it again.
            polls.drop_between();
        }
    }

    /// Marks the timer as failed, with the text of an error. If the request ends as an error without a failure of its
    /// own, the request's kind of error is the name of this timer. Returns whether the span's timer runs.
    pub fn fail(&mut self, message: &str) -> bool {
        let (Some(entry), Some(timer)) = (&self.entry, &mut self.timer) else {
            return false;
        };
        timer.failed();
        if let Some(request) = &self.request {
            let failure = Failure::new(entry.name.to_string());
            request.fail(failure.with_message(message));
        }
        true
    }
}

/// The state of the layer that collects spans and events: whether a subscriber has it, and whether it sees the
/// statements of sqlx.
#[derive(Debug, Default)]
pub struct SpanCollection(AtomicU8);

const INSTALLED: u8 = 1;
const WANTS_STATEMENTS: u8 = 1 << 1;
/// The layer is asked about the callsites of events, even if a filter hides the events.
const SEES_CALLSITES: u8 = 1 << 2;
/// The program has a callsite of sqlx's statements.
const HAS_SQLX: u8 = 1 << 3;
/// A statement arrived that is not a slow statement. sqlx reports slow statements at the level WARN.
const HAS_STATEMENT: u8 = 1 << 4;

impl SpanCollection {
    /// Notes that a subscriber has the layer.
    pub fn install(&self, wants_statements: bool) {
        self.set(INSTALLED | (u8::from(wants_statements) * WANTS_STATEMENTS));
    }

    /// Notes a callsite with the target [`STATEMENTS`], about which the layer was asked.
    pub fn add_callsite(&self, callsite: &Metadata<'_>) {
        let is_probe = callsite.module_path() == Some(module_path!());
        self.set(if is_probe { SEES_CALLSITES } else { HAS_SQLX });
    }

    /// Notes a statement of this level.
    pub fn add_statement(&self, level: Level) {
        self.set(u8::from(level > Level::WARN) * HAS_STATEMENT);
    }

    fn set(&self, flags: u8) {
        if !self.has(flags) {
            self.0.fetch_or(flags, Ordering::Relaxed);
        }
    }

    #[inline]
    fn has(&self, flags: u8) -> bool {
        self.0.load(Ordering::Relaxed) & flags == flags
    }

    /// Whether a subscriber has the layer.
    #[inline]
    pub fn is_installed(&self) -> bool {
        self.has(INSTALLED)
    }

    /// Whether a filter hides the statements from the layer. If the filter hides callsites too, the answer is true even
    /// if the program does not use sqlx.
    pub fn hides_statements(&self) -> bool {
        if !self.has(INSTALLED | WANTS_STATEMENTS) || self.has(HAS_STATEMENT) {
            return false;
        }
        // `tracing::enabled!` would leave the answers of the layers' filters on the thread, and a layer could miss the
        // next event.
        let interest = get_default(|subscriber| subscriber.register_callsite(&PROBE_METADATA));
        let is_hidden = interest.is_never() || Level::DEBUG > STATIC_MAX_LEVEL;
        is_hidden && (self.has(HAS_SQLX) || !self.has(SEES_CALLSITES))
    }
}

/// A callsite like that of sqlx's statements, at which nothing happens.
static PROBE: DefaultCallsite = DefaultCallsite::new(&PROBE_METADATA);

static PROBE_METADATA: Metadata<'static> = Metadata::new(
    "statements",
    STATEMENTS,
    Level::DEBUG,
    None,
    None,
    Some(module_path!()),
    FieldSet::new(&[], Identifier(&PROBE)),
    CallsiteKind::EVENT,
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::TestRecorder;
    use tower_pulse_model::measures::Measure::{LongestPoll, PollTime, Polls, Waited};

    #[test]
    fn names_of_spans_are_bounded_apart_from_contexts() {
        let recorder = TestRecorder::new(3);
        for number in 0..2 * MAX_SPAN_TIMERS {
            recorder.span_timer(&format!("sql {number}"));
        }
        assert_eq!(&*recorder.span_timer("sql 199").name, "sql 199");
        assert_eq!(&*recorder.span_timer("sql 200").name, OTHER);
        for (name, stored) in [("a", "a"), ("b", "b"), ("c", "c"), ("d", context::OVERFLOW)] {
            assert_eq!(&*recorder.context(Kind::Http, name).name, stored);
        }
        // A timer of the application that has the name of a span shares its context.
        assert_eq!(&*recorder.context(Kind::Timer, "sql 7").name, "sql 7");
        assert_eq!(recorder.contexts(), 3 + MAX_SPAN_TIMERS + 1);
    }

    #[test]
    fn a_span_computes_while_it_is_entered_and_waits_otherwise() {
        let recorder = TestRecorder::new(9);
        let request = recorder.context(Kind::Http, "GET /");
        let scope = Arc::new(Scope::new(recorder.recording.clock().tick()));
        let entry = recorder.span_timer("http GET api");
        drop(SpanState::new(Some(scope.clone()), Some(entry.clone())));
        let mut span = SpanState::new(Some(scope.clone()), Some(entry));
        recorder.advance(5);
        for (inside, outside) in [(1, 10), (2, 20)] {
            span.enter();
            span.enter();
            recorder.advance(inside);
            span.exit();
            recorder.advance(inside);
            span.exit();
            recorder.advance(outside);
        }
        assert!(span.fail("no answer"));
        drop(span);
        let timers = scope.end(&request);
        let failure = Failure::new("http GET api").with_message("no answer");
        assert_eq!(timers.failure.as_ref(), Some(&failure));
        let (covered, parts) = timers.parts();
        assert_eq!((covered, parts[0].count), (36_000_000, 1));
        let batch = recorder.drained();
        let delta = batch.contexts.values().next().expect("the span");
        let (_, sums) = delta.records[0].iter().next().expect("its record");
        let measures = [PollTime, Waited, LongestPoll, Polls];
        let measured = measures.map(|measure| sums.measures.get(measure));
        assert_eq!(measured, [6_000_000, 30_000_000, 4_000_000, 2]);
        assert_eq!((sums.times.count, sums.outcomes.errors), (1, 1));
    }
}
