//! An instance: this binary again, as a child process that serves HTTP.

use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::routing::{get, post};
use http::StatusCode;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use super::order::{LIVES, Life, Order, PAGES, SOLD};
use crate::faults::service::PREFIX;
use crate::signal::shutdown_signal;

/// The environment variable with the number of the instance, set in a child process.
pub const INSTANCE: &str = "PULSE_SOAK_INSTANCE";
/// The environment variable with the number of the instance's life.
pub const LIFE: &str = "PULSE_SOAK_LIFE";
/// The environment variable with the URL of Redis.
pub const REDIS: &str = "PULSE_SOAK_REDIS";

/// Serves until a signal. Panics if the shutdown fails.
pub async fn serve() {
    let log = tracing_subscriber::fmt().with_ansi(false);
    log.with_writer(std::io::stderr).init();
    let variable = |name| std::env::var(name).unwrap();
    let life = Life {
        instance: variable(INSTANCE).parse().unwrap(),
        number: variable(LIFE).parse().unwrap(),
    };
    let builder = Pulse::builder().redis(variable(REDIS)).prefix(PREFIX);
    // Cleaning is frequent, so that a denied command is noticed between two faults.
    let builder = builder.clean_interval(Duration::from_secs(2));
    let pulse = builder.instance(life.name()).build().unwrap();
    let flushed = pulse.clone();
    let flush = post(async move || match flushed.flush().await {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    });
    let app = pages(&pulse, life)
        .layer(pulse.layer())
        .route("/flush", flush)
        .merge(pulse.mount("/admin/pulse", Access::open()));
    let listener = tokio::net::TcpListener::bind(variable("LISTEN")).await;
    let serve = axum::serve(listener.unwrap(), app);
    let serve = serve.with_graceful_shutdown(shutdown_signal());
    serve.await.unwrap();
    pulse.shutdown().await.unwrap();
}

fn pages(pulse: &Pulse, life: Life) -> Router {
    let items = pulse.counter(&life.counter());
    let [sold, lives] = [SOLD, LIVES].map(|name| pulse.ranking(name).build().unwrap());
    let pulse = pulse.clone();
    let handler = async move |Query(order): Query<Order>| {
        items.add(order.items);
        sold.add(&order.sold(life), order.points);
        lives.add(&life.id(), 1);
        for _ in 0..order.timings {
            pulse.time(&life.timer(), tokio::task::yield_now()).await;
        }
        StatusCode::from_u16(order.status()).unwrap()
    };
    let page = |router: Router, page| router.route(&life.route(page), get(handler.clone()));
    (0..PAGES).fold(Router::new(), page)
}
