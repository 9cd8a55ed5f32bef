//! Poisoned keys: data for a key that holds something else is dropped and the key is quarantined, all other data of
//! the call is stored, and calls are stored completely again once the key is mended.

use crate::rig::reads::StoreReads;
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::iso_hour;

use crate::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR};

/// Runs a command that is written as one line, in which `_` stands for a space within a word.
async fn run(connection: &mut MultiplexedConnection, line: &str) -> redis::Value {
    let mut words = line.split(' ').map(|word| word.replace('_', " "));
    let mut command = cmd(&words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(connection).await.unwrap()
}

/// Poisons `key` by the command `poison`, sends a call, and checks that only `key` is quarantined; then deletes the
/// key and checks that the next call is stored completely. Returns the reason of the quarantine.
async fn quarantined(poison: &str, key: &str) -> String {
    let mut fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    let two_samples = |fixture: &Fixture| {
        fixture.batch(&[
            ("GET /a", Kind::Http, NOW, &[MS]),
            ("GET /b", Kind::Http, NOW, &[MS]),
        ])
    };
    let batch = two_samples(&fixture);
    fixture.merge_clean(batch).await;
    run(&mut connection, &format!("DEL {key}")).await;
    run(&mut connection, poison).await;
    let before = run(&mut connection, &format!("DUMP {key}")).await;

    let batch = two_samples(&fixture);
    let merged = fixture.merge(batch).await;
    let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, [key.replace('_', " ")], "after {poison}: {merged:?}");
    let left = run(&mut connection, "TTL pulse:pulse:quarantine").await;
    let left: i64 = redis::from_redis_value(left).unwrap();
    assert!((86_300..=86_400).contains(&left), "{left}");
    // The poisoned key is left exactly as it is.
    let after = run(&mut connection, &format!("DUMP {key}")).await;
    assert_eq!(before, after, "after {poison}");
    assert_eq!(fixture.hours("GET /b").await.0, Some(2.0));
    let hits = fixture.store.counter("hits:GET /b", 1).await.unwrap();
    assert_eq!(hits, [(NOW, 2)]);
    let hits = fixture.store.counter("hits:GET /a", 3_600).await.unwrap();
    assert_eq!(hits, [(THIS_HOUR, 2)]);
    // Queries and cleaning do not fail.
    let _ = fixture.snapshot().await;
    let _ = fixture.store.slowest_means().await.unwrap();
    let _ = fixture.store.records_of("GET /a", 60, NOW).await.unwrap();
    let _ = fixture.store.counter("hits:GET /a", 60).await.unwrap();
    let _ = fixture.store.clean(&fixture.pass()).await.unwrap();

    run(&mut connection, &format!("DEL {key}")).await;
    let batch = two_samples(&fixture);
    fixture.merge_clean(batch).await;
    merged.quarantined[0].reason.clone()
}

const HITS: &str = "pulse:count:60:hits:GET_/a";
const STATS: &str = "pulse:stats:GET_/a:AccessTime";
const RECORDS: &str = "pulse:pulse:r1:60:1700001000";

#[tokio::test]
async fn a_counter_field_that_is_not_a_number_is_quarantined() {
    let reason = quarantined(&format!("HSET {HITS} {NOW} garbage"), HITS).await;
    assert!(reason.contains("not an integer"), "{reason}");
}

#[tokio::test]
async fn a_counter_field_that_would_overflow_is_quarantined() {
    let poison = format!("HSET {HITS} {NOW} {}", i64::MAX);
    assert!(quarantined(&poison, HITS).await.contains("overflow"));
}

#[tokio::test]
async fn a_counter_that_is_a_list_is_quarantined() {
    let poison = format!("LPUSH {HITS} x");
    assert!(quarantined(&poison, HITS).await.contains("WRONGTYPE"));
}

#[tokio::test]
async fn an_infinite_sum_changes_no_other_member() {
    let poison = format!("ZADD {STATS} inf sum 1 count 5 min");
    let reason = quarantined(&poison, STATS).await;
    assert!(reason.contains("finite"), "{reason}");
}

#[tokio::test]
async fn a_sum_that_is_infinite_is_quarantined() {
    let poison = format!("ZADD {STATS} -inf sumsq 1 count 5 sum");
    assert!(quarantined(&poison, STATS).await.contains("finite"));
}

#[tokio::test]
async fn statistics_that_are_a_string_are_quarantined() {
    let reason = quarantined(&format!("SET {STATS} x"), STATS).await;
    assert!(reason.contains("WRONGTYPE"), "{reason}");
}

