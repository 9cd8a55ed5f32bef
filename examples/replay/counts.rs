//! What is recorded of a log that says no durations: how many requests there were.
//!
//! A context of requests has no count without times: to record 0 for a duration that nobody knows would make pages fast
//! that may be slow, and the detector would believe it. So these requests become counters, which have no times, and no
//! page, percentile or change is made of them.

use std::collections::HashMap;

use tower_pulse::{Counter, Pulse};

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

/// The counters of a log.
#[derive(Debug)]
pub(crate) struct Counts {
    all: CounterPair,
    contexts: HashMap<String, CounterPair>,
}

#[derive(Debug)]
struct CounterPair {
    requests: Counter,
    /// Made when there is one.
    failed: Option<Counter>,
}

/// The most counters of so many contexts.
pub(crate) fn counters_of(contexts: usize) -> usize {
    // Those of all requests, and of the overflow.
    2 * contexts.min(MAX_COUNTED) + 4
}

impl Counts {
    pub(crate) fn new(pulse: &Pulse) -> Self {
        Self {
            all: CounterPair {
                requests: pulse.counter(REQUESTS),
                failed: None,
            },
            contexts: HashMap::new(),
        }
    }

    /// Counts a request in the second of the clock.
    pub(crate) fn add(&mut self, pulse: &Pulse, context: &str, ending: Ending) {
        let has_failed = ending.is_failure();
        self.all.add(has_failed, || pulse.counter(FAILED));
        if let Some(pair) = self.contexts.get_mut(context) {
            pair.add(has_failed, || pulse.counter(&format!("{FAILED}:{context}")));
            return;
        }
        let context = match self.contexts.len() < MAX_COUNTED {
            true => context,
            false => OVERFLOW,
        };
        let pair = self.contexts.entry(context.to_owned());
        let pair = pair.or_insert_with(|| CounterPair {
            requests: pulse.counter(&format!("{REQUESTS}:{context}")),
            failed: None,
        });
        pair.add(has_failed, || pulse.counter(&format!("{FAILED}:{context}")));
    }
}

impl CounterPair {
    fn add(&mut self, has_failed: bool, make: impl FnOnce() -> Counter) {
        self.requests.increment();
        if has_failed {
            self.failed.get_or_insert_with(make).increment();
        }
    }
}
