//! The last flush: what a shutdown sends, and what it counts as lost.

use futures_util::FutureExt;
use tokio::time::timeout;

use super::{Behaviour, Flushing, MS, SECOND};
use crate::error::StoreErrorKind;
use crate::task::Stop;

#[tokio::test(start_paused = true)]
async fn a_shutdown_counts_what_it_could_not_flush_as_lost() {
    let flushing = Flushing::new();
    flushing.record(1);
    flushing.flusher.flush().await.expect("the store answers");
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(3);
    assert!(flushing.flusher.flush().await.is_err());
    flushing.record(2);
    let calls = flushing.store.calls().len();
    let lost = flushing.flusher.finish(10 * SECOND).await;
    let lost = lost.map_err(|lost| (lost.lost.requests, lost.error.kind()));
    assert_eq!(lost, Err((5, StoreErrorKind::Unreachable)));
    assert_eq!(flushing.lost(), 5);
    let tries = flushing.store.calls().len() - calls;
    assert!((10..100).contains(&tries), "{tries}");
    // Nothing is left to lose.
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_nobody_polls_is_lost_until_it_is_sent_after_all() {
    let flushing = Flushing::new();
    flushing.store.set(Behaviour::Hanging);
    flushing.record(3);
    let mut held = Box::pin(flushing.flusher.flush());
    assert!(timeout(MS, &mut held).await.is_err());
    flushing.record(2);
    let lost = flushing.flusher.finish(SECOND).await;
    let lost = lost.map_err(|lost| (lost.lost.requests, lost.error.kind()));
    assert_eq!(lost, Err((5, StoreErrorKind::TimedOut)));
    assert_eq!(flushing.lost(), 5);
    drop(held);
    flushing.store.set(Behaviour::Fine);
    flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(flushing.lost(), 2);
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_flush_sends_what_a_dropped_shutdown_had_taken() {
    let flushing = Flushing::new();
    flushing
        .store
        .set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(1);
    let shutdown = flushing.flusher.finish(SECOND);
    assert!(timeout(MS, shutdown).await.is_err());
    let error = flushing.flusher.flush().await.map(|_| ());
    let kind = error.map_err(|error| error.kind());
    assert_eq!(kind, Err(StoreErrorKind::Unreachable));
    flushing.store.set(Behaviour::Fine);
    let flushed = flushing.flusher.flush().await.expect("the store answers");
    assert_eq!(flushed.map(|flushed| flushed.call.seq), Some(1));
    // The shutdown may have sent the call twice before the shutdown was dropped.
    let calls = flushing.store.calls().len();
    assert!((3..=4).contains(&calls), "{calls} calls");
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 0);
}

#[tokio::test]
async fn a_shutdown_that_was_begun_flushes_what_is_pending_itself() {
    let flushing = Flushing::new();
    flushing.record(1);
    let sending = flushing.flusher.sending.lock().await;
    assert!(flushing.flusher.finish(SECOND).now_or_never().is_none());
    drop(sending);
    assert!(flushing.flusher.flush().await.is_err());
    assert_eq!(flushing.store.calls(), []);
}

/// The warning is tested by tests/warnings.
#[tokio::test(start_paused = true)]
async fn a_flusher_without_a_pulse_flushes_once_more() {
    let flushing = Flushing::new();
    let (stop, stopped) = Stop::new();
    let task = tokio::spawn(flushing.flusher.clone().flush_at_intervals(stopped));
    tokio::task::yield_now().await;
    flushing.record(2);
    drop(stop);
    task.await.expect("the task ends");
    let requests: u64 = flushing.store.calls().iter().map(|call| call.2).sum();
    assert_eq!(requests, 2);

    let stopping = Flushing::new();
    let (stop, stopped) = Stop::new();
    let task = tokio::spawn(stopping.flusher.clone().flush_at_intervals(stopped));
    tokio::task::yield_now().await;
    stopping.record(2);
    stop.stop();
    task.await.expect("the task ends");
    assert_eq!(stopping.store.calls(), [], "the shutdown flushes");
}
