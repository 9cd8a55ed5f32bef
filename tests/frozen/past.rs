//! A recorded past of a small service, with two versions of the service and all kinds of stored data. Requests go
//! through the layer. The test sets the time, so each run stores the same data, except for random names.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_pulse::store::Store as StoreHandle;
use tower_pulse::{Builder, Change, Clock, ManualClock, Pulse};
use tower_pulse_core::store::{FencedBatch, Store};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;

use crate::rig::instances::TestFolder;
use crate::rig::wait::until;

/// 2023-11-14, 22:20 UTC: a Tuesday.
pub const START: i64 = 1_700_000_400;
/// Seconds from each part of the past to the next: parts are in neighbouring minutes, hours and days.
const PAUSES: [i64; 7] = [60, 60, 3_600, 60, 6_900, 80_000, 60];
/// The part with which the second version begins.
const SECOND_VERSION: usize = 4;
/// Seconds from the end of the past to the time at which all data is read.
const UNTIL_READ: i64 = 90;
pub const HISTORY: Duration = Duration::from_secs(30 * 86_400);
const CHANGE: &str = "1700000400-1";

#[derive(Clone)]
pub struct Time {
    pub clock: Clock,
    pub manual_clock: ManualClock,
}

impl Time {
    pub fn new(second: i64) -> Self {
        let (clock, manual_clock) = Clock::manual(second);
        Self {
            clock,
            manual_clock,
        }
    }

    pub fn to_read() -> Self {
        Self::new(second(PAUSES.len()) + UNTIL_READ)
    }
}

pub fn builder(store: &StoreHandle, time: &Time, version: &str) -> Builder {
    let builder = Pulse::builder()
        .store(store.clone())
        .clock(time.clock.clone());
    let builder = builder.instance("web-1").app_version(version);
    let builder = builder.history(HISTORY).keep_trace_ids(true);
    let builder = builder.keep_request_paths(true);
    builder.shutdown_timeout(Duration::from_secs(30))
}

/// An instance without background tasks.
pub fn instance(builder: Builder) -> Pulse {
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    drop(tasks);
    pulse
}

/// The service. Its handlers advance the clock instead of taking time.
pub fn service(pulse: &Pulse, manual_clock: &ManualClock, product: Duration) -> Router {
    let (timed, paying) = (manual_clock.clone(), manual_clock.clone());
    let of_timer = pulse.clone();
    let show = async move || {
        of_timer
            .time("db:product", async { timed.advance(product) })
            .await;
        timed.advance(Duration::from_millis(3));
        "a product"
    };
    let pay = async move || {
        paying.advance(Duration::from_millis(41));
        StatusCode::SERVICE_UNAVAILABLE
    };
    Router::new()
        .route("/products/{id}", get(show))
        .route("/checkout", post(pay))
        .layer(pulse.layer())
}

/// Sends a request whose header says when the queue in front of the service received it.
pub async fn send(app: &Router, method: &str, uri: &str, queued: &str) {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = Request::builder().method(method).uri(uri);
    let request = request.header("traceparent", trace);
    let request = request.header("x-request-start", queued);
    let request = request.body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap();
}

pub async fn settle(pulse: &Pulse) {
    until("all is flushed", async || pulse.flush().await.is_ok()).await;
}

/// Records the past. Another instance appends the last call, which is not folded.
pub async fn record(store: &StoreHandle, time: &Time) {
    let backend: Arc<dyn Store> = store.clone().into();
    let mut pulse = instance(builder(store, time, "1.4.1"));
    let mut app = service(&pulse, &time.manual_clock, Duration::from_millis(17));
    for (number, pause) in PAUSES.into_iter().enumerate() {
        if number == SECOND_VERSION {
            pulse.shutdown().await.unwrap();
            pulse = instance(builder(store, time, "1.4.2"));
            app = service(&pulse, &time.manual_clock, Duration::from_millis(170));
        }
        pulse.simulation().heartbeat().await.unwrap();
        settle(&pulse).await;
        time.manual_clock.set_wall(second(number));
        for _ in 0..3 + number {
            send(&app, "GET", "/products/7?from=mail", "").await;
        }
        send(&app, "POST", "/checkout", "").await;
        send(&app, "GET", "/nowhere", "").await;
        pulse.counter("sales").add(7);
        add_to_ranking(&pulse, number);
        pulse.simulation().drain();
        settle(&pulse).await;
        if number == 1 {
            amend(&pulse, &backend, time).await;
        }
        pulse.simulation().judge().await.unwrap();
        time.manual_clock.set_wall(second(number) + pause);
    }
    settle(&pulse).await;
    pulse.shutdown().await.unwrap();
    drop(pulse);
    append_of_another(&*backend, time).await;
}

/// The time of a part of the past, in Unix seconds.
fn second(number: usize) -> i64 {
    START + PAUSES[..number].iter().sum::<i64>()
}

fn add_to_ranking(pulse: &Pulse, number: usize) {
    let posts = pulse.ranking("posts").build().unwrap();
    posts.add("first", 2);
    posts.add(&format!("post {number}"), 1);
}

async fn amend(pulse: &Pulse, store: &Arc<dyn Store>, time: &Time) {
    pulse.mark("new index").await.unwrap();
    let gone = pulse.mark("a mistake").await.unwrap();
    pulse.remove_mark(&gone.id).await.unwrap();
    let judge = TestFolder::new(store.clone(), time.clock.clone(), "judge", 1);
    let judged = judge.judgement(START, &[change()], &[]).await;
    judge.write_by_hand(&judged.unwrap()).await.unwrap();
    judge.release().await.unwrap();
    pulse.acknowledge_change(CHANGE, "ada").await.unwrap();
}

fn change() -> Change {
    let change = serde_json::json!({
        "id": CHANGE, "kind": "slower", "context": "GET /products/{id}", "instance": null, "since": START - 600,
        "detected": START - 300, "ended": null, "then": 0.1, "now": 0.2, "ratio": 2.0, "is_tail": false, "confidence": 0.999,
        "requests": 400, "minutes": 5, "seconds_per_minute": 3.5, "extra_seconds_per_minute": 1.0, "from_traffic": 0.25,
        "from_code": 0.75,
        "suspects": [{"kind": "timer", "timer": "db:product", "then": 0.05, "now": 0.125, "share": 0.75, "text": "db"}],
        "yesterday": {"value": 0.1, "ratio": 2.0, "error": 0.022, "requests": 300}, "week_ago": null,
    });
    serde_json::from_value(change).unwrap()
}

async fn append_of_another(store: &dyn Store, time: &Time) {
    let mut aggregate = Aggregate::default();
    aggregate.times.record(5_000_000);
    aggregate.outcomes.record(Outcome::Success, false);
    aggregate.codes.add(200, 1);
    let bucket = (bucket_of(5_000_000) as u16, 1);
    aggregate.histogram = Histogram::new(SCALE, [bucket]);
    let mut batch = Batch::new(Precisions::default());
    let now = time.clock.now_seconds();
    for (name, kind) in [("GET /unfolded", Kind::Http), ("<all>", Kind::All)] {
        batch.add(&name.into(), kind, now, &aggregate);
    }
    let call = FencedBatch {
        generation: store.hello().await.unwrap().id,
        instance: "web-2".into(),
        seq: 1,
        previous: 0,
        batch,
    };
    store.append(&call).await.unwrap();
}
