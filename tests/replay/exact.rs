//! What the admin API shows of a log is what is in it, second by second, in memory and in Redis.

use std::time::Duration;

use serde_json::Value;

use super::model::{ALL, Counts, Model, generated};
use pulse_rig::demo::{Demo, built_example};
use pulse_rig::http::Client;
use pulse_rig::process::TempDir;
use pulse_rig::seed;
use pulse_rig::server::RedisServer;

/// 2023-11-14, eleven minutes after an hour. Not the hours of today: the store must have the log's time.
const START: i64 = 1_700_000_000;

/// Slices that are stored of each precision.
const SAMPLES: i64 = 120;

async fn serve(model: &Model, env: &[(&str, &str)]) -> (Demo, Client) {
    let dir = TempDir::new("log");
    let file = dir.path().join("requests.csv");
    std::fs::write(&file, &model.text).unwrap();
    let args = ["--serve", file.to_str().unwrap()];
    // It reads the whole log first, in a debug build and maybe beside much else.
    let patience = Duration::from_secs(300);
    let replay = Demo::start_within(patience, built_example("replay"), &args, env).await;
    let client = Client::connect(replay.address()).await;
    (replay, client)
}

fn points(answer: &Value, name: &str) -> Vec<(i64, i64)> {
    let points = answer[name].as_array().unwrap().iter();
    points
        .map(|point| (point[0].as_i64().unwrap(), point[1].as_i64().unwrap()))
        .collect()
}

/// A path below the API with a name in its query.
fn query(endpoint: &str, parameter: &str, name: &str) -> String {
    let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/admin/pulse/api/{endpoint}?{parameter}={escaped}")
}

/// Seconds by which the clock of a service that goes on may be ahead of what its answers have, on a busy machine.
const CLOCK_AHEAD: i64 = 60;

/// The start of the newest slice that need not be there any more, as the clock of the service has gone on since the last
/// line. Of older slices, some are left until the cleaner comes.
fn cutoff(answer: &Value, model: &Model, width: i64, samples: i64) -> i64 {
    let now = answer["as_of"].as_i64().unwrap().max(model.last) + CLOCK_AHEAD;
    now.div_euclid(width) * width - width * samples
}

/// The counters of a context, and of all contexts together.
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
                let cutoff = cutoff(&answer, model, precision, SAMPLES);
                let mut found = points(&answer, "samples");
                found.retain(|(slice, _)| *slice > cutoff);
                let slices = model.slices(context, precision, SAMPLES);
                let slices = slices.iter().filter(|(slice, _)| *slice > cutoff);
                let expected = slices.map(|(slice, counts)| (*slice, value(counts)));
                let expected: Vec<_> = expected.filter(|(_, n)| *n != 0).collect();
                if found != expected {
                    let again = client.json(&path).await;
                    let health = client.json("/admin/pulse/api/health").await;
                    panic!(
                        "{name} at {precision} s: {found:?}, not {expected:?}, after {cutoff}: {answer}, \
                         then {again}, health {health}"
                    );
                }
            }
        }
    }
}

/// Percentiles exist in each minute, half hour and six hours of which records are stored.
async fn records_are_where_the_model_has_lines(client: &mut Client, model: &Model) {
    for (width, samples) in [(60, 130), (1_800, 98), (21_600, 60)] {
        let path = query("series", "context", "GET /") + "&metric=p50";
        let answer = client.json(&format!("{path}&precision={width}")).await;
        let points = answer["points"].as_array().unwrap().iter();
        let cutoff = cutoff(&answer, model, width, samples);
        let is_left = |slice: &i64| *slice > cutoff;
        let found = points.map(|point| point[0].as_i64().unwrap());
        let found: Vec<i64> = found.filter(is_left).collect();
        let slices = model.slices("GET /", width, samples);
        let expected = slices.iter().map(|(slice, _)| *slice);
        let expected: Vec<i64> = expected.filter(is_left).collect();
        assert_eq!(found, expected, "{width} s");
    }
}

