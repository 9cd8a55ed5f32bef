//! The present, which continues the past: two instances of two versions, ongoing changes, and rows in a cache.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use tokio::sync::Notify;
use tower_pulse::row_cache::RowCache;
use tower_pulse::store::Store as StoreHandle;
use tower_pulse::{Change, ManualClock, Pulse, Task};
use tower_pulse_core::store::Store;

use crate::frozen::past::{Time, builder, instance, send, service, settle};
use crate::rig::instances::TestFolder;
use crate::rig::wait::until;

/// Minutes that are recorded before and after the start of an hour. After the start, a second instance runs, and
/// requests to products are slower.
const BEFORE: i64 = 5;
const AFTER: i64 = 5;
const PRODUCT: &str = "GET /products/{id}";

/// Two instances. The first one answers questions.
pub struct Present {
    pub pulses: [Pulse; 2],
    /// The row cache, and its task, which never runs.
    pub rows: Option<(RowCache, Task)>,
}

impl Present {
    pub async fn record(store: &StoreHandle, time: &Time, has_rows: bool) -> Self {
        let pulses = [("web-1", "1.4.2"), ("web-3", "1.5.0")].map(|(name, version)| {
            let builder = builder(store, time, version).instance(name);
            let builder = builder.target(Duration::from_millis(60));
            let builder = builder.target_for(PRODUCT, Duration::from_millis(60), 0.95);
            instance(builder.queue_time_header("x-request-start"))
        });
        let mut present = Self { pulses, rows: None };
        let hour = (time.clock.now_seconds() / 3_600 + 1) * 3_600;
        for minute in -BEFORE..AFTER {
            time.manual_clock.set_wall(hour + 60 * minute);
            let alive = if minute < 0 { 1 } else { 2 };
            for (number, pulse) in (0..).zip(&present.pulses[..alive]) {
                pulse.simulation().heartbeat().await.unwrap();
                let product = 40 + 40 * number + if minute < 0 { 0 } else { 20 };
                requests(pulse, time, Duration::from_millis(product)).await;
            }
            present.settle().await;
        }
        time.manual_clock.set_wall(hour + 60 * AFTER + 20);
        for pulse in &present.pulses {
            pulse.simulation().heartbeat().await.unwrap();
        }
        write_changes(store, time, hour).await;
        let first = &present.pulses[0];
        first.acknowledge_change("taken", "ada").await.unwrap();
        if has_rows {
            present.rows = Some(rows(first, &time.manual_clock).await);
        }
        present
    }

    /// Flushes both instances. The first instance folds.
    async fn settle(&self) {
        let [folder, other] = &self.pulses;
        let is_appended = async || other.health().recording.pending_series == 0;
        tokio::join!(settle(other), async {
            until("the call is appended", is_appended).await;
            settle(folder).await;
        });
    }
}

async fn requests(pulse: &Pulse, time: &Time, product: Duration) {
    let app = service(pulse, &time.manual_clock, product).merge(basket(pulse, &time.manual_clock));
    let wall = time.clock.now_seconds();
    let queued = format!("t={}.500", wall - 1);
    for request in 0..26 {
        let (method, uri) = match request {
            0 => ("POST", "/checkout"),
            1..5 => ("GET", "/basket"),
            5 => ("GET", "/static/app.css"),
            _ => ("GET", "/products/7"),
        };
        send(&app, method, uri, &queued).await;
    }
    pulse.counter("sales").add(3);
    pulse.counter("refunds").add(-1);
    pulse.simulation().machine(wall - 60, 0.5, product / 4);
    pulse.simulation().drain();
}

/// A page that queries its rows one by one, and then waits. The fallback serves files.
fn basket(pulse: &Pulse, manual_clock: &ManualClock) -> Router {
    let (of_timer, manual_clock) = (pulse.clone(), manual_clock.clone());
    let basket = async move || {
        for row in 0..21 {
            let query = of_timer.try_time("db:row", async {
                manual_clock.advance(Duration::from_millis(1));
                if row == 0 { Err(()) } else { Ok(()) }
            });
            let _fails_once = query.await;
        }
        let (moved, manual_clock) = (Arc::new(Notify::new()), manual_clock.clone());
        let moving = moved.clone();
        tokio::spawn(async move {
            manual_clock.advance(Duration::from_millis(30));
            moving.notify_one();
        });
        moved.notified().await;
        StatusCode::NOT_MODIFIED
    };
    Router::new()
        .route("/basket", get(basket))
        .fallback(async || "a file")
        .layer(pulse.layer())
}

