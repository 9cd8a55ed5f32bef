//! A store that is away, and keys that hold what nobody has written there.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use serde_json::{Value, json};
use tower_pulse::model::changes::change::Suspect;
use tower_pulse::{ChangeKind, StoreErrorKind};

use crate::fleet::{Backend, Fleet, MINUTE, named};
use crate::rig::seed::fixed_seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::look_until;
use crate::traffic::{SEARCH, Traffic, slow_down};

const CHANGES: &str = "pulse:pulse:changes";
const MARKS: &str = "pulse:pulse:marks1";

/// No call may take longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Lets minutes pass until a page is slower, and one more.
async fn slow(fleet: &mut Fleet, traffic: &mut Traffic) {
    for _ in 0..45 {
        assert_eq!(named(&fleet.pass_and_judge(&traffic.minute()).await), []);
    }
    for _ in 0..5 {
        slow_minute(fleet, traffic).await;
    }
    assert_eq!(named(&fleet.standing().await), [("slower", SEARCH)]);
}

async fn slow_minute(fleet: &mut Fleet, traffic: &mut Traffic) {
    let mut requests = traffic.minute();
    slow_down(&mut requests, SEARCH, 3.0);
    fleet.pass(&requests).await;
    judge(fleet).await;
}

/// Judges the minute that has ended, which must not take for ever.
async fn judge(fleet: &Fleet) {
    let judging = fleet.instances[0].pulse.judge();
    let judged = tokio::time::timeout(DEADLINE, judging).await;
    assert_eq!(judged.expect("it ends").unwrap(), 1);
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
}

#[tokio::test]
async fn verdicts_go_on_after_an_outage_of_redis() {
    let server = RedisServer::builder().arg("--appendonly", "yes");
    let server = server.arg("--appendfsync", "always").start().await;
    let mut fleet = Fleet::new(Backend::Redis(server), 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    slow(&mut fleet, &mut traffic).await;
    let before = fleet.standing().await.remove(0);
    let judged_until = fleet.now;

    fleet.backend.server().kill_9();
    for minute in 1..=4 {
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.record(fleet.now + 30, &requests);
        fleet.instances[0].pulse.drain();
        fleet.now += MINUTE;
        fleet.set_clocks(fleet.now);
        let pulse = &fleet.instances[0].pulse;
        let error = pulse.judge().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        let health = pulse.health();
        let is_about_it = |warning: &String| warning.contains("changes are not detected");
        assert!(
            health.warnings.iter().any(is_about_it),
            "{:?}",
            health.warnings
        );
        assert_eq!(health.changes.judged_until, Some(judged_until));
        let blind = &health.changes.blind_spots;
        let is_late = blind.iter().any(|sentence| sentence.contains("is judged"));
        assert_eq!(is_late, minute > 2, "{blind:?}");
    }

    fleet.backend.server().restart().await;
    fleet.flush().await.unwrap();
    let pulse = &fleet.instances[0].pulse;
    // The connection of the outage is given up at the first error.
    let judged = look_until(DEADLINE, async || {
        pulse.judge().await.map_err(|e| e.to_string())
    });
    assert_eq!(judged.await, 4);
    let health = pulse.health();
    let is_about_it = |warning: &String| warning.contains("changes are not");
    assert!(
        !health.warnings.iter().any(is_about_it),
        "{:?}",
        health.warnings
    );
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    let after = fleet.standing().await;
    assert_eq!(named(&after), [("slower", SEARCH)]);
    assert_eq!((&after[0].id, after[0].since), (&before.id, before.since));
    // All minutes of the outage were judged, with their requests.
    assert!(after[0].requests > before.requests + 3 * 40, "{after:?}");
}

/// A fleet on Redis with a page that is slower, and a connection to the server.
async fn slow_fleet() -> (Fleet, Traffic, MultiplexedConnection) {
    let mut fleet = Fleet::new(Backend::redis().await, 1);
    let mut traffic = Traffic::new(fixed_seed(), 1);
    slow(&mut fleet, &mut traffic).await;
    let conn = fleet.backend.server().connection().await;
    (fleet, traffic, conn)
}

/// Sends a command that somebody might send by hand.
async fn send(conn: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command.exec_async(conn).await.unwrap();
}

async fn set_field(conn: &mut MultiplexedConnection, field: &str, value: &[u8]) {
    let mut set = cmd("HSET");
    set.arg(CHANGES).arg(field).arg(value);
    set.exec_async(conn).await.unwrap();
}

async fn field(conn: &mut MultiplexedConnection, field: &str) -> Value {
    let mut get = cmd("HGET");
    get.arg(CHANGES).arg(field);
    let text: String = get.query_async(conn).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_judgement_that_cannot_be_read_begins_anew() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    for garbage in [
        &b""[..],
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        br#"{"revision":7,"until":"now"}"#,
        br#"{"revision":"x","until":-9223372036854775808,"sight":{"contexts":1,"compared":1,"gaps":0}}"#,
        br#"{"until":1700000000}"#,
    ] {
        set_field(&mut conn, "judged", garbage).await;
        slow_minute(&mut fleet, &mut traffic).await;
        slow_minute(&mut fleet, &mut traffic).await;
    }
    send(&mut conn, &["HDEL", CHANGES, "judged"]).await;
    slow_minute(&mut fleet, &mut traffic).await;
    assert_eq!(named(&fleet.standing().await), [("slower", SEARCH)]);
}

#[tokio::test]
async fn a_judgement_of_the_far_future_counts_for_some_minutes() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let mut judged = field(&mut conn, "judged").await;
    let futures = [i64::MAX, i64::MAX - 60, fleet.now + 20 * 86_400];
    for (until, restarts) in futures.into_iter().zip([false, true, false]) {
        judged["until"] = json!(until);
        set_field(&mut conn, "judged", judged.to_string().as_bytes()).await;
        for _ in 0..3 {
            fleet.pass(&traffic.minute()).await;
            // Another instance may have judged by a clock that this one lacks.
            assert_eq!(fleet.instances[0].pulse.judge().await.unwrap(), 0);
        }
        if restarts {
            fleet.restart(0).await;
            fleet.pass(&traffic.minute()).await;
            assert_eq!(fleet.instances[0].pulse.judge().await.unwrap(), 0);
            fleet.now += 2 * MINUTE;
        }
        fleet.pass(&traffic.minute()).await;
        let minutes = if restarts { 7 } else { 4 };
        assert_eq!(fleet.instances[0].pulse.judge().await.unwrap(), minutes);
        slow_minute(&mut fleet, &mut traffic).await;
    }
}

