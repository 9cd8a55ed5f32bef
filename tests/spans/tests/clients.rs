//! Spans of an HTTP client, of `#[instrument]` on async and blocking functions, and in `spawn_blocking`.

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use pulse_rig::http::Client;
use pulse_spans::{names, page, serve, start, timer};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_tracing::TracingMiddleware;
use tracing::{Instrument, Span};

#[tracing::instrument(fields(pulse.timer))]
async fn load() -> u32 {
    tokio::task::yield_now().await;
    // A part of the same name, as of a function that calls itself.
    let part = async {
        tokio::task::yield_now().await;
        3
    };
    part.instrument(tracing::info_span!("load", pulse.timer = true))
        .await
}

#[tracing::instrument(fields(pulse.timer = "render page"), err)]
fn render(depth: u32) -> Result<u32, String> {
    match depth {
        3 => Err("too deep".to_owned()),
        depth => Ok(depth),
    }
}

#[tracing::instrument(fields(pulse.timer))]
fn resize() {}

async fn work() -> String {
    let depth = load().await;
    let rendered = render(depth);
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(resize))
        .await
        .unwrap();
    format!("{rendered:?}")
}

/// Asks another service twice, of which the second answer is an error.
async fn ask(client: ClientWithMiddleware, other: String) -> StatusCode {
    let found = client
        .get(format!("{other}/found?token=secret"))
        .send()
        .await
        .unwrap();
    assert_eq!(found.status(), 200);
    let missing = client
        .post(format!("{other}/missing"))
        .send()
        .await
        .unwrap();
    missing.status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_functions_are_timers() {
    let (pulse, _) = start();
    let other = serve(Router::new().route("/found", get(|| async { "found" }))).await;
    let other = format!("http://localhost:{}", other.port());
    let client = ClientBuilder::new(reqwest::Client::new());
    let client = client.with(TracingMiddleware::default()).build();
    let app = Router::new()
        .route("/work", get(work))
        .route("/ask", get(move || ask(client.clone(), other.clone())))
        .layer(pulse.layer());
    let mut visitor = Client::connect(serve(app).await).await;
    for _ in 0..10 {
        assert_eq!(visitor.get("/work").await.status, 200);
        assert_eq!(visitor.get("/ask").await.status, 404);
    }
    let work = page(&pulse, "GET /work").await;
    assert_eq!(names(&work), ["load", "render page", "resize"]);
    for name in names(&work) {
        assert_eq!(timer(&work, name)["count"], 10, "{name}: {work:#}");
    }
    let ask = page(&pulse, "GET /ask").await;
    assert_eq!(names(&ask), ["http GET localhost", "http POST localhost"]);
    let failures = [
        ("render page", 10, &work),
        ("load", 0, &work),
        ("http GET localhost", 0, &ask),
        ("http POST localhost", 10, &ask),
    ];
    for (name, errors, page) in failures {
        assert_eq!(timer(page, name)["errors"], errors, "{name}: {page:#}");
        assert_eq!(timer(page, name)["count"], 10, "{name}: {page:#}");
    }
    pulse.shutdown().await.unwrap();
}
