//! `api/instances`: the figures of each instance, compared with the other instances.

use std::time::Duration;

use serde_json::{Value, json};

use crate::changes::api::{change, write};
use crate::changes::fleet::{Backend, Fleet, MINUTE, START};
use crate::changes::traffic::{Request, requests};

const FAST: &str = "GET /fast";
const SLOW: &str = "GET /slow";

/// The requests of a minute: two instances have different mixes of pages, and the third is three times as slow.
fn minute() -> Vec<Request> {
    let mut minute = [
        requests(0, FAST, 60, 10),
        requests(0, SLOW, 20, 500),
        requests(1, FAST, 20, 10),
        requests(1, SLOW, 60, 500),
        requests(2, FAST, 40, 30),
        requests(2, SLOW, 40, 1_500),
    ]
    .concat();
    minute.last_mut().unwrap().status = 500;
    minute
}

fn column(answer: &Value, name: &str) -> Vec<Value> {
    let rows = answer["instances"].as_array().unwrap();
    rows.iter().map(|row| row[name].clone()).collect()
}

fn assert_near(values: &[Value], expected: &[f64]) {
    let values: Vec<f64> = values.iter().map(|value| value.as_f64().unwrap()).collect();
    let is_near = |(value, expected): (&f64, &f64)| (value / expected - 1.0).abs() < 1e-6;
    let are_near = values.iter().zip(expected).all(is_near) && values.len() == expected.len();
    assert!(are_near, "{values:?}, not {expected:?}");
}

