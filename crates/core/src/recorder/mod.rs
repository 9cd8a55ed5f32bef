//! Recording in this instance: from a request to the pending batch.
//!
//! The layer passes the duration of each request to this module. Once a second, a drain moves the sums to the batch.
//! Read `cell` (the sums of a context), `shards` (where a sample is added), `registry` (contexts and counters by name),
//! and `recording` (the state that all contexts share). Then read `timer`, `counter` and `ranking` (measurements of the
//! application's own code), and `response` and `request_outcome` (the rules for errors). Timers within requests are in
//! `active`, `scope` and `timer_cells`, timers of spans in `spans`, failures in `kinds` and `panics`, and the wait in
//! front of this process in `queue`. The slowest and the failed requests are in `slow`, `slow_drain` and `details`. A
//! request ends in `finish`; `in_flight` has requests that have not ended. Last, read `dirty_bits` (contexts that have
//! something to drain), `drain` (from the cells to the batch), `minute_reports` (the minute reports of this instance),
//! `totals` and `exemplars` (for the Prometheus text).

pub mod active;
mod cell;
mod counter;
mod details;
mod dirty_bits;
mod drain;
pub mod exemplars;
mod finish;
mod flush_counters;
mod in_flight;
mod interval_union;
mod kinds;
mod limits;
mod minute_reports;
pub mod panics;
mod polls;
pub(crate) mod queue;
mod ranking;
mod recording;
mod registry;
mod request_outcome;
mod response;
mod scope;
mod shards;
mod slow;
mod slow_drain;
pub mod spans;
mod sync;
#[cfg(test)]
pub(crate) mod tests;
mod timer;
mod timer_cells;
pub mod totals;
mod within;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use counter::{Counter, check_counter};
pub use details::{DetailOptions, RequestDetails};
pub use drain::Drain;
pub use flush_counters::FlushCounters;
pub use limits::Limits;
pub use polls::RequestPolls;
pub use queue::{Queue, QueueTime};
pub use ranking::{RankingEntry, Rankings};
pub use recording::RecordingState;
pub use request_outcome::RequestOutcome;
pub use response::{ErrorRule, MaybeErrorRule, ResponseHead};
pub use scope::Scope;
pub use shards::thread_number;
pub use timer::{Timed, Timer};
pub use within::Within;

use http::StatusCode;

use crate::clock::Clock;
use crate::error::BuildError;
use counter::NamedCounter;
use dirty_bits::{DirtyBit, DirtyBits};
use registry::Registry;
use shards::{Cells, MAX_SHARDS, MIN_SHARDS};
use slow::SlowList;
use spans::MAX_SPAN_TIMERS;
use timer_cells::TimerCells;
use tower_pulse_model::context::{self, Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::ranking::RankingSpec;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::tally::Kinds;
use tower_pulse_model::timer_sums::QUEUE;

/// The longest recorded duration of a sample that the recorder did not measure itself. A context may have 30,000 such
/// samples in a second before its sum of nanoseconds overflows.
const LONGEST_MEASURED: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the request counts as an error.
    pub is_error: bool,
    /// The status of the response, if there was one.
    pub status: Option<StatusCode>,
}

/// The nanoseconds of a duration that the recorder did not measure itself, at most those of [`LONGEST_MEASURED`].
fn nanos_of(duration: Duration) -> u64 {
    // The nanoseconds of seven days fit into 50 bits.
    duration.min(LONGEST_MEASURED).as_nanos() as u64
}

/// An extension that marks a response, so that its request is not recorded. Responses of the admin router have this
/// extension.
///
/// ```
/// # use tower_pulse_core::recorder as tower_pulse;
/// use tower_pulse::Unrecorded;
/// let mut response = http::Response::new("pong");
/// response.extensions_mut().insert(Unrecorded);
/// ```
#[derive(Clone, Debug)]
pub struct Unrecorded;

