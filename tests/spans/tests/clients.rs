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
    // A nested span of the same name, as in a function that calls itself.
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
    let rendered = render(load().await);
    let span = Span::current();
    let resized = tokio::task::spawn_blocking(move || span.in_scope(resize));
    resized.await.unwrap();
    format!("{rendered:?}")
}

/// Asks another service twice. The second answer is an error.
async fn ask(client: ClientWithMiddleware, other: String) -> StatusCode {
    let found = client.get(format!("{other}/found?token=secret")).send();
    assert_eq!(found.await.unwrap().status(), 200);
    let missing = client.post(format!("{other}/missing")).send();
    missing.await.unwrap().status()
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
    let of_work = [("load", 0), ("render page", 10), ("resize", 0)];
    let of_ask = [("http GET localhost", 0), ("http POST localhost", 10)];
    for (context, expected) in [("GET /work", &of_work[..]), ("GET /ask", &of_ask)] {
        let page = page(&pulse, context).await;
        let all: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&page), all, "{context}");
        for (name, errors) in expected {
            let timer = timer(&page, name);
            let counts = [&timer["count"], &timer["errors"]];
            assert_eq!(counts, [10, *errors], "{timer}");
        }
    }
    pulse.shutdown().await.unwrap();
}
