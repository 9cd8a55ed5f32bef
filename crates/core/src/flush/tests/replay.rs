//! Calls that the store has acknowledged and lost are replayed, but not endlessly.

use super::{Flushing, at};
use crate::error::StoreErrorKind;
use crate::store::{Appended, Receipt};

#[tokio::test]
async fn a_store_that_asks_for_or_loses_the_same_call_again_and_again_is_a_failure() {
    let flushing = Flushing::new();
    // Three answers without progress are allowed.
    flushing.answer([Appended::Gap { fence: 0 }; 3]);
    flushing.flush(1).await;
    assert_eq!(flushing.store.calls().len(), 4);
    flushing.answer([Appended::Gap { fence: 1 }; 9]);
    assert_eq!(flushing.fail_to_flush(1).await, StoreErrorKind::Unexpected);
    assert_eq!(flushing.store.calls().len(), 8);

    let flushing = Flushing::new();
    flushing.flush(1).await;
    let done = Appended::Done(Receipt::default());
    flushing.answer([Appended::Gap { fence: 0 }, done].repeat(9));
    assert_eq!(flushing.fail_to_flush(1).await, StoreErrorKind::Unexpected);
    // Five attempts of two calls: three may be in vain, one is for the call in the replay buffer, and one exceeds the
    // limit.
    assert_eq!(flushing.store.calls().len(), 1 + 2 * 5);
}

#[tokio::test]
async fn calls_that_the_store_lacks_are_replayed_and_counted() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.flush(2).await;
    assert_eq!(flushing.flusher.replays(), 0);
    let done = Appended::Done(Receipt::default());
    flushing.answer([Appended::Gap { fence: 0 }, done, Appended::Gap { fence: 1 }]);
    flushing.flush(3).await;
    let expected = [(1, 1), (2, 2), (3, 3), (1, 1), (3, 3), (2, 2), (3, 3)];
    assert_eq!(flushing.store.sizes(), expected);
    let replayed = flushing.counters().replayed;
    assert_eq!((flushing.flusher.replays(), replayed), (2, 2));
}

#[tokio::test]
async fn a_store_that_loses_the_newest_call_again_and_again_is_not_asked_forever() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.flush(1).await;
    let done = Appended::Done(Receipt::default());
    flushing.answer([Appended::Gap { fence: 1 }, done].repeat(20));
    flushing.flush(0).await;
    // A replay follows each of six gaps.
    assert_eq!(flushing.store.calls().len(), 2 + 2 * 6);
}

#[tokio::test]
async fn callers_wait_for_the_new_position_of_a_replayed_call() {
    let done = |offset| {
        Appended::Done(Receipt {
            position: at(offset),
            has_leader: true,
            ..Receipt::default()
        })
    };
    let flushing = Flushing::new();
    flushing.answer([done(100), done(200)]);
    flushing.flush(1).await;
    flushing.flush(1).await;
    let gap = |fence| Appended::Gap { fence };
    flushing.answer([gap(0), done(300), gap(1), done(400)]);
    let flushed = flushing.flush(0).await;
    let newest = flushed.map(|flushed| (flushed.call.seq, flushed.call.position));
    assert_eq!(newest, Some((2, at(400))));
    flushing.answer([gap(0), Appended::Full]);
    assert_eq!(flushing.fail_to_flush(0).await, StoreErrorKind::Refused);
    assert!(flushing.was_notified().await);
}
