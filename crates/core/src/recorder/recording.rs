//! The state of a recorder that all its contexts share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::counter::Gauge;
use super::details::DetailOptions;
use super::kinds::KindNames;
use super::limits::Limits;
use super::queue::QueueCounts;
use super::response::{ErrorRule, MaybeErrorRule};
use super::shards::thread_number;
use super::spans::SpanCollection;
use crate::clock::{Clock, Tick};
use crate::health::QueueHealth;

/// The state that all contexts and requests of a recorder share: the clock, the requests in flight, the rule for
/// errors, and the warnings that were logged.
#[derive(Debug)]
pub struct RecordingState {
    /// The id of the recorder: never 0, and unique in the process.
    id: u32,
    clock: Clock,
    started: Tick,
    pub(super) in_flight: Gauge,
    is_closed: AtomicBool,
    has_layer: AtomicBool,
    has_unmatched: AtomicBool,
    has_warned_reserved: AtomicBool,
    has_contexts_overflow: AtomicBool,
    has_counters_overflow: AtomicBool,
    error_rule: MaybeErrorRule,
    details: DetailOptions,
    pub(super) kinds: KindNames,
    pub(super) queue_counts: QueueCounts,
    /// The state of the layer that makes timers of spans, if there is one.
    pub spans: OnceLock<Arc<SpanCollection>>,
}

impl RecordingState {
    pub(super) fn new(clock: Clock, limits: &Limits) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self {
            // At most 31 bits: in `active`, the next bit is `UNSETTLED`.
            id: (NEXT.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1)).max(1),
            started: clock.tick(),
            clock,
            in_flight: Gauge::default(),
            is_closed: AtomicBool::new(false),
            has_layer: AtomicBool::new(false),
            has_unmatched: AtomicBool::new(false),
            has_warned_reserved: AtomicBool::new(false),
            has_contexts_overflow: AtomicBool::new(false),
            has_counters_overflow: AtomicBool::new(false),
            error_rule: limits.error_rule.clone(),
            details: limits.details,
            kinds: KindNames::default(),
            queue_counts: QueueCounts::default(),
            spans: OnceLock::new(),
        }
    }

    /// The id of this recorder, unique in the process.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The time source.
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn started(&self) -> Tick {
        self.started
    }

    /// The time since the recorder was created.
    pub fn age(&self) -> Duration {
        self.clock.since(self.started)
    }

    /// Requests that have begun, but have not ended.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.sum().max(0)
    }

    /// Closes the recorder: samples that are recorded from now on are dropped.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Notes that the user has added a layer.
    pub fn layer_added(&self) {
        self.has_layer.store(true, Ordering::Relaxed);
    }

    /// Whether the user has added a layer.
    pub fn has_layer(&self) -> bool {
        self.has_layer.load(Ordering::Relaxed)
    }

    /// Whether the recorder is closed. Samples of a closed recorder are dropped.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Notes that a request was counted as `<unmatched>` although its response was 2xx.
    #[inline]
    pub fn note_unmatched(&self) {
        if !self.has_unmatched.load(Ordering::Relaxed) {
            self.has_unmatched.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request was counted as `<unmatched>` although its response was 2xx.
    pub fn has_unmatched(&self) -> bool {
        self.has_unmatched.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn warn_reserved(&self, name: &str) {
        if !self.has_warned_reserved.swap(true, Ordering::Relaxed) {
            tracing::error!(
                counter = %name,
                "the counter names hits, errors and micros, alone and before a colon, are reserved: counted as \\{name}"
            );
        }
    }

    #[cold]
    pub(super) fn warn_contexts_overflow(&self, context: &str, max_contexts: usize) {
        if !self.has_contexts_overflow.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %context,
                max_contexts,
                "there are more contexts than `max_contexts` allows: this context and all further contexts are \
                 counted together as <overflow>. Does a context function return raw paths, ids or \
                 anything else that clients choose? Let it return route templates or few fixed names; \
                 otherwise raise `Builder::max_contexts`"
            );
        }
    }

    #[cold]
    pub(super) fn warn_counters_overflow(&self, counter: &str, max_counters: usize) {
        if !self.has_counters_overflow.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %counter,
                max_counters,
                "there are more counters than `max_counters` allows: this counter and all further counters are \
                 counted together as <overflow>. Name counters by what they count, not by an id; \
                 otherwise raise `Builder::max_counters`"
            );
        }
    }

    /// Whether `max_contexts` was exceeded, and whether `max_counters` was exceeded.
    pub fn overflows(&self) -> (bool, bool) {
        (
            self.has_contexts_overflow.load(Ordering::Relaxed),
            self.has_counters_overflow.load(Ordering::Relaxed),
        )
    }

    /// The user's rule for errors, if there is one.
    #[inline]
    pub fn error_rule(&self) -> Option<&ErrorRule> {
        self.error_rule.0.as_deref()
    }

    /// The details that are recorded of slow and failed requests.
    pub fn details(&self) -> DetailOptions {
        self.details
    }

    /// Counts of the requests that have the header of a [`Queue`](super::Queue).
    pub fn queue_stats(&self) -> QueueHealth {
        self.queue_counts.stats()
    }

    /// Counts a request that begins, on the thread with this number.
    #[inline]
    pub fn request_started(&self, thread: usize) {
        self.in_flight.add(thread, 1);
    }

    /// Counts a request that ends.
    #[inline]
    pub fn request_ended(&self) {
        self.in_flight.add(thread_number(), -1);
    }
}
