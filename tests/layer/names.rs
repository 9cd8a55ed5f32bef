//! Several layers of one `Pulse` around a request: the outermost layer measures the request. The context is the
//! innermost name or, if no layer names the request, its template.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::FutureExt;
use http::{Request, Response};
use tower::{Service, ServiceBuilder};
use tower_pulse::layer::PulseLayer;
use tower_pulse_model::outcome::Outcome;

use super::{assert_counts, layered, ok, outcome, pulse, pulse_with, send};

/// A service without routes, such as a file server, behind a layer.
fn files(
    layer: PulseLayer,
) -> impl Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ Sync {
    let answer = async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty()));
    let service = tower::service_fn(answer);
    ServiceBuilder::new().layer(layer).service(service)
}

#[tokio::test]
async fn a_named_service_in_a_layered_router_is_counted_under_its_name() {
    let (pulse, _) = pulse();
    let app = Router::new()
        .route("/", get(ok))
        .nest_service("/static", files(pulse.layer().named("static")))
        .fallback_service(files(pulse.layer().named("pages")))
        .layer(pulse.layer());
    let requests = ["GET /", "GET /static/a.js", "GET /static/b", "GET /about"];
    let contexts = [("GET /", 1), ("pages", 1), ("static", 2)];
    assert_counts(&pulse, &app, &requests, contexts).await;
}

#[tokio::test]
async fn a_named_route_in_a_layered_router_is_counted_under_its_name() {
    let (pulse, _) = pulse();
    let x = get(ok).layer(pulse.layer().named("x"));
    let routes = Router::new().route("/", get(ok)).route("/x/{y}", x);
    for (times, app) in (1..).zip(layered(&pulse, routes)) {
        let requests = ["GET /x/1", "GET /", "GET /x/2", "GET /"];
        let contexts = [("GET /", 2 * times), ("x", 2 * times)];
        assert_counts(&pulse, &app, &requests, contexts).await;
    }
}

#[tokio::test]
async fn the_innermost_of_three_names_wins() {
    let (pulse, _) = pulse();
    let inner = Router::new()
        .route("/named", get(ok).layer(pulse.layer().named("innermost")))
        .route("/plain", get(ok))
        .layer(pulse.layer().named("middle"));
    let app = Router::new()
        .nest("/in", inner)
        .route("/out", get(ok))
        .layer(pulse.layer().named("outermost"));
    let requests = ["GET /in/named", "GET /in/plain", "GET /out"];
    let contexts = [("innermost", 1), ("middle", 1), ("outermost", 1)];
    assert_counts(&pulse, &app, &requests, contexts).await;
}

#[tokio::test]
async fn templates_of_a_nested_service_count_where_the_outer_layer_sees_none() {
    let (pulse, _) = pulse();
    let api = Router::new()
        .route("/users/{id}", get(ok))
        .layer(pulse.layer());
    let app = Router::new()
        .nest_service("/api", api.clone())
        .layer(pulse.layer());
    let contexts = [("GET /api/users/{id}", 1)];
    assert_counts(&pulse, &app, &["GET /api/users/7"], contexts).await;
    // A name from an outer layer wins over a template.
    let named = ServiceBuilder::new()
        .layer(pulse.layer().named("api"))
        .service(api);
    let app = Router::new()
        .nest_service("/api", named)
        .layer(pulse.layer());
    let contexts = [("GET /api/users/{id}", 1), ("api", 1)];
    assert_counts(&pulse, &app, &["GET /api/users/7"], contexts).await;
}

#[tokio::test]
async fn an_inner_layer_does_not_record_requests_that_an_outer_layer_ignores() {
    let (pulse, _) = pulse_with(|builder| builder.ignore(["/static/*"]));
    let app = Router::new()
        .route("/", get(ok))
        .nest_service("/static", files(pulse.layer().named("static")))
        .layer(pulse.layer());
    let requests = ["GET /static/app.js", "GET /"];
    assert_counts(&pulse, &app, &requests, [("GET /", 1)]).await;
}

#[tokio::test]
async fn each_of_two_pulses_has_its_own_name() {
    let ((one, _), (two, _)) = (pulse(), pulse());
    let inner = ServiceBuilder::new()
        .layer(one.layer().named("one"))
        .layer(two.layer().named("two"))
        .service(get(ok));
    let app = Router::new()
        .route_service("/x", inner)
        .route("/y", get(ok))
        .layer(two.layer())
        .layer(one.layer());
    let requests = ["GET /x", "GET /y", "GET /x"];
    assert_counts(&one, &app, &requests, [("GET /y", 1), ("one", 2)]).await;
    assert_counts(&two, &app, &[], [("GET /y", 1), ("two", 2)]).await;
}

#[tokio::test]
async fn a_named_request_that_panics_or_is_cancelled_leaves_no_name_behind() {
    let (pulse, _) = pulse();
    let boom = get(async || -> () { panic!("on purpose") });
    let stuck = get(std::future::pending::<()>);
    let app = Router::new()
        .route("/", get(ok))
        .route("/boom", boom.layer(pulse.layer().named("boom")))
        .route("/stuck", stuck.layer(pulse.layer().named("stuck")))
        .layer(pulse.layer());
    for _ in 0..2 {
        let panicking = std::panic::AssertUnwindSafe(send(&app, "GET", "/boom"));
        assert!(panicking.catch_unwind().await.is_err());
        send(&app, "GET", "/").await;
        assert!(send(&app, "GET", "/stuck").now_or_never().is_none());
        send(&app, "GET", "/").await;
    }
    assert_eq!(outcome(&pulse, "boom", Outcome::Panicked).await, (2, 2));
    assert_eq!(outcome(&pulse, "stuck", Outcome::Cancelled).await, (2, 0));
    let contexts = [("GET /", 4), ("boom", 2), ("stuck", 2)];
    assert_counts(&pulse, &app, &[], contexts).await;
}

#[tokio::test]
async fn a_service_that_calls_itself_keeps_the_name_of_the_request() {
    let (pulse, _) = pulse();
    let inner = Router::new().route("/b", get(ok)).layer(pulse.layer());
    let call = || async move {
        send(&inner, "GET", "/b").await;
        "called"
    };
    let app = Router::new().route("/a", get(call)).layer(pulse.layer());
    assert_counts(&pulse, &app, &["GET /a"], [("GET /a", 1)]).await;
}