#[tokio::test]
async fn a_revision_that_nobody_has_written_is_replaced() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    for garbage in [&b"x"[..], b"", b"\xff\xfe", "é".as_bytes()] {
        set_field(&mut conn, "revision", garbage).await;
        slow_minute(&mut fleet, &mut traffic).await;
    }
    send(&mut conn, &["HDEL", CHANGES, "revision"]).await;
    slow_minute(&mut fleet, &mut traffic).await;
    assert_eq!(named(&fleet.standing().await), [("slower", SEARCH)]);
}

#[tokio::test]
async fn a_detector_that_cannot_be_read_begins_anew() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let state = field(&mut conn, "detector").await;
    let mut states = vec![json!(null), json!([]), json!({}), json!({"alarms": 7})];
    // An alarm of a kind that only a later version knows, and fields that only it has.
    let mut newer = state.clone();
    newer["alarms"][0]["kind"] = json!("wobbling");
    states.push(newer);
    let mut newer = state.clone();
    newer["of_a_later_version"] = json!({"a": [1]});
    newer["alarms"][0]["of_a_later_version"] = json!(1);
    states.push(newer);
    // Numbers that nobody would write.
    for number in [i64::from(i32::MAX), i64::from(i32::MIN), 0] {
        let mut extreme = state.clone();
        for part in ["since", "detected"] {
            extreme["alarms"][0][part] = json!(number);
        }
        extreme["shared"][0]["tick"] = json!(number);
        extreme["judged_until"] = json!(number);
        states.push(extreme);
    }
    for state in states {
        set_field(&mut conn, "detector", state.to_string().as_bytes()).await;
        // Another instance goes on from there.
        fleet.restart(0).await;
        slow_minute(&mut fleet, &mut traffic).await;
        slow_minute(&mut fleet, &mut traffic).await;
    }
}

#[tokio::test]
async fn changes_of_a_later_version_are_passed_over() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let change = fleet.standing().await.remove(0);
    let mut other = serde_json::to_value(&change).unwrap();
    other["id"] = json!("later");
    other["kind"] = json!("wobbling");
    set_field(&mut conn, "c:later", other.to_string().as_bytes()).await;
    set_field(&mut conn, "c:broken", b"{\"id\":").await;
    set_field(&mut conn, "of a later version", b"{}").await;
    let mut known = serde_json::to_value(&change).unwrap();
    known["of_a_later_version"] = json!([1]);
    let name = format!("c:{}", change.id);
    set_field(&mut conn, &name, known.to_string().as_bytes()).await;
    fleet.restart(0).await;
    slow_minute(&mut fleet, &mut traffic).await;
    let changes = fleet.changes().await;
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(changes[0].id, change.id);
    let answer = fleet.instances[0].json("api/changes").await;
    assert_eq!(answer["total"], 1);
}

