//! Authentication of the service's own in front of the admin router.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http::header::COOKIE;
use http::request::Parts;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::serve;
use pulse_rig::http::Client;

/// The role of each session, as a database would have it.
#[derive(Clone)]
struct Sessions(Arc<tokio::sync::RwLock<HashMap<String, &'static str>>>);

impl Sessions {
    fn new() -> Self {
        let sessions = [("sid=1", "operator"), ("sid=2", "visitor")];
        let sessions = sessions.map(|(cookie, role)| (cookie.to_owned(), role));
        Self(Arc::new(tokio::sync::RwLock::new(sessions.into())))
    }

    async fn role(&self, cookie: Option<String>) -> Option<&'static str> {
        // A database answers later.
        tokio::task::yield_now().await;
        self.0.read().await.get(&cookie?).copied()
    }
}

/// The role of the caller, as the service's own middleware leaves it in the request.
#[derive(Clone, Copy, PartialEq)]
struct Role(&'static str);

fn cookie(parts: &Parts) -> Option<String> {
    let cookie = parts.headers.get(COOKIE)?.to_str().ok()?;
    Some(cookie.to_owned())
}

fn shop(pulse: &Pulse) -> Router {
    Router::new()
        .route("/", get(|| async { "shop" }))
        .layer(pulse.layer())
}

/// Operators see the admin pages, others are answered `refused`, and the rest of the service does not
/// ask who they are.
async fn only_operators_enter(app: Router, refused: u16) {
    let mut client = Client::connect(serve(app).await).await;
    for path in ["", "/", "/api/health", "/assets/app.js", "/nothing"] {
        let path = format!("/admin/pulse{path}");
        for headers in [&[][..], &[("cookie", "sid=2")], &[("cookie", "sid=3")]] {
            let response = client.request("GET", &path, headers, "").await;
            assert_eq!(response.status, refused, "{path} {headers:?}");
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
async fn a_session_that_is_looked_up_by_the_admin_router() {
    let pulse = Pulse::builder().build().unwrap();
    let sessions = Sessions::new();
    let access = Access::custom_async(move |parts| {
        let (sessions, cookie) = (sessions.clone(), cookie(parts));
        async move { sessions.role(cookie).await == Some("operator") }
    });
    let app = shop(&pulse).merge(pulse.mount("/admin/pulse", access));
    only_operators_enter(app, 403).await;
}

#[tokio::test]
async fn a_session_that_the_services_own_middleware_looks_up() {
    async fn sessions(
        State(sessions): State<Sessions>,
        mut request: Request,
        next: Next,
    ) -> Response {
        let cookie = request.headers().get(COOKIE).cloned();
        let cookie = cookie.and_then(|cookie| Some(cookie.to_str().ok()?.to_owned()));
        if let Some(role) = sessions.role(cookie).await {
            request.extensions_mut().insert(Role(role));
        }
        next.run(request).await
    }
    let pulse = Pulse::builder().build().unwrap();
    let access = Access::custom(|parts| parts.extensions.get::<Role>() == Some(&Role("operator")));
    let app = shop(&pulse)
        .merge(pulse.mount("/admin/pulse", access))
        .layer(middleware::from_fn_with_state(Sessions::new(), sessions));
    only_operators_enter(app, 403).await;
}

#[tokio::test]
async fn a_route_layer_around_an_open_admin_router() {
    async fn operators_only(
        State(sessions): State<Sessions>,
        request: Request,
        next: Next,
    ) -> Result<Response, StatusCode> {
        let cookie = request.headers().get(COOKIE).cloned();
        let cookie = cookie.and_then(|cookie| Some(cookie.to_str().ok()?.to_owned()));
        match sessions.role(cookie).await {
            Some("operator") => Ok(next.run(request).await),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    }
    let pulse = Pulse::builder().build().unwrap();
    let admin =
        pulse
            .mount("/admin/pulse", Access::open())
            .route_layer(middleware::from_fn_with_state(
                Sessions::new(),
                operators_only,
            ));
    let app = shop(&pulse).merge(admin);
    only_operators_enter(app, 401).await;
    // Refusals are not recorded either.
    pulse.flush().await.unwrap();
    assert_eq!(pulse.health().recording.recorded, 4);
}
