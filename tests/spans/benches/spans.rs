//! Measures the cost of statements and spans, with the layer and with `tracing-opentelemetry`, and prints a table:
//! `cargo bench -p pulse-spans`. Needs a quiet machine.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::Request;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use tower_pulse::Pulse;
use tower_service::Service;
use tracing::dispatcher::Dispatch;
use tracing::{Level, dispatcher, enabled, event};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

const SQL: &str =
    "SELECT id, name, price FROM products WHERE category = $1 ORDER BY price LIMIT 20";

/// The statements of a request to `/ten`.
const STATEMENTS: u32 = 10;

/// The measured rounds, and the runs of each. The table shows the median round.
const ROUNDS: usize = 31;
const RUNS: u32 = 2_000;

/// Reports a statement as sqlx does, which builds the texts only if a subscriber wants the event.
fn statement() {
    let sql = black_box(SQL);
    if !enabled!(target: "sqlx::query", Level::DEBUG) {
        return;
    }
    let words: Vec<&str> = sql.split_whitespace().take(4).collect();
    let mut summary = words.join(" ");
    summary.push_str(" …");
    let whole = format!("\n\n{sql}\n");
    let elapsed = Duration::from_micros(250);
    event!(
        target: "sqlx::query",
        Level::DEBUG,
        summary,
        db.statement = whole,
        rows_affected = 0u64,
        rows_returned = 20u64,
        ?elapsed,
        elapsed_secs = elapsed.as_secs_f64(),
    );
}

/// A span of a call to another service.
fn client_span() {
    let span = tracing::info_span!(
        "HTTP request",
        http.request.method = %"GET",
        server.address = %"api.example.com",
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
    );
    span.in_scope(|| black_box(()));
}

/// A processor that drops all spans, so that exporting costs nothing.
#[derive(Debug)]
struct Nowhere;

impl SpanProcessor for Nowhere {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, _: SpanData) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The nanoseconds of a run in the median round, and the allocations of a run.
fn measure(mut run: impl FnMut()) -> (f64, f64) {
    (0..RUNS).for_each(|_| run());
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..RUNS).for_each(|_| run());
            start.elapsed().as_nanos() as f64 / f64::from(RUNS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let counted = allocation_counter::measure(|| (0..RUNS).for_each(|_| run()));
    let allocations = counted.count_total as f64 / f64::from(RUNS);
    (rounds[ROUNDS / 2], allocations)
}

fn service(pulse: &Pulse) -> Router {
    let statements = || async {
        (0..STATEMENTS).for_each(|_| statement());
        "done"
    };
    Router::new()
        .route("/none", get(|| async { "done" }))
        .route("/ten", get(statements))
        .layer(pulse.layer())
        .with_state(())
}

/// Sends a request whose handler is ready at once.
fn send(app: &mut Router, path: &'static str) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = futures_util::FutureExt::now_or_never(app.call(request));
    black_box(response.expect("it is ready").is_ok());
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let pulse = || {
        Pulse::builder()
            .flush_interval(Duration::from_secs(60))
            .build()
            .unwrap()
    };
    let (without, with) = (pulse(), pulse());
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Nowhere)
        .build();
    let tracer = provider.tracer("bench");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let debug = LevelFilter::DEBUG;
    let registry = tracing_subscriber::registry;
    let rows: [(&str, &Pulse, Dispatch); 5] = [
        ("no subscriber", &without, Dispatch::none()),
        (
            "a layer that wants INFO only",
            &without,
            registry()
                .with(Nothing.with_filter(LevelFilter::INFO))
                .into(),
        ),
        (
            "a layer that wants DEBUG and does nothing",
            &without,
            registry().with(Nothing.with_filter(debug)).into(),
        ),
        (
            "**tower-pulse**",
            &with,
            registry().with(with.tracing()).into(),
        ),
        (
            "tracing-opentelemetry, spans dropped",
            &without,
            registry().with(layer.with_filter(debug)).into(),
        ),
    ];
    let mut table = "| Subscriber | a statement | a client span | a request | a request with ten statements |\n".to_owned();
    table += "|---|---:|---:|---:|---:|\n";
    for (name, pulse, subscriber) in rows {
        let mut app = service(pulse);
        let _ = write!(table, "| {name} |");
        dispatcher::with_default(&subscriber, || {
            for (nanos, allocations) in [
                measure(statement),
                measure(client_span),
                measure(|| send(&mut app, "/none")),
                measure(|| send(&mut app, "/ten")),
            ] {
                let _ = write!(table, " {nanos:.0} ns, {allocations:.1} allocations |");
            }
        });
        table.push('\n');
        pulse.simulation().drain();
    }
    println!("{table}");
}

struct Nothing;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}
