//! What is recorded of a log that says no durations: how many requests there were.
//!
//! A context of requests has no count without times: to record 0 for a duration that nobody knows would make pages fast
//! that may be slow, and the detector would believe it. So these requests become counters, which have no times, and no
//! page, percentile or change is made of them.

use std::collections::HashSet;

use tower_pulse::Pulse;

use crate::input::MAX_CONTEXTS;
use crate::line::Ending;

/// The counter of all requests; before a colon, those of the contexts.
pub(crate) const REQUESTS: &str = "requests";
/// The counter of all responses with 5xx; before a colon, those of the contexts.
pub(crate) const FAILED: &str = "5xx";

/// The most contexts that are counted apart: each has two counters, of which there are at most 100,000.
pub(crate) const MAX_COUNTED: usize = MAX_CONTEXTS / 2 - 2;
/// The context of all further ones.
const OVERFLOW: &str = "<overflow>";

/// The contexts of a log that are counted.
#[derive(Debug, Default)]
pub(crate) struct Counts(HashSet<String>);

/// The most counters of so many contexts.
pub(crate) fn counters_of(contexts: usize) -> usize {
    // Those of all requests, and of the overflow.
    2 * contexts.min(MAX_COUNTED) + 4
}

impl Counts {
    /// Counts a request in the second of the clock.
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
