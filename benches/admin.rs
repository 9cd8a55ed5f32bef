//! The admin API through the mounted router, at 100 and 2,000 contexts in memory: with a cached snapshot
//! that all readers share, and with a new one for each request.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::{Request, StatusCode};
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

const NOW: i64 = 1_700_001_000;

/// Sends a request; returns the size of the answer in bytes.
async fn get(app: &Router, path: &str) -> usize {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    body.len()
}

fn admin(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut group = c.benchmark_group("admin");
    group.sample_size(20);
    for contexts in [100, 2_000] {
        let (clock, hand) = Clock::manual(NOW);
        let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks().unwrap();
        for context in 0..contexts {
            for request in 1..20 {
                let timer = pulse.timer(&format!("GET /api/v1/things-{context}/{{id}}"));
                hand.advance(Duration::from_micros(request * request * 50));
                timer.stop();
            }
        }
        runtime.block_on(pulse.flush()).unwrap();
        let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
        for (name, path) in [
            ("overview", "overview"),
            ("paths", "paths?limit=50&kind=timer"),
            ("metrics", "../metrics"),
        ] {
            let path = match path.strip_prefix("../") {
                Some(path) => format!("/admin/pulse/{path}"),
                None => format!("/admin/pulse/api/{path}"),
            };
            if cfg!(not(feature = "prometheus")) && name == "metrics" {
                continue;
            }
            group.bench_function(BenchmarkId::new(name, contexts), |b| {
                b.iter(|| runtime.block_on(get(&app, &path)));
            });
            group.bench_function(BenchmarkId::new(format!("{name}, anew"), contexts), |b| {
                b.iter(|| {
                    // By then the cached snapshot is too old.
                    hand.advance(Duration::from_secs(2));
                    hand.set_wall(NOW);
                    runtime.block_on(get(&app, &path))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, admin);
criterion_main!(benches);
