//! The layer beside the admin router.

use axum::Router;
use axum::routing::get;
use futures_util::FutureExt;
use tower_pulse::admin::Access;

use super::{assert_counts, pulse, pulse_with, send};
use crate::rig::log::Log;

fn shop() -> Router {
    Router::new().route("/", get(|| async { "shop" }))
}

#[tokio::test]
async fn in_any_order_of_mount_and_layer_only_the_shops_requests_are_recorded() {
    for order in 0..6 {
        let (pulse, _) = pulse();
        let admin = pulse.mount("/admin/pulse", Access::open());
        let app = match order {
            0 => shop().layer(pulse.layer()).merge(admin),
            1 => admin.merge(shop().layer(pulse.layer())),
            2 => shop().merge(admin).layer(pulse.layer()),
            3 => shop()
                .merge(pulse.mount("/admin/pulse", Access::token("secret")))
                .layer(pulse.layer()),
            4 => shop()
                .layer(pulse.layer().until_body_end())
                .merge(admin)
                .layer(pulse.layer()),
            _ => shop().merge(admin),
        };
        for path in ["", "/", "/api/overview", "/assets/app.css", "/nothing"] {
            let answer = send(&app, "GET", &format!("/admin/pulse{path}")).await;
            assert!(order != 3 || answer.status() == 401, "{path}");
        }
        let requests = ["GET /nothing/1", "GET /nothing/2", "GET /"];
        match order {
            // The last app has no layer.
            5 => assert_counts(&pulse, &app, &requests, []).await,
            _ => {
                let contexts = [("<unmatched>", 2), ("GET /", 1)];
                assert_counts(&pulse, &app, &requests, contexts).await;
            }
        }
    }
}

#[tokio::test]
async fn requests_to_the_mount_do_not_count_towards_max_contexts() {
    let (log, _guard) = Log::start();
    let (pulse, _) = pulse_with(|builder| builder.max_contexts(1));
    let admin = pulse.mount("/admin/pulse", Access::open());
    let app = shop().layer(pulse.layer()).merge(admin);
    let requests = ["GET /admin/pulse", "GET /admin/pulse/nothing", "GET /"];
    assert_counts(&pulse, &app, &requests, [("GET /", 1)]).await;
    assert_eq!(log.lines_with("max_contexts"), Vec::<String>::new());
}

#[tokio::test]
async fn routes_below_the_path_of_another_listeners_mount_are_recorded() {
    let (pulse, _) = pulse();
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
    // Another listener serves this router.
    let operators: Router = pulse.mount("/admin", Access::open());
    for path in ["/admin/users", "/admin", "/api/admin/items"] {
        assert_eq!(send(&app, "GET", path).await.status(), 200);
        assert_eq!(
            send(&operators, "GET", "/admin/api/paths").await.status(),
            200
        );
    }
    let contexts = [
        ("GET /admin/users", 1),
        ("GET /admin", 1),
        ("GET /api/admin/items", 1),
    ];
    assert_counts(&pulse, &app, &[], contexts).await;
}

#[tokio::test]
async fn a_request_to_the_admin_router_that_is_given_up_is_not_recorded() {
    let (pulse, _) = pulse();
    let wait = |_: &http::request::Parts| std::future::pending::<bool>();
    let access = || Access::custom_async(wait);
    let mounted = shop().merge(pulse.mount("/admin/pulse", access()));
    let nested = shop().nest("/admin/pulse", pulse.router(access()));
    for app in [mounted.layer(pulse.layer()), nested.layer(pulse.layer())] {
        for _ in 0..2 {
            let request = send(&app, "GET", "/admin/pulse/api/overview");
            assert!(request.now_or_never().is_none());
        }
        assert_counts(&pulse, &app, &[], []).await;
    }
}
