//! The context of a request.

use crate::rig::reads::{StoreOf, StoreReads};
use axum::Router;
use axum::extract::Path;
use axum::routing::{any, get, post};
use tower_pulse::{Pulse, Unrecorded};
use tower_pulse_model::context::Kind;

use super::{counts, expected, pulse, request, send, snapshot};

async fn ok() -> &'static str {
    "ok"
}

#[tokio::test]
async fn a_context_is_the_method_and_the_whole_template_of_nested_routers() {
    let (pulse, _hand) = pulse();
    let users = Router::new().route("/users/{id}", get(ok).post(ok));
    let app = Router::new()
        .route("/", get(ok))
        .nest("/api", Router::new().nest("/v1", users))
        .layer(pulse.layer());
    send(&app, "GET", "/").await;
    for id in 0..3 {
        send(&app, "GET", &format!("/api/v1/users/{id}")).await;
    }
    send(&app, "POST", "/api/v1/users/7").await;
    let expected = expected([
        ("GET /", 1),
        ("GET /api/v1/users/{id}", 3),
        ("POST /api/v1/users/{id}", 1),
    ]);
    assert_eq!(counts(&pulse).await, expected);
}

#[tokio::test]
async fn one_layered_router_at_two_places_has_two_contexts() {
    let (pulse, _hand) = pulse();
    let inner = Router::new().route("/x", get(ok)).layer(pulse.layer());
    let app = Router::new().nest("/a", inner.clone()).nest("/b", inner);
    for _ in 0..2 {
        send(&app, "GET", "/a/x").await;
        send(&app, "GET", "/b/x").await;
        send(&app, "HEAD", "/b/x").await;
    }
    let expected = expected([("GET /a/x", 2), ("GET /b/x", 2), ("HEAD /b/x", 2)]);
    assert_eq!(counts(&pulse).await, expected);
}

#[tokio::test]
async fn a_method_that_is_not_allowed_keeps_its_template() {
    let (pulse, _hand) = pulse();
    let app = Router::new().route("/x/{y}", get(ok)).layer(pulse.layer());
    let response = send(&app, "DELETE", "/x/1").await;
    assert_eq!(response.status(), 405);
    assert_eq!(counts(&pulse).await, expected([("DELETE /x/{y}", 1)]));
}

#[tokio::test]
async fn unknown_methods_share_one_context() {
    let (pulse, _hand) = pulse();
    let app = Router::new().route("/x", any(ok)).layer(pulse.layer());
    for method in ["BREW", "PROPFIND", "x-1"] {
        send(&app, method, "/x").await;
    }
    assert_eq!(counts(&pulse).await, expected([("OTHER /x", 3)]));
}

#[tokio::test]
async fn requests_without_a_route_share_one_context() {
    let (pulse, _hand) = pulse();
    let app = Router::new().route("/", get(ok)).layer(pulse.layer());
    for i in 0..2_500 {
        let method = ["GET", "POST", "PURGE", "M-SEARCH"][i % 4];
        send(&app, method, &format!("/nothing/{i}?%00%ff")).await;
    }
    assert_eq!(counts(&pulse).await, expected([("<unmatched>", 2_500)]));
}

#[tokio::test]
async fn contexts_beyond_the_maximum_are_counted_and_shown_as_overflow() {
    let pulse = Pulse::builder().max_contexts(3).build().unwrap();
    let mut app = Router::new();
    for i in 0..10 {
        app = app.route(&format!("/{i}"), get(ok));
    }
    let app = app.layer(pulse.layer());
    for i in 0..10 {
        send(&app, "GET", &format!("/{i}")).await;
        send(&app, "GET", &format!("/{i}")).await;
    }
    pulse.flush().await.unwrap();
    let now = tower_pulse::Clock::system().now_seconds();
    let snapshot = pulse.backend().snapshot(now).await.unwrap();
    let names: Vec<_> = snapshot.contexts.iter().map(|c| &*c.context).collect();
    assert_eq!(names, ["<overflow>", "GET /0", "GET /1", "GET /2"]);
    assert_eq!(pulse.health().recording.overflowed, 14);
    assert_eq!(pulse.health().recording.recorded, 20);
}

