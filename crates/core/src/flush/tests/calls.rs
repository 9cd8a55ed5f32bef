//! Calls: their numbers and sizes, and the receipts that the store gives for them.

use futures_util::FutureExt;
use tokio::time::timeout;

use super::{Behaviour, Flushing, MS, SECOND, Scripted, at};
use crate::clock::Clock;
use crate::error::StoreErrorKind;
use crate::store::{Appended, Receipt};
use crate::task::lock;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

#[tokio::test]
async fn flushing_shows_what_is_taken_and_not_acknowledged() {
    let flushing = Flushing::new();
    flushing.store.set(Behaviour::Hanging);
    flushing.record(3);
    assert!(timeout(MS, flushing.flusher.flush()).await.is_err());
    // The two series are the context and `<all>`.
    let status = flushing.flusher.status();
    assert_eq!(status.series, 2);
    assert!(status.in_doubt_age.is_some() && status.flushed_age.is_none());
    assert_eq!(lock(&flushing.flusher.state).amounts.requests, 3);
    flushing.store.set(Behaviour::Fine);
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(
        flushed.map(|flushed| (flushed.call.seq, flushed.call.instance)),
        Some((1, status.instance))
    );
    let status = flushing.flusher.status();
    assert_eq!((status.series, status.in_doubt_age), (0, None));
    assert!(status.flushed_age.is_some() && status.contact_age.is_some());
}

#[tokio::test]
async fn requests_that_come_during_a_flush_wait_for_the_next_one() {
    let flushing = Flushing::new();
    flushing.record(1);
    let mut flush = Box::pin(flushing.flusher.flush());
    // The flusher lets other tasks run after each call.
    assert!((&mut flush).now_or_never().is_none());
    flushing.record(2);
    flushing.recorder.drain();
    flush.await.expect("the store answers");
    assert_eq!(flushing.store.calls().len(), 1);
    assert_eq!(flushing.recorder.drain.drain_stats().pending, 2);
}

#[tokio::test]
async fn a_flush_of_nothing_asks_for_the_newest_call() {
    let flushing = Flushing::new();
    flushing.flusher.flush().await.expect("no call is sent");
    flushing.flush(1).await;
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    assert!(flushing.flusher.flush().await.is_err());
    assert!(flushing.last_error().is_some());
    flushing.store.set(Behaviour::Fine);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(flushing.last_error(), None);
    let calls = flushing.store.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|(_, seq, requests)| (*seq, *requests))
        .collect();
    assert_eq!(calls, [(1, 1), (1, 0), (1, 0)]);
}

#[tokio::test]
async fn a_call_has_16_contexts_and_the_last_ones_64() {
    let flushing = Flushing::new();
    let record = || {
        for number in 0..200 {
            let entry = flushing
                .recorder
                .entry(Kind::Timer, &format!("job {number}"));
            entry.record_measured(MS, Outcome::Success, false);
        }
    };
    let contexts = || -> Vec<_> {
        let mut appended = lock(&flushing.store.appended);
        appended
            .drain(..)
            .map(|(_, call)| call.batch.contexts.len())
            .collect()
    };
    record();
    flushing.flusher.flush().await.expect("the store answers");
    let first = contexts()[0];
    assert!((16..=24).contains(&first), "{first}");
    record();
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    let last = contexts()[0];
    assert!((64..=80).contains(&last), "{last}");
}

#[tokio::test]
async fn entries_that_no_instance_folds_are_reported_to_the_folder() {
    let led = Flushing::new();
    led.record(1);
    led.flusher.flush().await.expect("the store answers");
    assert!(!led.is_leaderless().await);
    *lock(&led.store.answers) = [Appended::Full].into();
    led.record(1);
    let error = led.flusher.flush().await.expect_err("it is full");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(led.is_leaderless().await);

    let store = Scripted {
        is_leaderless: true,
        ..Scripted::default()
    };
    let leaderless = Flushing::of(store, Clock::system(), None);
    leaderless.record(1);
    leaderless.flusher.flush().await.expect("the store answers");
    assert!(leaderless.is_leaderless().await);
}

#[tokio::test]
async fn a_flush_of_nothing_reports_an_entry_that_no_instance_folds() {
    let receipt = |folded, has_leader| Receipt {
        position: at(100),
        folded: at(folded),
        has_leader,
    };
    let flushing = Flushing::new();
    *lock(&flushing.store.answers) = [Appended::Done(receipt(0, true))].into();
    flushing.flush(1).await;
    for (folded, has_leader, is_reported) in [
        (99, true, false),
        (99, false, true),
        (100, false, false),
        (101, false, false),
    ] {
        let answer = Appended::Duplicate(receipt(folded, has_leader));
        *lock(&flushing.store.answers) = [answer].into();
        flushing.flusher.flush().await.expect("the store answers");
        assert_eq!(flushing.is_leaderless().await, is_reported, "{folded}");
    }
}
