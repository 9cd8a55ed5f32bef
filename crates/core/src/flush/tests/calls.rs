//! Calls: their numbers and sizes, and the receipts that the store gives for them.

use futures_util::FutureExt;
use tokio::time::timeout;

use super::{Behaviour, Flushing, MS, SECOND, at};
use crate::error::StoreErrorKind;
use crate::store::{Appended, Receipt};
use crate::task::lock;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

#[tokio::test]
async fn the_status_shows_the_series_and_the_age_of_a_call_in_doubt() {
    let flushing = Flushing::new();
    flushing.set(Behaviour::Hanging);
    flushing.record(3);
    assert!(timeout(MS, flushing.flusher.flush()).await.is_err());
    // The two series are the context and `<all>`.
    let status = flushing.flusher.status();
    assert_eq!(status.series, 2);
    assert!(status.in_doubt_age.is_some() && status.flushed_age.is_none());
    assert_eq!(lock(&flushing.flusher.state).amounts.samples, 3);
    flushing.set(Behaviour::Fine);
    let call = flushing.flush(0).await.expect("a call is flushed").call;
    assert_eq!((call.seq, call.instance), (1, status.instance));
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
    assert!(status.flushed_age.is_some() && status.contact_age.is_some());
}

#[tokio::test]
async fn requests_that_come_during_a_flush_wait_for_the_next_one() {
    let flushing = Flushing::new();
    flushing.record(1);
    let mut flush = Box::pin(flushing.flusher.flush());
    // The flusher yields after each call.
    assert!((&mut flush).now_or_never().is_none());
    flushing.record(2);
    flushing.recorder.drain();
    flush.await.expect("the store answers");
    assert_eq!(flushing.store.calls().len(), 1);
    assert_eq!(flushing.recorder.drain.pending_series(), 2);
}

#[tokio::test]
async fn an_empty_flush_asks_whether_the_store_has_the_newest_call() {
    let flushing = Flushing::new();
    // There is no newest call yet, so this flush sends nothing.
    flushing.flush(0).await;
    flushing.flush(1).await;
    flushing.set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.fail_to_flush(0).await;
    assert!(flushing.counters().last_error.is_some());
    flushing.set(Behaviour::Fine);
    flushing.flush(0).await;
    assert_eq!(flushing.counters().last_error, None);
    assert_eq!(flushing.store.sizes(), [(1, 1), (1, 0), (1, 0)]);
}

#[tokio::test]
async fn a_call_has_about_16_contexts_or_64_at_the_shutdown() {
    let flushing = Flushing::new();
    for (is_shutdown, expected) in [(false, 16..=24), (true, 64..=80)] {
        for number in 0..200 {
            let name = format!("job {number}");
            let handle = flushing.recorder.context(Kind::Timer, &name);
            handle.record_measured(MS, Outcome::Success);
        }
        match is_shutdown {
            true => assert!(flushing.flusher.finish(SECOND).await.is_ok()),
            false => drop(flushing.flush(0).await),
        }
        let calls = std::mem::take(&mut *lock(&flushing.store.appended));
        let contexts = calls[0].1.batch.contexts.len();
        assert!(expected.contains(&contexts), "{contexts}");
    }
}

#[tokio::test]
async fn an_instance_is_notified_to_fold_if_no_instance_folds() {
    let led = Flushing::new();
    led.flush(1).await;
    assert!(!led.was_notified().await);
    led.answer([Appended::Full]);
    assert_eq!(led.fail_to_flush(1).await, StoreErrorKind::Refused);
    assert!(led.was_notified().await);

    let leaderless = Flushing::new();
    leaderless.answer([Appended::Done(Receipt::default())]);
    leaderless.flush(1).await;
    assert!(leaderless.was_notified().await);
}

#[tokio::test]
async fn an_empty_flush_reports_an_entry_that_no_instance_folds() {
    let receipt = |folded, has_leader| Receipt {
        position: at(100),
        folded: at(folded),
        has_leader,
    };
    let flushing = Flushing::new();
    flushing.answer([Appended::Done(receipt(0, true))]);
    flushing.flush(1).await;
    for (folded, has_leader) in [(99, true), (99, false), (100, false), (101, false)] {
        flushing.answer([Appended::Duplicate(receipt(folded, has_leader))]);
        flushing.flush(0).await;
        let is_reported = (folded, has_leader) == (99, false);
        assert_eq!(flushing.was_notified().await, is_reported, "{folded}");
    }
}