/// Requests and timers share one maximum, in whatever order they come; it is reached, and not passed.
#[tokio::test]
async fn timers_count_towards_the_maximum() {
    for timers_first in [false, true] {
        let (clock, _hand) = tower_pulse::Clock::manual(super::NOW);
        let pulse = Pulse::builder().clock(clock).max_contexts(4);
        let pulse = pulse.build().unwrap();
        let mut app = Router::new();
        for i in 0..5 {
            app = app.route(&format!("/{i}"), get(ok));
        }
        let app = app.layer(pulse.layer());
        for i in 0..5 {
            if timers_first {
                pulse.timer(&format!("job {i}")).stop();
            }
            send(&app, "GET", &format!("/{i}")).await;
            if !timers_first {
                pulse.timer(&format!("job {i}")).stop();
            }
        }
        let found = snapshot(&pulse).await.contexts.into_iter();
        let mut found: Vec<_> = found
            .map(|context| (context.context, context.kind))
            .collect();
        found.retain(|(name, _)| !name.ends_with("<overflow>"));
        let http = ["GET /0", "GET /1"].map(|name| (name.to_owned(), Kind::Http));
        let timers = ["job 0", "job 1"].map(|name| (name.to_owned(), Kind::Timer));
        assert_eq!(found, [http, timers].concat());
        assert_eq!(pulse.health().recording.overflowed, 6);
    }
}

#[tokio::test]
async fn no_more_counters_than_the_maximum() {
    let (clock, _hand) = tower_pulse::Clock::manual(super::NOW);
    let pulse = Pulse::builder().clock(clock).max_counters(2);
    let pulse = pulse.build().unwrap();
    for name in ["a", "b", "c", "d", "b"] {
        pulse.counter(name).add(1);
    }
    pulse.flush().await.unwrap();
    for (name, expected) in [("a", 1), ("b", 2), ("<overflow>", 2)] {
        let slices = pulse.backend().counter(name, 86_400).await.unwrap();
        assert_eq!(slices[0].1, expected, "{name}");
    }
    assert_eq!(pulse.backend().counter("c", 86_400).await.unwrap(), []);
}

#[tokio::test]
async fn path_only_contexts_have_no_method() {
    let (pulse, _hand) = pulse();
    let app = Router::new()
        .route("/x/{y}", get(ok).post(ok))
        .layer(pulse.layer().path_only());
    send(&app, "GET", "/x/1").await;
    send(&app, "POST", "/x/2").await;
    assert_eq!(counts(&pulse).await, expected([("/x/{y}", 2)]));
}

#[tokio::test]
async fn the_users_function_decides_and_none_is_not_recorded() {
    let (pulse, _hand) = pulse();
    let layer = pulse.layer().context(|head| {
        let tenant = head.headers.get("tenant")?.to_str().ok()?;
        Some(format!("tenant {tenant}\r\n").into())
    });
    let app = Router::new().route("/", get(ok)).layer(layer);
    send(&app, "GET", "/").await;
    for _ in 0..2 {
        let mut request = request("GET", "/");
        request.headers_mut().insert("tenant", "a".parse().unwrap());
        tower::ServiceExt::oneshot(app.clone(), request)
            .await
            .unwrap();
    }
    assert_eq!(counts(&pulse).await, expected([("tenant a\\r\\n", 2)]));
}

#[tokio::test]
async fn a_layer_applied_twice_counts_once() {
    let (pulse, _hand) = pulse();
    let inner = Router::new()
        .route("/x", get(ok))
        .layer(pulse.layer())
        .layer(pulse.layer().until_body_end());
    let app = Router::new()
        .nest("/in", inner)
        .route("/y", get(ok))
        .layer(pulse.layer());
    send(&app, "GET", "/in/x").await;
    send(&app, "GET", "/y").await;
    assert_eq!(
        counts(&pulse).await,
        expected([("GET /in/x", 1), ("GET /y", 1)])
    );
    assert_eq!(pulse.health().recording.in_flight, 0);
}

