//! The service's own authentication in front of the admin router.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::header::COOKIE;
use http::{HeaderValue, StatusCode};
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

use crate::admin::serve;
use crate::rig::http::Client;
use crate::rig::log::Log;

#[derive(Clone, Copy, PartialEq)]
struct Role(&'static str);

async fn role(cookie: Option<HeaderValue>) -> Option<Role> {
    // A look-up in a database would wait here.
    tokio::task::yield_now().await;
    match cookie?.as_bytes() {
        b"sid=1" => Some(Role("operator")),
        b"sid=2" => Some(Role("visitor")),
        _ => None,
    }
}

fn shop(pulse: &Pulse) -> Router {
    Router::new()
        .route("/", get(|| async { "shop" }))
        .layer(pulse.layer())
}

async fn only_operators_reach_the_dashboard(app: Router, status_of_others: u16) {
    let mut client = Client::connect(serve(app).await).await;
    for path in ["", "/", "/api/health", "/assets/app.js", "/nothing"] {
        let path = format!("/admin/pulse{path}");
        for headers in [&[][..], &[("cookie", "sid=2")], &[("cookie", "sid=3")]] {
            let response = client.request("GET", &path, headers, "").await;
            assert_eq!(response.status, status_of_others, "{path} {headers:?}");
        }
        let operator = [("cookie", "sid=1")];
        let response = client.request("GET", &path, &operator, "").await;
        let expected = if path.ends_with("/nothing") { 404 } else { 200 };
        assert_eq!(response.status, expected, "{path}");
    }
    assert_eq!(client.get("/").await.text(), "shop");
    for path in ["/nothing", "/admin", "/admin/pulses"] {
        assert_eq!(client.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_role_from_the_services_own_middleware_gives_access() {
    async fn sessions(mut request: Request, next: Next) -> Response {
        let cookie = request.headers().get(COOKIE).cloned();
        if let Some(role) = role(cookie).await {
            request.extensions_mut().insert(role);
        }
        next.run(request).await
    }
    let pulse = Pulse::builder().build().unwrap();
    let access = Access::custom(|parts| parts.extensions.get::<Role>() == Some(&Role("operator")));
    let app = shop(&pulse)
        .merge(pulse.mount("/admin/pulse", access))
        .layer(middleware::from_fn(sessions));
    only_operators_reach_the_dashboard(app, 403).await;
}

#[tokio::test]
async fn a_route_layer_protects_an_open_admin_router() {
    async fn operators_only(request: Request, next: Next) -> Result<Response, StatusCode> {
        let cookie = request.headers().get(COOKIE).cloned();
        match role(cookie).await {
            Some(Role("operator")) => Ok(next.run(request).await),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    }
    let pulse = Pulse::builder().build().unwrap();
    let admin = pulse.mount("/admin/pulse", Access::open());
    let app = shop(&pulse).merge(admin.route_layer(middleware::from_fn(operators_only)));
    only_operators_reach_the_dashboard(app, 401).await;
    // Only the four requests outside of the admin router are recorded.
    pulse.flush().await.unwrap();
    assert_eq!(pulse.health().recording.recorded, 4);
}

#[tokio::test]
async fn wrong_credentials_are_counted_and_logged_once_a_minute() {
    let (log, _guard) = Log::start();
    let (clock, manual_clock) = Clock::manual(1_700_000_000);
    let pulse = Pulse::builder().clock(clock).build().unwrap();
    let by_role = Access::custom(|parts| parts.headers.contains_key(COOKIE));
    let app = Router::new()
        .merge(pulse.mount("/token", Access::token("s3cret")))
        .merge(pulse.mount("/user", Access::basic("ops", "s3cret")))
        .merge(pulse.mount("/role", by_role));
    let mut client = Client::connect(serve(app).await).await;
    let mut status = async |path: &str, authorization: Option<&str>| {
        let header = authorization.map(|value| ("authorization", value));
        let response = client.request("GET", path, header.as_slice(), "").await;
        response.status
    };
    let logged = || log.lines_with("wrong credentials");
    for path in ["/token", "/user", "/token/api/health"] {
        assert_eq!(status(path, None).await, 401);
    }
    assert_eq!(status("/role", Some("Bearer other")).await, 403);
    assert_eq!(status("/token", Some("Bearer s3cret")).await, 200);
    assert_eq!((pulse.health().wrong_credentials, logged().len()), (0, 0));
    for wrong in ["Bearer öther other", "Basic !!", "nothing", ""] {
        assert_eq!(status("/token", Some(wrong)).await, 401, "{wrong}");
        assert_eq!(status("/user/nothing", Some(wrong)).await, 401, "{wrong}");
    }
    assert_eq!(pulse.health().wrong_credentials, 8);
    assert!(logged()[0].contains(" 1 request to "), "{:?}", logged());
    manual_clock.advance(Duration::from_secs(59));
    assert_eq!(status("/token", Some("Bearer other")).await, 401);
    assert_eq!(logged().len(), 1);
    // The log still warns after the wall clock was set back.
    manual_clock.set_wall(1_600_000_000);
    manual_clock.advance(Duration::from_secs(1));
    assert_eq!(status("/token", Some("Bearer other")).await, 401);
    assert_eq!(logged().len(), 2);
    assert!(logged()[1].contains(" 9 requests to "), "{:?}", logged());
    assert!(!log.text().contains("other"), "{}", log.text());
    let token = [("authorization", "Bearer s3cret")];
    let metrics = client.request("GET", "/token/metrics", &token, "").await;
    let line = "\npulse_wrong_credentials_total 10\n";
    assert!(metrics.text().contains(line), "{}", metrics.text());
    let health = client.request("GET", "/token/api/health", &token, "").await;
    assert_eq!(health.json()["wrong_credentials"], 10);
}
