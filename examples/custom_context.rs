//! Contexts of your own, here by the plan of the caller. Contexts by tenant or GraphQL operation work in the same way.
#![allow(clippy::print_stdout)] // An example prints to its terminal.

use std::borrow::Cow;

use axum::{Router, extract::MatchedPath, routing::get};
use tower_pulse::layer::Head;
use tower_pulse::{Pulse, admin::Access};

/// The plan of the caller and the route template: few plans and few templates make few contexts.
fn by_plan(head: &Head<'_>) -> Option<Cow<'static, str>> {
    let route = head.extensions.get::<MatchedPath>()?;
    let plan = match head.headers.get("x-plan").map(|value| value.as_bytes()) {
        Some(b"enterprise") => "enterprise",
        Some(b"team") => "team",
        // Never use a client's value unchecked: a client can send any value.
        _ => "free",
    };
    Some(format!("{plan} {}", route.as_str()).into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pulse = Pulse::builder().build()?;
    let app = Router::new()
        .route("/users/{id}", get(|| async { "hello" }))
        .layer(pulse.layer().context(by_plan))
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
