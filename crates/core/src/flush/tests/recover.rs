//! Resets of the store, and fences with wrong values: which calls are sent again, and under which id of the instance.

use super::{Behaviour, Flushing, SECOND, generation_of};
use crate::clock::Clock;
use crate::error::StoreErrorKind;
use crate::store::{Appended, Receipt};
use crate::task::lock;

impl Flushing {
    fn resets_and_lost(&self) -> (u64, u64) {
        (self.counters().store_resets, self.lost())
    }
}

#[tokio::test]
async fn a_call_that_was_never_sent_cannot_be_a_duplicate() {
    let flushing = Flushing::new();
    flushing.answer([Appended::Duplicate(Receipt::default())]);
    let id = flushing.flusher.status().instance;
    flushing.flush(3).await;
    let new_id = flushing.flusher.status().instance;
    assert_ne!(new_id, id);
    assert_eq!(flushing.store.calls(), [(id, 1, 3), (new_id, 1, 3)]);
    assert_eq!(flushing.resets_and_lost(), (1, 0));
}

#[tokio::test]
async fn a_named_instance_has_an_id_of_its_own_in_the_journal() {
    let mut ids = Vec::new();
    for flushing in [(); 2].map(|()| Flushing::with(Some("web-1"), Clock::system(), None)) {
        flushing.answer([Appended::Duplicate(Receipt::default())]);
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
async fn with_a_garbled_fence_a_call_that_was_sent_before_is_lost() {
    let flushing = Flushing::new();
    flushing.answer([Appended::Garbled]);
    flushing.flush(3).await;
    assert_eq!(flushing.resets_and_lost(), (1, 0));
    assert_eq!(flushing.store.calls().len(), 2);
    flushing.set(Behaviour::Failing(StoreErrorKind::TimedOut));
    flushing.fail_to_flush(2).await;
    flushing.set(Behaviour::Fine);
    flushing.answer([Appended::Garbled]);
    flushing.flush(0).await;
    assert_eq!(flushing.resets_and_lost(), (2, 2));
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
}

#[tokio::test]
async fn after_a_reset_a_call_is_sent_again_if_the_store_cannot_have_it() {
    for (age, (id, is_fresh), has_new_id, lost) in [
        // The generation was younger than a minute at its last answer, so the reset counts as a failover.
        (49, ("next", true), false, 0),
        // The generation was a minute old, so the store was emptied.
        (50, ("next", true), true, 0),
        // The new generation began in a store that was not empty, or is the first generation again.
        (49, ("next", false), true, 2),
        (49, ("first", true), true, 2),
    ] {
        let (flushing, manual_clock) = Flushing::at_interval(None);
        *lock(&flushing.store.generation) = Some(generation_of("first", age, true));
        flushing.flush(1).await;
        manual_clock.advance(10 * SECOND);
        flushing.flush(1).await;
        let instance = flushing.flusher.status().instance;
        // The time since the last answer does not count as age of the generation.
        manual_clock.advance(100 * SECOND);
        *lock(&flushing.store.generation) = Some(generation_of(id, 0, is_fresh));
        flushing.answer([Appended::Reset]);
        flushing.flush(2).await;
        assert_eq!(flushing.resets_and_lost(), (1, lost), "{age} s, {id}");
        let new_instance = flushing.flusher.status().instance;
        assert_eq!(new_instance != instance, has_new_id, "{age} s, {id}");
        let calls = flushing.store.sizes();
        assert_eq!(calls.last().map(|(_, requests)| *requests), Some(2));
        assert_eq!(calls.len() == 4, lost == 0, "{age} s, {id}");
        if lost > 0 {
            // The next call reports the missing requests. No call asks about the calls of the old id.
            flushing.flush(0).await;
            let appended = lock(&flushing.store.appended).pop();
            let (_, served) = appended.expect("there is a call").1.batch.served();
            assert_eq!((lock(&flushing.store.appended).len(), served), (3, 2));
        }
    }
}
