//! Records a request with the layer outside and inside of a layer of tower-http, for each row of the table in the
//! guide's quick start.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;
use tower_pulse::Pulse;
use tower_pulse_model::outcome::Outcome;

use super::{pulse, snapshot};

const GUIDE: &str = include_str!("../../src/guide/quick_start.md");

fn routes() -> Router {
    let slow = || tokio::time::sleep(Duration::from_secs(3_600));
    let text = || async { "a text that is worth compressing ".repeat(100) };
    Router::new()
        .route("/slow", get(slow))
        .route("/panics", get(async || -> () { panic!("on purpose") }))
        .route("/text", get(text).post(|body: String| async { body }))
}

/// How the only request was recorded, in the words of the table.
async fn recorded(pulse: &Pulse) -> String {
    let contexts = snapshot(pulse).await.contexts;
    let ended = contexts.into_iter().map(|context| {
        let outcomes = context.hour.unwrap().aggregate.outcomes;
        assert_eq!(outcomes.total(), 1, "{}", context.context);
        let mut all = Outcome::ALL.into_iter();
        let outcome = all.find(|outcome| outcomes.count(*outcome) == 1).unwrap();
        let is_error = outcomes.errors == 1;
        let error = if is_error { ", an error" } else { "" };
        format!("`{outcome}`{error}")
    });
    let ended: Vec<_> = ended.collect();
    match &ended[..] {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        more => panic!("{more:?}"),
    }
}

/// Sends the request to a service with both layers in each order, and checks that the table has the resulting row.
macro_rules! row {
    ($name:literal, $layer:expr, $request:expr, $status:literal) => {{
        let mut cells = Vec::new();
        for is_outside in [true, false] {
            let (pulse, _) = pulse();
            let app = match is_outside {
                true => routes().layer($layer).layer(pulse.layer()),
                false => routes().layer(pulse.layer()).layer($layer),
            };
            let response = app.oneshot($request).await.unwrap();
            assert_eq!(response.status().as_u16(), $status, "{}", $name);
            response.into_body().collect().await.unwrap();
            cells.push(recorded(&pulse).await);
        }
        let row = format!("| `{}` | {} | {} |", $name, cells[0], cells[1]);
        assert!(GUIDE.contains(&row), "the guide lacks {row}");
    }};
}

fn get_of(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
#[allow(clippy::result_large_err, reason = "tower-http asks for it")]
async fn the_guide_has_the_outcomes_with_each_layer() {
    let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1));
    let timeout = TimeoutLayer::with_status_code(status, after);
    row!("TimeoutLayer", timeout, get_of("/slow"), 503);

    let post = || {
        let post = Request::post("/text").header("content-length", "100");
        post.body(Body::from("x".repeat(100))).unwrap()
    };
    let limit = RequestBodyLimitLayer::new(10);
    row!("RequestBodyLimitLayer", limit, post(), 413);

    let preflight = || {
        let preflight = Request::options("/text").header("origin", "https://shop.example");
        let preflight = preflight.header("access-control-request-method", "POST");
        preflight.body(Body::empty()).unwrap()
    };
    row!("CorsLayer", CorsLayer::permissive(), preflight(), 200);

    let catch = CatchPanicLayer::new();
    row!("CatchPanicLayer", catch, get_of("/panics"), 500);

    let refuse = |_: &mut Request<Body>| {
        let refused = Response::builder().status(StatusCode::UNAUTHORIZED);
        Err(refused.body(Body::empty()).unwrap())
    };
    let login = ValidateRequestHeaderLayer::custom(refuse);
    let text = || get_of("/text");
    row!("ValidateRequestHeaderLayer", login.clone(), text(), 401);

    let gzip = || {
        let gzip = Request::get("/text").header("accept-encoding", "gzip");
        gzip.body(Body::empty()).unwrap()
    };
    row!("CompressionLayer", CompressionLayer::new(), gzip(), 200);
}
