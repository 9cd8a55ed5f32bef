//! The timers within requests that `api/path` returns. `windows.rs` checks the counts and sums of such timers.

use serde_json::{Value, json};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::timer_sums::{MAX_TIMERS, OTHER, TimerSums};

use crate::stores::fixture::{Fixture, aggregate_of};
use crate::stores::windows::Dashboard;

/// A request of a second, of which timers of these names cover these milliseconds.
fn request(timers: &[(&str, u64)], covered: u64) -> Aggregate {
    let mut aggregate = aggregate_of(&[1_000_000_000], Outcome::Success);
    aggregate.timers.covered = covered * 1_000_000;
    for (name, millis) in timers {
        let sums = TimerSums {
            count: 3,
            requests: 1,
            sum: 3 * millis * 1_000_000,
            covered: millis * 1_000_000,
        };
        let timer = RecordId::new(Kind::Timer, name);
        aggregate.timers.add(timer, &sums);
    }
    aggregate
}

#[tokio::test]
async fn the_timers_of_an_hour_are_sorted_by_share() {
    let mut fixture = Fixture::memory();
    let dashboard = Dashboard::new(&fixture);
    let get = async |query: &str| dashboard.get(&format!("path?context={query}")).await;
    let mut batch = Batch::new(fixture.precisions.clone());
    let now = fixture.now();
    let timers = [("db", 250), ("\\<overflow>", 500), ("render", 125)];
    batch.add(&"GET /0".into(), Kind::Http, now, &request(&timers, 750));
    batch.add(&"GET /1".into(), Kind::Http, now, &request(&[], 0));
    for (name, _) in timers {
        let own = aggregate_of(&[1_000], Outcome::Completed);
        batch.add(&name.into(), Kind::Timer, now, &own);
    }
    let failed = aggregate_of(&[1_000; 3], Outcome::Failed);
    batch.add(&"db".into(), Kind::Timer, now, &failed);
    let only = request(&[("db", 750)], 750);
    batch.add(&"GET /3".into(), Kind::Http, now, &only);
    let names: Vec<_> = (0..20).map(|n| format!("unnamed {n}")).collect();
    let many: Vec<_> = names.iter().map(|name| &**name).zip(1..).collect();
    batch.add(&"GET /2".into(), Kind::Http, now, &request(&many, 5));
    // A window can have a timer of a request without the request itself, if the timer ended later than the request.
    let mut timers_only = request(&[("render", 7)], 0);
    timers_only.times = Default::default();
    batch.add(&"GET /4".into(), Kind::Http, now, &timers_only);
    fixture.merge(batch).await;
    let timers_only = get("GET+/4&window=5m").await;
    assert_eq!(timers_only["window"]["count"], 0);
    assert_eq!(timers_only["window"]["timers"][0]["count"], 3);

    let answer = get("GET+/0").await;
    let rows = answer["timers"].as_array().unwrap();
    let shares = rows.iter().map(|row| json!([row["timer"], row["share"]]));
    let expected = json!([["\\<overflow>", 0.5], ["db", 0.25], ["render", 0.125]]);
    assert_eq!(Value::from_iter(shares), expected);
    let expected = json!({
        "timer": "db", "count": 3, "per_request": 3.0, "requests": 1,
        "total": 0.75, "covered": 0.25, "share": 0.25, "overlap": 0.5,
        "seconds_per_request": 0.25, "change": null,
        "errors": null, "error_share": null, "failing": false, "repeated": false,
    });
    assert_eq!(rows[1], expected);
    assert_eq!(answer["timed_share"], 0.75);
    assert_eq!(answer["untimed_share"], 0.25);

    let none = get("GET+/1&window=5m").await;
    for answer in [&none, &none["window"]] {
        assert_eq!(answer["timers"], json!([]));
        assert_eq!(answer["timed_share"], 0.0);
        assert_eq!(answer["untimed_share"], 1.0);
    }
    // The timer `db` failed in three of four runs. `error_share` counts all runs, even outside of this path.
    let window = get("GET+/0&window=5m").await;
    let rows = window["window"]["timers"].as_array().unwrap();
    assert_eq!(rows[1]["errors"], 3);
    assert_eq!(rows[1]["error_share"], 0.75);
    assert_eq!(rows[0]["errors"], 0);
    assert_eq!(rows[0]["failing"], false);
    assert_eq!(window["window"]["run_by"], json!([]));

    let timer = get("db&kind=timer&window=5m").await;
    let path = |name: &str, seconds: f64| {
        json!({
            "context": name, "kind": "http", "method": "GET", "path": &name[4..],
            "requests": 1, "count": 3, "per_request": 3.0, "mean": seconds, "share": seconds,
            "seconds_per_request": seconds, "share_of_timer": seconds, "repeated": false,
        })
    };
    let expected = json!([path("GET /3", 0.75), path("GET /0", 0.25)]);
    assert_eq!(timer["window"]["run_by"], expected);
    let nowhere = get("db&kind=timer&from=1000&to=2000").await;
    assert_eq!(nowhere["window"]["run_by"], json!([]));
    let timer = get("db&kind=timer").await;
    assert_eq!(timer["timers"], json!([]));
    assert_eq!(timer["timed_share"], Value::Null);

    // Timers without own contexts are named by their ids, and timers beyond the maximum are added up.
    let many = get("GET+/2").await;
    let rows = many["timers"].as_array().unwrap();
    assert_eq!(rows.len(), MAX_TIMERS + 1);
    let others = rows.iter().find(|row| row["timer"] == OTHER).unwrap();
    assert_eq!(others["count"], 12);
    assert_eq!(others["total"], 0.03);
    assert_eq!(others["covered"], 0.005, "more than all timers together");
    let id = format!("<{}>", RecordId::new(Kind::Timer, "unnamed 19"));
    assert!(rows.iter().any(|row| row["timer"] == *id), "{many}");
}