/// Writes ongoing changes of most kinds, with all kinds of suspects.
async fn write_changes(store: &StoreHandle, time: &Time, since: i64) {
    let change = |id: &str, kind: &str, context: &str, then: f64, now: f64| {
        let change = serde_json::json!({
            "id": id, "kind": kind, "context": context,
            "instance": (kind == "instance").then_some("web-3"),
            "since": since, "detected": since + 120, "ended": null,
            "then": then, "now": now, "ratio": now / then, "is_tail": kind == "slower", "confidence": 0.9999,
            "requests": 60, "minutes": 3, "seconds_per_minute": 1.25, "extra_seconds_per_minute": 0.5,
            "from_traffic": 0.125, "from_code": 0.375,
            "suspects": [
                {"kind": "deploy", "mark": "1700004180-1.4.2", "text": "version 1.4.2", "version": "1.4.2",
                    "seconds_before": 86_940, "side_by_side": 1.5},
                {"kind": "instance", "instances": ["web-3"], "count": 1, "then": 0.04, "now": 0.08, "ratio": 2.0,
                    "share": 0.5, "text": "web-3"},
                {"kind": "timer", "timer": "db:product", "then": 0.04, "now": 0.08, "share": 0.25, "text": "db"},
                {"kind": "machine", "instance": "web-3", "text": "waits", "delay": 0.022, "cpu": 0.5},
                {"kind": "code", "then": 0.01, "now": 0.02, "share": 0.125, "text": "code"},
                {"kind": "computing", "text": "computes", "then": 0.01, "now": 0.02, "share": 0.125, "longest": 0.5},
                {"kind": "waiting", "text": "waits", "then": 0.01, "now": 0.02, "share": 0.125},
                {"kind": "failures", "timer": "payment", "statuses": ["502"], "text": "fails"},
                {"kind": "traffic", "busiest": "web-1", "text": "alike"},
            ],
            "yesterday": {"value": 0.05, "ratio": 1.6, "error": 0.022, "requests": 90}, "week_ago": {"value": 0.1, "ratio": 2.0, "error": 0.086, "requests": 300},
        });
        serde_json::from_value::<Change>(change).unwrap()
    };
    let changes = [
        change("slower", "slower", PRODUCT, 0.04, 0.08),
        change("failing", "failing", "POST /checkout", 0.25, 1.0),
        change("taken", "surging", "GET /basket", 1.0, 4.0),
        change("faster", "faster", "<unmatched>", 0.2, 0.1),
        change("silent", "silent", "GET /unfolded", 9.0, 0.5),
        change("instance", "instance", "<all>", 0.04, 0.08),
    ];
    let backend: Arc<dyn Store> = store.clone().into();
    let judge = TestFolder::new(backend, time.clock.clone(), "judge", 2);
    let until = since + 60 * AFTER;
    let judged = judge.judgement(until, &changes, &[]).await;
    judge.write_by_hand(&judged.unwrap()).await.unwrap();
    judge.release().await.unwrap();
}

/// A cache of three rows: one is read, one is overdue, and one fails to load.
async fn rows(pulse: &Pulse, manual_clock: &ManualClock) -> (RowCache, Task) {
    let load = async |id: String| match &*id {
        "broken" => Err("the database is away"),
        _ => Ok(Some(format!("row {id}"))),
    };
    let built = RowCache::builder(pulse).name("stock").loader(load);
    let (cache, task) = built.build_with_task().unwrap();
    cache.get_or_load::<String>("read").await.unwrap();
    cache.get::<String>("read").await.unwrap();
    cache.get_or_load::<String>("broken").await.unwrap_err();
    for (id, seconds) in [("late", 2), ("read", 60)] {
        let delay = Duration::from_secs(seconds);
        cache.schedule(id, delay).await.unwrap();
    }
    manual_clock.advance(Duration::from_secs(5));
    (cache, task)
}
