//! What the tests of spans share: a subscriber with the layer, an independent count of statements, a service on a free
//! port, and a Postgres.

pub mod postgres;
pub mod shop;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tower_pulse::Pulse;
use tower_pulse::tracing::SpanTimers;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

/// The number of runs of each statement, and their seconds.
pub type Counts = BTreeMap<String, (u64, f64)>;

/// A layer that counts statements.
#[derive(Clone, Debug, Default)]
pub struct Counted(Arc<Mutex<Counts>>);

impl Counted {
    /// The statements so far.
    pub fn so_far(&self) -> Counts {
        self.0.lock().unwrap().clone()
    }
}

/// The fields of a statement.
#[derive(Default)]
struct Statement {
    summary: String,
    whole: String,
    seconds: f64,
}

impl Visit for Statement {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "elapsed_secs" {
            self.seconds = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => self.summary = value.to_owned(),
            "db.statement" => self.whole = value.trim().to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl<S: Subscriber> Layer<S> for Counted {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut statement = Statement::default();
        event.record(&mut statement);
        let text = match statement.whole.is_empty() {
            true => statement.summary,
            false => statement.whole,
        };
        let mut counts = self.0.lock().unwrap();
        let (count, seconds) = counts.entry(text).or_default();
        *count += 1;
        *seconds += statement.seconds;
    }
}

/// Installs the subscriber of this process, and builds a pulse with its layer.
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

/// The last hour of a page, as the API answers; null if the page has no requests.
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

/// The timer of this name within the requests of a page; panics if it did not run.
pub fn timer<'a>(page: &'a Value, name: &str) -> &'a Value {
    let mut timers = page["timers"].as_array().unwrap().iter();
    let timer = timers.find(|timer| timer["timer"] == name);
    timer.unwrap_or_else(|| panic!("no timer {name}: {page:#}"))
}

/// The names of the timers within the requests of a page, sorted.
pub fn names(page: &Value) -> Vec<&str> {
    let timers = page["timers"].as_array().unwrap().iter();
    let mut names: Vec<_> = timers.filter_map(|timer| timer["timer"].as_str()).collect();
    names.sort_unstable();
    names
}