#[tokio::test]
async fn a_pulse_around_another_around_itself_counts_once() {
    let ((one, _one), (two, _two)) = (pulse(), pulse());
    let app = Router::new()
        .route("/", get(ok))
        .layer(one.layer())
        .layer(two.layer())
        .layer(one.layer());
    send(&app, "GET", "/").await;
    assert_eq!(counts(&one).await, expected([("GET /", 1)]));
    assert_eq!(counts(&two).await, expected([("GET /", 1)]));
}

#[tokio::test]
async fn a_marked_response_does_not_affect_the_next() {
    let (pulse, _hand) = pulse();
    let handler = |Path(name): Path<String>| async move {
        let mut response = http::Response::new(axum::body::Body::empty());
        if name == "skip" {
            response.extensions_mut().insert(Unrecorded);
        }
        response
    };
    let app = Router::new()
        .route("/x/{name}", get(handler))
        .layer(pulse.layer());
    for path in ["/x/skip", "/x/a", "/x/skip", "/x/b", "/x/skip"] {
        send(&app, "GET", path).await;
    }
    assert_eq!(counts(&pulse).await, expected([("GET /x/{name}", 2)]));
}

#[tokio::test]
async fn one_path_of_a_recorded_route_can_be_ignored() {
    let (clock, _hand) = tower_pulse::Clock::manual(super::NOW);
    let pulse = Pulse::builder().clock(clock);
    let pulse = pulse.ignore(["/users/me"]).build().unwrap();
    let app = Router::new()
        .route("/users/{id}", get(ok))
        .layer(pulse.layer());
    for path in ["/users/me", "/users/1", "/users/me", "/users/2"] {
        send(&app, "GET", path).await;
    }
    assert_eq!(counts(&pulse).await, expected([("GET /users/{id}", 2)]));
}

#[tokio::test]
async fn an_ignored_path_is_the_whole_one_also_within_a_nest() {
    // Whichever is asked first fills the slot of its route.
    for first in ["/shop/me/items", "/shop/a/items", "/shop/healthz"] {
        let (clock, _hand) = tower_pulse::Clock::manual(super::NOW);
        let pulse = Pulse::builder().clock(clock);
        let pulse = pulse.ignore(["/healthz", "/me/items", "/shop/a/items"]);
        let pulse = pulse.build().unwrap();
        let shop = Router::new()
            .route("/{x}/items", get(ok))
            .route("/healthz", get(ok))
            .layer(pulse.layer());
        let app = Router::new().nest("/shop", shop);
        for path in [first, "/shop/me/items", "/shop/a/items", "/shop/healthz"] {
            send(&app, "GET", path).await;
        }
        let both = |path: &str| 1 + u64::from(first == path);
        let expected = expected([
            ("GET /shop/{x}/items", both("/shop/me/items")),
            ("GET /shop/healthz", both("/shop/healthz")),
        ]);
        assert_eq!(counts(&pulse).await, expected, "{first} first");
    }
}

#[tokio::test]
async fn ignored_paths_and_marked_responses_leave_no_trace() {
    let (clock, _hand) = tower_pulse::Clock::manual(super::NOW);
    let pulse = Pulse::builder()
        .clock(clock)
        .ignore(["/healthz", "/assets/*", "/skip/{id}"])
        .build()
        .unwrap();
    let marked = || async {
        let mut response = http::Response::new(axum::body::Body::empty());
        response.extensions_mut().insert(Unrecorded);
        response
    };
    let app = Router::new()
        .route("/healthz", get(ok))
        .route("/assets/{*file}", get(ok))
        .route("/skip/{id}", post(ok))
        .route("/marked", get(marked))
        .route("/", get(ok))
        .layer(pulse.layer());
    for _ in 0..2 {
        send(&app, "GET", "/healthz").await;
        send(&app, "GET", "/assets/js/app.js").await;
        send(&app, "POST", "/skip/3").await;
        send(&app, "GET", "/marked").await;
    }
    assert_eq!(snapshot(&pulse).await.contexts, []);
    assert_eq!(pulse.health().recording.recorded, 0);
    assert_eq!(pulse.health().recording.in_flight, 0);
    send(&app, "GET", "/").await;
    assert_eq!(counts(&pulse).await, expected([("GET /", 1)]));
}
