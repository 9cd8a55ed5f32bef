//! The time that a request waited in front of the service, which a header of the proxy says.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use tower::{ServiceBuilder, ServiceExt};
use tower_pulse::Condition;
use tower_pulse::{Clock, ManualClock, Pulse};

use super::request_timers::{advance, assert_timers};
use super::{NOW, context, counts, expected, pulse_with};

fn pulse() -> (Pulse, Clock, ManualClock) {
    let (clock, manual_clock) = Clock::manual(NOW);
    let builder = Pulse::builder().clock(clock.clone());
    let pulse = builder.queue_time_header("X-Request-Start").build();
    (pulse.unwrap(), clock, manual_clock)
}

async fn send(app: &Router, path: &str, header: &[u8]) {
    let request =
        Request::get(path).header("x-request-start", HeaderValue::from_bytes(header).unwrap());
    let request = request.body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap();
}

fn routes(manual_clock: &ManualClock) -> Router {
    let manual_clock = manual_clock.clone();
    let handler = move || {
        let manual_clock = manual_clock.clone();
        async move { advance(&manual_clock, 5) }
    };
    Router::new().route("/", get(handler))
}

/// The header of a request that a proxy received this number of milliseconds ago.
fn ago(clock: &Clock, millis: i64) -> Vec<u8> {
    let received = clock.now_nanos() / 1_000_000 - millis;
    format!("t={}.{:03}", received / 1_000, received % 1_000).into_bytes()
}

#[tokio::test]
async fn a_wait_in_the_queue_is_not_part_of_the_requests_time() {
    let (pulse, clock, manual_clock) = pulse();
    for (layered, name) in [
        (routes(&manual_clock).layer(pulse.layer()), "GET /"),
        (
            routes(&manual_clock).layer(pulse.layer().path_only().until_body_end()),
            "/",
        ),
        (
            Router::new()
                .fallback_service(
                    ServiceBuilder::new()
                        .layer(pulse.layer().named("inner"))
                        .service(routes(&manual_clock)),
                )
                .layer(pulse.layer()),
            "inner",
        ),
    ] {
        for wait in [20, 40] {
            send(&layered, "/", &ago(&clock, wait)).await;
        }
        assert_timers(&pulse, name, 0, [("queue", [2, 2, 60, 0])]).await;
        let hour = context(&pulse, name).await.hour.unwrap();
        assert_eq!((hour.times.count, hour.times.sum), (2.0, 0.010), "{name}");
    }
    // The context of the timer `queue` has all waits.
    let queue = context(&pulse, "queue").await.hour.unwrap();
    assert_eq!(queue.times.count, 6.0);
    assert_eq!(queue.times.min, 0.02);
    assert_eq!(queue.times.max, 0.04);
    assert_eq!(pulse.health().recording.queue.unwrap().timed, 6);
}

#[tokio::test]
async fn impossible_waits_are_counted_and_health_warns_of_them() {
    let (pulse, clock, manual_clock) = pulse();
    let app = routes(&manual_clock).layer(pulse.layer());
    for wait in [-1, -3_600_000, 60_000, 60_001, i64::from(u32::MAX)] {
        send(&app, "/", &ago(&clock, wait)).await;
    }
    for nonsense in [&b""[..], b"t=", b"soon", b"\xff\xfe", &[b'9'; 8_000]] {
        send(&app, "/", nonsense).await;
    }
    let health = pulse.health();
    let queue = health.recording.queue.unwrap();
    assert_eq!((queue.timed, queue.negative), (3, 2));
    assert_eq!((queue.too_long, queue.unreadable), (2, 5));
    let numbers: Vec<_> = health
        .warnings
        .iter()
        .map(|warning| warning.split(" of the last 10 ").next().unwrap())
        .collect();
    assert_eq!(numbers, ["2", "2", "5"], "{:?}", health.warnings);
    assert_eq!(health.conditions, [Condition::QueueHeader]);
    assert_timers(&pulse, "GET /", 0, [("queue", [3, 3, 60_000, 0])]).await;
    let contexts = expected([("GET /", 10), ("queue", 3)]);
    assert_eq!(counts(&pulse).await, contexts);
    // Each kind of bad header is now in less than one request in a hundred, so there is no warning.
    for _ in 0..600 {
        send(&app, "/", &ago(&clock, 1)).await;
    }
    assert_eq!(pulse.health().warnings, Vec::<String>::new());
}

#[tokio::test]
async fn no_header_is_read_without_the_setting() {
    let (pulse, manual_clock) = super::pulse();
    let app = routes(&manual_clock).layer(pulse.layer());
    send(&app, "/", NOW.to_string().as_bytes()).await;
    assert_eq!(counts(&pulse).await, expected([("GET /", 1)]));
    assert!(pulse.health().recording.queue.is_none());

    // A request without the header has no wait.
    let (pulse, _, manual_clock) = self::pulse();
    let app = routes(&manual_clock)
        .layer(pulse.layer())
        .layer(pulse.layer());
    super::send(&app, "GET", "/").await;
    assert_eq!(counts(&pulse).await, expected([("GET /", 1)]));
    assert_eq!(pulse.health().recording.queue.unwrap().timed, 0);
}

#[tokio::test]
async fn the_wait_of_an_ignored_request_is_not_recorded() {
    let (pulse, manual_clock) = pulse_with(|builder| {
        let builder = builder.queue_time_header("x-request-start");
        builder.ignore(["/"])
    });
    let app = routes(&manual_clock).layer(pulse.layer());
    send(&app, "/", b"soon").await;
    assert_eq!(counts(&pulse).await, expected([]));
    assert_eq!(pulse.health().recording.queue.unwrap().unreadable, 0);
}
