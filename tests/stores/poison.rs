//! Poisoned keys: data for a key that holds something else is dropped and the key is quarantined, all other data of
//! the call is stored, and calls are stored completely again once the key is mended.

use crate::rig::reads::StoreReads;
use redis::aio::MultiplexedConnection;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slice::iso_hour;

use crate::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR};
use crate::rig::server::issue;

/// Runs a command that is written as one line, in which `_` stands for a space within a word.
async fn run<T: redis::FromRedisValue>(connection: &mut MultiplexedConnection, line: &str) -> T {
    let words: Vec<_> = line.split(' ').map(|word| word.replace('_', " ")).collect();
    issue(connection, &words[0], &words[1..]).await
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
    let () = run(&mut connection, &format!("DEL {key}")).await;
    let () = run(&mut connection, poison).await;
    let before: redis::Value = run(&mut connection, &format!("DUMP {key}")).await;

    let batch = two_samples(&fixture);
    let merged = fixture.merge(batch).await;
    let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, [key.replace('_', " ")], "after {poison}: {merged:?}");
    let left: i64 = run(&mut connection, "TTL pulse:pulse:quarantine").await;
    assert!((86_300..=86_400).contains(&left), "{left}");
    // The poisoned key is left exactly as it is.
    let after: redis::Value = run(&mut connection, &format!("DUMP {key}")).await;
    assert_eq!(before, after, "after {poison}");
    assert_eq!(fixture.hours("GET /b").await.0, Some(2.0));
    let hits = fixture.counter("hits:GET /b", 1).await;
    assert_eq!(hits, [(NOW, 2)]);
    let hits = fixture.counter("hits:GET /a", 3_600).await;
    assert_eq!(hits, [(THIS_HOUR, 2)]);
    // Queries and cleaning do not fail.
    let _ = fixture.snapshot().await;
    let _ = fixture.slowest_means().await;
    let _ = fixture.store.records_of("GET /a", 60, NOW).await.unwrap();
    let _ = fixture.counter("hits:GET /a", 60).await;
    let _ = fixture.store.upkeep().clean(&fixture.pass()).await.unwrap();

    let () = run(&mut connection, &format!("DEL {key}")).await;
    let batch = two_samples(&fixture);
    fixture.merge_clean(batch).await;
    merged.quarantined[0].reason.clone()
}

const HITS: &str = "pulse:count:60:hits:GET_/a";
const STATS: &str = "pulse:stats:GET_/a:AccessTime";
const RECORDS: &str = "pulse:pulse:r1:60:1700001000";

#[tokio::test]
async fn a_value_that_is_no_number_or_of_another_type_is_quarantined() {
    let start = format!("{STATS}:start");
    for (poison, key, why) in [
        (format!("HSET {HITS} {NOW} garbage"), HITS, "not an integer"),
        (format!("HSET {HITS} {NOW} {}", i64::MAX), HITS, "overflow"),
        (format!("LPUSH {HITS} x"), HITS, "WRONGTYPE"),
        (
            format!("ZADD {STATS} inf sum 1 count 5 min"),
            STATS,
            "finite",
        ),
        (
            format!("ZADD {STATS} -inf sumsq 1 count 5 sum"),
            STATS,
            "finite",
        ),
        (format!("SET {STATS} x"), STATS, "WRONGTYPE"),
        (format!("SADD {start} x"), &start, "WRONGTYPE"),
        (format!("SET {RECORDS} x"), RECORDS, "WRONGTYPE"),
    ] {
        let reason = quarantined(&poison, key).await;
        assert!(reason.contains(why), "{poison}: {reason}");
    }
}

