//! `--verdicts FILE`: one line about each minute, which uses nothing that came later.

use std::path::Path;
use std::process::{Output, Stdio};

use fastrand::Rng;
use serde_json::Value;
use tokio::process::Command;

use pulse_rig::demo::built_example;
use pulse_rig::json::is_same;
use pulse_rig::process::TempDir;
use pulse_rig::seed::seed;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::PATIENCE;

/// The first line is in the middle of a minute.
const START: i64 = 1_700_000_025;
const MINUTES: i64 = 64;
const SLOW: &str = "GET /search";
const SLOW_AT: i64 = 52;
/// Minutes without a line.
const GAP: std::ops::Range<i64> = 20..27;

fn minute_of(second: i64) -> i64 {
    second.div_euclid(60) - START.div_euclid(60)
}

/// Lines of 7 pages, sorted by time but for some that come a little late.
fn draw(rng: &mut Rng) -> Vec<(i64, String)> {
    let mut lines = Vec::new();
    for second in START..(START.div_euclid(60) + MINUTES) * 60 {
        let minute = minute_of(second);
        if GAP.contains(&minute) {
            continue;
        }
        for _ in 0..4 {
            let page = [
                "GET /", SLOW, "GET /a", "GET /b", "GET /c", "POST /d", "GET /e",
            ][rng.usize(..7)];
            let mut micros = 20_000.0 * (1.2 * (rng.f64() + rng.f64() + rng.f64() - 1.5)).exp();
            if page == SLOW && minute >= SLOW_AT {
                micros *= 3.0;
            }
            lines.push((second, format!("{second},{page},{},200\n", micros as u64)));
        }
        if rng.u8(..) < 10 && lines.len() > 40 {
            let late = lines.len() - rng.usize(2..30);
            let line = lines.remove(late);
            lines.push(line);
        }
    }
    lines
}

/// Replays lines, and returns the verdicts.
async fn verdicts(lines: &[(i64, String)], file: &Path, redis: &str) -> Vec<Value> {
    let input: String = lines.iter().map(|(_, line)| line.as_str()).collect();
    let output = run(file, redis, input.as_bytes()).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn run(file: &Path, redis: &str, input: &[u8]) -> Output {
    let file = file.to_str().unwrap();
    super::run::run(&["--verdicts", file, "-"], &[("REDIS_URL", redis)], input).await
}

#[tokio::test]
async fn each_minute_has_a_line_that_uses_nothing_of_later_minutes() {
    let dir = TempDir::new("verdicts");
    let lines = draw(&mut Rng::with_seed(seed()));
    let whole = verdicts(&lines, &dir.path().join("whole"), "").await;
    assert_eq!(whole.len(), usize::try_from(MINUTES).unwrap());
    for (minute, line) in (0..).zip(&whole) {
        assert_eq!(line["minute"], minute);
        let fields: Vec<_> = line
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(fields, ["failing", "faster", "minute", "slower", "surges"]);
        for kind in ["failing", "faster", "surges"] {
            assert_eq!(line[kind], serde_json::json!([]), "{line}");
        }
        let slower = line["slower"].as_array().unwrap();
        if minute < SLOW_AT {
            assert!(slower.is_empty(), "{line}");
        }
        if minute >= SLOW_AT + 5 {
            assert_eq!(slower.len(), 1, "{line}");
        }
        for slower in slower {
            assert_eq!(slower["context"], SLOW, "{line}");
            let since = slower["since"].as_i64().unwrap();
            assert!((since - SLOW_AT).abs() <= 2, "{line}");
            let ratio = slower["ratio"].as_f64().unwrap();
            assert!((2.2..=4.0).contains(&ratio), "{line}");
        }
    }

    // What is known at the end of a minute does not depend on what comes later.
    for minutes in [1, 23, SLOW_AT + 3, SLOW_AT + 7] {
        let until = lines
            .iter()
            .position(|(second, _)| minute_of(*second) >= minutes);
        let known = verdicts(&lines[..until.unwrap()], &dir.path().join("part"), "").await;
        // The last line may be about the last minute before a gap.
        assert!(!known.is_empty() && known.len() <= usize::try_from(minutes).unwrap());
        assert_eq!(known, whole[..known.len()], "{minutes} minutes");
    }

    let server = RedisServer::start().await;
    let in_redis = verdicts(&lines, &dir.path().join("redis"), &server.url()).await;
    assert_eq!(in_redis.len(), whole.len());
    for (redis, memory) in in_redis.iter().zip(&whole) {
        assert!(is_same(redis, memory), "{redis}\ninstead of\n{memory}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_created_is_refused_before_anything_is_read() {
    let mut command = Command::new(built_example("replay"));
    command.args(["--verdicts", "/no/such/directory/verdicts", "-"]);
    command.env("REDIS_URL", "").stderr(Stdio::piped());
    // Nothing is written, and the end of the input does not come.
    let mut child = command
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = ended.expect("it waits for input").unwrap();
    drop(input);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/no/such/directory/verdicts"), "{said}");
}

#[tokio::test]
async fn a_log_without_a_line_has_no_verdicts() {
    let dir = TempDir::new("verdicts");
    let file = dir.path().join("earlier");
    let earlier = br#"{"failing":[],"faster":[],"minute":0,"slower":[],"surges":[]}"#;
    std::fs::write(&file, earlier).unwrap();
    // Nothing is written before the log is known to be one.
    assert!(!run(&file, "", b"no line\n").await.status.success());
    assert_eq!(std::fs::read(&file).unwrap(), earlier);
    assert!(run(&file, "", b"").await.status.success());
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}

#[tokio::test]
async fn a_file_that_holds_something_else_is_left_as_it_is() {
    let dir = TempDir::new("verdicts");
    let log = dir.path().join("access.log");
    let line = "1700000000,GET /,5,200\n";
    std::fs::write(&log, line).unwrap();
    let output = run(&log, "", line.as_bytes()).await;
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holds no verdicts"), "{said}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), line);
}
