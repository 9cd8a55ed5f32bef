//! Calls that the store has acknowledged and lost are replayed, but not without end.

use super::{Flushing, at};
use crate::error::StoreErrorKind;
use crate::store::{Appended, Receipt};
use crate::task::lock;

#[tokio::test]
async fn a_store_that_loses_the_newest_call_again_and_again_is_not_asked_forever() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.flush(1).await;
    let done = Appended::Done(Receipt::default());
    let answers = [Appended::Gap { fence: 1 }, done].repeat(20);
    *lock(&flushing.store.answers) = answers.into();
    flushing.flusher.flush().await.expect("the store answers");
    // Each question is followed by a replay.
    assert_eq!(flushing.store.calls().len(), 2 + 2 * 6);
}

#[tokio::test]
async fn a_replayed_call_is_waited_for_at_its_new_position() {
    let done = |offset| {
        Appended::Done(Receipt {
            position: at(offset),
            is_attended: true,
            ..Receipt::default()
        })
    };
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [done(100), done(200)].into();
    flushing.flush(1).await;
    flushing.flush(1).await;
    let gap = |fence| Appended::Gap { fence };
    *lock(&flushing.store.answers) = [gap(0), done(300), gap(1), done(400)].into();
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    let newest = flushed.map(|flushed| (flushed.call.seq, flushed.call.position));
    assert_eq!(newest, Some((2, at(400))));
    *lock(&flushing.store.answers) = [gap(0), Appended::Full].into();
    let error = flushing.flusher.flush().await.expect_err("it is full");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(flushing.is_unattended().await);
}
