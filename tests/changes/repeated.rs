//! A path that runs one timer many times a request.

use crate::fleet::Backend;
use crate::incidents::{Incident, ORDER, REPEATED, REPEATS};

async fn a_repeated_timer_is_marked(backend: Backend) {
    let (fleet, _) = Incident::Queue.happen(backend).await;
    let instance = &fleet.instances[3];
    let expected = serde_json::json!({
        "timer": REPEATED, "path": ORDER, "per_request": REPEATS as f64,
    });
    for (kind, name) in [("http", ORDER), ("timer", REPEATED)] {
        let paths = instance
            .json(&format!("api/paths?window=15m&kind={kind}"))
            .await;
        let rows = paths["paths"].as_array().unwrap();
        let repeated = rows.iter().filter(|row| !row["repeated"].is_null());
        let repeated: Vec<_> = repeated.collect();
        let [row] = &repeated[..] else {
            panic!("not one row: {repeated:#?}");
        };
        assert_eq!(row["context"], name);
        assert_eq!(row["repeated"], expected);
    }
    let order = ORDER.replace(' ', "%20").replace('/', "%2F");
    let path = instance
        .json(&format!("api/path?window=15m&context={order}"))
        .await;
    let timers = path["window"]["timers"].as_array().unwrap();
    let marked = timers.iter().filter(|timer| timer["repeated"] == true);
    let marked: Vec<_> = marked.map(|timer| &timer["timer"]).collect();
    assert_eq!(marked, [REPEATED]);
    let timer = instance
        .json(&format!(
            "api/path?window=15m&kind=timer&context={REPEATED}"
        ))
        .await;
    assert_eq!(timer["window"]["run_by"][0]["repeated"], true);
}

in_both!(a_repeated_timer_is_marked);
