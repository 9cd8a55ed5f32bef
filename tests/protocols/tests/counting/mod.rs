//! A `Pulse` for the tests of each protocol, and a check of its counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use pulse_rig::wait::until;
use tower_pulse::{Clock, Outcome, Pulse};
use tower_pulse_core::store::{RecordQuery, Store};
use tower_pulse_model::context::Kind;
use tower_pulse_model::tier::tier_for;

/// The time of each test, in Unix seconds.
pub(crate) const NOW: i64 = 1_700_001_000;

/// A context, its requests by outcome, and its errors.
pub(crate) type Counted<'a> = (&'a str, &'a [(Outcome, u64)], u64);

/// A `Pulse` in memory with a clock that does not move.
pub(crate) fn pulse() -> Pulse {
    let (clock, _manual) = Clock::manual(NOW);
    Pulse::builder().clock(clock).build().expect("the defaults")
}

/// Waits until no request is in flight. Panics unless the contexts, their requests by outcome and their errors are as
/// expected.
pub(crate) async fn assert_counts(pulse: &Pulse, expected: &[Counted<'_>]) {
    wait_for_in_flight(pulse, 0).await;
    pulse.flush().await.expect("a store in memory");
    let store: Arc<dyn Store> = pulse.store().clone().into();
    let index = store
        .query()
        .record_index(NOW)
        .await
        .expect("a store in memory");
    let contexts = index.contexts.into_iter();
    let query = RecordQuery {
        contexts: contexts.filter(|id| id.kind == Kind::Http).collect(),
        width: 60,
        tier: tier_for(60).expect("records have minutes"),
        now: NOW,
    };
    let records = store
        .query()
        .records(&query)
        .await
        .expect("a store in memory");
    let mut counts = BTreeMap::new();
    for (context, slices) in query.contexts.iter().zip(records) {
        let [slice] = &slices[..] else {
            panic!("one minute has all requests: {context:?}");
        };
        let outcomes = &slice.sums.outcomes;
        // Each request has one duration.
        assert_eq!(slice.sums.times.count, outcomes.counts.iter().sum::<u64>());
        let counted = Outcome::ALL.map(|outcome| (outcome.as_str(), outcomes.count(outcome)));
        let counted = counted.into_iter().filter(|(_, n)| *n > 0);
        let counted: BTreeMap<_, _> = counted.collect();
        counts.insert(context.name.to_string(), (counted, outcomes.errors));
    }
    let expected = expected.iter().map(|(name, outcomes, errors)| {
        let outcomes = outcomes.iter().map(|(outcome, n)| (outcome.as_str(), *n));
        ((*name).to_owned(), (outcomes.collect(), *errors))
    });
    assert_eq!(counts, expected.collect());
}

pub(crate) async fn wait_for_in_flight(pulse: &Pulse, requests: i64) {
    until("this number of requests is in flight", async || {
        pulse.health().recording.in_flight == requests
    })
    .await;
}
