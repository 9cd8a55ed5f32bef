//! `api/instances`: what each instance did, and how it compares with the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{change, write};
use crate::fleet::{Backend, Fleet, MINUTE, START};
use crate::traffic::Request;

const FAST: &str = "GET /fast";
const SLOW: &str = "GET /slow";

/// Requests of an instance, of so many milliseconds each.
fn requests(instance: usize, context: &str, count: usize, millis: u64) -> Vec<Request> {
    let request = Request {
        instance,
        context: context.into(),
        duration: Duration::from_millis(millis),
        status: 200,
    };
    vec![request; count]
}

/// A minute of three instances: two with different mixes of pages, and one that is three times as slow.
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
    let all = values.iter().zip(expected).all(is_near) && values.len() == expected.len();
    assert!(all, "{values:?}, not {expected:?}");
}

/// Lets answers get too old to be served again.
fn pass_a_second(fleet: &Fleet) {
    for instance in &fleet.instances {
        instance.time.advance(Duration::from_secs(1));
    }
}

async fn instances_are_compared_like_with_like(backend: Backend) {
    let versions = [Some("1.4.1"), Some("1.4.1"), Some("1.4.2")];
    let mut fleet = Fleet::with_versions(backend, &versions);
    // So that the first one knows that it is not alone.
    fleet.heartbeat().await;
    for _ in 0..3 {
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
    assert_eq!(column(&all, "count"), [240; 3]);
    assert_eq!(column(&all, "errors"), [0, 0, 3]);
    assert_near(&column(&all, "total"), &[31.8, 90.6, 183.6]);
    assert_near(
        &column(&all, "share"),
        &[31.8, 90.6, 183.6].map(|total| total / 306.0),
    );
    assert_near(&column(&all, "max"), &[0.5, 0.5, 1.5]);
    // By the means of the others: 23.3 and 900 ms for the first, 18 and 1,166.7 ms for the second.
    assert_near(&column(&all, "ratio"), &[10.6 / 19.4, 30.2 / 70.36, 3.0]);
    assert_eq!(column(&all, "out_of_line"), [false; 3]);

    let slow = "api/instances?window=5m&context=GET%20/slow";
    let of_slow = fleet.instances[0].json(slow).await;
    assert_eq!(column(&of_slow, "count"), [60, 180, 120]);
    assert_near(&column(&of_slow, "mean"), &[0.5, 0.5, 1.5]);
    assert_near(
        &column(&of_slow, "ratio"),
        &[5.0 / 9.0, 0.5 / (7.0 / 6.0), 3.0],
    );
    let nobody = fleet.instances[0]
        .json("api/instances?context=nobody")
        .await;
    assert_eq!(column(&nobody, "count"), [0; 3]);
    assert_eq!(
        column(&nobody, "ratio"),
        [Value::Null, Value::Null, Value::Null]
    );
    let page = fleet.instances[0]
        .json("api/instances?limit=1&offset=1")
        .await;
    assert_eq!(column(&page, "instance"), ["web-2"]);
    assert_eq!(page["total"], 3);

    // A change of another page says nothing about this one.
    let changes = [("a", FAST, None), ("b", SLOW, Some(end))];
    let changes = changes.map(|(id, context, ended)| change(id, "instance", context, (9.0, ended)));
    write(&fleet, changes.to_vec()).await;
    pass_a_second(&fleet);
    let of_slow = fleet.instances[0].json(slow).await;
    assert_eq!(column(&of_slow, "out_of_line"), [false; 3]);
    let all = fleet.instances[0].json("api/instances").await;
    assert_eq!(column(&all, "out_of_line"), [true, false, false]);
    assert_eq!(
        column(&all, "change"),
        [json!("a"), Value::Null, Value::Null]
    );

    // The last one ends, and the others go on.
    fleet.now += 2 * MINUTE;
    fleet.set_clocks(fleet.now);
    pass_a_second(&fleet);
    fleet.instances.truncate(2);
    fleet.heartbeat().await;
    let all = fleet.instances[0].json("api/instances?window=15m").await;
    assert_eq!(column(&all, "alive"), [true, true, false]);
    assert_eq!(column(&all, "in_flight"), [json!(0), json!(0), Value::Null]);
    assert_eq!(column(&all, "last_seen")[2], end);
    assert_eq!(column(&all, "version"), versions.map(|v| json!(v)));
}

/// The requests of a minute of three instances, of which the last takes `times` as long on some pages.
fn minute_with_a_slow_one(times: impl Fn(&str) -> u64) -> Vec<Request> {
    let mut minute = Vec::new();
    for instance in 0..3 {
        for (context, millis) in [(FAST, 10), (SLOW, 500), ("GET /other", 100)] {
            let times = if instance == 2 { times(context) } else { 1 };
            // Not all of them alike.
            for part in [80, 100, 120] {
                let millis = millis * part * times / 100;
                minute.extend(requests(instance, context, 20, millis));
            }
        }
    }
    // Pages that only one of them has, or that have hardly a request.
    minute.extend(requests(2, "GET /own", 20, 10));
    minute.extend((0..3).flat_map(|instance| requests(instance, "GET /rare", 1, 10)));
    minute
}

fn paths(answer: &Value, name: &str) -> Vec<Value> {
    let rows = answer["paths"].as_array().unwrap();
    rows.iter().map(|row| row[name].clone()).collect()
}

async fn one_instance_is_compared_with_the_others(backend: Backend) {
    let mut fleet = Fleet::with_versions(backend, &[Some("1"), Some("1"), Some("2")]);
    fleet.heartbeat().await;
    fleet.pass(&minute_with_a_slow_one(|_| 3)).await;
    let mut second = minute_with_a_slow_one(|_| 3);
    // In the second minute a page fails on the last instance, and nowhere else.
    let fails = |request: &&mut Request| request.instance == 2 && *request.context == *FAST;
    let failing = second.iter_mut().filter(fails).take(30);
    failing.for_each(|request| request.status = 502);
    fleet.pass(&second).await;
    fleet.heartbeat().await;
    let (reader, end) = (&fleet.instances[0], START + 2 * MINUTE);
    let slow = reader.json("api/instance?instance=web-3&window=5m").await;
    let bounds = ["from", "to", "first_minute", "last_minute", "last_seen"];
    let expected = [end - 300, end, START, end, end];
    assert_eq!(bounds.map(|name| slow[name].clone()), expected);
    assert_eq!(slow["instance"], json!("web-3"));
    assert_eq!(slow["version"], json!("2"));
    assert_eq!(slow["alive"], json!(true));
    assert_eq!(slow["alone"], json!(false));
    assert_eq!(slow["others"], json!(2));
    assert_eq!(slow["count"], 2 * (180 + 21));
    let verdict = json!({
        "compared": 3, "slower": "all", "slower_paths": 3, "failing": "some", "failing_paths": 1,
    });
    assert_eq!(slow["verdict"], verdict);
    // Those that are out of line, by the time that they take beyond the others'; then those that cannot be compared.
    let order = [SLOW, "GET /other", FAST, "GET /own", "GET /rare"];
    assert_eq!(paths(&slow, "context"), order);
    assert_eq!(slow["reported_paths"], 5);
    assert_near(&[slow["total"].clone()], &[220.02]);
    assert_eq!(paths(&slow, "slower"), [true, true, true, false, false]);
    assert_eq!(paths(&slow, "failing"), [false, false, true, false, false]);
    assert_near(&paths(&slow, "ratio")[..3], &[3.0; 3]);
    assert_eq!(paths(&slow, "ratio")[3..], [Value::Null, Value::Null]);
    assert_near(&paths(&slow, "mean")[..3], &[1.5, 0.3, 0.03]);
    assert_near(&[slow["paths"][2]["error_share"].clone()], &[0.25]);
    let others = |name| {
        paths(&slow, "others")[..3]
            .iter()
            .map(|of| of[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(others("count"), [240; 3]);
    assert_near(&others("mean"), &[0.5, 0.1, 0.01]);
    assert_eq!(others("errors"), [0; 3]);
    assert_eq!(
        slow["paths"][3]["others"],
        Value::Null,
        "only it has that page"
    );
    // By the minute: the mean of the same requests on the others.
    let points = slow["points"].as_array().unwrap();
    assert_eq!(slow["precision"], 60);
    let starts: Vec<_> = points.iter().map(|point| point[0].clone()).collect();
    assert_eq!(starts, [START, START + MINUTE]);
    assert_eq!(points[0][1]["count"], json!(201));
    assert_eq!(points[0][1]["errors"], json!(0));
    assert_eq!(points[1][1]["errors"], 30);
    assert_near(&[points[0][1]["others_count"].clone()], &[181.0]);
    let same_requests = (60.0 * (0.01 + 0.5 + 0.1) + 0.01) / 181.0;
    assert_near(&[points[0][1]["others_mean"].clone()], &[same_requests]);

    let fast = reader
        .json("api/instance?instance=web-1&window=5m&limit=1")
        .await;
    assert_eq!(fast["verdict"]["slower"], json!("none"));
    assert_eq!(fast["verdict"]["failing"], json!("none"));
    assert_eq!(paths(&fast, "slower"), vec![json!(false)]);
    assert_eq!(fast["reported_paths"], json!(4));

    // Then one page alone is slow.
    for _ in 0..2 {
        let one_page = |context: &str| if context == SLOW { 3 } else { 1 };
        fleet.pass(&minute_with_a_slow_one(one_page)).await;
    }
    let since = format!("api/instance?instance=web-3&from={end}");
    let one = fleet.instances[1].json(&since).await;
    assert_eq!(one["verdict"]["slower"], json!("some"));
    assert_eq!(one["verdict"]["slower_paths"], json!(1));
    assert_eq!(one["paths"][0]["context"], SLOW);
    assert_eq!(paths(&one, "slower")[..2], [true, false]);

    let unknown = fleet.instances[0].get("api/instance?instance=web-9").await;
    assert_eq!(unknown.0.as_u16(), 404, "{}", unknown.1);
    let nameless = fleet.instances[0].get("api/instance").await;
    assert_eq!(nameless.0.as_u16(), 400, "{}", nameless.1);
}

async fn a_lone_instance_is_answered_with_the_window(backend: Backend) {
    let mut fleet = Fleet::new(backend, 1);
    fleet
        .pass(&[requests(0, FAST, 30, 10), requests(0, SLOW, 10, 500)].concat())
        .await;
    fleet.heartbeat().await;
    let lone = &fleet.instances[0];
    let all = lone.json("api/instances?window=15m").await;
    assert_eq!(column(&all, "instance"), ["web-1"]);
    assert_eq!(column(&all, "count"), [40]);
    assert_near(&column(&all, "total"), &[5.3]);
    assert_near(&column(&all, "share"), &[1.0]);
    assert_eq!(column(&all, "ratio"), [Value::Null]);
    let slow = lone
        .json("api/instances?window=15m&context=GET%20/slow")
        .await;
    assert_eq!(column(&slow, "count"), [10]);
    let one = lone.json("api/instance?instance=web-1&window=15m").await;
    assert_eq!((&one["alone"], &one["count"]), (&json!(true), &json!(40)));
    assert_eq!((&one["paths"], &one["points"]), (&json!([]), &json!([])));
    let window = lone.json("api/path?window=15m&context=GET%20/slow").await;
    for bound in ["from", "to", "complete"] {
        assert_eq!(slow[bound], window["window"][bound]);
    }
}

async fn a_window_has_the_minutes_that_are_retained_and_have_ended(backend: Backend) {
    let mut fleet = Fleet::new(backend, 2);
    let both = [requests(0, FAST, 20, 10), requests(1, FAST, 20, 20)].concat();
    fleet.heartbeat().await;
    for _ in 0..2 {
        fleet.pass(&both).await;
    }
    // Half a minute into a third one.
    fleet.record(fleet.now + 30, &both);
    fleet.heartbeat().await;
    let instance = &fleet.instances[0];
    let day = instance.json("api/instances?window=24h").await;
    let now = fleet.now;
    assert_eq!(day["from"], json!(now - 129 * MINUTE));
    assert_eq!(day["to"], json!(now));
    assert!(day["complete"].as_f64() < Some(0.01), "{day:#}");
    assert_eq!(column(&day, "count"), [40, 40]);
    assert_near(&column(&day, "ratio"), &[0.5, 2.0]);
    let first = format!("api/instances?from={START}&to={}", START + MINUTE);
    let first = instance.json(&first).await;
    assert_eq!(first["from"], json!(START));
    assert_eq!(first["to"], json!(START + MINUTE));
    assert_eq!(first["complete"], 1.0);
    assert_eq!(column(&first, "count"), [20, 20]);
    let past = START - 200 * MINUTE;
    let past = instance
        .json(&format!("api/instances?from={past}&to={}", past + 60))
        .await;
    assert_eq!(past["complete"], json!(0.0));
    assert_eq!(column(&past, "count"), vec![json!(0); 2]);
}

in_both!(
    instances_are_compared_like_with_like,
    one_instance_is_compared_with_the_others,
    a_lone_instance_is_answered_with_the_window,
    a_window_has_the_minutes_that_are_retained_and_have_ended
);
