//! Code that the tests of spans share: a subscriber with the layer, an independent count of statements, a service on a
//! free port, and a Postgres.

pub mod postgres;
pub mod shop;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tower_pulse::Pulse;
use tower_pulse::tracing::SpanTimers;
use tracing::field::Field;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

/// A layer that keeps the statements that sqlx reports, each with its text and its seconds.
#[derive(Clone, Debug, Default)]
pub struct Counted(Arc<Mutex<Vec<(String, f64)>>>);

impl Counted {
    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The number of runs of a statement, and their seconds.
    pub fn runs(&self, statement: &str) -> (u64, f64) {
        let statements = self.0.lock().unwrap();
        let runs = statements.iter().filter(|run| run.0.contains(statement));
        runs.fold((0, 0.0), |sums, run| (sums.0 + 1, sums.1 + run.1))
    }
}

impl<S: Subscriber> Layer<S> for Counted {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (mut text, mut seconds) = (String::new(), 0.0);
        event.record(&mut |field: &Field, value: &dyn Debug| match field.name() {
            // A long statement has a summary and the whole text.
            "summary" | "db.statement" => text += &format!("{value:?}"),
            "elapsed_secs" => seconds = format!("{value:?}").parse().unwrap(),
            _ => {}
        });
        self.0.lock().unwrap().push((text, seconds));
    }
}

/// Installs the subscriber of this process, and builds the `Pulse` of its layer.
pub fn start() -> (Pulse, Counted) {
    let (timers, counted) = (SpanTimers::new(), Counted::default());
    let statements = filter_fn(|metadata| metadata.target() == "sqlx::query");
    let lines = fmt::layer().with_test_writer();
    tracing_subscriber::registry()
        .with(timers.layer())
        .with(counted.clone().with_filter(statements))
        .with(lines.with_filter(LevelFilter::INFO))
        .init();
    let pulse = Pulse::builder().tracing(&timers).build().unwrap();
    (pulse, counted)
}

/// Serves a router until the test ends.
pub async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The figures of a page in the last hour, as the API answers; null if the page has no requests.
pub async fn page(pulse: &Pulse, context: &str) -> Value {
    pulse.flush().await.unwrap();
    let context = context.replace(' ', "%20");
    let question = format!("path?context={context}&window=1h");
    let answer = pulse.query().json(&question).await;
    answer.map_or(Value::Null, |answer| {
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        answer["window"].take()
    })
}

pub fn timers(page: &Value) -> &[Value] {
    page["timers"].as_array().unwrap()
}

/// The timer of this name within the requests of a page. Panics if the timer did not run.
pub fn timer<'a>(page: &'a Value, name: &str) -> &'a Value {
    let timer = timers(page).iter().find(|timer| timer["timer"] == name);
    timer.unwrap_or_else(|| panic!("no timer {name}: {page:#}"))
}

/// The names of the timers within the requests of a page, sorted.
pub fn names(page: &Value) -> Vec<&str> {
    let names = timers(page).iter().map(|timer| &timer["timer"]);
    let mut names: Vec<_> = names.filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}