#[tokio::test]
async fn changes_of_another_type_are_an_error_that_names_the_key() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    send(&mut conn, &["SET", CHANGES, "garbage"]).await;
    fleet.pass(&traffic.minute()).await;
    let instance = &fleet.instances[0];
    for error in [
        instance.pulse.judge().await.unwrap_err().to_string(),
        instance.pulse.changes().await.unwrap_err().to_string(),
    ] {
        assert!(
            error.contains(CHANGES) && error.contains("delete"),
            "{error}"
        );
    }
    let warnings = instance.pulse.health().warnings;
    let is_about_it = |warning: &String| warning.contains(CHANGES);
    assert!(warnings.iter().any(is_about_it), "{warnings:?}");
    assert_eq!(instance.get("api/changes").await.0, 503);
    assert_eq!(instance.get("api/health").await.0, 200);
    send(&mut conn, &["DEL", CHANGES]).await;
    slow_minute(&mut fleet, &mut traffic).await;
    assert_eq!(fleet.instances[0].get("api/changes").await.0, 200);
}

#[tokio::test]
async fn the_changes_of_a_fleet_that_has_ended_expire() {
    const TTL: i64 = 16 * 86_400;
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    for _ in 0..2 {
        let mut ttl = cmd("TTL");
        let seconds: i64 = ttl.arg(CHANGES).query_async(&mut conn).await.unwrap();
        assert!((TTL - 60..=TTL).contains(&seconds), "{seconds}");
        send(&mut conn, &["EXPIRE", CHANGES, "100"]).await;
        slow_minute(&mut fleet, &mut traffic).await;
    }
}

#[tokio::test]
async fn marks_that_cannot_be_read_stop_nothing_else() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    fleet.instances[0].pulse.mark("deploy").await.unwrap();
    for (id, garbage) in [("1", ""), ("2", "{"), ("", "7"), ("3", r#"{"id":1}"#)] {
        send(&mut conn, &["HSET", MARKS, id, garbage]).await;
    }
    let marks = fleet.instances[0].json("api/marks").await;
    assert_eq!(marks["marks"].as_array().unwrap().len(), 1, "{marks}");
    slow_minute(&mut fleet, &mut traffic).await;

    send(&mut conn, &["SET", MARKS, "garbage"]).await;
    let instance = &fleet.instances[0];
    let error = instance.pulse.mark("deploy").await.unwrap_err().to_string();
    assert!(error.contains("fold.quarantined_keys"), "{error}");
    let quarantined = instance.pulse.health().fold.quarantined_keys;
    assert_eq!(quarantined[0].key, MARKS);
    instance.time.advance(Duration::from_secs(1));
    assert_eq!(instance.json("api/marks").await["marks"], json!([]));
    // The suspects of a change that is new are looked for.
    slow_minute(&mut fleet, &mut traffic).await;
    let standing = fleet.standing().await;
    assert_eq!(named(&standing), [("slower", SEARCH)]);
    assert!(standing[0].requests > 0);
}

/// A mark that cannot be made is made later, and stops no heartbeat meanwhile.
#[tokio::test]
async fn a_version_whose_mark_cannot_be_made_is_alive() {
    let fleet = Fleet::with_versions(Backend::redis().await, &[Some("1.0"), Some("1.1")]);
    let [first, second] = &fleet.instances[..] else {
        panic!("there are two instances");
    };
    first.pulse.heartbeat().await.unwrap();
    first.pulse.flush().await.unwrap();
    let mut conn = fleet.backend.server().connection().await;
    send(&mut conn, &["DEL", MARKS]).await;
    send(&mut conn, &["SET", MARKS, "garbage"]).await;
    for _ in 0..2 {
        second.pulse.heartbeat().await.unwrap();
        second.pulse.flush().await.unwrap();
        first.pulse.heartbeat().await.unwrap();
        let alive = first.json("api/overview").await["instances"].clone();
        assert_eq!(alive, 2, "the second instance is alive");
    }
    send(&mut conn, &["DEL", MARKS]).await;
    second.pulse.heartbeat().await.unwrap();
    second.pulse.flush().await.unwrap();
    assert_eq!(first.json("api/marks").await["marks"], json!([]));
    // It is tried again after a minute.
    second.time.advance(Duration::from_secs(60));
    second.pulse.heartbeat().await.unwrap();
    second.pulse.flush().await.unwrap();
    first.time.advance(Duration::from_secs(60));
    let marks = first.json("api/marks").await;
    assert_eq!(marks["marks"][0]["version"], "1.1", "{marks}");
}

#[tokio::test]
async fn a_suspect_of_a_later_version_ends_no_change() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let change = fleet.standing().await.remove(0);
    assert_eq!(change.kind, ChangeKind::Slower);
    assert!(
        !change
            .suspects
            .iter()
            .any(|s| matches!(s, Suspect::Deploy { .. }))
    );
    let mut later = serde_json::to_value(&change).unwrap();
    later["suspects"] = json!([{"kind": "moon", "phase": 0.5}]);
    let name = format!("c:{}", change.id);
    set_field(&mut conn, &name, later.to_string().as_bytes()).await;
    fleet.restart(0).await;
    slow_minute(&mut fleet, &mut traffic).await;
    let standing = fleet.standing().await;
    assert_eq!(named(&standing), [("slower", SEARCH)]);
    assert_eq!(standing[0].id, change.id);
}
