//! Computing or waiting: the time within and outside of a request's polls, its longest poll and their number.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::FutureExt;
use http::Request;
use tower::ServiceExt;
use tower_pulse::query::{PathQuery, Window};
use tower_pulse::{ManualClock, Pulse};
use tower_pulse_model::measures::Measure;

use super::request_timers::{after, app};
use super::{context, pulse, send};

/// Time within polls, outside of them, the longest poll, in milliseconds, and the number of polls.
async fn polls(pulse: &Pulse) -> [u64; 4] {
    let measures = context(pulse, "GET /")
        .await
        .hour
        .unwrap()
        .aggregate
        .measures;
    let millis = |measure| measures.get(measure) / 1_000_000;
    [
        millis(Measure::PollTime),
        millis(Measure::Waited),
        millis(Measure::LongestPoll),
        measures.get(Measure::Polls),
    ]
}

/// A page whose handler moves the clock.
fn moving<F>(
    pulse: &Pulse,
    hand: &ManualClock,
    handler: impl Fn(ManualClock) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = ()> + Send + 'static,
{
    let hand = hand.clone();
    app(pulse, move || {
        let handled = handler(hand.clone());
        async {
            handled.await;
            "ok"
        }
    })
}

/// A poll of so many milliseconds, after which the future waits.
async fn compute(hand: &ManualClock, millis: u64) {
    hand.advance(Duration::from_millis(millis));
    tokio::task::yield_now().await;
}

#[tokio::test]
async fn a_request_that_is_ready_at_once_only_computes() {
    let (pulse, hand) = pulse();
    let app = moving(&pulse, &hand, |hand| async move {
        after(&hand, 7);
    });
    for _ in 0..2 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap();
    }
    assert_eq!(polls(&pulse).await, [14, 0, 7, 2]);
}

#[tokio::test]
async fn a_request_that_waits_computes_within_its_polls_alone() {
    let (pulse, hand) = pulse();
    let app = moving(&pulse, &hand, |hand| async move {
        for millis in [3, 5, 2] {
            compute(&hand, millis).await;
        }
    });
    let request = Request::get("/").body(Body::empty()).unwrap();
    let mut response = Box::pin(app.clone().oneshot(request));
    for _ in 0..3 {
        assert!((&mut response).now_or_never().is_none());
        after(&hand, 100);
    }
    response.await.unwrap();
    assert_eq!(polls(&pulse).await, [10, 300, 5, 4]);
    // One that is dropped while it waits has not computed meanwhile.
    let request = Request::get("/").body(Body::empty()).unwrap();
    let mut response = Box::pin(app.oneshot(request));
    assert!((&mut response).now_or_never().is_none());
    after(&hand, 50);
    drop(response);
    assert_eq!(polls(&pulse).await, [13, 350, 5, 5]);
}

/// In real time, in order only: how long either takes is up to the machine.
#[tokio::test]
async fn who_spins_computes_for_longer_than_who_sleeps() {
    const LONG: Duration = Duration::from_millis(30);
    let pulse = Pulse::builder().build().unwrap();
    let spin = get(async || {
        let start = std::time::Instant::now();
        while start.elapsed() < LONG {
            std::hint::spin_loop();
        }
    });
    let sleep = get(async || tokio::time::sleep(LONG).await);
    let app = Router::new().route("/spin", spin).route("/sleep", sleep);
    let app = app.layer(pulse.layer());
    for path in ["/spin", "/sleep"].repeat(8) {
        send(&app, "GET", path).await;
    }
    pulse.flush().await.unwrap();
    let path = async |path: &str| {
        let mut query = PathQuery::default();
        query.context = path.to_string();
        query.window = Some(Window::last(Duration::from_secs(900)));
        let path = pulse.query().ask(&query).await.unwrap();
        let polls = path
            .window
            .as_ref()
            .unwrap()
            .window
            .now
            .polls
            .as_ref()
            .unwrap();
        (polls.computing.unwrap(), polls.waiting.unwrap())
    };
    let (spinning, sleeping) = (path("GET /spin").await, path("GET /sleep").await);
    assert!(spinning.0 > sleeping.0, "{spinning:?} {sleeping:?}");
    assert!(spinning.1 < sleeping.1, "{spinning:?} {sleeping:?}");
    assert_eq!(spinning.1, 0.0, "it is ready at its first poll");
}
