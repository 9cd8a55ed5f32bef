//! Each request is counted once, with its outcome.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_pulse_model::outcome::Outcome;

use super::{
    context, counts, expected, layered, outcome, pulse, pulse_with, request, send, snapshot,
};

#[tokio::test]
async fn responses_are_counted_by_status_class_with_their_times() {
    let (pulse, manual_clock) = pulse();
    let handler = async move |Path(status): Path<u16>| {
        manual_clock.advance(Duration::from_millis(20));
        StatusCode::from_u16(status).unwrap()
    };
    let by_path = pulse.layer_with(|head| Some(head.uri.path().to_owned().into()));
    let app = Router::new().route("/{status}", get(handler));
    let app = app.layer(by_path);
    for (path, ended, errors) in [
        ("/200", Outcome::Success, 0),
        ("/304", Outcome::Redirection, 0),
        ("/404", Outcome::ClientError, 0),
        ("/502", Outcome::ServerError, 1),
    ] {
        send(&app, "GET", path).await;
        assert_eq!(outcome(&pulse, path, ended).await, (1, errors), "{path}");
    }
    let one = context(&pulse, "/200").await.hour.unwrap();
    assert_eq!((one.times.sum, one.times.min), (0.02, 0.02));
    assert_eq!(one.aggregate.percentiles(&one.times)[0], Some(0.02));
    let all = snapshot(&pulse).await.all.hour.unwrap();
    assert_eq!((all.times.count, all.aggregate.outcomes.errors), (4.0, 1));
}

#[tokio::test]
async fn a_service_error_and_a_panic_in_call_have_their_own_outcomes() {
    let (pulse, _) = pulse();
    let layer = |name: &'static str| pulse.layer_with(move |_| Some(name.into()));
    let failing = async |_: Request<()>| Err::<Response<()>, _>(std::fmt::Error);
    let mut failing = layer("failing").layer(tower::service_fn(failing));
    failing.call(Request::new(())).await.unwrap_err();
    assert_eq!(outcome(&pulse, "failing", Outcome::Failed).await, (1, 1));

    type Never = std::future::Ready<Result<Response<()>, Infallible>>;
    let panicking = |_: Request<()>| -> Never { panic!("at once, on purpose") };
    let mut panicking = layer("panicking").layer(tower::service_fn(panicking));
    let call = AssertUnwindSafe(|| drop(panicking.call(Request::new(()))));
    std::panic::catch_unwind(call).unwrap_err();
    let panicked = outcome(&pulse, "panicking", Outcome::Panicked).await;
    assert_eq!(panicked, (1, 1));
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn a_grpc_status_in_the_head_after_a_post_is_an_error_unless_ok() {
    let (pulse, _) = pulse();
    let by_path = pulse.layer_with(|head| Some(head.uri.path().to_owned().into()));
    // Besides `grpc-status`, the response has as many headers as the request.
    let mut service = by_path.layer(tower::service_fn(async |request: Request<()>| {
        let code = &request.uri().path()[1..];
        let mut response = Response::builder().header("grpc-status", code);
        for i in 0..request.headers().len() {
            response = response.header(format!("x-{i}"), "1");
        }
        Ok::<_, Infallible>(response.body(()).unwrap())
    }));
    // After a GET, the status is not an error, because gRPC uses POST only.
    for (method, path, headers) in [
        ("POST", "/0", 0),
        ("POST", "/0", 9),
        ("POST", "/13", 0),
        ("POST", "/13", 9),
        ("GET", "/13", 0),
    ] {
        let mut request = Request::builder().method(method).uri(path);
        for i in 0..headers {
            request = request.header(format!("x-{i}"), "1");
        }
        service.call(request.body(()).unwrap()).await.unwrap();
    }
    assert_eq!(outcome(&pulse, "/0", Outcome::Success).await, (2, 0));
    assert_eq!(outcome(&pulse, "/13", Outcome::Success).await, (3, 2));
}

#[tokio::test]
async fn a_request_dropped_before_the_head_is_cancelled_and_in_flight_until_then() {
    let (pulse, _) = pulse();
    let app = Router::new()
        .route("/wait", get(std::future::pending::<()>))
        .layer(pulse.layer());
    let mut waiting = Box::pin(send(&app, "GET", "/wait"));
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(pulse.health().recording.in_flight, 1);
    assert_eq!(counts(&pulse).await, expected([]));
    drop(waiting);
    assert_eq!(pulse.health().recording.in_flight, 0);
    let ended = outcome(&pulse, "GET /wait", Outcome::Cancelled).await;
    assert_eq!(ended, (1, 0));
}

#[tokio::test]
async fn a_panic_that_ends_the_task_or_is_caught_outside_of_the_layer_is_recorded() {
    let (pulse, _) = pulse();
    let boom = get(async || -> StatusCode { panic!("boom, on purpose") });
    let app = Router::new().route("/boom", boom).layer(pulse.layer());
    let task = tokio::spawn(app.clone().oneshot(request("GET", "/boom")));
    assert!(task.await.unwrap_err().is_panic());
    let panicking = AssertUnwindSafe(app.oneshot(request("GET", "/boom")));
    let mut future = Box::pin(panicking.catch_unwind());
    assert!(future.as_mut().await.is_err());
    // The future is dropped after the thread has stopped panicking.
    drop(future);
    let ended = outcome(&pulse, "GET /boom", Outcome::Panicked).await;
    assert_eq!(ended, (2, 2));
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn the_users_rule_decides_which_responses_are_errors() {
    /// Marks a response that is not an error, whatever its status.
    #[derive(Clone)]
    struct Expected;

    let (pulse, _) = pulse_with(|builder| {
        builder.count_as_error(|response| {
            let is_limited = response.status == StatusCode::TOO_MANY_REQUESTS;
            let is_expected = response.extensions.get::<Expected>().is_some();
            is_limited || (response.is_error() && !is_expected)
        })
    });
    let status = async |Path(status): Path<u16>| (StatusCode::from_u16(status).unwrap(), "a body");
    let expected = async || {
        let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
        response.extensions_mut().insert(Expected);
        response
    };
    let routes = Router::new()
        .route("/{status}", get(status))
        .route("/expected", get(expected));
    for (times, app) in (1..).zip(layered(&pulse, routes)) {
        for path in ["/429", "/500", "/404", "/200", "/expected"] {
            let body = send(&app, "GET", path).await.into_body();
            axum::body::to_bytes(body, 100).await.unwrap();
        }
        let context = context(&pulse, "GET /{status}").await;
        let outcomes = context.hour.unwrap().aggregate.outcomes;
        let counted = [outcomes.errors, outcomes.count(Outcome::ClientError)];
        assert_eq!(counted, [2 * times; 2], "{outcomes:?}");
        let expected = outcome(&pulse, "GET /expected", Outcome::ServerError).await;
        assert_eq!(expected, (times, 0));
    }
}
