//! The last flush: the calls that a shutdown sends, and the requests that it counts as lost.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::{Behaviour, Flushing, MS, SECOND};
use crate::error::StoreErrorKind;

impl Flushing {
    async fn finish_in_vain(&self, timeout: Duration) -> (u64, StoreErrorKind) {
        let lost = self.flusher.finish(timeout).await.expect_err("it fails");
        (lost.lost.samples, lost.error.kind())
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_counts_requests_that_it_could_not_flush_as_lost() {
    let flushing = Flushing::new();
    flushing.flush(1).await;
    flushing.set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.fail_to_flush(3).await;
    flushing.record(2);
    let calls = flushing.store.calls().len();
    let lost = flushing.finish_in_vain(10 * SECOND).await;
    assert_eq!(lost, (5, StoreErrorKind::Unreachable));
    assert_eq!(flushing.lost(), 5);
    let tries = flushing.store.calls().len() - calls;
    assert!((10..100).contains(&tries), "{tries}");
    // A second shutdown finds nothing that could be lost.
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 5);
}

#[tokio::test(start_paused = true)]
async fn requests_of_an_unpolled_flush_count_as_lost_until_they_are_sent() {
    let flushing = Flushing::new();
    flushing.set(Behaviour::Hanging);
    flushing.record(3);
    let mut held = Box::pin(flushing.flusher.flush());
    assert!(timeout(MS, &mut held).await.is_err());
    flushing.record(2);
    let lost = flushing.finish_in_vain(SECOND).await;
    assert_eq!(lost, (5, StoreErrorKind::TimedOut));
    assert_eq!(flushing.lost(), 5);
    drop(held);
    flushing.set(Behaviour::Fine);
    flushing.flush(0).await;
    assert_eq!(flushing.lost(), 2);
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_flush_sends_requests_that_a_dropped_shutdown_had_taken() {
    let flushing = Flushing::new();
    flushing.set(Behaviour::Failing(StoreErrorKind::Unreachable));
    flushing.record(1);
    let shutdown = flushing.flusher.finish(SECOND);
    assert!(timeout(MS, shutdown).await.is_err());
    let kind = flushing.fail_to_flush(0).await;
    assert_eq!(kind, StoreErrorKind::Unreachable);
    flushing.set(Behaviour::Fine);
    let flushed = flushing.flush(0).await;
    assert_eq!(flushed.map(|flushed| flushed.call.seq), Some(1));
    // The shutdown may have sent the call once or twice.
    let calls = flushing.store.calls().len();
    assert!((3..=4).contains(&calls), "{calls} calls");
    assert!(flushing.flusher.finish(SECOND).await.is_ok());
    assert_eq!(flushing.lost(), 0);
}

#[tokio::test]
async fn a_flush_sends_no_pending_requests_after_a_shutdown_has_begun() {
    let flushing = Flushing::new();
    flushing.record(1);
    let sending = flushing.flusher.sending.lock().await;
    assert!(flushing.flusher.finish(SECOND).now_or_never().is_none());
    drop(sending);
    flushing.fail_to_flush(0).await;
    assert_eq!(flushing.store.calls(), []);
}
