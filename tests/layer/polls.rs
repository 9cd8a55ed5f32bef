//! Computing or waiting: the time within and outside of a request's polls, the longest poll, and the number of polls.

use axum::Router;
use futures_util::FutureExt;
use tower_pulse::{ManualClock, Pulse};
use tower_pulse_model::measures::Measure;

use super::request_timers::{advance, app};
use super::{context, pulse, send};

/// The milliseconds within polls, the milliseconds outside of polls and those of the longest poll; then the number of
/// polls.
async fn polls(pulse: &Pulse) -> [u64; 4] {
    let hour = context(pulse, "GET /").await.hour.unwrap();
    let measures = hour.aggregate.measures;
    let millis = |measure| measures.get(measure) / 1_000_000;
    [
        millis(Measure::PollTime),
        millis(Measure::Waited),
        millis(Measure::LongestPoll),
        measures.get(Measure::Polls),
    ]
}

/// A page whose handler computes in several polls. `polls` has the milliseconds of each poll.
fn computing(pulse: &Pulse, manual_clock: &ManualClock, polls: &'static [u64]) -> Router {
    app(pulse, manual_clock, move |_, manual_clock| async move {
        let (last, waiting) = polls.split_last().unwrap();
        for millis in waiting {
            advance(&manual_clock, *millis);
            tokio::task::yield_now().await;
        }
        advance(&manual_clock, *last);
        "ok"
    })
}

#[tokio::test]
async fn a_request_that_is_ready_at_once_only_computes() {
    let (pulse, manual_clock) = pulse();
    let app = computing(&pulse, &manual_clock, &[7]);
    for _ in 0..2 {
        send(&app, "GET", "/").await;
    }
    assert_eq!(polls(&pulse).await, [14, 0, 7, 2]);
}

#[tokio::test]
async fn a_request_that_waits_computes_only_within_its_polls() {
    let (pulse, manual_clock) = pulse();
    let app = computing(&pulse, &manual_clock, &[3, 5, 2, 0]);
    let mut response = Box::pin(send(&app, "GET", "/"));
    for _ in 0..3 {
        assert!((&mut response).now_or_never().is_none());
        advance(&manual_clock, 100);
    }
    response.await;
    assert_eq!(polls(&pulse).await, [10, 300, 5, 4]);
    // A request that is dropped while it waits has not computed during the wait.
    let mut response = Box::pin(send(&app, "GET", "/"));
    assert!((&mut response).now_or_never().is_none());
    advance(&manual_clock, 50);
    drop(response);
    assert_eq!(polls(&pulse).await, [13, 350, 5, 5]);
}
