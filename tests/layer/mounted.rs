//! The layer beside the admin router.

use axum::Router;
use axum::routing::get;
use tower_pulse::admin::Access;

use super::{counts, expected, pulse, send};

fn shop() -> Router {
    Router::new().route("/", get(|| async { "shop" }))
}

#[tokio::test]
async fn what_matches_no_route_is_still_counted_once_in_any_order_of_merging() {
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
        let found = counts(&pulse).await;
        // axum's `nest` does not hand `/admin/pulse/` to the router: it is the shop's own 404.
        let expected = if how == 1 {
            expected([("<unmatched>", 2)])
        } else {
            expected([])
        };
        assert_eq!(found, expected, "way {how}");
        assert_eq!(pulse.health().recording.in_flight, 0);
    }
}