/// The part of an hour's requests by which its profile may be wrong: it is rounded, and seldom lines are so late that it
/// has their hour already. Five minutes of an hour are 8 %.
const OF_PROFILE: f64 = 0.01;

/// The profile of the week has all requests of each hour that lies within the log.
async fn profiles_have_whole_hours(client: &mut Client, model: &Model) {
    let profile = client.json("/admin/pulse/api/profile").await;
    let until = profile["until"].as_i64().unwrap();
    let mut hours = 0;
    for (start, counts) in model.slices(ALL, 3_600, SAMPLES) {
        if start < START || start >= until {
            continue;
        }
        // The epoch began on a Thursday, a week does on Monday.
        let hour = (start / 3_600 + 3 * 24) % (7 * 24);
        let listed = profile["hours"].as_array().unwrap().iter();
        let mut listed = listed.filter(|of_week| of_week["hour"] == hour);
        let listed = listed.next().unwrap();
        let figure = |name: &str| listed[name].as_f64().unwrap();
        // What they would be in a whole hour, by how much of it was recorded.
        let requests = figure("requests") * figure("weight");
        let missing = counts.hits as f64 - requests;
        let most = OF_PROFILE * counts.hits as f64;
        assert!(missing.abs() <= most, "{start}: {counts:?}, {profile}");
        hours += 1;
    }
    assert!(hours >= 4, "{profile}");
}

async fn is_exact(env: &[(&str, &str)]) {
    let model = generated(START, 7, 40_000, seed::seed());
    let (replay, mut client) = serve(&model, env).await;
    counters_equal_the_model(&mut client, &model).await;
    records_are_where_the_model_has_lines(&mut client, &model).await;
    profiles_have_whole_hours(&mut client, &model).await;
    let health = client.json("/admin/pulse/api/health").await;
    assert_eq!(health["recording"]["recorded"], model.lines);
    for (group, figure) in [
        ("recording", "dropped"),
        ("recording", "overflowed"),
        ("recording", "pending_series"),
        ("flush", "lost"),
        ("fold", "late"),
        ("fold", "skewed"),
        ("fold", "quarantined"),
    ] {
        assert_eq!(health[group][figure], 0, "{group}.{figure}");
    }
    assert_eq!(health["warnings"], serde_json::json!([]));
    let said = replay.stdout();
    assert!(
        said.contains(&format!("{} lines of 5 contexts", model.lines)),
        "{said}"
    );
    assert!(
        said.contains(&format!("{} lines could not be read", model.unreadable)),
        "{said}"
    );

    // From the last line on, the clock runs in real time.
    let as_of = client.json("/admin/pulse/api/overview").await["as_of"]
        .as_i64()
        .unwrap();
    assert!(
        (model.last..model.last + 60).contains(&as_of),
        "{as_of}, {}",
        model.last
    );
    pulse_rig::wait::until("the clock runs", async || {
        let overview = client.json("/admin/pulse/api/overview").await;
        overview["as_of"].as_i64().unwrap() >= as_of + 2
    })
    .await;
    replay.signal("TERM");
    let status = replay.wait_exit(std::time::Duration::from_secs(5)).await;
    assert!(
        status.is_some_and(|status| status.success()),
        "{}",
        replay.stderr()
    );
}

#[tokio::test]
async fn in_memory() {
    is_exact(&[("REDIS_URL", "")]).await;
}

#[tokio::test]
async fn in_redis() {
    let redis = RedisServer::start().await;
    is_exact(&[("REDIS_URL", &redis.url())]).await;
}

#[tokio::test]
async fn of_a_log_that_is_longer_than_what_is_stored_the_newest_part_is_exact() {
    // Three weeks, with days of which nothing is stored by the minute.
    let model = generated(START, 21 * 24, 20_000, seed::seed());
    let redis = RedisServer::start().await;
    for url in ["", &redis.url()] {
        let (_replay, mut client) = serve(&model, &[("REDIS_URL", url)]).await;
        counters_equal_the_model(&mut client, &model).await;
        records_are_where_the_model_has_lines(&mut client, &model).await;
    }
}
