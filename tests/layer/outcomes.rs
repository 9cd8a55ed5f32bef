//! How requests end, each exactly once.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::rig::reads::{StoreOf, StoreReads};
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_pulse::query::{OutcomeQuery, Question};
use tower_pulse::{Clock, Pulse};
use tower_pulse_model::outcome::Outcome;

use super::{context, counts, expected, outcome, pulse, request, send, snapshot};

#[tokio::test]
async fn the_paths_with_the_most_of_an_outcome_are_listed() {
    let (pulse, hand) = pulse();
    let mut app = Router::new().route("/found", get(|| async {}));
    for number in 0..12 {
        let path = format!("/missing/{number}");
        app = app.route(&path, get(|| async { StatusCode::NOT_FOUND }));
    }
    let app = app.layer(pulse.layer());
    for number in 0..12 {
        for _ in 0..=number {
            send(&app, "GET", &format!("/missing/{number}")).await;
        }
    }
    send(&app, "GET", "/found").await;
    pulse.record("GET /missing/11", Duration::ZERO, StatusCode::OK);
    pulse.flush().await.unwrap();
    hand.advance(Duration::from_secs(1));
    let most = OutcomeQuery::default().with(|of| {
        of.outcome = "4xx".to_owned();
        of.limit = Some(10);
    });
    let most = pulse.query().ask(&most).await.unwrap();
    assert_eq!((most.total, most.paths.len()), (12, 10));
    for (place, row) in most.paths.iter().enumerate() {
        let expected = (format!("GET /missing/{}", 11 - place), 12 - place as u64);
        assert_eq!((row.name.context.clone(), row.count), expected);
    }
    assert_eq!(most.paths[0].share, Some(12.0 / 13.0));
    assert_eq!(most.paths[1].share, Some(1.0));
    let unknown = pulse.query().ask(&OutcomeQuery::default()).await;
    let refused = unknown.unwrap_err().to_string();
    assert!(
        refused.contains("4xx") && refused.contains("panicked"),
        "{refused}"
    );
}

#[tokio::test]
async fn responses_are_counted_by_status_class_with_their_times() {
    let (pulse, hand) = pulse();
    let slow = hand.clone();
    let app = Router::new()
        .route(
            "/slow",
            get(move || async move { slow.advance(Duration::from_millis(20)) }),
        )
        .route("/404", get(|| async { StatusCode::NOT_FOUND }))
        .route("/500", get(|| async { StatusCode::BAD_GATEWAY }))
        .route("/304", get(|| async { StatusCode::NOT_MODIFIED }))
        .layer(pulse.layer());
    for path in ["/slow", "/404", "/500", "/304"] {
        send(&app, "GET", path).await;
    }
    assert_eq!(outcome(&pulse, "GET /slow", Outcome::Success).await, (1, 0));
    assert_eq!(
        outcome(&pulse, "GET /404", Outcome::ClientError).await,
        (1, 0)
    );
    assert_eq!(
        outcome(&pulse, "GET /500", Outcome::ServerError).await,
        (1, 1)
    );
    assert_eq!(
        outcome(&pulse, "GET /304", Outcome::Redirection).await,
        (1, 0)
    );
    let slow = context(&pulse, "GET /slow").await.hour.unwrap();
    assert_eq!((slow.times.sum, slow.times.min), (0.02, 0.02));
    assert_eq!(slow.aggregate.percentiles(&slow.times)[0], Some(0.02));
    let all = snapshot(&pulse).await.all.hour.unwrap();
    assert_eq!((all.times.count, all.aggregate.outcomes.errors), (4.0, 1));
    let store = pulse.backend();
    let hits = async |name: &'static str| store.counter(name, 86_400).await.unwrap();
    assert_eq!(hits("hits").await[0].1, 4);
    assert_eq!(hits("errors").await[0].1, 1);
    assert_eq!(hits("errors:GET /500").await[0].1, 1);
    assert_eq!(hits("micros:GET /slow").await[0].1, 20_000);
    assert_eq!(hits("errors:GET /404").await, []);
}