/// Unlike the folder that wrote them, another one reads them first.
#[tokio::test]
async fn records_that_are_a_string_stop_no_other_folder() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    let () = run(&mut connection, &format!("SET {RECORDS} x")).await;
    let folder = TestFolder::new(fixture.store.clone(), fixture.clock.clone(), "other", 1_000);
    fixture.take_over(folder).await;
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
    let () = issue(&mut connection, "HSET", (RECORDS, &field, "garbage")).await;
    let records = fixture.store.records_of("GET /a", 60, NOW).await.unwrap();
    assert_eq!(records, [], "garbage is not a record");
    // Another folder does not remember the record, and reads it.
    let folder = TestFolder::new(fixture.store.clone(), fixture.clock.clone(), "other", 1_000);
    fixture.take_over(folder).await;
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
        let () = run(&mut connection, &format!("SET {key} x")).await;
        let () = run(&mut connection, &format!("SET {known_key} x")).await;
        let merged = fixture.hit("GET /a", NOW, MS).await;
        let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
        assert!(keys.contains(&key) && keys.contains(&known_key), "{keys:?}");
        let hits = fixture.counter("hits:GET /a", 60).await;
        assert_eq!(hits, [(NOW, 1)]);
        assert!(!fixture.snapshot().await.problems.is_empty());
        let cleaned = fixture.clean().await;
        assert_eq!(cleaned.skipped.unwrap().key, known_key);
    }
}

#[tokio::test]
async fn snapshots_report_garbage_as_problems() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    fixture.hit("GET /b", NOW, MS).await;
    let mut connection = fixture.server().connection().await;
    let () = run(&mut connection, &format!("ZADD {STATS} inf sum")).await;
    let hour = format!("pulse:pulse:r1:1800:{NOW}");
    let () = issue(
        &mut connection,
        "HSET",
        (&hour, &RecordId::new(Kind::Http, "GET /b").to_bytes(), "x"),
    )
    .await;
    let () = issue(
        &mut connection,
        "ZADD",
        ("pulse:slowest:AccessTime", 1, b"\xff"),
    )
    .await;
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
        let () = issue(&mut connection, "SET", (&start, garbage)).await;
        assert_eq!(fixture.hours("GET /a").await, (Some(1.0), None));
        fixture.hit("GET /a", NOW, MS).await;
        assert_eq!(fixture.hours("GET /a").await, (Some(2.0), None));
        // A call with samples of the last hour does not take the set for that hour's.
        let () = issue(&mut connection, "SET", (&start, garbage)).await;
        fixture.hit("GET /a", LAST_HOUR, MS).await;
        assert_eq!(fixture.hours("GET /a").await, (Some(2.0), Some(1.0)));
        let start: String = issue(&mut connection, "GET", &start).await;
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
    let () = run(&mut connection, &format!("DEL {STATS}")).await;
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
        let () = issue(&mut connection, "ZADD", ("pulse:known:", 0, member)).await;
    }
    let () = run(&mut connection, "SET pulse:count:1:typed x").await;
    let () = run(&mut connection, "HSET pulse:count:1:strange field 1 17 1").await;
    for scores in [0, 1] {
        // Another program may write scores other than 0.
        let () = run(
            &mut connection,
            &format!("ZADD pulse:known: {scores} 1:hits"),
        )
        .await;
        let () = run(&mut connection, "HSET pulse:count:1:x 17 1").await;
        let () = run(&mut connection, "ZADD pulse:known: 0 1:x").await;
        fixture.advance(60);
        let cleaned = fixture.clean().await;
        assert_eq!(cleaned.skipped.unwrap().key, "pulse:known:");
        assert_eq!(fixture.counter("x", 1).await, []);
        let card: Option<f64> = run(&mut connection, "ZSCORE pulse:known: 1:x").await;
        assert_eq!(card, None);
    }
    assert_eq!(fixture.counter("hits:GET /a", 1).await, []);
    let left: Vec<String> = run(&mut connection, "HGETALL pulse:count:1:strange").await;
    assert_eq!(left, ["field", "1"]);
}

#[tokio::test]
async fn snapshots_report_instances_without_a_number_in_flight() {
    let fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    let instances = format!("ZADD pulse:pulse:instances {NOW} a {NOW} b {NOW} c");
    let () = run(&mut connection, &instances).await;
    for (id, in_flight) in [("a", "3"), ("b", "many")] {
        let () = issue(
            &mut connection,
            "HSET",
            (format!("pulse:pulse:instance:{id}"), "in_flight", in_flight),
        )
        .await;
    }
    let () = run(&mut connection, "LPUSH pulse:pulse:instance:c x").await;
    let snapshot = fixture.snapshot().await;
    assert_eq!((snapshot.fleet.instances, snapshot.fleet.in_flight), (3, 3));
    let keys: Vec<_> = snapshot.problems.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, ["pulse:pulse:instance:b", "pulse:pulse:instance:c"]);
}