#[tokio::test]
async fn an_hour_that_is_a_set_is_quarantined() {
    let key = format!("{STATS}:start");
    let reason = quarantined(&format!("SADD {key} x"), &key).await;
    assert!(reason.contains("WRONGTYPE"), "{reason}");
}

#[tokio::test]
async fn records_that_are_a_string_are_quarantined() {
    let reason = quarantined(&format!("SET {RECORDS} x"), RECORDS).await;
    assert!(reason.contains("WRONGTYPE"), "{reason}");
}

/// Unlike the folder that wrote them, another one reads them first.
#[tokio::test]
async fn records_that_are_a_string_stop_no_other_folder() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    run(&mut connection, &format!("SET {RECORDS} x")).await;
    let folder = TestFolder::new(fixture.store.clone(), fixture.clock.clone(), "other", 1_000);
    fixture.writer.folder.release().await.unwrap();
    fixture.writer.folder = folder;
    let merged = fixture.hit("GET /a", NOW, MS).await;
    let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, [RECORDS]);
    assert_eq!(fixture.hours("GET /a").await.0, Some(2.0));
}

#[tokio::test]
async fn a_record_that_is_garbage_is_replaced() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    let field = RecordId::new(Kind::Http, "GET /a").to_bytes();
    let mut set = cmd("HSET");
    set.arg(RECORDS).arg(&field).arg("garbage");
    set.exec_async(&mut connection).await.unwrap();
    let records = fixture.store.records_of("GET /a", 60, NOW).await.unwrap();
    assert_eq!(records, [], "garbage is not a record");
    // Another folder does not remember the record, and reads it.
    let folder = TestFolder::new(fixture.store.clone(), fixture.clock.clone(), "other", 1_000);
    fixture.writer.folder.release().await.unwrap();
    fixture.writer.folder = folder;
    fixture.hit("GET /a", NOW, MS).await;
    let records = fixture.store.records_of("GET /a", 60, NOW).await.unwrap();
    assert_eq!(records[0].1.times.count, 1, "samples that arrived since");
    assert_eq!(
        fixture.hours("GET /a").await.0,
        Some(2.0),
        "the book's keys have all samples"
    );
}

#[tokio::test]
async fn shared_keys_of_another_type_are_quarantined_and_reported() {
    let known_key = "pulse:known:";
    for key in ["pulse:slowest:AccessTime", "pulse:pulse:contexts"] {
        let mut fixture = Fixture::redis().await;
        let mut connection = fixture.server().connection().await;
        run(&mut connection, &format!("SET {key} x")).await;
        run(&mut connection, &format!("SET {known_key} x")).await;
        let merged = fixture.hit("GET /a", NOW, MS).await;
        let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
        assert!(keys.contains(&key) && keys.contains(&known_key), "{keys:?}");
        let hits = fixture.store.counter("hits:GET /a", 60).await.unwrap();
        assert_eq!(hits, [(NOW, 1)]);
        assert!(!fixture.snapshot().await.problems.is_empty());
        let cleaned = fixture.store.clean(&fixture.pass()).await.unwrap().unwrap();
        assert_eq!(cleaned.skipped.unwrap().key, known_key);
    }
}

#[tokio::test]
async fn snapshots_report_garbage_as_problems() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    fixture.hit("GET /b", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    run(&mut connection, &format!("ZADD {STATS} inf sum")).await;
    let hour = format!("pulse:pulse:r1:1800:{NOW}");
    let mut set = cmd("HSET");
    set.arg(&hour)
        .arg(&RecordId::new(Kind::Http, "GET /b").to_bytes())
        .arg("x");
    set.exec_async(&mut connection).await.unwrap();
    cmd("ZADD")
        .arg("pulse:slowest:AccessTime")
        .arg(1)
        .arg(b"\xff")
        .exec_async(&mut connection)
        .await
        .unwrap();
    let snapshot = fixture.snapshot().await;
    let keys: Vec<_> = snapshot.problems.iter().map(|p| &*p.key).collect();
    let expected = ["pulse:slowest:AccessTime", &STATS.replace('_', " "), &hour];
    assert_eq!(keys, expected);
    // The records are in order.
    for context in &snapshot.contexts {
        assert_eq!(context.hour.as_ref().unwrap().times.count, 1.0);
    }
}