#[tokio::test]
async fn a_service_error_has_its_own_outcome() {
    let (pulse, _hand) = pulse();
    let mut service = ServiceBuilder::new()
        .layer(pulse.layer_with(|_| Some("all".into())))
        .service_fn(|_: Request<()>| async { Err::<Response<()>, _>(std::fmt::Error) });
    let service = service.ready().await.unwrap();
    service.call(Request::new(())).await.unwrap_err();
    assert_eq!(outcome(&pulse, "all", Outcome::Failed).await, (1, 1));
}

#[tokio::test]
async fn a_grpc_status_in_the_head_after_a_post_is_an_error_unless_ok() {
    let (pulse, _hand) = pulse();
    let mut service = ServiceBuilder::new()
        .layer(pulse.layer_with(|head| Some(head.uri.path().to_owned().into())))
        .service_fn(|request: Request<()>| async move {
            let code = request.uri().path().trim_start_matches('/').to_owned();
            let mut response = Response::builder().header("grpc-status", code);
            for i in 0..request.headers().len() {
                response = response.header(format!("x-{i}"), "1");
            }
            Ok::<_, Infallible>(response.body(()).unwrap())
        });
    for path in ["/0", "/13"] {
        for many in [0, 9] {
            let mut request = Request::post(path);
            for i in 0..many {
                request = request.header(format!("x-{i}"), "1");
            }
            let request = request.body(()).unwrap();
            service.ready().await.unwrap().call(request).await.unwrap();
        }
    }
    // Not gRPC.
    let request = Request::get("/13").body(()).unwrap();
    service.ready().await.unwrap().call(request).await.unwrap();
    assert_eq!(outcome(&pulse, "/0", Outcome::Success).await, (2, 0));
    assert_eq!(outcome(&pulse, "/13", Outcome::Success).await, (3, 2));
}

#[tokio::test]
async fn a_request_dropped_before_the_head_is_cancelled_and_in_flight_until_then() {
    let (pulse, _hand) = pulse();
    let app = Router::new()
        .route("/wait", get(std::future::pending::<()>))
        .layer(pulse.layer());
    let waiting = tokio::spawn(app.oneshot(request("GET", "/wait")));
    while pulse.health().recording.in_flight == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(counts(&pulse).await, expected([]));
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(pulse.health().recording.in_flight, 0);
    assert_eq!(
        outcome(&pulse, "GET /wait", Outcome::Cancelled).await,
        (1, 0)
    );
}

fn panicking() -> Router {
    async fn boom() -> StatusCode {
        panic!("boom, on purpose")
    }
    Router::new().route("/boom", get(boom))
}

