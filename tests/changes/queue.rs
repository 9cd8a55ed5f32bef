//! The queue in front of the service: when requests wait longer, that is one change, and no page is slower.

use serde_json::Value;
use tower_pulse::{ChangeKind, Suspect};
use tower_pulse_model::context::QUEUED;

use crate::fleet::Backend;
use crate::incidents::{Incident, ORDER};

async fn a_longer_wait_is_named(backend: Backend) {
    let (fleet, began) = Incident::Queue.happen(backend).await;
    let changes = fleet.changes().await;
    let [change] = &changes[..] else {
        panic!("not one change: {changes:#?}");
    };
    assert_eq!(change.kind, ChangeKind::Slower);
    assert_eq!(&*change.context, QUEUED);
    assert!(change.since.abs_diff(began) <= 60, "{change:?}");
    assert!((6.0..10.0).contains(&change.ratio), "{change:?}");
    assert!(
        matches!(&change.suspects[..], [Suspect::Timer { timer, share: 1.0, now, .. }] if **timer == *"queue" && *now > 0.02),
        "{change:?}"
    );
    let sentence = change.to_string();
    assert!(
        sentence.starts_with("requests wait longer in front of the service: "),
        "{sentence}"
    );

    let instance = &fleet.instances[3];
    let order = ORDER.replace(' ', "%20").replace('/', "%2F");
    let path = instance
        .json(&format!("api/path?window=5m&context={order}"))
        .await;
    let queue = &path["window"]["queue"];
    let mean = queue["mean"].as_f64().unwrap();
    assert!((0.03..0.04).contains(&mean), "{queue}");
    assert_eq!(queue["requests"], path["window"]["count"]);
    let timers = path["window"]["timers"].as_array().unwrap();
    assert!(timers.iter().all(|timer| timer["timer"] != "queue"));
    assert_eq!(path["changes"], Value::Array(Vec::new()));

    // The timer has the change, as any suspect.
    let timer = instance
        .json("api/path?window=5m&kind=timer&context=queue")
        .await;
    assert_eq!(timer["changes"][0]["context"], QUEUED);
    assert_eq!(timer["window"]["run_by"][0]["context"], ORDER);
    let fix_first = instance.json("api/fix_first?window=15m").await;
    let rows = fix_first["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["context"] != QUEUED), "{rows:?}");
    let status = instance.json("api/health?part=status").await;
    assert_eq!(status["recording"]["queue_ignored"], 0);
}

in_both!(a_longer_wait_is_named);
