//! Timers within requests: the request under which a timer counts, and the part of the request's time that the timer
//! covers.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::{FutureExt, StreamExt};
use http::Response;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tower_pulse::{ManualClock, Pulse, Unrecorded};
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::timer_sums::{TimerSums, Timers};

use super::{context, counts, expected, pulse, pulse_with, send, snapshot};

async fn timers(pulse: &Pulse, name: &str) -> Timers {
    context(pulse, name).await.hour.unwrap().aggregate.timers
}

/// Asserts the timers within the requests of a context: the time that all timers cover together, and for each timer its
/// count, its requests, its sum and the time that it covers. Times are in milliseconds.
pub(super) async fn assert_timers<const N: usize>(
    pulse: &Pulse,
    context: &str,
    covered: u64,
    each: [(&str, [u64; 4]); N],
) {
    let mut expected = Timers::default();
    expected.covered = millis(covered);
    for (name, [count, requests, sum, covered]) in each {
        let sums = TimerSums {
            count,
            requests,
            sum: millis(sum),
            covered: millis(covered),
        };
        expected.add(RecordId::new(Kind::Timer, name), &sums);
    }
    assert_eq!(timers(pulse, context).await, expected, "{context}");
}

fn millis(n: u64) -> u64 {
    n * 1_000_000
}

pub(super) fn advance(manual_clock: &ManualClock, millis: u64) {
    manual_clock.advance(Duration::from_millis(millis));
}

/// A router with one route, `GET /`, recorded by `pulse`. The handler gets the pulse and its manual clock.
pub(super) fn app<F, R>(
    pulse: &Pulse,
    manual_clock: &ManualClock,
    handler: impl Fn(Pulse, ManualClock) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = R> + Send + 'static,
    R: IntoResponse + 'static,
{
    let (inner, manual_clock) = (pulse.clone(), manual_clock.clone());
    let handler = move || handler(inner.clone(), manual_clock.clone());
    Router::new().route("/", get(handler)).layer(pulse.layer())
}

#[tokio::test]
async fn timers_one_after_another_cover_their_sum() {
    let (pulse, manual_clock) = pulse();
    let app = app(&pulse, &manual_clock, |pulse, manual_clock| async move {
        for _ in 0..3 {
            let timer = pulse.timer("db");
            advance(&manual_clock, 2);
            tokio::task::yield_now().await;
            timer.stop();
            advance(&manual_clock, 1);
        }
        pulse
            .time("render", async { advance(&manual_clock, 5) })
            .await;
        let cached = pulse.timer("cached");
        advance(&manual_clock, 1);
        cached.discard();
        "done"
    });
    for _ in 0..2 {
        send(&app, "GET", "/").await;
    }
    let db = ("db", [6, 2, 12, 12]);
    let render = ("render", [2, 2, 10, 10]);
    assert_timers(&pulse, "GET /", 22, [db, render]).await;
    // The timers also count under their own names.
    let own = context(&pulse, "db").await.hour.unwrap();
    assert_eq!((own.times.count, own.times.sum), (6.0, 0.012));
    assert!(own.aggregate.timers.is_empty());
    let all = snapshot(&pulse).await.all.hour.unwrap().aggregate;
    assert!(all.timers.is_empty());
}

#[tokio::test]
async fn concurrent_and_nested_timers_cover_their_time_once() {
    let (pulse, manual_clock) = pulse();
    let app = app(&pulse, &manual_clock, |pulse, manual_clock| async move {
        advance(&manual_clock, 1);
        let all = pulse.timer("all");
        let queries = [1, 2, 4].map(|rounds| {
            let manual_clock = manual_clock.clone();
            pulse.time("db", async move {
                for _ in 0..rounds {
                    advance(&manual_clock, 1);
                    tokio::task::yield_now().await;
                }
            })
        });
        futures_util::future::join_all(queries).await;
        all.stop();
        advance(&manual_clock, 1);
        "done"
    });
    send(&app, "GET", "/").await;
    let found = timers(&pulse, "GET /").await;
    let sums_of = |name| *found.get(RecordId::new(Kind::Timer, name)).unwrap();
    let (db, all) = (sums_of("db"), sums_of("all"));
    // The three futures advanced the clock by seven milliseconds together.
    assert_eq!((db.count, db.requests, db.covered), (3, 1, millis(7)));
    assert!(db.sum > millis(7), "{db:?}");
    assert_eq!([all.sum, all.covered, found.covered], [millis(7); 3]);
    let request = context(&pulse, "GET /").await.hour.unwrap();
    assert_eq!(request.aggregate.times.sum, millis(9));
    let own = context(&pulse, "db").await.hour.unwrap();
    assert_eq!(own.aggregate.times.sum, db.sum);
}

#[tokio::test]
async fn a_cancelled_request_and_a_panic_have_their_timers() {
    for is_panicking in [false, true] {
        let (pulse, manual_clock) = pulse();
        let app = app(
            &pulse,
            &manual_clock,
            move |pulse, manual_clock| async move {
                let _timer = pulse.timer("db");
                advance(&manual_clock, 3);
                assert!(!is_panicking, "on purpose");
                std::future::pending::<&str>().await
            },
        );
        let mut request = Box::pin(AssertUnwindSafe(send(&app, "GET", "/")).catch_unwind());
        assert_eq!(request.as_mut().now_or_never().is_some(), is_panicking);
        drop(request);
        assert_timers(&pulse, "GET /", 3, [("db", [1, 1, 3, 3])]).await;
        assert_no_request_left(&pulse);
    }
}

/// Asserts that this thread remembers no ended request, so a later timer counts under no request.
pub(super) fn assert_no_request_left(pulse: &Pulse) {
    let within = format!("{:?}", pulse.within(async {}));
    assert!(within.contains("has_request: false"), "{within}");
}

#[tokio::test]
async fn timers_of_spawned_tasks_count_if_the_tasks_run_within_the_request() {
    let (pulse, manual_clock) = pulse();
    let app = app(&pulse, &manual_clock, |pulse, manual_clock| async move {
        let job = |name: &'static str, millis| {
            let (pulse, manual_clock) = (pulse.clone(), manual_clock.clone());
            async move {
                tokio::task::yield_now().await;
                let timer = pulse.timer(name);
                tokio::task::yield_now().await;
                advance(&manual_clock, millis);
                timer.stop();
            }
        };
        tokio::spawn(pulse.within(job("within", 2))).await.unwrap();
        tokio::spawn(job("without", 3)).await.unwrap();
        let nested = pulse.within({
            let pulse = pulse.clone();
            let nested = job("within", 4);
            async move { tokio::spawn(pulse.within(nested)).await.unwrap() }
        });
        tokio::spawn(nested).await.unwrap();
        let elsewhere = pulse.within(job("elsewhere", 5));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            runtime.unwrap().block_on(elsewhere);
        });
        thread.join().unwrap();
        "done"
    });
    send(&app, "GET", "/").await;
    let expected = [("within", [2, 1, 6, 6]), ("elsewhere", [1, 1, 5, 5])];
    assert_timers(&pulse, "GET /", 11, expected).await;
    assert_eq!(counts(&pulse).await["without"], 1);
    assert_no_request_left(&pulse);
}

