//! The context of a request.

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use tower::ServiceExt;
use tower_pulse::Unrecorded;
use tower_pulse_model::context::Kind;

use super::{assert_counts, counts, expected, ok, pulse, pulse_with, request, send, snapshot};

#[tokio::test]
async fn a_context_is_the_method_and_the_whole_template_of_nested_routers() {
    let (pulse, _) = pulse();
    let users = Router::new().route("/users/{id}", get(ok).post(ok));
    let app = Router::new()
        .route("/", get(ok))
        .route("/any", any(ok))
        .nest("/api", Router::new().nest("/v1", users))
        .layer(pulse.layer());
    let requests = [
        "GET /",
        "GET /api/v1/users/1",
        "GET /api/v1/users/2",
        "POST /api/v1/users/7",
        // If the method is not allowed, the context still has the route's template.
        "DELETE /api/v1/users/7",
        "BREW /any",
        "PROPFIND /any",
        "x-1 /any",
    ];
    let contexts = [
        ("GET /", 1),
        ("GET /api/v1/users/{id}", 2),
        ("POST /api/v1/users/{id}", 1),
        ("DELETE /api/v1/users/{id}", 1),
        ("OTHER /any", 3),
    ];
    assert_counts(&pulse, &app, &requests, contexts).await;
}

#[tokio::test]
async fn one_layered_router_at_two_places_has_two_contexts() {
    let (pulse, _) = pulse();
    let inner = Router::new().route("/x", get(ok)).layer(pulse.layer());
    let app = Router::new().nest("/a", inner.clone()).nest("/b", inner);
    let requests = ["GET /a/x", "GET /b/x", "HEAD /b/x"].repeat(2);
    let contexts = [("GET /a/x", 2), ("GET /b/x", 2), ("HEAD /b/x", 2)];
    assert_counts(&pulse, &app, &requests, contexts).await;
}

#[tokio::test]
async fn requests_without_a_route_share_one_context() {
    let (pulse, _) = pulse();
    let app = Router::new().route("/", get(ok)).layer(pulse.layer());
    for i in 0..2_500 {
        let method = ["GET", "POST", "PURGE", "M-SEARCH"][i % 4];
        send(&app, method, &format!("/nothing/{i}?%00%ff")).await;
    }
    assert_counts(&pulse, &app, &[], [("<unmatched>", 2_500)]).await;
}

#[tokio::test]
async fn timers_count_towards_the_maximum_of_contexts() {
    for is_timer_first in [false, true] {
        let (pulse, _) = pulse_with(|builder| builder.max_contexts(4));
        let app = (0..5).fold(Router::new(), |app, i| app.route(&format!("/{i}"), get(ok)));
        let app = app.layer(pulse.layer());
        for i in 0..5 {
            if is_timer_first {
                pulse.timer(&format!("job {i}")).stop();
            }
            send(&app, "GET", &format!("/{i}")).await;
            if !is_timer_first {
                pulse.timer(&format!("job {i}")).stop();
            }
        }
        let found = snapshot(&pulse).await.contexts.into_iter();
        let mut found: Vec<_> = found.map(|row| (row.context, row.kind)).collect();
        found.retain(|(name, _)| !name.ends_with("<overflow>"));
        let http = ["GET /0", "GET /1"].map(|name| (name.to_owned(), Kind::Http));
        let timers = ["job 0", "job 1"].map(|name| (name.to_owned(), Kind::Timer));
        assert_eq!(found, [http, timers].concat());
        assert_eq!(pulse.health().recording.overflowed, 6);
    }
}

#[tokio::test]
async fn path_only_contexts_have_no_method() {
    let (pulse, _) = pulse();
    let app = Router::new()
        .route("/x/{y}", get(ok).post(ok))
        .layer(pulse.layer().path_only());
    let requests = ["GET /x/1", "POST /x/2"];
    assert_counts(&pulse, &app, &requests, [("/x/{y}", 2)]).await;
}

