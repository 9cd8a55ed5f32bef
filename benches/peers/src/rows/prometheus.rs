//! The `metrics` crate in a `from_fn`, as in axum's own example, and axum-prometheus. Both record into
//! metrics-exporter-prometheus. axum-prometheus installs this exporter for the process, and runs its upkeep every 5 s.

use std::sync::OnceLock;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum_prometheus::PrometheusMetricLayer;

use super::App;
use crate::driver::Runtimes;

fn install(runtimes: &Runtimes) -> PrometheusMetricLayer<'static> {
    static INSTALLED: OnceLock<PrometheusMetricLayer<'static>> = OnceLock::new();
    let layer = INSTALLED.get_or_init(|| {
        let _inside = runtimes.background().enter();
        PrometheusMetricLayer::pair().0
    });
    layer.clone()
}

/// axum-prometheus as its documentation shows it.
pub(super) fn axum_prometheus(routes: Router, runtimes: &Runtimes) -> Result<App, String> {
    Ok(routes.layer(install(runtimes)).into())
}

/// The `metrics` crate as axum's example `prometheus-metrics` uses it.
pub(super) fn metrics(routes: Router, runtimes: &Runtimes) -> Result<App, String> {
    install(runtimes);
    Ok(routes.layer(from_fn(track)).into())
}

async fn track(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => request.uri().path().to_owned(),
    };
    let method = request.method().clone();
    let response = next.run(request).await;
    let latency = start.elapsed().as_secs_f64();
    let status = response.status().as_u16().to_string();
    let labels = [
        ("method", method.to_string()),
        ("path", path),
        ("status", status),
    ];
    metrics::counter!("http_requests_total", &labels).increment(1);
    metrics::histogram!("http_requests_duration_seconds", &labels).record(latency);
    response
}
