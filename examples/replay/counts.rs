//! Counts the requests of a log without durations.
//!
//! A context cannot count requests without durations. A duration of 0 would make slow pages look fast, and mislead the
//! detector. So counters, which have no durations, count these requests. There are no pages, percentiles or changes.

use std::collections::HashSet;

use tower_pulse::Pulse;

use crate::input::MAX_CONTEXTS;
use crate::line::Ending;

/// The counter of all requests. The counters of contexts add a colon and the context.
pub(crate) const REQUESTS: &str = "requests";
/// The counter of all responses with 5xx. The counters of contexts add a colon and the context.
pub(crate) const FAILED: &str = "5xx";

/// The most contexts that are counted one by one. Each context has two counters, and a process has at most 100,000
/// counters.
pub(crate) const MAX_COUNTED: usize = MAX_CONTEXTS / 2 - 2;
const OVERFLOW: &str = "<overflow>";

#[derive(Debug, Default)]
pub(crate) struct Counts(HashSet<String>);

/// The most counters that a log with this number of contexts needs.
pub(crate) fn counters_of(contexts: usize) -> usize {
    // The other four are two counters of all requests, and two of the contexts beyond `MAX_COUNTED`.
    2 * contexts.min(MAX_COUNTED) + 4
}

impl Counts {
    /// Counts a request in the current second of the clock.
    pub(crate) fn add(&mut self, pulse: &Pulse, mut context: &str, ending: Ending) {
        if !self.0.contains(context) {
            if self.0.len() < MAX_COUNTED {
                self.0.insert(context.to_owned());
            } else {
                context = OVERFLOW;
            }
        }
        let failed = ending.is_failure().then_some(FAILED);
        for name in [REQUESTS].into_iter().chain(failed) {
            pulse.counter(name).increment();
            pulse.counter(&format!("{name}:{context}")).increment();
        }
    }
}
