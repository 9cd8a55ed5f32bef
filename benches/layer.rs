//! A request through a Router in process: without a layer, with one that does nothing, and with the
//! crate's.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../tests/rig/identity.rs"]
mod identity;

use std::hint::black_box;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::Request;
use identity::Identity;
use tower::Service;
use tower_pulse::Pulse;

const ROUTES: usize = 20;

fn routes() -> Router {
    (0..ROUTES).fold(Router::new(), |router, i| {
        router.route(&format!("/route{i}/{{id}}"), get(|| async { "pong" }))
    })
}

fn layer(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let pulse = Pulse::builder().build().unwrap();
    let rows: [(&str, Router); 4] = [
        ("bare", routes()),
        ("identity", routes().layer(Identity(()))),
        ("pulse", routes().layer(pulse.layer())),
        (
            "pulse to the body's end",
            routes().layer(pulse.layer().until_body_end()),
        ),
    ];
    let mut group = c.benchmark_group("layer");
    for (name, app) in rows {
        // `axum::serve` does this too; otherwise the layer is applied again for each request.
        let mut app = app.with_state::<()>(());
        let mut i = 0;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                i = (i + 1) % ROUTES;
                let request = Request::get(format!("/route{i}/7"))
                    .body(Body::empty())
                    .unwrap();
                let future = Service::call(&mut app, request);
                black_box(
                    futures_util::FutureExt::now_or_never(future)
                        .unwrap()
                        .unwrap(),
                )
            });
        });
    }
    group.finish();
    runtime.block_on(pulse.shutdown()).unwrap();
}

criterion_group!(benches, layer);
criterion_main!(benches);