#[tokio::test]
async fn the_users_function_names_a_context_or_leaves_a_request_out() {
    let (pulse, _) = pulse();
    let by_tenant = || {
        pulse.layer().context(|head| {
            let tenant = head.headers.get("tenant")?.to_str().ok()?;
            Some(format!("tenant {tenant}\r\n").into())
        })
    };
    // For `/`, `by_tenant` is the only layer. For `/in`, another layer surrounds `by_tenant`.
    let app = Router::new().route("/", get(ok)).layer(by_tenant());
    let inner = Router::new().route("/in", get(ok).layer(by_tenant()));
    let app = app.merge(inner.layer(pulse.layer()));
    for path in ["/", "/in"] {
        send(&app, "GET", path).await;
        let mut request = request("GET", path);
        request.headers_mut().insert("tenant", "a".parse().unwrap());
        app.clone().oneshot(request).await.unwrap();
    }
    assert_counts(&pulse, &app, &[], [("tenant a\\r\\n", 2)]).await;
}

#[tokio::test]
async fn a_layer_applied_twice_counts_once() {
    let ((one, _), (two, _)) = (pulse(), pulse());
    let inner = Router::new()
        .route("/x", get(ok))
        .layer(one.layer())
        .layer(one.layer().until_body_end());
    let app = Router::new()
        .nest("/in", inner)
        .route("/y", get(ok))
        .layer(two.layer())
        .layer(one.layer());
    let contexts = [("GET /in/x", 1), ("GET /y", 1)];
    assert_counts(&one, &app, &["GET /in/x", "GET /y"], contexts).await;
    assert_counts(&two, &app, &[], contexts).await;
}

#[tokio::test]
async fn ignore_compares_the_whole_path_also_in_a_nested_router() {
    // The layer caches the context of a route at the route's first request.
    for first in ["/shop/me/items", "/shop/a/items", "/shop/healthz"] {
        let ignored = ["/healthz", "/me/items", "/shop/a/items"];
        let (pulse, _) = pulse_with(|builder| builder.ignore(ignored));
        let shop = Router::new()
            .route("/{x}/items", get(ok))
            .route("/healthz", get(ok))
            .layer(pulse.layer());
        let app = Router::new().nest("/shop", shop);
        for path in [first, "/shop/me/items", "/shop/a/items", "/shop/healthz"] {
            send(&app, "GET", path).await;
        }
        let sent = |path: &str| 1 + u64::from(first == path);
        let expected = expected([
            ("GET /shop/{x}/items", sent("/shop/me/items")),
            ("GET /shop/healthz", sent("/shop/healthz")),
        ]);
        assert_eq!(counts(&pulse).await, expected, "{first} first");
    }
}

#[tokio::test]
async fn ignored_paths_and_unrecorded_responses_leave_no_trace() {
    let ignored = ["/healthz", "/assets/*", "/skip/{id}", "/users/me"];
    let (pulse, _) = pulse_with(|builder| builder.ignore(ignored));
    let page = |Path(name): Path<String>| async move {
        let mut response = name.clone().into_response();
        if name == "skip" {
            response.extensions_mut().insert(Unrecorded);
        }
        response
    };
    let app = Router::new()
        .route("/healthz", get(ok))
        .route("/assets/{*file}", get(ok))
        .route("/skip/{id}", post(ok))
        .route("/page/{name}", get(page))
        .route("/users/{id}", get(ok))
        .layer(pulse.layer());
    let unrecorded = [
        "GET /healthz",
        "GET /assets/js/app.js",
        "POST /skip/3",
        "GET /page/skip",
        "GET /users/me",
    ];
    assert_counts(&pulse, &app, &unrecorded.repeat(2), []).await;
    assert_eq!(pulse.health().recording.recorded, 0);
    // Unrecorded requests do not affect later requests of their routes.
    let others = ["GET /page/a", "GET /users/7", "GET /users/8"];
    let all = [&others[..], &unrecorded].concat();
    let contexts = [("GET /page/{name}", 1), ("GET /users/{id}", 2)];
    assert_counts(&pulse, &app, &all, contexts).await;
}
