//! Requests that are timed to the end of the body.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{any, get};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower_pulse::{ManualClock, Pulse};
use tower_pulse_model::outcome::Outcome;

use super::{assert_counts, context, counts, expected, outcome, pulse, send};

/// A body of three parts. The clock advances by 10 ms before each part and before the end.
fn slow_body(manual_clock: ManualClock) -> Body {
    Body::from_stream(stream::unfold(0, move |i| {
        let manual_clock = manual_clock.clone();
        async move {
            manual_clock.advance(Duration::from_millis(10));
            (i < 3).then(|| (Ok::<_, std::io::Error>(Bytes::from_static(b"part")), i + 1))
        }
    }))
}

fn app(
    pulse: &Pulse,
    manual_clock: ManualClock,
    content_type: &'static str,
    status: StatusCode,
) -> Router {
    let handler = move || {
        let body = slow_body(manual_clock.clone());
        let response = Response::builder().status(status);
        let response = response.header("content-type", content_type);
        async move { response.body(body).unwrap() }
    };
    Router::new()
        .route("/", any(handler))
        .layer(pulse.layer().until_body_end())
}

#[tokio::test]
async fn a_body_is_timed_to_its_last_frame() {
    let (pulse, manual_clock) = pulse();
    let app = app(&pulse, manual_clock, "text/plain", StatusCode::OK);
    let response = send(&app, "GET", "/").await;
    assert_eq!(counts(&pulse).await, expected([]));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"partpartpart");
    assert_eq!(outcome(&pulse, "GET /", Outcome::Success).await, (1, 0));
    let hour = context(&pulse, "GET /").await.hour.unwrap();
    assert_eq!(hour.times.sum, 0.04);
}

#[tokio::test]
async fn a_body_that_is_dropped_before_its_end_is_aborted() {
    let (pulse, manual_clock) = pulse();
    let app = app(&pulse, manual_clock, "text/plain", StatusCode::BAD_GATEWAY);
    let mut body = send(&app, "GET", "/").await.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(pulse.health().recording.in_flight, 1);
    drop(body);
    assert_eq!(outcome(&pulse, "GET /", Outcome::BodyAborted).await, (1, 1));
    assert_eq!(pulse.health().recording.in_flight, 0);
}

/// A server drops a body without reading its end if the body must not be sent, has reached its promised length, or has
/// sent its trailers.
#[tokio::test]
async fn a_body_dropped_after_its_whole_content_is_not_aborted() {
    for (method, status) in [
        ("HEAD", StatusCode::OK),
        ("GET", StatusCode::NOT_MODIFIED),
        ("GET", StatusCode::NO_CONTENT),
    ] {
        let (pulse, manual_clock) = pulse();
        let app = app(&pulse, manual_clock, "text/plain", status);
        drop(send(&app, method, "/").await);
        let expected = Outcome::from_status(status.as_u16());
        let name = format!("{method} /");
        assert_eq!(outcome(&pulse, &name, expected).await, (1, 0), "{status}");
    }
    let (pulse, manual_clock) = pulse();
    let long = async move || {
        let response = Response::builder().header("content-length", "12");
        response.body(slow_body(manual_clock)).unwrap()
    };
    let with_trailers = async || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let data = Frame::data(Bytes::from_static(b"x"));
        let frames = [data, Frame::trailers(trailers)].map(Ok::<_, std::io::Error>);
        Body::new(StreamBody::new(stream::iter(frames)))
    };
    let app = Router::new()
        .route("/long/{frames}", get(long))
        .route("/trailers/{frames}", get(with_trailers));
    let by_path = pulse
        .layer()
        .context(|head| Some(head.uri.path().to_owned().into()));
    let app = app.layer(by_path.until_body_end());
    for (path, frames, expected) in [
        ("/long/3", 3, Outcome::Success),
        ("/long/2", 2, Outcome::BodyAborted),
        ("/trailers/2", 2, Outcome::Success),
        ("/trailers/1", 1, Outcome::BodyAborted),
    ] {
        let mut body = send(&app, "GET", path).await.into_body();
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        drop(body);
        assert_eq!(outcome(&pulse, path, expected).await, (1, 0), "{path}");
    }
    // The layer forwards trailers.
    let body = send(&app, "GET", "/trailers/2").await.into_body();
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "1");
}

#[tokio::test]
async fn a_body_that_the_service_breaks_off_has_failed() {
    let (pulse, _) = pulse();
    let handler = async || {
        let failed = Err(std::io::Error::other("disk"));
        Body::from_stream(stream::iter([Ok(Bytes::from_static(b"x")), failed]))
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(pulse.layer().until_body_end());
    let response = send(&app, "GET", "/").await;
    response.into_body().collect().await.unwrap_err();
    assert_eq!(outcome(&pulse, "GET /", Outcome::BodyFailed).await, (1, 1));
}

#[tokio::test]
async fn responses_without_an_end_are_timed_to_the_head() {
    for (method, content_type, status) in [
        ("GET", "text/event-stream; charset=utf-8", StatusCode::OK),
        ("POST", "application/grpc+proto", StatusCode::OK),
        ("GET", "text/plain", StatusCode::SWITCHING_PROTOCOLS),
        ("CONNECT", "text/plain", StatusCode::OK),
    ] {
        let (pulse, manual_clock) = pulse();
        let app = app(&pulse, manual_clock, content_type, status);
        let response = send(&app, method, "/").await;
        let context = format!("{method} /");
        assert_counts(&pulse, &app, &[], [(&*context, 1)]).await;
        drop(response);
        assert_counts(&pulse, &app, &[], [(&*context, 1)]).await;
    }
}

#[tokio::test]
async fn an_empty_body_ends_at_once_and_the_length_is_forwarded() {
    use http_body::Body as _;
    let (pulse, _) = pulse();
    let app = Router::new()
        .route("/empty", get(|| async {}))
        .route("/five", get(|| async { "fives" }))
        .layer(pulse.layer().until_body_end());
    drop(send(&app, "GET", "/empty").await);
    let body = send(&app, "GET", "/five").await.into_body();
    assert_eq!(body.size_hint().exact(), Some(5));
    assert!(!body.is_end_stream());
    body.collect().await.unwrap();
    for name in ["GET /empty", "GET /five"] {
        let counted = outcome(&pulse, name, Outcome::Success).await;
        assert_eq!(counted, (1, 0), "{name}");
    }
}