#[tokio::test]
async fn a_text_that_is_not_an_hour_counts_as_a_missing_hour() {
    for garbage in [
        "yesterday",
        "2023-13-01T00:00:00",
        "2023-00-01T00:00:00",
        "2023-11-32T00:00:00",
        "2023-11-00T00:00:00",
        "2023-11-14T24:00:00",
        "2023-11-14T22:30:00",
        "",
    ] {
        let mut fixture = Fixture::redis().await;
        fixture.hit("GET /a", NOW, MS).await;
        let mut connection = fixture.server().connection().await;
        let start = format!("{STATS}:start").replace('_', " ");
        let set = |value: String| cmd("SET").arg(&start).arg(value).clone();
        let command = set(garbage.to_owned());
        command.exec_async(&mut connection).await.unwrap();
        assert_eq!(fixture.hours("GET /a").await, (Some(1.0), None));
        fixture.hit("GET /a", NOW, MS).await;
        assert_eq!(fixture.hours("GET /a").await, (Some(2.0), None));
        // A call with samples of the last hour does not take the set for that hour's.
        set(garbage.to_owned())
            .exec_async(&mut connection)
            .await
            .unwrap();
        fixture.hit("GET /a", LAST_HOUR, MS).await;
        assert_eq!(fixture.hours("GET /a").await, (Some(2.0), Some(1.0)));
        let start: String = cmd("GET")
            .arg(&start)
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(start, iso_hour(THIS_HOUR));
    }
}

/// Another program has deleted the statistics, and left their hour.
#[tokio::test]
async fn an_hour_without_statistics_becomes_a_last_hour_without_statistics() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", LAST_HOUR, MS).await;
    fixture.hit("GET /a", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    run(&mut connection, &format!("DEL {STATS}")).await;
    fixture.advance(3_600);
    fixture.hit("GET /a", NOW + 3_600, MS).await;
    assert_eq!(fixture.hours("GET /a").await, (Some(1.0), None));
    fixture.hit("GET /a", NOW, MS).await;
    assert_eq!(fixture.hours("GET /a").await, (Some(1.0), Some(1.0)));
}

#[tokio::test]
async fn cleaning_skips_and_names_garbage() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW - 10_000, MS).await;
    let mut connection = fixture.server().connection().await;
    let members: [&[u8]; 6] = [
        b"garbage",
        b"0:zero",
        b"\xff\xfe",
        b"99999999999999999999:huge",
        b"1:typed",
        b"1:strange",
    ];
    for member in members {
        let mut add = cmd("ZADD");
        add.arg("pulse:known:").arg(0).arg(member);
        add.exec_async(&mut connection).await.unwrap();
    }
    run(&mut connection, "SET pulse:count:1:typed x").await;
    run(&mut connection, "HSET pulse:count:1:strange field 1 17 1").await;
    for scores in [0, 1] {
        // Another program may write scores other than 0.
        run(
            &mut connection,
            &format!("ZADD pulse:known: {scores} 1:hits"),
        )
        .await;
        run(&mut connection, "HSET pulse:count:1:x 17 1").await;
        run(&mut connection, "ZADD pulse:known: 0 1:x").await;
        fixture.advance(60);
        let cleaned = fixture.store.clean(&fixture.pass()).await.unwrap().unwrap();
        assert_eq!(cleaned.skipped.unwrap().key, "pulse:known:");
        assert_eq!(fixture.store.counter("x", 1).await.unwrap(), []);
        let card = run(&mut connection, "ZSCORE pulse:known: 1:x").await;
        assert_eq!(card, redis::Value::Nil);
    }
    assert_eq!(fixture.store.counter("hits:GET /a", 1).await.unwrap(), []);
    let left = run(&mut connection, "HGETALL pulse:count:1:strange").await;
    assert_eq!(
        redis::from_redis_value::<Vec<String>>(left).unwrap(),
        ["field", "1"]
    );
}

#[tokio::test]
async fn snapshots_report_instances_without_a_number_in_flight() {
    let fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    let instances = format!("ZADD pulse:pulse:instances {NOW} a {NOW} b {NOW} c");
    run(&mut connection, &instances).await;
    for (id, in_flight) in [("a", "3"), ("b", "many")] {
        let mut set = cmd("HSET");
        set.arg(format!("pulse:pulse:instance:{id}"));
        set.arg("in_flight").arg(in_flight);
        set.exec_async(&mut connection).await.unwrap();
    }
    run(&mut connection, "LPUSH pulse:pulse:instance:c x").await;
    let snapshot = fixture.snapshot().await;
    assert_eq!((snapshot.fleet.instances, snapshot.fleet.in_flight), (3, 3));
    let keys: Vec<_> = snapshot.problems.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, ["pulse:pulse:instance:b", "pulse:pulse:instance:c"]);
}