/// Advances the clocks, so that no answer is reused.
fn pass_a_second(fleet: &Fleet) {
    for instance in &fleet.instances {
        instance.time.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn instances_are_compared_on_the_same_pages() {
    let versions = [Some("1.4.1"), Some("1.4.1"), Some("1.4.2")];
    let mut fleet = Fleet::with_versions(Backend::memory(), &versions);
    fleet.heartbeat().await;
    for minutes in 0..3 {
        // CPU and delay rise from minute to minute.
        for (instance, cpu) in fleet.instances.iter().zip([0.2, 0.4, 0.6]) {
            let delay = Duration::from_millis(1 + minutes);
            let simulation = instance.pulse.simulation();
            simulation.machine(fleet.now, cpu + 0.1 * minutes as f64, delay);
        }
        fleet.pass(&minute()).await;
    }
    fleet.heartbeat().await;
    let end = START + 3 * MINUTE;
    let all = fleet.instances[1].json("api/instances?window=5m").await;
    assert_eq!((&all["total"], &all["context"]), (&3.into(), &Value::Null));
    assert_eq!((&all["from"], &all["to"]), (&json!(end - 300), &json!(end)));
    assert_near(&[all["complete"].clone()], &[0.6]);
    assert_eq!(column(&all, "instance"), ["web-1", "web-2", "web-3"]);
    assert_eq!(column(&all, "version"), versions.map(|v| json!(v)));
    assert_eq!(column(&all, "alive"), [true; 3]);
    assert_eq!(column(&all, "in_flight"), [0; 3]);
    assert_eq!(column(&all, "last_seen"), [end; 3]);
    assert_near(&column(&all, "cpu"), &[0.3, 0.5, 0.7]);
    assert_near(&column(&all, "delay"), &[0.002; 3]);
    assert_near(&column(&all, "worst_delay"), &[0.003; 3]);
    assert_eq!(column(&all, "count"), [240; 3]);
    assert_eq!(column(&all, "errors"), [0, 0, 3]);
    let totals = [31.8, 90.6, 183.6];
    assert_near(&column(&all, "total"), &totals);
    assert_near(&column(&all, "share"), &totals.map(|total| total / 306.0));
    assert_near(&column(&all, "max"), &[0.5, 0.5, 1.5]);
    // An instance is compared with the instances that are not slow.
    assert_near(&column(&all, "ratio"), &[1.0, 1.0, 3.0]);
    assert_eq!(column(&all, "out_of_line"), [false; 3]);

    let slow = "api/instances?window=5m&context=GET%20/slow";
    let of_slow = fleet.instances[0].json(slow).await;
    assert_eq!(column(&of_slow, "count"), [60, 180, 120]);
    assert_eq!(column(&of_slow, "cpu"), column(&all, "cpu"));
    assert_near(&column(&of_slow, "mean"), &[0.5, 0.5, 1.5]);
    assert_near(&column(&of_slow, "ratio"), &[1.0, 1.0, 3.0]);
    let unknown = "api/instances?context=unknown";
    let unknown = fleet.instances[0].json(unknown).await;
    assert_eq!(column(&unknown, "count"), [0; 3]);
    assert!(column(&unknown, "ratio").iter().all(Value::is_null));
    let page = "api/instances?limit=1&offset=1";
    let page = fleet.instances[0].json(page).await;
    assert_eq!(column(&page, "instance"), ["web-2"]);
    assert_eq!(page["total"], 3);

    let reader = &fleet.instances[0];
    let of = |name: &str| format!("api/instance?window=5m&limit=2&instance={name}");
    let slowest = reader.json(&of("web-3")).await;
    assert_eq!(slowest["verdict"]["slower"], "all");
    // Both paths are slower. The path on which the instance loses more time comes first.
    for (path, context, mean) in [(0, SLOW, 0.5), (1, FAST, 0.01)] {
        let path = &slowest["paths"][path];
        let figures = ["/context", "/slower", "/others/count", "/others/errors"];
        let figures = figures.map(|name| path.pointer(name).unwrap().clone());
        assert_eq!(json!(figures), json!([context, true, 240, 0]));
        let figures = [path["ratio"].clone(), path["others"]["mean"].clone()];
        assert_near(&figures, &[3.0, mean]);
    }
    // `others_mean` is the mean that the requests of a minute would have had on the other instances.
    let (second, first) = (&slowest["points"][0][0], &slowest["points"][0][1]);
    assert_eq!(json!([second, first["count"]]), json!([START, 80]));
    assert_near(&[first["others_mean"].clone()], &[(0.01 + 0.5) / 2.0]);
    let one_path = of("web-1").replace("limit=2", "limit=1");
    let fastest = reader.json(&one_path).await;
    assert_eq!(fastest["verdict"]["slower"], "none");
    let listed = fastest["paths"].as_array().unwrap().len();
    assert_eq!(json!([listed, fastest["reported_paths"]]), json!([1, 2]));
    for (name, status) in [("unknown", 404), ("", 400)] {
        assert_eq!(reader.get(&of(name)).await.0, status);
    }

    // `out_of_line` of a page ignores changes of other pages.
    let changes = [("a", FAST, None), ("b", SLOW, Some(end))];
    let changes = changes.map(|(id, context, ended)| change(id, "instance", context, (9.0, ended)));
    write(&fleet, changes.to_vec()).await;
    pass_a_second(&fleet);
    let of_slow = fleet.instances[0].json(slow).await;
    assert_eq!(column(&of_slow, "out_of_line"), [false; 3]);
    let all = fleet.instances[0].json("api/instances").await;
    assert_eq!(column(&all, "out_of_line"), [true, false, false]);
    assert_eq!(json!(column(&all, "change")), json!(["a", null, null]));

    fleet.now += 2 * MINUTE;
    fleet.set_clocks(fleet.now);
    pass_a_second(&fleet);
    fleet.instances.truncate(2);
    fleet.heartbeat().await;
    let all = fleet.instances[0].json("api/instances?window=15m").await;
    assert_eq!(column(&all, "alive"), [true, true, false]);
    assert_eq!(json!(column(&all, "in_flight")), json!([0, 0, null]));
    assert_eq!(column(&all, "last_seen")[2], end);
    assert_eq!(column(&all, "version"), versions.map(|v| json!(v)));
}

#[tokio::test]
async fn a_lone_instance_has_the_figures_of_the_whole_window() {
    let mut fleet = Fleet::new(Backend::memory(), 1);
    let both = [requests(0, FAST, 30, 10), requests(0, SLOW, 10, 500)];
    let simulation = fleet.instances[0].pulse.simulation();
    simulation.machine(fleet.now, 0.25, Duration::from_millis(1));
    fleet.pass(&both.concat()).await;
    fleet.heartbeat().await;
    let lone = &fleet.instances[0];
    let slow = lone.json("api/instances?context=GET%20/slow").await;
    assert_eq!(column(&slow, "count"), [10]);
    assert_near(&column(&slow, "cpu"), &[0.25]);
    let one = lone.json("api/instance?instance=web-1").await;
    assert_eq!(json!([one["alone"], one["count"]]), json!([true, 40]));
}

#[tokio::test]
async fn a_window_has_the_minutes_that_are_retained_and_have_ended() {
    let mut fleet = Fleet::new(Backend::memory(), 2);
    let both = [requests(0, FAST, 20, 10), requests(1, FAST, 20, 20)].concat();
    fleet.heartbeat().await;
    for _ in 0..2 {
        fleet.pass(&both).await;
    }
    // The third minute has not ended.
    fleet.record(fleet.now + 30, &both);
    fleet.heartbeat().await;
    let (now, past) = (fleet.now, START - 200 * MINUTE);
    let minute_from = |from: i64| format!("from={from}&to={}", from + MINUTE);
    let day = "window=24h".to_owned();
    for (span, [from, to], complete, count) in [
        (day, [now - 129 * MINUTE, now], 0.0..0.01, 40),
        (minute_from(START), [START, START + MINUTE], 1.0..1.1, 20),
        (minute_from(past), [past + MINUTE; 2], 0.0..0.01, 0),
    ] {
        let uri = format!("api/instances?{span}");
        let answer = fleet.instances[0].json(&uri).await;
        assert_eq!([&answer["from"], &answer["to"]], [from, to]);
        let share = answer["complete"].as_f64().unwrap();
        assert!(complete.contains(&share), "{answer:#}");
        assert_eq!(column(&answer, "count"), [count; 2]);
    }
}
