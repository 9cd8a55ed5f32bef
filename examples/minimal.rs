//! The minimal setup: all data in memory, the dashboard at /admin/pulse.
#![allow(clippy::print_stdout)] // An example prints to its terminal.

use axum::{Router, routing::get};
use tower_pulse::{Pulse, admin::Access};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pulse = Pulse::builder().build()?;
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(pulse.layer())
        .merge(pulse.mount("/admin/pulse", Access::token("change me")));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://127.0.0.1:3000/admin/pulse (any user, password: change me)");
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    if let Err(error) = pulse.shutdown().await {
        eprintln!("tower-pulse: {error}");
    }
    Ok(())
}