/// A handle of a context of this process. All handles of a context share its cells. Aligned so that the reference
/// counts of two handles never share a cache line.
#[derive(Clone)]
#[repr(align(64))]
pub struct ContextHandle {
    /// The name of the context.
    pub name: Arc<str>,
    /// Whether the context is a page or a timer.
    pub kind: Kind,
    is_unmatched: bool,
    /// Whether a successful response is checked beyond its status: the user's rule may count the response as an error,
    /// and a success without a route causes a warning.
    inspects_heads: bool,
    id: RecordId,
    cells: Cells,
    /// The list of slow and failed requests; `None` for timers.
    slow: Option<Arc<SlowList>>,
    /// The timers within the requests of the context.
    timers: Arc<TimerCells>,
    /// The failures by kind since the last drain.
    kinds: Arc<Mutex<Kinds>>,
    recording: Arc<RecordingState>,
}

/// All contexts and counters of this process.
pub struct Recorder {
    /// The state that the request path needs.
    pub recording: Arc<RecordingState>,
    /// The limits of recording.
    pub limits: Limits,
    /// The context of requests that match no route.
    pub unmatched: Arc<ContextHandle>,
    /// The header in which a proxy says when it received a request, and the timer of the waits; `None` without such a
    /// header.
    pub queue: Option<Queue>,
    shards: usize,
    http: Registry<ContextHandle>,
    timers: Registry<ContextHandle>,
    /// The number of timers whose names come from spans. `max_contexts` does not count them.
    span_timers: AtomicUsize,
    counters: Registry<NamedCounter>,
    /// The rankings of this process.
    pub rankings: Rankings,
    /// The drain, which moves samples from the cells to the batch.
    pub drain: Drain,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl std::fmt::Debug for ContextHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ContextHandle").field(&self.name).finish()
    }
}

impl Recorder {
    /// The number of shards that suits this machine.
    pub fn shards_of_this_machine() -> usize {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        workers.next_power_of_two().clamp(MIN_SHARDS, MAX_SHARDS)
    }

    /// The number of contexts, timers included.
    pub fn contexts(&self) -> usize {
        self.http.len() + self.timers.len()
    }

    /// Approximate bytes of the contexts, the counters and the pending batch.
    pub fn bytes(&self) -> usize {
        let context = |c: &ContextHandle| size_of_val(c) + c.name.len() + c.cells.bytes();
        let counter = |c: &NamedCounter| size_of_val(c) + c.name.len();
        let contexts = self.http.sum(context) + self.timers.sum(context);
        contexts + self.counters.sum(counter) + self.drain.pending_bytes()
    }

    /// A recorder without contexts of the application.
    pub fn new(clock: Clock, precisions: Precisions, limits: Limits) -> Self {
        let shards = Self::shards_of_this_machine();
        let recording = Arc::new(RecordingState::new(clock.clone(), &limits));
        let handle = |name: &str, kind, dirty_bit| {
            ContextHandle::new(name.into(), kind, dirty_bit, shards, &recording)
        };
        let overflow = |name: &'static str, kind| move |dirty_bit| handle(name, kind, dirty_bit);
        let unmatched = handle(
            context::UNMATCHED,
            Kind::Http,
            DirtyBits::new(1).dirty_bit(0),
        );
        let mut recorder = Self {
            unmatched: Arc::new(unmatched),
            queue: None,
            http: Registry::new(limits.max_contexts, overflow(context::OVERFLOW, Kind::Http)),
            timers: Registry::new(
                // All spans beyond the maximum share one more timer.
                limits.max_contexts + MAX_SPAN_TIMERS + 1,
                overflow(context::TIMER_OVERFLOW, Kind::Timer),
            ),
            span_timers: AtomicUsize::new(0),
            counters: Registry::new(limits.max_counters, |dirty_bit| {
                NamedCounter::new(context::OVERFLOW.into(), shards, dirty_bit)
            }),
            rankings: Rankings::default(),
            drain: Drain::new(precisions, clock.now_nanos(), limits.app_version.clone()),
            recording,
            limits,
            shards,
        };
        let header = recorder.limits.queue_header.clone();
        recorder.queue =
            header.map(|header| Queue::new(header, recorder.context(Kind::Timer, QUEUE)));
        recorder
    }

    /// The HTTP context of this name, if it exists. Allocates nothing.
    #[inline]
    pub fn existing_http(&self, name: &str) -> Option<Arc<ContextHandle>> {
        if name == context::UNMATCHED {
            return Some(self.unmatched.clone());
        }
        self.http.get(name)
    }

