//! The dashboard as a process of its own, for a Redis that the instances of a service write to:
//! `REDIS_URL=redis://127.0.0.1/ PULSE_TOKEN=secret cargo run --release --example dashboard`.
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `REDIS_URL` | the Redis, or a replica of it; its user needs no permission to write | `redis://127.0.0.1/` |
//! | `PULSE_TOKEN` | the bearer token, or the password for any user name | must be set |
//! | `PULSE_SERVICE`, `PULSE_PREFIX` | the same as in the instances | none, and `pulse:` or `pulse:{service}:` |
//! | `PULSE_PATH` | the path of the dashboard | `/admin/pulse` |
//! | `LISTEN` | address and port | `127.0.0.1:3001` |
#![allow(clippy::print_stdout)] // An example prints to its terminal.

use pulse_examples::signal::shutdown_signal;
use tower_pulse::{Dashboard, admin::Access};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let or = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    let mut builder = Dashboard::builder().redis(or("REDIS_URL", "redis://127.0.0.1/"));
    if let Ok(service) = std::env::var("PULSE_SERVICE") {
        builder = builder.service(service);
    }
    if let Ok(prefix) = std::env::var("PULSE_PREFIX") {
        builder = builder.prefix(prefix);
    }
    let token = std::env::var("PULSE_TOKEN").map_err(|_| "PULSE_TOKEN: set a secret token")?;
    let path = or("PULSE_PATH", "/admin/pulse");
    let app = builder.build()?.try_mount(&path, Access::token(token))?;

    let listener = tokio::net::TcpListener::bind(or("LISTEN", "127.0.0.1:3001")).await?;
    println!("http://{}{path}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown_signal())
        .await?;
    Ok(())
}
