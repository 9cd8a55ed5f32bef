//! What the tests of protocols share: a `Pulse`, and what it has counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use pulse_rig::wait::until;
use tower_pulse::{Clock, Outcome, Pulse};
use tower_pulse_core::store::{RecordQuery, Store};
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::Precision;
use tower_pulse_model::tier::tier_for;

/// The second of each test.
pub(crate) const NOW: i64 = 1_700_001_000;

/// A pulse in memory whose clock stands still.
pub(crate) fn pulse() -> Pulse {
    let (clock, _hand) = Clock::manual(NOW);
    Pulse::builder().clock(clock).build().expect("the defaults")
}

/// What a context counts: its requests by how they ended, and its errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Number of requests by outcome, where there are some.
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    pub(crate) errors: u64,
}

/// What a context should count.
pub(crate) fn counted(outcomes: &[(Outcome, u64)], errors: u64) -> Counted {
    let outcomes = outcomes.iter();
    Counted {
        outcomes: outcomes
            .map(|(outcome, n)| (outcome.as_str(), *n))
            .collect(),
        errors,
    }
}

/// What each context counts, when no request is in flight any more.
pub(crate) async fn counts(pulse: &Pulse) -> BTreeMap<String, Counted> {
    until("no request is in flight", async || in_flight(pulse) == 0).await;
    pulse.flush().await.expect("a store in memory");
    let store: Arc<dyn Store> = pulse.store().clone().into();
    let index = store.record_index(NOW).await.expect("a store in memory");
    let http = index.contexts.into_iter();
    let contexts: Vec<ContextId> = http.filter(|id| id.kind == Kind::Http).collect();
    let minute: Precision = tier_for(60).expect("records have minutes");
    let query = RecordQuery {
        contexts,
        width: 60,
        tier: minute,
        now: NOW,
    };
    let records = store.records(&query).await.expect("a store in memory");
    let mut counts = BTreeMap::<String, Counted>::new();
    for (context, slices) in query.contexts.iter().zip(records) {
        let counted = counts.entry(context.name.to_string()).or_default();
        for slice in slices {
            let (of_slice, times) = (slice.sums.outcomes, slice.sums.times);
            for outcome in Outcome::ALL
                .into_iter()
                .filter(|one| of_slice.count(*one) > 0)
            {
                *counted.outcomes.entry(outcome.as_str()).or_default() += of_slice.count(outcome);
            }
            counted.errors += of_slice.errors;
            // Each request has a time, once.
            assert_eq!(times.count, of_slice.counts.iter().sum::<u64>());
        }
    }
    counts
}

/// Fails unless these contexts, and no others, count this.
pub(crate) async fn assert_counts(pulse: &Pulse, expected: &[(&str, Counted)]) {
    let expected = expected.iter();
    let expected = expected.map(|(name, counted)| ((*name).to_owned(), counted.clone()));
    assert_eq!(counts(pulse).await, expected.collect());
}

/// The requests that have begun and not ended.
pub(crate) fn in_flight(pulse: &Pulse) -> i64 {
    pulse.health().recording.in_flight
}
