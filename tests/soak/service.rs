//! An instance: this binary again, as a child process that serves HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Query;
use axum::routing::{get, post};
use http::StatusCode;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

use crate::order::{self, LIVES, Life, Order, PAGES, SOLD};
use crate::read::PREFIX;
use crate::signal::shutdown_signal;

/// The environment variable with the number of the instance, set in a child process.
pub const INSTANCE: &str = "PULSE_SOAK_INSTANCE";
/// The one with the number of its life.
pub const LIFE: &str = "PULSE_SOAK_LIFE";
/// The one with the URL of Redis.
pub const REDIS: &str = "PULSE_SOAK_REDIS";

/// Serves until a signal. Panics if the shutdown could not flush everything.
pub async fn serve() {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let variable = |name| std::env::var(name).unwrap();
    let life = Life {
        instance: variable(INSTANCE).parse().unwrap(),
        number: variable(LIFE).parse().unwrap(),
    };
    let pulse = Pulse::builder()
        .redis(variable(REDIS))
        .prefix(PREFIX)
        // So that a denied command is noticed between two faults.
        .clean_interval(std::time::Duration::from_secs(2))
        .instance(order::instance_name(life.instance))
        .build()
        .unwrap();
    let flushed = pulse.clone();
    let flush = post(async move || match flushed.flush().await {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    });
    let app = pages(&pulse, life)
        .layer(pulse.layer())
        .route("/flush", flush)
        .merge(pulse.mount("/admin/pulse", Access::open()));
    let address: SocketAddr = variable("LISTEN").parse().unwrap();
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown_signal())
        .await
        .unwrap();
    pulse.shutdown().await.unwrap();
}

fn pages(pulse: &Pulse, life: Life) -> Router {
    let items = pulse.counter(&order::counter(life.instance));
    let sold = pulse.ranking(SOLD).build().unwrap();
    let lives = pulse.ranking(LIVES).build().unwrap();
    let (timer, life_id) = (order::timer(life.instance), life.id());
    let mut pages = Router::new();
    for page in 0..PAGES {
        let (pulse, items, sold, lives) =
            (pulse.clone(), items.clone(), sold.clone(), lives.clone());
        let (timer, life_id) = (timer.clone(), life_id.clone());
        let handler = async move |Query(query): Query<BTreeMap<String, i64>>| {
            let order = Order::read(page, &query);
            items.add(order.items());
            let (product, points) = order.sold(life.instance);
            sold.add(&product, points);
            lives.add(&life_id, 1);
            for _ in 0..order.timings() {
                pulse.time(&timer, tokio::task::yield_now()).await;
            }
            StatusCode::from_u16(order.status()).unwrap()
        };
        pages = pages.route(&Order::route(life.instance, page), get(handler));
    }
    pages
}
