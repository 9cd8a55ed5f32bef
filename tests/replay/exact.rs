//! The admin API shows the requests of a log exactly, second by second, in memory and in Redis.

use std::time::Duration;

use serde_json::Value;

use super::model::{ALL, Counts, Model, generated};
use crate::rig::demo::{Demo, built_example};
use crate::rig::http::Client;
use crate::rig::process::TempDir;
use crate::rig::seed;
use crate::rig::server::RedisServer;

/// 2023-11-14 22:13:20 UTC. The log is in the past, to test that the store uses the log's time, not the system's.
const START: i64 = 1_700_000_000;

/// The number of slices that are stored at each precision.
const SLICES: i64 = 120;

pub async fn serve(log: &str, redis_url: &str) -> (Demo, Client) {
    let dir = TempDir::new("log");
    let file = dir.path().join("access.log");
    std::fs::write(&file, log).unwrap();
    let args = ["--serve", file.to_str().unwrap()];
    // The limit is high, because the example first reads the whole log, in a debug build and beside other tests.
    let (patience, env) = (Duration::from_secs(300), [("REDIS_URL", redis_url)]);
    let replay = Demo::start_within(patience, built_example("replay"), &args, &env).await;
    let client = Client::connect(replay.address()).await;
    (replay, client)
}

/// The path of a question to the API, with `name` as the value of `parameter`.
fn query(endpoint: &str, parameter: &str, name: &str) -> String {
    let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/admin/pulse/api/{endpoint}?{parameter}={escaped}")
}

/// Seconds by which the clock of the running service may be ahead of its answers, on a busy machine.
const CLOCK_AHEAD: i64 = 60;

/// The start of the newest slice that may have been removed, because the service's clock has advanced since the last
/// line. Older slices may remain until the cleaner removes them.
fn cutoff(answer: &Value, model: &Model, width: i64, slices: i64) -> i64 {
    let now = answer["as_of"].as_i64().unwrap().max(model.last) + CLOCK_AHEAD;
    now.div_euclid(width) * width - width * slices
}