#[tokio::test]
async fn a_timer_that_outlives_its_request_counts_when_it_ends() {
    let (pulse, manual_clock) = pulse();
    let (release, (sender, spawned)) = (Arc::new(Notify::new()), mpsc::channel());
    let released = release.clone();
    let app = app(&pulse, &manual_clock, move |pulse, manual_clock| {
        let (sender, released) = (sender.clone(), released.clone());
        async move {
            let (inner, clock) = (pulse.clone(), manual_clock.clone());
            let audit = pulse.within(async move {
                let timer = inner.timer("audit");
                let discarded = inner.timer("discarded");
                released.notified().await;
                advance(&clock, 10);
                timer.stop();
                discarded.discard();
                inner.time("later", async { advance(&clock, 1) }).await;
                inner.time("audit", async { advance(&clock, 2) }).await;
            });
            sender.send(tokio::spawn(audit)).unwrap();
            tokio::task::yield_now().await;
            advance(&manual_clock, 4);
            "done"
        }
    });
    send(&app, "GET", "/").await;
    // Both timers have covered the whole request, and have not ended.
    let running = [("audit", [0, 0, 0, 4]), ("discarded", [0, 0, 0, 4])];
    assert_timers(&pulse, "GET /", 4, running).await;
    release.notify_one();
    spawned.recv().unwrap().await.unwrap();
    let ended = [
        ("audit", [2, 1, 4 + 10 + 2, 4]),
        ("later", [1, 1, 1, 0]),
        ("discarded", [0, 0, 0, 4]),
    ];
    assert_timers(&pulse, "GET /", 4, ended).await;
    let all = snapshot(&pulse).await.all.hour.unwrap();
    assert_eq!(all.times.count, 1.0);
}

#[tokio::test]
async fn a_request_that_is_not_recorded_has_no_timers() {
    for is_ignored in [false, true] {
        let ignored = is_ignored.then_some("/");
        let (pulse, manual_clock) = pulse_with(|builder| builder.ignore(ignored));
        let app = app(
            &pulse,
            &manual_clock,
            move |pulse, manual_clock| async move {
                pulse.time("db", async { advance(&manual_clock, 2) }).await;
                let inner = pulse.clone();
                let task = pulse.within(async move { inner.timer("task").stop() });
                tokio::spawn(task).await.unwrap();
                let mut response = Response::new(Body::empty());
                if !is_ignored {
                    response.extensions_mut().insert(Unrecorded);
                }
                response
            },
        );
        send(&app, "GET", "/").await;
        let timers = expected([("db", 1), ("task", 1)]);
        assert_eq!(counts(&pulse).await, timers, "ignored: {is_ignored}");
        assert_eq!(pulse.health().recording.in_flight, 0);
    }
}

#[tokio::test]
async fn timers_run_until_the_end_of_a_body_that_is_timed() {
    let (pulse, manual_clock) = pulse();
    let inner = pulse.clone();
    let handler = move || {
        let (pulse, manual_clock) = (inner.clone(), manual_clock.clone());
        async move {
            pulse
                .time("head", async { advance(&manual_clock, 1) })
                .await;
            let frames = futures_util::stream::iter(0..3).then(move |_| {
                let (pulse, manual_clock) = (pulse.clone(), manual_clock.clone());
                async move {
                    pulse.time("row", async { advance(&manual_clock, 2) }).await;
                    Ok::<_, Infallible>("row")
                }
            });
            Body::from_stream(frames)
        }
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(pulse.layer().until_body_end());
    let body = send(&app, "GET", "/").await.into_body();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(body, "rowrowrow");
    let expected = [("head", [1, 1, 1, 1]), ("row", [3, 1, 6, 6])];
    assert_timers(&pulse, "GET /", 7, expected).await;
    assert_no_request_left(&pulse);
}
