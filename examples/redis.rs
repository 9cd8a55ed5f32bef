//! A fleet: all instances write to one Redis, and every dashboard shows the sum of all instances.
//!
//! `REDIS_URL=redis://127.0.0.1/ cargo run --example redis`
#![allow(clippy::print_stdout)] // An example prints to its terminal.

use std::time::Duration;

use axum::{Router, routing::get};
use tower_pulse::{Pulse, admin::Access};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".into());
    let pulse = Pulse::builder()
        .redis(url)
        // Keys begin with `pulse:shop:`, so that several services can share a server.
        .service("shop")
        .flush_interval(Duration::from_secs(1))
        .ignore(["/healthz"])
        .build()?;
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/healthz", get(|| async { "ok" }))
        .layer(pulse.layer())
        .merge(pulse.mount("/admin/pulse", Access::basic("admin", "change me")));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!(
        "http://{}/admin/pulse (admin, change me)",
        listener.local_addr()?
    );
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    // Flushes the samples that are still pending.
    if let Err(error) = pulse.shutdown().await {
        eprintln!("tower-pulse: {error}");
    }
    Ok(())
}