async fn counters_equal_the_model(client: &mut Client, model: &Model) {
    let names: Vec<&str> = model.contexts().chain([ALL]).collect();
    for context in names {
        type Metric = (&'static str, fn(&Counts) -> i64);
        let metrics: [Metric; 3] = [
            ("hits", |counts| counts.hits),
            ("errors", |counts| counts.errors),
            ("micros", |counts| counts.micros),
        ];
        for (metric, value) in metrics {
            let name = match (context, metric) {
                (ALL, "hits" | "errors") => metric.to_owned(),
                _ => format!("{metric}:{context}"),
            };
            for precision in [1, 5, 60, 300, 3_600, 18_000, 86_400] {
                let path = query("counters", "name", &name) + &format!("&precision={precision}");
                let answer = client.json(&path).await;
                let cutoff = cutoff(&answer, model, precision, SLICES);
                let samples = answer["samples"].clone();
                let mut found: Vec<(i64, i64)> = serde_json::from_value(samples).unwrap();
                found.retain(|(slice, _)| *slice > cutoff);
                let slices = model.slices(context, precision).into_iter();
                let slices = slices.filter(|(slice, _)| *slice > cutoff);
                let expected = slices.map(|(slice, counts)| (slice, value(&counts)));
                let expected: Vec<_> = expected.filter(|(_, n)| *n != 0).collect();
                assert_eq!(found, expected, "{name} at {precision} s, after {cutoff}");
            }
        }
    }
}

/// Checks that exactly the slices with lines have a median, in each tier: minutes, half hours and six hours.
async fn records_are_where_the_model_has_lines(client: &mut Client, model: &Model) {
    for (width, slices) in [(60, 130), (1_800, 98), (21_600, 60)] {
        let path = query("series", "context", "GET /") + "&metric=p50";
        let answer = client.json(&format!("{path}&precision={width}")).await;
        let points = answer["points"].as_array().unwrap().iter();
        let cutoff = cutoff(&answer, model, width, slices);
        let is_retained = |slice: &i64| *slice > cutoff;
        let found = points.map(|point| point[0].as_i64().unwrap());
        let found: Vec<i64> = found.filter(is_retained).collect();
        let expected = model.slices("GET /", width).into_keys();
        let expected: Vec<i64> = expected.filter(is_retained).collect();
        assert_eq!(found, expected, "{width} s");
    }
}

/// The share of an hour's requests by which the profile may differ from the log. Numbers are rounded, and lines that
/// are read after their hour was added to the profile are missing. Five missing minutes would be 8 %.
const PROFILE_TOLERANCE: f64 = 0.01;

/// Checks that the profile of the week has all requests of the log's whole hours.
async fn profiles_have_whole_hours(client: &mut Client, model: &Model) {
    let profile = client.json("/admin/pulse/api/profile").await;
    let until = profile["until"].as_i64().unwrap();
    let mut hours = 0;
    for (start, counts) in model.slices(ALL, 3_600) {
        if start < START || start >= until {
            continue;
        }
        // The epoch began on a Thursday, and a week begins on Monday.
        let hour = (start / 3_600 + 3 * 24) % (7 * 24);
        let mut hours_of_week = profile["hours"].as_array().unwrap().iter();
        let listed = hours_of_week.find(|listed| listed["hour"] == hour).unwrap();
        let value = |name: &str| listed[name].as_f64().unwrap();
        // `requests` is scaled up to a whole hour. `weight` is the recorded part of the hour.
        let requests = value("requests") * value("weight");
        let missing = counts.hits as f64 - requests;
        let most = PROFILE_TOLERANCE * counts.hits as f64;
        assert!(missing.abs() <= most, "{start}: {counts:?}, {profile}");
        hours += 1;
    }
    assert!(hours >= 4, "{profile}");
}

#[tokio::test]
async fn in_memory_a_log_is_shown_exactly() {
    let model = generated(START, 7, 15_000, seed::seed());
    let (replay, mut client) = serve(&model.text, "").await;
    counters_equal_the_model(&mut client, &model).await;
    records_are_where_the_model_has_lines(&mut client, &model).await;
    profiles_have_whole_hours(&mut client, &model).await;
    let health = client.json("/admin/pulse/api/health").await;
    assert_eq!(health["recording"]["recorded"], model.readable);
    for pointer in [
        "/recording/dropped",
        "/recording/overflowed",
        "/recording/pending_series",
        "/flush/lost",
        "/fold/late",
        "/fold/skewed",
        "/fold/quarantined",
    ] {
        assert_eq!(health.pointer(pointer).unwrap(), 0, "{pointer}");
    }
    assert_eq!(health["warnings"], serde_json::json!([]));
    let output = replay.stdout();
    for line in [
        format!("{} lines of 5 contexts", model.readable),
        format!("{} lines could not be read", model.unreadable),
    ] {
        assert!(output.contains(&line), "{output}");
    }

    // After the last line, the clock runs in real time.
    let as_of = async |client: &mut Client| {
        let overview = client.json("/admin/pulse/api/overview").await;
        overview["as_of"].as_i64().unwrap()
    };
    let first = as_of(&mut client).await;
    assert!((model.last..model.last + 60).contains(&first), "{first}");
    let runs = async || as_of(&mut client).await >= first + 2;
    crate::rig::wait::until("the clock runs", runs).await;
    replay.signal("TERM");
    let status = replay.wait_exit(Duration::from_secs(5)).await;
    assert!(status.is_some_and(|status| status.success()));
}

/// The log covers three weeks. Most of its minutes are no longer stored.
#[tokio::test]
async fn in_redis_the_retained_part_of_a_long_log_is_shown_exactly() {
    let model = generated(START, 21 * 24, 8_000, seed::seed());
    let redis = RedisServer::start().await;
    let (_replay, mut client) = serve(&model.text, &redis.url()).await;
    counters_equal_the_model(&mut client, &model).await;
    records_are_where_the_model_has_lines(&mut client, &model).await;
}
