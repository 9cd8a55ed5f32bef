//! A store that does not answer, and keys with values that no version has written.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use serde_json::json;
use tower_pulse::{Condition, StoreErrorKind};
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_model::pack::{pack, unpack};

use crate::changes::fleet::{Backend, Fleet, MINUTE, named};
use crate::changes::traffic::{SEARCH, Traffic, slow_down};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::look_until;

const JUDGED: &str = "pulse:pulse:judged1";
const CHANGES: &str = "pulse:pulse:changes1";
const DETECTOR: &str = "pulse:pulse:detector1";
const ERRORS: &str = "pulse:pulse:errors1";
const MARKS: &str = "pulse:pulse:marks1";

const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn verdicts_go_on_after_an_outage_of_redis() {
    let server = RedisServer::start_durable().await;
    let (mut fleet, mut traffic) = Fleet::with_a_slow_page(Backend::Redis(server)).await;
    let before = fleet.ongoing().await.remove(0);
    let judged_until = fleet.now;

    fleet.backend.server().kill_9();
    for minute in 1..=4 {
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.record(fleet.now + 30, &requests);
        fleet.instances[0].pulse.simulation().drain();
        fleet.now += MINUTE;
        fleet.set_clocks(fleet.now);
        let pulse = &fleet.instances[0].pulse;
        let error = pulse.simulation().judge().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        let health = pulse.health();
        let has_condition = health.conditions.contains(&Condition::Judgement);
        assert!(has_condition, "{:?}", health.warnings);
        assert_eq!(health.changes.judged_until, Some(judged_until));
        let spots = &health.changes.blind_spots;
        let is_behind = spots.iter().any(|sentence| sentence.contains("is judged"));
        assert_eq!(is_behind, minute > 2, "{spots:?}");
    }

    fleet.backend.server().restart().await;
    fleet.flush().await.unwrap();
    let pulse = &fleet.instances[0].pulse;
    // The first call may fail, because its connection may be from before the outage.
    let judged = look_until(DEADLINE, async || {
        pulse.simulation().judge().await.map_err(|e| e.to_string())
    });
    assert_eq!(judged.await, 4);
    let health = pulse.health();
    assert!(!health.conditions.contains(&Condition::Judgement));
    assert_eq!(health.changes.judged_until, Some(fleet.now));
    let after = fleet.ongoing().await;
    assert_eq!(named(&after), [("slower", SEARCH)]);
    assert_eq!((&after[0].id, after[0].since), (&before.id, before.since));
    // The judged minutes include the requests of the outage.
    assert!(after[0].requests > before.requests + 3 * 40, "{after:?}");
}

async fn slow_fleet() -> (Fleet, Traffic, MultiplexedConnection) {
    let (fleet, traffic) = Fleet::with_a_slow_page(Backend::redis().await).await;
    let conn = fleet.backend.server().connection().await;
    (fleet, traffic, conn)
}

/// Passes minutes with the slow page, each of which must be judged in time.
async fn assert_judged(fleet: &mut Fleet, traffic: &mut Traffic, minutes: usize) {
    let passing = tokio::time::timeout(DEADLINE, fleet.slow(traffic, minutes));
    passing.await.expect("the minutes are judged in time");
    let health = fleet.instances[0].pulse.health();
    assert_eq!(health.changes.judged_until, Some(fleet.now));
}

async fn send(conn: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]);
    command.exec_async(conn).await.unwrap();
}

async fn set_field(conn: &mut MultiplexedConnection, key: &str, field: &[u8], value: &[u8]) {
    let () = issue(conn, "HSET", (key, field, value)).await;
}

async fn fields(conn: &mut MultiplexedConnection, key: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    issue(conn, "HGETALL", key).await
}

async fn judged(conn: &mut MultiplexedConnection) -> LastJudgement {
    unpack(&fields(conn, JUDGED).await[0].1).unwrap()
}

