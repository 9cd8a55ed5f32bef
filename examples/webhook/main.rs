//! Reports changes in the log and in a chat:
//! `WEBHOOK_URL=http://127.0.0.1:9000/hook cargo run --release --example webhook`.
//!
//! Changes need earlier data to compare with: run the example for half an hour, or on the Redis of a running service.
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `WEBHOOK_URL` | the URL to which changes are posted as JSON; `https` needs ureq's feature `rustls` | absent: the log only |
//! | `REDIS_URL` | the Redis that keeps everything | absent: in memory |
//! | `LISTEN` | address and port | `127.0.0.1:3000` |
#![allow(clippy::print_stdout)] // An example prints to its terminal.

mod notify;

use axum::{Router, routing::get};
use pulse_examples::signal::shutdown_signal;
use tower_pulse::admin::Access;
use tower_pulse::{Change, Pulse};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let mut builder = Pulse::builder();
    if let Ok(url) = std::env::var("REDIS_URL") {
        builder = builder.redis(url);
    }
    let pulse = builder.build()?;
    let url = std::env::var("WEBHOOK_URL").ok();
    // The function may block, because it runs on its own thread.
    pulse.on_change(move |change: &Change| {
        tracing::warn!(since = change.since, "{change}");
        if let Some(url) = &url
            && let Err(error) = notify::post(url, change)
        {
            tracing::error!(%error, "posting to the webhook failed");
        }
    });
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(pulse.layer())
        .merge(pulse.mount("/admin/pulse", Access::token("change me")));

    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    println!("http://{}/admin/pulse", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown_signal())
        .await?;
    // An unreachable store is not an error of the example: the crate has logged it.
    let _ = pulse.shutdown().await;
    Ok(())
}