    /// The context of this name, or `<overflow>` if there are too many contexts.
    pub fn context(&self, kind: Kind, name: &str) -> Arc<ContextHandle> {
        let name = match kind {
            Kind::Timer => context::timer_name(name),
            _ => context::clean_name(name),
        };
        let registry = match kind {
            Kind::Timer => &self.timers,
            _ if name == context::UNMATCHED => return self.unmatched.clone(),
            _ => &self.http,
        };
        if let Some(handle) = registry.get(&name) {
            return handle;
        }
        // HTTP contexts and the application's timers share one maximum.
        let of_spans = self.span_timers.load(Ordering::Relaxed);
        if self.contexts().saturating_sub(of_spans) >= self.limits.max_contexts {
            self.recording
                .warn_contexts_overflow(&name, self.limits.max_contexts);
            return registry.overflow.clone();
        }
        registry.get_or_insert(&name, |name, dirty_bit| {
            ContextHandle::new(name, kind, dirty_bit, self.shards, &self.recording)
        })
    }

    /// Records a request that the application has measured. Allocates nothing once the context exists.
    pub fn record_request(&self, context: &str, duration: Duration, ended: RequestOutcome) {
        // The names of existing contexts are clean.
        let existing = self.existing_http(context);
        let handle = existing.unwrap_or_else(|| self.context(Kind::Http, context));
        let ended = ended.ended(self.recording.error_rule());
        let (thread, nanos) = (thread_number(), nanos_of(duration));
        handle.begin(thread);
        handle.record_ended(thread, nanos, ended, &RequestDetails::default(), []);
    }

    /// The counter of this name. A reserved name gets a backslash as its prefix, so that its counts are not mixed with
    /// the counts of requests.
    pub fn counter(&self, name: &str) -> Counter {
        let name = context::clean_name(name);
        let named = |name: &str| {
            let counter = self.counters.get_or_insert(name, |name, dirty_bit| {
                NamedCounter::new(name, self.shards, dirty_bit)
            });
            if &*counter.name == context::OVERFLOW && name != context::OVERFLOW {
                self.recording
                    .warn_counters_overflow(name, self.limits.max_counters);
            }
            counter
        };
        if !context::is_reserved(&name) {
            return Counter(named(&name));
        }
        self.recording.warn_reserved(&name);
        Counter(named(&format!("\\{name}")))
    }

    /// The ranking of this name and configuration.
    pub fn ranking(&self, name: &str, spec: RankingSpec) -> Result<Arc<RankingEntry>, BuildError> {
        self.rankings
            .get_or_insert(name, spec, &self.recording, self.shards)
    }

    /// Number of shards of each context.
    pub fn shards(&self) -> usize {
        self.shards
    }
}

impl ContextHandle {
    fn new(
        name: Arc<str>,
        kind: Kind,
        dirty_bit: DirtyBit,
        shards: usize,
        recording: &Arc<RecordingState>,
    ) -> Self {
        let cells = Cells::new(shards, dirty_bit);
        let has_slow = kind == Kind::Http;
        let is_unmatched = &*name == context::UNMATCHED;
        Self {
            kind,
            is_unmatched,
            inspects_heads: is_unmatched || recording.error_rule().is_some(),
            id: RecordId::new(kind, &name),
            slow: has_slow.then(|| Arc::new(SlowList::new(&cells))),
            timers: Arc::new(TimerCells::new(shards)),
            kinds: Arc::default(),
            recording: recording.clone(),
            name,
            cells,
        }
    }

    /// A handle of the same context with its own reference count, so that threads do not contend for a shared count.
    pub fn clone_unshared(&self) -> Arc<Self> {
        Arc::new(self.clone())
    }

    /// The state that the request path needs.
    #[inline]
    pub fn recording(&self) -> &Arc<RecordingState> {
        &self.recording
    }

    /// Whether a successful response is checked beyond its status.
    #[inline]
    pub fn inspects_heads(&self) -> bool {
        self.inspects_heads
    }

    /// Whether this is the context of requests that match no route.
    #[inline]
    pub fn is_unmatched(&self) -> bool {
        self.is_unmatched
    }
}