#[tokio::test]
async fn tables_expire_with_their_fleet_and_begin_anew_if_they_cannot_be_read() {
    const TTL: i64 = 16 * 86_400;
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    for _ in 0..2 {
        for key in [JUDGED, CHANGES, DETECTOR] {
            let seconds: i64 = issue(&mut conn, "TTL", key).await;
            assert!((TTL - 60..=TTL).contains(&seconds), "{key}: {seconds}");
            send(&mut conn, &["EXPIRE", key, "100"]).await;
        }
        assert_judged(&mut fleet, &mut traffic, 1).await;
    }

    let good = judged(&mut conn).await;
    let forged = LastJudgement {
        number: u64::MAX,
        ..good.clone()
    };
    for garbage in [&b""[..], b"\xff\xfe", &pack(&good)[..9], &pack(&forged)] {
        set_field(&mut conn, JUDGED, b"judged", garbage).await;
        assert_judged(&mut fleet, &mut traffic, 2).await;
    }
    let mut early = judged(&mut conn).await;
    early.until = i64::MIN;
    set_field(&mut conn, JUDGED, b"judged", &pack(&early)).await;
    assert_judged(&mut fleet, &mut traffic, 1).await;
    send(&mut conn, &["HDEL", JUDGED, "judged"]).await;
    assert_judged(&mut fleet, &mut traffic, 1).await;
    assert_eq!(named(&fleet.ongoing().await), [("slower", SEARCH)]);

    for garbage in [&b""[..], b"{}", &[0x80; 40], &[0; 40]] {
        for (field, _) in fields(&mut conn, DETECTOR).await {
            set_field(&mut conn, DETECTOR, &field, garbage).await;
        }
        // A new process reads the stored detector.
        fleet.restart(0).await;
        assert_judged(&mut fleet, &mut traffic, 2).await;
    }
    send(&mut conn, &["DEL", DETECTOR]).await;
    // Unreadable kinds of errors are removed.
    for (kind, garbage) in [("a", &b""[..]), ("b", b"{}"), ("c", &[0x80; 40])] {
        set_field(&mut conn, ERRORS, kind.as_bytes(), garbage).await;
    }
    fleet.restart(0).await;
    assert_judged(&mut fleet, &mut traffic, 1).await;
    assert!(fields(&mut conn, ERRORS).await.is_empty());
}

#[tokio::test]
async fn a_judgement_from_the_far_future_stops_judging_for_a_few_minutes() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let futures = [i64::MAX, i64::MAX - 60, fleet.now + 20 * 86_400];
    for (until, restarts) in futures.into_iter().zip([false, true, false]) {
        let mut judged = judged(&mut conn).await;
        judged.until = until;
        set_field(&mut conn, JUDGED, b"judged", &pack(&judged)).await;
        for _ in 0..3 {
            fleet.pass(&traffic.minute()).await;
            // According to the stored time, another instance has judged this minute.
            assert_eq!(fleet.judge().await, 0);
        }
        if restarts {
            fleet.restart(0).await;
            fleet.pass(&traffic.minute()).await;
            assert_eq!(fleet.judge().await, 0);
            fleet.now += 2 * MINUTE;
        }
        fleet.pass(&traffic.minute()).await;
        let minutes = if restarts { 7 } else { 4 };
        assert_eq!(fleet.judge().await, minutes);
        assert_judged(&mut fleet, &mut traffic, 1).await;
    }
}

#[tokio::test]
async fn changes_of_a_later_version_are_skipped() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    let change = fleet.ongoing().await.remove(0);
    let [(field, packed)] = &fields(&mut conn, CHANGES).await[..] else {
        panic!("not exactly one change");
    };
    let mut later = change.clone();
    later.id = "later".into();
    // Makes the kind unknown. The kind's byte follows the id and the id's length.
    let mut later = pack(&later);
    later["later".len() + 1] = 99;
    let named_as = |name: &[u8]| [&field[..8], name].concat();
    set_field(&mut conn, CHANGES, &named_as(b"later"), &later).await;
    set_field(&mut conn, CHANGES, &named_as(b"broken"), &packed[..20]).await;
    // The id in the name of this field is not the id of its change.
    set_field(&mut conn, CHANGES, &named_as(b"other"), packed).await;
    set_field(&mut conn, CHANGES, b"short", b"").await;
    set_field(&mut conn, CHANGES, &[0xff; 20], packed).await;
    let known = [&packed[..], b"of a later version"].concat();
    set_field(&mut conn, CHANGES, field, &known).await;
    assert_eq!(fleet.ongoing().await, std::slice::from_ref(&change));
    fleet.restart(0).await;
    assert_judged(&mut fleet, &mut traffic, 1).await;
    let changes = fleet.changes().await;
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(changes[0].id, change.id);
}

