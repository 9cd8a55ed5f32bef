//! The layer beside the admin router.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};
use tower_pulse_model::outcome::Outcome;

use super::rig::log::Log;
use super::{NOW, counts, expected, pulse, send};

fn shop() -> Router {
    Router::new().route("/", get(|| async { "shop" }))
}

#[tokio::test]
async fn requests_without_a_route_are_counted_once_in_any_order_of_merging() {
    for order in 0..4 {
        let (pulse, _hand) = pulse();
        let admin = pulse.mount("/admin/pulse", Access::open());
        let app = match order {
            0 => shop().layer(pulse.layer()).merge(admin),
            1 => admin.merge(shop().layer(pulse.layer())),
            2 => shop().merge(admin).layer(pulse.layer()),
            _ => shop()
                .layer(pulse.layer().until_body_end())
                .merge(admin)
                .layer(pulse.layer()),
        };
        for i in 0..3 {
            let response = send(&app, "GET", &format!("/nothing/{i}")).await;
            assert_eq!(response.status(), 404);
        }
        send(&app, "GET", "/").await;
        let expected = expected([("<unmatched>", 3), ("GET /", 1)]);
        assert_eq!(counts(&pulse).await, expected, "order {order}");
    }
}

#[tokio::test]
async fn without_the_layer_nothing_is_counted() {
    let (pulse, _hand) = pulse();
    let app = shop().merge(pulse.mount("/admin/pulse", Access::open()));
    send(&app, "GET", "/nothing").await;
    send(&app, "GET", "/").await;
    assert_eq!(counts(&pulse).await, expected([]));
}

#[tokio::test]
async fn admin_requests_leave_no_trace_however_the_router_is_added() {
    for how in 0..4 {
        let (pulse, _hand) = pulse();
        let app = match how {
            0 => shop().merge(pulse.mount("/admin/pulse", Access::open())),
            1 => shop().nest("/admin/pulse", pulse.router(Access::open())),
            2 => shop().nest_service("/admin/pulse", pulse.router(Access::open())),
            _ => shop().merge(pulse.mount("/admin/pulse", Access::token("secret"))),
        };
        let app = app.layer(pulse.layer());
        for _ in 0..2 {
            for path in ["", "/", "/api/overview", "/assets/app.css", "/nothing"] {
                let status = send(&app, "GET", &format!("/admin/pulse{path}"))
                    .await
                    .status();
                if how == 3 {
                    assert_eq!(status, 401, "{path}");
                }
            }
        }
        let counts = counts(&pulse).await;
        // axum's `nest` does not pass `/admin/pulse/` to the router, so the shop answers 404.
        let expected = if how == 1 {
            expected([("<unmatched>", 2)])
        } else {
            expected([])
        };
        assert_eq!(counts, expected, "way {how}");
        assert_eq!(pulse.health().recording.in_flight, 0);
    }
}

/// `replay --serve` warned at its first request, as its log fills the recorder.
#[tokio::test]
async fn the_mount_takes_no_place_of_a_context() {
    for has_layer in [false, true] {
        let (log, _guard) = Log::start();
        let (clock, _hand) = Clock::manual(NOW);
        let builder = Pulse::builder().clock(clock).max_contexts(1);
        let pulse = builder.build().unwrap();
        let shop = match has_layer {
            false => shop(),
            true => shop().layer(pulse.layer()),
        };
        let app = shop.merge(pulse.mount("/admin/pulse", Access::open()));
        for _ in 0..2 {
            for path in ["", "/", "/api/overview", "/nothing"] {
                send(&app, "GET", &format!("/admin/pulse{path}")).await;
            }
        }
        send(&app, "GET", "/").await;
        let told = log.lines_with("max_contexts");
        assert_eq!(told, Vec::<String>::new(), "with a layer: {has_layer}");
        let shown = match has_layer {
            false => expected([]),
            true => expected([("GET /", 1)]),
        };
        assert_eq!(counts(&pulse).await, shown);
    }
}

