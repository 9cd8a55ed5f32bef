//! Resets of the store and names that are taken: which call is sent again under which name, and which is lost.

use super::{Behaviour, Flushing, NOW, SECOND, Scripted, generation};
use crate::clock::Clock;
use crate::error::StoreErrorKind;
use crate::store::{Appended, Generation, Receipt};
use crate::task::lock;

#[tokio::test]
async fn a_call_that_was_never_sent_cannot_be_a_duplicate() {
    let flushing = Flushing::new();
    let answers = [Appended::Duplicate(Receipt::default())];
    *lock(&flushing.store.answers) = answers.into();
    flushing.record(3);
    let name = flushing.flusher.status().instance;
    flushing.flusher.flush().await.expect("the store answers");
    let renamed = flushing.flusher.status().instance;
    assert_ne!(renamed, name);
    assert_eq!(flushing.store.calls(), [(name, 1, 3), (renamed, 1, 3)]);
    assert_eq!((flushing.resets(), flushing.lost()), (1, 0));
}

#[tokio::test]
async fn a_named_instance_has_an_id_of_its_own_in_the_journal() {
    let flushings = [(); 2].map(|()| {
        let store = Scripted::default();
        *lock(&store.answers) = [Appended::Duplicate(Receipt::default())].into();
        Flushing::named(Some("web-1"), store, Clock::system(), None)
    });
    let mut ids = Vec::new();
    for flushing in &flushings {
        flushing.flush(3).await;
        let status = flushing.flusher.status();
        assert_eq!(status.instance, "web-1");
        let calls = flushing.store.calls();
        let id = &calls[1].0;
        assert_eq!(status.unique_name, format!("web-1:{id}"));
        ids.extend(calls.into_iter().map(|(id, ..)| id));
    }
    // The answer `Duplicate` makes each instance continue under a second id.
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() == 32));
}

#[tokio::test]
async fn behind_a_garbled_fence_only_a_call_that_was_never_sent_is_sent_again() {
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [Appended::Garbled].into();
    flushing.record(3);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!((flushing.resets(), flushing.lost()), (1, 0));
    assert_eq!(flushing.store.calls().len(), 2);
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::TimedOut));
    flushing.record(2);
    assert!(flushing.flusher.flush().await.is_err());
    flushing.store.set(Behaviour::Fine);
    *lock(&flushing.store.answers) = [Appended::Garbled].into();
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!((flushing.resets(), flushing.lost()), (2, 2));
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
}

/// Replaces a generation that last answered at the age of `age` + 10 seconds. Returns whether the instance has another
/// name, and how many of two requests it counts as lost.
async fn after_reset(age: u64, next: Generation) -> (bool, u64) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let flushing = Flushing::of(Scripted::default(), clock, None);
    *lock(&flushing.store.generation) = generation("first", age, true);
    flushing.flush(1).await;
    manual_clock.advance(10 * SECOND);
    flushing.flush(1).await;
    let name = flushing.flusher.status().instance;
    // The time without an answer does not add to the age of the generation.
    manual_clock.advance(100 * SECOND);
    *lock(&flushing.store.generation) = next;
    *lock(&flushing.store.answers) = [Appended::Reset].into();
    flushing.flush(2).await;
    assert_eq!(flushing.resets(), 1);
    let is_renamed = flushing.flusher.status().instance != name;
    let last = flushing.store.calls().pop();
    let is_sent_again = last.is_some_and(|(_, _, requests)| requests == 2);
    let is_taken_again = lock(&flushing.store.appended).len() == 4;
    assert_eq!(is_taken_again, flushing.lost() == 0);
    assert!(is_sent_again);
    if !is_taken_again {
        // The next call reports the missing requests. The store is not asked for calls of the old name.
        flushing.flusher.flush().await.expect("the store answers");
        let appended = lock(&flushing.store.appended).pop();
        let (_, served) = appended.expect("there is a call").1.batch.served();
        assert_eq!((lock(&flushing.store.appended).len(), served), (3, 2));
    }
    (is_renamed, flushing.lost())
}

#[tokio::test]
async fn after_a_reset_a_call_is_sent_again_if_the_store_cannot_have_it() {
    // The generation began less than a minute ago, so a failover has lost it with its calls.
    assert_eq!(
        after_reset(49, generation("next", 0, true)).await,
        (false, 0)
    );
    // The store was emptied.
    assert_eq!(
        after_reset(50, generation("next", 0, true)).await,
        (true, 0)
    );
    // The store was not empty when the generation began, or it was restored to an earlier state.
    assert_eq!(
        after_reset(49, generation("next", 0, false)).await,
        (true, 2)
    );
    assert_eq!(
        after_reset(49, generation("first", 0, true)).await,
        (true, 2)
    );
}