#[tokio::test]
async fn a_table_of_another_type_is_an_error_and_health_names_its_key() {
    let (mut fleet, mut traffic, mut conn) = slow_fleet().await;
    // Marks that cannot be read do not hide other marks.
    fleet.instances[0].pulse.mark("deploy").await.unwrap();
    for (id, garbage) in [("1", ""), ("2", "{"), ("", "7"), ("3", r#"{"id":1}"#)] {
        send(&mut conn, &["HSET", MARKS, id, garbage]).await;
    }
    let marks = fleet.instances[0].json("api/marks").await;
    assert_eq!(marks["marks"].as_array().unwrap().len(), 1, "{marks}");
    assert_judged(&mut fleet, &mut traffic, 1).await;

    for key in [JUDGED, CHANGES, DETECTOR, MARKS] {
        send(&mut conn, &["DEL", key]).await;
        send(&mut conn, &["SET", key, "garbage"]).await;
        let mut requests = traffic.minute();
        slow_down(&mut requests, SEARCH, 3.0);
        fleet.pass(&requests).await;
        let pulse = &fleet.instances[0].pulse;
        if key == MARKS {
            let error = pulse.mark("deploy").await.unwrap_err().to_string();
            assert!(error.contains("fold.quarantined_keys"), "{error}");
        } else {
            // The page is slow, so its change is ongoing or begins again, and judging writes each of these tables.
            let error = pulse.simulation().judge().await.unwrap_err().to_string();
            assert!(error.contains("cannot be stored"), "{key}: {error}");
            let warnings = pulse.health().warnings;
            assert!(warnings.iter().any(|one| one.contains("cannot be stored")));
        }
        pulse.simulation().heartbeat().await.unwrap();
        let keys = pulse.health().fold.quarantined_keys;
        assert!(keys.iter().any(|problem| problem.key == key), "{keys:?}");
        fleet.instances[0].time.advance(Duration::from_secs(1));
        fleet.instances[0].json("api/changes").await;
        let marks = fleet.instances[0].json("api/marks").await;
        assert_eq!(marks["marks"] == json!([]), key == MARKS, "{marks}");
        send(&mut conn, &["DEL", key]).await;
        fleet.pass(&traffic.minute()).await;
        fleet.judge().await;
        let health = fleet.instances[0].pulse.health();
        assert_eq!(health.changes.judged_until, Some(fleet.now), "{key}");
    }
}

#[tokio::test]
async fn an_instance_whose_version_cannot_be_marked_sends_heartbeats() {
    let fleet = Fleet::with_versions(Backend::redis().await, &[Some("1.0"), Some("1.1")]);
    let [first, second] = [0, 1].map(|number| &fleet.instances[number]);
    first.pulse.simulation().heartbeat().await.unwrap();
    first.pulse.flush().await.unwrap();
    let mut conn = fleet.backend.server().connection().await;
    send(&mut conn, &["DEL", MARKS]).await;
    send(&mut conn, &["SET", MARKS, "garbage"]).await;
    for attempt in 0..2 {
        second.pulse.simulation().heartbeat().await.unwrap();
        let flushed = second.pulse.flush().await;
        assert_eq!(flushed.is_err(), attempt == 0, "the mark is dropped once");
        first.pulse.simulation().heartbeat().await.unwrap();
        let alive = first.json("api/overview").await["instances"].clone();
        assert_eq!(alive, 2, "the second instance is alive");
    }
    send(&mut conn, &["DEL", MARKS]).await;
    second.pulse.simulation().heartbeat().await.unwrap();
    second.pulse.flush().await.unwrap();
    assert_eq!(first.json("api/marks").await["marks"], json!([]));
    // The instance tries again after a minute.
    second.time.advance(Duration::from_secs(60));
    second.pulse.simulation().heartbeat().await.unwrap();
    second.pulse.flush().await.unwrap();
    first.time.advance(Duration::from_secs(60));
    let marks = first.json("api/marks").await;
    assert_eq!(marks["marks"][0]["version"], "1.1", "{marks}");
}