#[tokio::test]
async fn the_share_below_the_target_is_told() {
    let (clock, hand) = Clock::manual(NOW);
    let builder = Pulse::builder()
        .clock(clock)
        .target(Duration::from_millis(100));
    let pulse = builder.build().unwrap();
    let millis = Duration::from_millis;
    pulse.record("GET /a", millis(50), StatusCode::OK);
    pulse.record("GET /a", millis(90), StatusCode::FOUND);
    pulse.record("GET /a", millis(200), StatusCode::OK);
    // Fast, but no answer.
    pulse.record("GET /a", millis(1), StatusCode::INTERNAL_SERVER_ERROR);
    // Neither counts.
    pulse.record("GET /a", millis(1), StatusCode::NOT_FOUND);
    pulse.record("GET /a", millis(1), Outcome::Cancelled);
    pulse.record("GET /b", millis(1), StatusCode::NOT_FOUND);
    pulse.record_duration("db:find", millis(1));
    hand.advance(Duration::from_secs(2));
    pulse.flush().await.unwrap();

    let app = shop().merge(pulse.mount("/pulse", Access::open()));
    let get = async |path: &str| -> Value {
        let response = send(&app, "GET", &format!("/pulse/api/{path}")).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    };
    let overview = get("overview?window=15m").await;
    assert_eq!(overview["target"], 0.1);
    assert_eq!(overview["hour"]["below_target"], 0.5);
    assert_eq!(overview["window"]["below_target"], 0.5);
    let paths = get("paths?window=15m&kind=all").await;
    let rows = paths["paths"].as_array().unwrap().iter();
    let shares: Vec<_> = rows
        .map(|row| (row["context"].clone(), row["below_target"].clone()))
        .collect();
    let expected = [
        ("GET /a", json!(0.5)),
        ("GET /b", Value::Null),
        ("db:find", Value::Null),
    ];
    for (context, share) in expected {
        assert!(shares.contains(&(json!(context), share)), "{shares:?}");
    }
}

#[tokio::test]
async fn a_mount_elsewhere_leaves_the_routes_of_the_same_path_alone() {
    let (pulse, _hand) = pulse();
    let page = || get(|| async { "page" });
    let app: Router = Router::new()
        .route("/admin/users", page())
        .route("/admin", page())
        .nest(
            "/api",
            Router::new()
                .route("/admin/items", page())
                .layer(pulse.layer()),
        )
        .layer(pulse.layer());
    // Of another listener.
    let operators: Router = pulse.mount("/admin", Access::open());
    for path in ["/admin/users", "/admin", "/api/admin/items"] {
        assert_eq!(send(&app, "GET", path).await.status(), 200);
        assert_eq!(
            send(&operators, "GET", "/admin/api/paths").await.status(),
            200
        );
    }
    let expected = expected([
        ("GET /admin/users", 1),
        ("GET /admin", 1),
        ("GET /api/admin/items", 1),
    ]);
    assert_eq!(counts(&pulse).await, expected);
}

#[tokio::test]
async fn a_request_to_the_admin_router_that_is_given_up_is_not_recorded() {
    let (pulse, _hand) = pulse();
    let wait = |_: &http::request::Parts| std::future::pending::<bool>();
    let access = || Access::custom_async(wait);
    let mounted = shop().merge(pulse.mount("/admin/pulse", access()));
    let nested = shop().nest("/admin/pulse", pulse.router(access()));
    for app in [mounted.layer(pulse.layer()), nested.layer(pulse.layer())] {
        for _ in 0..2 {
            let request = send(&app, "GET", "/admin/pulse/api/overview");
            let given_up = tokio::time::timeout(Duration::from_millis(20), request).await;
            assert!(given_up.is_err());
        }
    }
    assert_eq!(counts(&pulse).await, expected([]));
    assert_eq!(pulse.health().recording.in_flight, 0);
}
