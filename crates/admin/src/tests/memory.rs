//! A real store, from requests to answers.

use std::time::Duration;

use serde_json::json;

use super::*;
use tower_pulse_core::fold::{FoldLimits, Folder};
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{Append, Appended, FencedBatch, Heartbeat, Upkeep};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::ALL;
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};

/// `n` requests of `millis` each.
fn requests(n: usize, millis: u64, outcome: Outcome) -> Aggregate {
    let mut aggregate = Aggregate::default();
    for _ in 0..n {
        aggregate.times.record(millis * 1_000_000);
        aggregate.outcomes.record(outcome, outcome.is_error());
    }
    let bucket = bucket_of(millis * 1_000_000) as u16;
    aggregate.histogram = Histogram::new(SCALE, [(bucket, n as u64)]);
    if outcome.is_error() {
        aggregate.failures = aggregate.histogram.clone();
    }
    aggregate
}

#[tokio::test]
async fn requests_come_out_as_they_went_in() {
    let (clock, manual_clock) = Clock::manual(NOW);
    let precisions = Precisions::default();
    let store = Arc::new(MemoryStore::new(precisions.clone(), clock.clone()));
    let (mut batch, all) = (Batch::new(precisions.clone()), Arc::from(ALL));
    for (context, aggregate) in [
        ("GET /ping", requests(30, 2, Outcome::Success)),
        ("POST /checkout", requests(10, 500, Outcome::ServerError)),
    ] {
        let context = Arc::from(context);
        batch.add(&context, Kind::Http, NOW, &aggregate);
        batch.add(&all, Kind::All, NOW, &aggregate);
    }
    batch.count(&"sales".into(), NOW, 3);
    let call = FencedBatch {
        generation: store.hello().await.expect("a generation").id,
        instance: "abc".into(),
        seq: 1,
        previous: 0,
        batch,
    };
    let appended = store.append(&call).await.expect("an answer");
    assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
    let folder = Folder::new(
        store.clone(),
        clock.clone(),
        "abc".into(),
        FoldLimits::remembering(0),
        Arc::default(),
    );
    folder.fold().await.expect("it is folded");
    let heartbeat = Heartbeat {
        instance: "abc".into(),
        name: None,
        at: NOW,
        every: 1,
        in_flight: 7,
        dropped: 0,
        version: None,
        skew: None,
        cleaning: None,
    };
    store
        .heartbeat(&heartbeat)
        .await
        .expect("the heartbeat is stored");

    let target = Some(Duration::from_millis(100));
    let source = source_with(query_of(store, clock, target, CannedProcess(health())));
    manual_clock.advance(Duration::from_secs(2));
    let router = router(source, Access::open()).expect("open");
    let overview = json(&router, "/api/overview").await;
    assert_eq!(overview["hour"]["requests"], 40);
    assert_eq!(overview["hour"]["errors"], 10);
    assert_eq!(overview["requests_per_second"], 40.0);
    assert_eq!(overview["contexts"], 2);
    assert_eq!(
        (&overview["instances"], &overview["in_flight"]),
        (&json!(1), &json!(7))
    );

    let paths = json(&router, "/api/paths?sort=total").await;
    assert_eq!(paths["total"], 2);
    let row = &paths["paths"][0];
    assert_eq!(
        (&row["context"], &row["count"]),
        (&json!("POST /checkout"), &json!(10))
    );
    assert_eq!((&row["errors"], &row["mean"]), (&json!(10), &json!(0.5)));

    // The errors are not below the target, and would not be if they were faster.
    assert_eq!(overview["target"], 0.1);
    assert_eq!(overview["hour"]["below_target"], 0.75);
    assert_eq!(overview["last_hour"], Value::Null);
    assert_eq!(
        (&paths["target"], &row["below_target"]),
        (&json!(0.1), &json!(0.0))
    );
    assert_eq!(paths["paths"][1]["below_target"], 1.0);
    let overview = json(&router, "/api/overview?window=5m").await;
    assert_eq!(overview["window"]["below_target"], 0.75);
    assert_eq!(overview["window"]["before"]["below_target"], Value::Null);

    let path = json(&router, "/api/path?context=POST+/checkout").await;
    assert_eq!(
        (&path["outcomes"]["5xx"], &path["histogram"][0][2]),
        (&json!(10), &json!(10))
    );
    let slowest = json(&router, "/api/slowest?limit=1").await;
    assert_eq!(
        slowest["slowest"],
        json!([{
            "context": "POST /checkout", "kind": "http", "method": "POST", "path": "/checkout",
            "mean": 0.5,
        }])
    );
    for precision in [1, 5, 60, 300, 3_600, 18_000, 86_400i64] {
        let slice = NOW / precision * precision;
        let uri = format!("/api/counters?name=hits:GET+/ping&precision={precision}");
        assert_eq!(json(&router, &uri).await["samples"], json!([[slice, 30]]));
        let uri = format!("/api/series?metric=errors&precision={precision}");
        assert_eq!(json(&router, &uri).await["points"], json!([[slice, 10]]));
        let uri = format!("/api/series?metric=mean&precision={precision}");
        let mean = json(&router, &uri).await["points"][0][1].as_f64();
        assert!((mean.expect("a mean") - 0.1265).abs() < 1e-9, "{mean:?}");
    }
    let p95 = json(&router, "/api/series?metric=p95").await["points"][0][1].as_f64();
    assert!(
        (p95.expect("a percentile") / 0.5 - 1.0).abs() < 0.022,
        "{p95:?}"
    );
    let sales = json(&router, "/api/counters?name=sales").await;
    assert_eq!(sales["samples"], json!([[NOW / 60 * 60, 3]]));
}