#[tokio::test]
async fn a_panic_that_ends_the_task_is_recorded() {
    let (pulse, _hand) = pulse();
    let app = panicking().layer(pulse.layer());
    let task = tokio::spawn(app.oneshot(request("GET", "/boom")));
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(
        outcome(&pulse, "GET /boom", Outcome::Panicked).await,
        (1, 1)
    );
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn a_panic_that_somebody_catches_outside_of_the_layer() {
    let (pulse, _hand) = pulse();
    let app = panicking().layer(pulse.layer());
    let mut future =
        Box::pin(std::panic::AssertUnwindSafe(app.oneshot(request("GET", "/boom"))).catch_unwind());
    assert!(future.as_mut().await.is_err());
    // Dropped when the thread is not panicking any more.
    drop(future);
    assert_eq!(
        outcome(&pulse, "GET /boom", Outcome::Panicked).await,
        (1, 1)
    );
}

#[tokio::test]
async fn a_panic_in_call_is_recorded() {
    let (pulse, _hand) = pulse();
    let mut service = ServiceBuilder::new()
        .layer(pulse.layer_with(|_| Some("all".into())))
        .service_fn(
            |_: Request<()>| -> std::future::Ready<Result<Response<()>, Infallible>> {
                panic!("at once, on purpose")
            },
        );
    let call = std::panic::AssertUnwindSafe(|| drop(service.call(Request::new(()))));
    std::panic::catch_unwind(call).unwrap_err();
    assert_eq!(outcome(&pulse, "all", Outcome::Panicked).await, (1, 1));
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn requests_after_the_shutdown_are_dropped() {
    let pulse = Pulse::builder().build().unwrap();
    let app = Router::new()
        .route("/", get(|| async {}))
        .layer(pulse.layer());
    send(&app, "GET", "/").await;
    pulse.shutdown().await.unwrap();
    send(&app, "GET", "/").await;
    send(&app, "GET", "/").await;
    pulse.shutdown().await.unwrap();
    let health = pulse.health();
    assert_eq!(health.recording.recorded, 1);
    assert_eq!(health.recording.dropped, 2);
    assert!((health.completeness - 1.0 / 3.0).abs() < 1e-12);
    let hits = pulse.backend().counter("hits", 86_400).await.unwrap();
    assert_eq!(hits[0].1, 1);
}

#[tokio::test]
async fn every_request_counts_once_from_many_threads() {
    const THREADS: usize = 8;
    let (clock, hand) = Clock::manual(super::NOW);
    let pulse = Pulse::builder().clock(clock).build().unwrap();
    let app = Router::new()
        .route("/{i}", get(|| async { Body::from("x") }))
        .layer(pulse.layer());
    // All of them send at once, while the seconds pass, and with them the drains.
    let start = Arc::new(Barrier::new(THREADS + 1));
    let drains = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..THREADS)
        .map(|_| {
            let (app, start, drains) = (app.clone(), start.clone(), drains.clone());
            std::thread::spawn(move || {
                start.wait();
                for i in 0..500 {
                    // However busy the machine is, something is drained while they send.
                    while i == 250 && drains.load(Ordering::Relaxed) < 2 {
                        std::thread::yield_now();
                    }
                    let path = format!("/{i}");
                    send(&app, "GET", &path).now_or_never().unwrap();
                }
                std::thread::current().id()
            })
        })
        .collect();
    start.wait();
    while !senders.iter().all(std::thread::JoinHandle::is_finished) {
        // For a minute at the most: of single seconds, two minutes are kept.
        if drains.load(Ordering::Relaxed) < 1_000 {
            hand.advance(Duration::from_millis(60));
        }
        pulse.flush().await.unwrap();
        drains.fetch_add(1, Ordering::Relaxed);
    }
    let threads: HashSet<_> = senders
        .into_iter()
        .map(|sender| sender.join().unwrap())
        .collect();
    assert_eq!(threads.len(), THREADS);
    pulse.flush().await.unwrap();
    for precision in [1, 5, 60, 300, 3_600, 18_000, 86_400] {
        let hits = pulse
            .backend()
            .counter("hits:GET /{i}", precision)
            .await
            .unwrap();
        assert_eq!(
            hits.iter().map(|(_, n)| n).sum::<i64>(),
            4_000,
            "at {precision} s"
        );
    }
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn the_users_rule_decides_which_responses_are_errors() {
    /// A mark in a response's extensions.
    #[derive(Clone)]
    struct Expected;

    for until_body_end in [false, true] {
        let (clock, _hand) = Clock::manual(super::NOW);
        let pulse = Pulse::builder().clock(clock).count_as_error(|response| {
            let is_limited = response.status == StatusCode::TOO_MANY_REQUESTS;
            let is_expected = response.extensions.get::<Expected>().is_some();
            is_limited || (response.is_error() && !is_expected)
        });
        let pulse = pulse.build().unwrap();
        let status = |Path(status): Path<u16>| async move {
            (StatusCode::from_u16(status).unwrap(), "a body")
        };
        let expected = || async {
            let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
            response.extensions_mut().insert(Expected);
            response
        };
        let app = Router::new()
            .route("/status/{status}", get(status))
            .route("/expected", get(expected));
        let app = match until_body_end {
            true => app.layer(pulse.layer().until_body_end()),
            false => app.layer(pulse.layer()),
        };
        for path in [
            "/status/429",
            "/status/500",
            "/status/404",
            "/status/200",
            "/expected",
        ] {
            let response = send(&app, "GET", path).await;
            axum::body::to_bytes(response.into_body(), 100)
                .await
                .unwrap();
        }
        let context = context(&pulse, "GET /status/{status}").await;
        let outcomes = context.hour.unwrap().aggregate.outcomes;
        assert_eq!(outcomes.errors, 2, "{outcomes:?}");
        assert_eq!(outcomes.count(Outcome::ClientError), 2);
        let counted = outcome(&pulse, "GET /expected", Outcome::ServerError).await;
        assert_eq!(counted, (1, 0));
    }
}
