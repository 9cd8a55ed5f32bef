//! Timers within requests: which request they count under, and which part of its time they cover.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::{FutureExt, StreamExt};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_pulse::{ManualClock, Pulse, Unrecorded};
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::timer_sums::{TimerSums, Timers};

use super::{context, pulse, pulse_with, send, snapshot};

/// The timers within the requests of a context.
pub(super) async fn timers(pulse: &Pulse, name: &str) -> Timers {
    context(pulse, name).await.hour.unwrap().aggregate.timers
}

/// Asserts the time that timers cover of the requests of a context. Asserts for each timer its count, its requests, its
/// sum and its covered time. Times are in milliseconds.
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

pub(super) fn sums_of(timers: &Timers, name: &str) -> TimerSums {
    *timers.get(RecordId::new(Kind::Timer, name)).unwrap()
}

fn millis(n: u64) -> u64 {
    n * 1_000_000
}

pub(super) fn after(hand: &ManualClock, millis: u64) {
    hand.advance(Duration::from_millis(millis));
}

/// A router with one route, `GET /`, recorded by `pulse`. The handler gets the pulse and its manual clock.
pub(super) fn app<F>(
    pulse: &Pulse,
    hand: &ManualClock,
    handler: impl Fn(Pulse, ManualClock) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = &'static str> + Send + 'static,
{
    let (inner, hand) = (pulse.clone(), hand.clone());
    let handler = move || handler(inner.clone(), hand.clone());
    Router::new().route("/", get(handler)).layer(pulse.layer())
}

#[tokio::test]
async fn timers_one_after_another_cover_their_sum() {
    let (pulse, hand) = pulse();
    let app = app(&pulse, &hand, |pulse, hand| async move {
        for _ in 0..3 {
            let timer = pulse.timer("db");
            after(&hand, 2);
            tokio::task::yield_now().await;
            timer.stop();
            after(&hand, 1);
        }
        pulse.time("render", async { after(&hand, 5) }).await;
        let cached = pulse.timer("cached");
        after(&hand, 1);
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
    assert_eq!(
        snapshot(&pulse).await.all.hour.unwrap().aggregate.timers,
        Timers::default()
    );
}

#[tokio::test]
async fn concurrent_and_nested_timers_cover_their_time_once() {
    let (pulse, hand) = pulse();
    let app = app(&pulse, &hand, |pulse, hand| async move {
        after(&hand, 1);
        let all = pulse.timer("all");
        let queries = [1, 2, 4].map(|rounds| {
            let hand = hand.clone();
            pulse.time("db", async move {
                for _ in 0..rounds {
                    after(&hand, 1);
                    tokio::task::yield_now().await;
                }
            })
        });
        futures_util::future::join_all(queries).await;
        all.stop();
        after(&hand, 1);
        "done"
    });
    send(&app, "GET", "/").await;
    let found = timers(&pulse, "GET /").await;
    // The three futures advanced the clock by seven milliseconds together.
    let db = sums_of(&found, "db");
    assert_eq!((db.count, db.requests, db.covered), (3, 1, millis(7)));
    assert!(db.sum > millis(7), "{db:?}");
    let all = sums_of(&found, "all");
    assert_eq!(all.sum, millis(7));
    assert_eq!(all.covered, millis(7));
    assert_eq!(found.covered, millis(7));
    let request = context(&pulse, "GET /").await.hour.unwrap();
    assert_eq!(request.aggregate.times.sum, millis(9));
    let own = context(&pulse, "db").await.hour.unwrap();
    assert_eq!(own.aggregate.times.sum, db.sum);
}

#[tokio::test]
async fn a_cancelled_request_and_a_panic_have_their_timers() {
    let (pulse, hand) = pulse();
    let cancelled = app(&pulse, &hand, |pulse, _hand| async move {
        let _timer = pulse.timer("db");
        std::future::pending::<&str>().await
    });
    let mut waiting = Box::pin(send(&cancelled, "GET", "/"));
    assert!(waiting.as_mut().now_or_never().is_none());
    after(&hand, 3);
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert_timers(&pulse, "GET /", 3, [("db", [1, 1, 3, 3])]).await;

    let inner = pulse.clone();
    let mut panicking = ServiceBuilder::new()
        .layer(pulse.layer_with(|_| Some("panic".into())))
        .service_fn(move |_: Request<()>| {
            let (pulse, hand) = (inner.clone(), hand.clone());
            async move {
                let _timer = pulse.timer("db");
                after(&hand, 2);
                if pulse.health().recording.in_flight > 0 {
                    panic!("on purpose");
                }
                Ok::<_, Infallible>(Response::new(()))
            }
        });
    let call = panicking.ready().await.unwrap().call(Request::new(()));
    tokio::spawn(call).await.unwrap_err();
    assert_timers(&pulse, "panic", 2, [("db", [1, 1, 2, 2])]).await;
    assert_no_request_left(&pulse);
}

/// Asserts that this thread remembers no request that has ended, so that a later timer counts under no request.
pub(super) fn assert_no_request_left(pulse: &Pulse) {
    let within = format!("{:?}", pulse.within(async {}));
    assert!(within.contains("has_request: false"), "{within}");
}

#[tokio::test]
async fn timers_of_spawned_tasks_count_if_the_tasks_run_within_the_request() {
    let (pulse, hand) = pulse();
    let app = app(&pulse, &hand, |pulse, hand| async move {
        let job = |name: &'static str, millis| {
            let (pulse, hand) = (pulse.clone(), hand.clone());
            async move {
                tokio::task::yield_now().await;
                let timer = pulse.timer(name);
                tokio::task::yield_now().await;
                after(&hand, millis);
                timer.stop();
            }
        };
        tokio::spawn(pulse.within(job("within", 2))).await.unwrap();
        tokio::spawn(job("without", 3)).await.unwrap();
        // One task within another, and one on another thread.
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
    assert_eq!(
        context(&pulse, "without").await.hour.unwrap().times.count,
        1.0
    );
    assert_no_request_left(&pulse);
}

#[tokio::test]
async fn a_timer_that_outlives_its_request_counts_when_it_ends() {
    let (pulse, hand) = pulse();
    let (release, released) = oneshot::channel::<()>();
    let released = Arc::new(Mutex::new(Some(released)));
    let spawned = Arc::new(Mutex::new(None));
    let task = spawned.clone();
    let app = app(&pulse, &hand, move |pulse, hand| {
        let released = released.lock().unwrap().take().unwrap();
        let spawned = spawned.clone();
        async move {
            let audit = pulse.within({
                let (pulse, hand) = (pulse.clone(), hand.clone());
                async move {
                    let timer = pulse.timer("audit");
                    let discarded = pulse.timer("discarded");
                    released.await.unwrap();
                    after(&hand, 10);
                    timer.stop();
                    discarded.discard();
                    pulse.time("later", async { after(&hand, 1) }).await;
                    pulse.time("audit", async { after(&hand, 2) }).await;
                }
            });
            *spawned.lock().unwrap() = Some(tokio::spawn(audit));
            tokio::task::yield_now().await;
            after(&hand, 4);
            "done"
        }
    });
    send(&app, "GET", "/").await;
    // The timer has covered the whole of the request, and has not ended.
    let running = timers(&pulse, "GET /").await;
    let audit = sums_of(&running, "audit");
    assert_eq!(audit.count, 0);
    assert_eq!(audit.covered, millis(4));
    assert_eq!(running.covered, millis(4));
    release.send(()).unwrap();
    let task = task.lock().unwrap().take().unwrap();
    task.await.unwrap();
    let found = timers(&pulse, "GET /").await;
    let audit = sums_of(&found, "audit");
    assert_eq!((audit.count, audit.requests), (2, 1));
    assert_eq!((audit.sum, audit.covered), (millis(4 + 10 + 2), millis(4)));
    let later = sums_of(&found, "later");
    assert_eq!(
        (later.count, later.requests, later.sum, later.covered),
        (1, 1, millis(1), 0)
    );
    let discarded = sums_of(&found, "discarded");
    assert_eq!((discarded.count, discarded.sum), (0, 0));
    let hits = snapshot(&pulse).await;
    assert_eq!(hits.all.hour.unwrap().times.count, 1.0);
}

#[tokio::test]
async fn a_request_that_is_not_recorded_has_no_timers() {
    let (pulse, hand) = pulse_with(|builder| builder.ignore(["/ignored"]));
    let inner = pulse.clone();
    let handler = move || {
        let (pulse, hand) = (inner.clone(), hand.clone());
        async move {
            pulse.time("db", async { after(&hand, 2) }).await;
            let (done, task) = oneshot::channel();
            tokio::spawn(pulse.within({
                let pulse = pulse.clone();
                async move {
                    pulse.timer("late").stop();
                    done.send(()).unwrap();
                }
            }));
            task.await.unwrap();
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(Unrecorded);
            response
        }
    };
    let app = Router::new()
        .route("/ignored", get(handler.clone()))
        .route("/marked", get(handler))
        .layer(pulse.layer());
    for path in ["/ignored", "/marked"] {
        send(&app, "GET", path).await;
    }
    let contexts = snapshot(&pulse).await.contexts;
    let names: Vec<_> = contexts.iter().map(|context| &*context.context).collect();
    assert_eq!(names, ["db", "late"]);
    assert_eq!(contexts[0].hour.as_ref().unwrap().times.count, 2.0);
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn timers_run_until_the_end_of_a_body_that_is_timed() {
    let (pulse, hand) = pulse();
    let inner = pulse.clone();
    let handler = move || {
        let (pulse, hand) = (inner.clone(), hand.clone());
        async move {
            pulse.time("head", async { after(&hand, 1) }).await;
            let frames = futures_util::stream::iter(0..3).then(move |_| {
                let (pulse, hand) = (pulse.clone(), hand.clone());
                async move {
                    pulse.time("row", async { after(&hand, 2) }).await;
                    Ok::<_, Infallible>("row")
                }
            });
            Body::from_stream(frames)
        }
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(pulse.layer().until_body_end());
    let response = send(&app, "GET", "/").await;
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "rowrowrow"
    );
    let expected = [("head", [1, 1, 1, 1]), ("row", [3, 1, 6, 6])];
    assert_timers(&pulse, "GET /", 7, expected).await;
    assert_no_request_left(&pulse);
}
