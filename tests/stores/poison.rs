//! Keys with a value of another program. The store omits data for such a key, quarantines the key, and stores all other
//! data of the call. Once the key is repaired, the store has all data of further calls.

use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::minute_report::MinuteReport;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::iso_hour;

use crate::stores::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR, aggregate_of};

const HITS: &str = "pulse:count:60:hits:/a";
const STATS: &str = "pulse:stats:/a:AccessTime";
const RECORDS: &str = "pulse:pulse:r1:60:1700001000";
const KNOWN: &str = "pulse:known:";

#[tokio::test]
async fn a_key_with_a_wrong_number_or_of_another_type_is_quarantined() {
    let start = format!("{STATS}:start");
    for (key, command, value, why) in [
        (HITS, "HSET", format!("{NOW} garbage"), "not an integer"),
        (HITS, "HSET", format!("{NOW} {}", i64::MAX), "overflow"),
        (HITS, "LPUSH", "x".into(), "WRONGTYPE"),
        (STATS, "ZADD", "inf sum 1 count 5 min".into(), "finite"),
        (STATS, "ZADD", "-inf sumsq 1 count 5 sum".into(), "finite"),
        (STATS, "SET", "x".into(), "WRONGTYPE"),
        (&start, "SADD", "x".into(), "WRONGTYPE"),
        (RECORDS, "SET", "x".into(), "WRONGTYPE"),
    ] {
        let poison = format!("{command} {key} {value}");
        let mut fixture = Fixture::redis().await;
        let batch = fixture.batch(&[
            ("/a", Kind::Http, NOW, &[MS]),
            ("/b", Kind::Http, NOW, &[MS]),
        ]);
        fixture.merge_whole(batch.clone()).await;
        let () = fixture.run(&format!("DEL {key}")).await;
        let () = fixture.run(&poison).await;
        let before: redis::Value = fixture.issue("DUMP", key).await;

        let merged = fixture.merge(batch.clone()).await;
        let [problem] = &merged.quarantined[..] else {
            panic!("{poison}: {merged:?}");
        };
        assert_eq!(problem.key, key, "{poison}");
        assert!(problem.reason.contains(why), "{poison}: {problem:?}");
        let left: i64 = fixture.run("TTL pulse:pulse:quarantine").await;
        assert!((86_300..=86_400).contains(&left), "{left}");
        let after: redis::Value = fixture.issue("DUMP", key).await;
        assert_eq!(before, after, "{poison}");
        assert_eq!(fixture.hours("/b").await.0, Some(2.0));
        assert_eq!(fixture.counter("hits:/b", 1).await, [(NOW, 2)]);
        assert_eq!(fixture.counter("hits:/a", 3_600).await, [(THIS_HOUR, 2)]);
        let _ = (fixture.snapshot().await, fixture.slowest_means().await);
        let _ = fixture.records("/a", 60).await;
        let _ = fixture.counter("hits:/a", 60).await;
        let _ = fixture.clean().await;
        let () = fixture.run(&format!("DEL {key}")).await;
        fixture.merge_whole(batch).await;
    }
}

/// The folder that wrote the records still has them in memory. Only new folders read the garbage.
#[tokio::test]
async fn garbage_in_records_stops_no_new_folder() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("/a", NOW, MS).await;
    let field = RecordId::new(Kind::Http, "/a").to_bytes();
    let () = fixture.issue("HSET", (RECORDS, &field, "garbage")).await;
    assert_eq!(fixture.records("/a", 60).await, []);
    fixture.take_over("second", None).await;
    fixture.hit("/a", NOW, MS).await;
    let records = fixture.records("/a", 60).await;
    assert_eq!(records[0].1.times.count, 1, "only the new sample");

    let () = fixture.run(&format!("SET {RECORDS} x")).await;
    fixture.take_over("third", None).await;
    let quarantined = fixture.hit("/a", NOW, MS).await.quarantined_keys();
    assert_eq!(quarantined, [RECORDS]);
    assert_eq!(fixture.hours("/a").await.0, Some(3.0), "the book's keys");
}

#[tokio::test]
async fn shared_keys_of_another_type_are_quarantined_and_reported() {
    for key in ["pulse:slowest:AccessTime", "pulse:pulse:contexts"] {
        let mut fixture = Fixture::redis().await;
        let () = fixture.run(&format!("MSET {key} x {KNOWN} x")).await;
        let keys = fixture.hit("/a", NOW, MS).await.quarantined_keys();
        assert!([key, KNOWN].iter().all(|key| keys.iter().any(|k| k == key)));
        assert_eq!(fixture.counter("hits:/a", 60).await, [(NOW, 1)]);
        assert!(!fixture.snapshot().await.problems.is_empty());
        let cleaned = fixture.clean().await;
        assert_eq!(cleaned.skipped.unwrap().key, KNOWN);
    }
}

#[tokio::test]
async fn keys_of_minute_reports_expire_and_keys_of_another_type_read_as_empty() {
    let mut fixture = Fixture::redis().await;
    let keys = ["by_instance1", "by_version1"].map(|key| format!("pulse:pulse:{key}:{NOW}"));
    let sums = aggregate_of(&[MS], Outcome::Success);
    let mut batch = fixture.batch(&[]);
    batch.add_report(MinuteReport {
        minute: NOW,
        instance: "a".into(),
        version: Some("1".into()),
        max_contexts: 2,
        is_side_by_side: true,
        contexts: vec![(RecordId::new(Kind::Http, "/a"), sums)],
        machine: None,
    });
    fixture.merge_whole(batch.clone()).await;
    let read = async |fixture: &Fixture| {
        let query = fixture.store.query();
        let reports = query.minute_reports(&[NOW]).await.unwrap();
        let versions = query.version_records(&[NOW]).await.unwrap();
        (reports[0].len(), versions[0].len())
    };
    for key in &keys {
        let ttl: i64 = fixture.issue("TTL", key).await;
        assert!((8_390..=8_400).contains(&ttl), "{key}: {ttl}");
        let field = &b"12345678\xff"[..];
        let () = fixture.issue("HSET", (key, field, "garbage")).await;
    }
    assert_eq!(read(&fixture).await, (1, 1));
    for key in &keys {
        let () = fixture.issue("SET", (key, "x")).await;
    }
    assert_eq!(read(&fixture).await, (0, 0));
    assert_eq!(fixture.merge(batch).await.quarantined_keys(), keys);
}

#[tokio::test]
async fn snapshots_name_keys_that_they_cannot_read() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("/a", NOW, MS).await;
    fixture.hit("/b", NOW, MS).await;
    let half_hour = format!("pulse:pulse:r1:1800:{NOW}");
    let record_b = RecordId::new(Kind::Http, "/b").to_bytes();
    let () = fixture.issue("HSET", (&half_hour, &record_b, "x")).await;
    let slowest = "pulse:slowest:AccessTime";
    let () = fixture.issue("ZADD", (slowest, 1, b"\xff")).await;
    for command in [
        format!("ZADD {STATS} inf sum"),
        format!("ZADD pulse:pulse:instances {NOW} a {NOW} b {NOW} c"),
        "HSET pulse:pulse:instance:a in_flight 3".to_owned(),
        "HSET pulse:pulse:instance:b in_flight many".to_owned(),
        "LPUSH pulse:pulse:instance:c x".to_owned(),
    ] {
        let () = fixture.run(&command).await;
    }
    let snapshot = fixture.snapshot().await;
    let mut keys: Vec<_> = snapshot.problems.iter().map(|p| &*p.key).collect();
    keys.sort_unstable();
    let instances = ["pulse:pulse:instance:b", "pulse:pulse:instance:c"];
    let expected = [&instances[..], &[&half_hour, slowest, STATS]].concat();
    assert_eq!(keys, expected);
    // The contexts' other records are still correct.
    for context in &snapshot.contexts {
        assert_eq!(context.hour.as_ref().unwrap().times.count, 1.0);
    }
    assert_eq!((snapshot.fleet.instances, snapshot.fleet.in_flight), (3, 3));
}

#[tokio::test]
async fn statistics_without_a_readable_hour_count_for_this_hour() {
    let mut fixture = Fixture::redis().await;
    let unreadable = "yesterday,2023-13-01T00:00:00,2023-00-01T00:00:00,2023-11-32T00:00:00,\
        2023-11-00T00:00:00,2023-11-14T24:00:00,2023-11-14T22:30:00,,none";
    for (n, garbage) in unreadable.split(',').enumerate() {
        let context = format!("/{n}");
        fixture.hit(&context, NOW, MS).await;
        let start = format!("pulse:stats:{context}:AccessTime:start");
        let spoil = async |fixture: &Fixture| {
            let () = fixture.issue("SET", (&start, garbage)).await;
            if garbage == "none" {
                let () = fixture.issue("DEL", &start).await;
            }
        };
        spoil(&fixture).await;
        assert_eq!(fixture.hours(&context).await, (Some(1.0), None));
        fixture.hit(&context, NOW, MS).await;
        assert_eq!(fixture.hours(&context).await, (Some(2.0), None));
        // Samples of the last hour are not added to the set of this hour.
        spoil(&fixture).await;
        fixture.hit(&context, LAST_HOUR, MS).await;
        assert_eq!(fixture.hours(&context).await, (Some(2.0), Some(1.0)));
        let start: String = fixture.issue("GET", &start).await;
        assert_eq!(start, iso_hour(THIS_HOUR));
    }
}

/// Another program has deleted the statistics, but not their hour.
#[tokio::test]
async fn an_hour_without_statistics_becomes_a_last_hour_without_statistics() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("/a", LAST_HOUR, MS).await;
    fixture.hit("/a", NOW, MS).await;
    let () = fixture.run(&format!("DEL {STATS}")).await;
    fixture.advance(3_600);
    fixture.hit("/a", NOW + 3_600, MS).await;
    assert_eq!(fixture.hours("/a").await, (Some(1.0), None));
    fixture.hit("/a", NOW, MS).await;
    assert_eq!(fixture.hours("/a").await, (Some(1.0), Some(1.0)));
}

#[tokio::test]
async fn cleaning_skips_and_names_garbage() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("/a", NOW - 10_000, MS).await;
    let () = fixture.run("ZADD pulse:known: 0 0:zero 0 1:strange").await;
    let () = fixture.run("HSET pulse:count:1:strange field 1 17 1").await;
    // Another program may write scores other than 0.
    for score in [0, 1] {
        let known = format!("ZADD {KNOWN} {score} 1:hits 0 1:x");
        let () = fixture.run(&known).await;
        let () = fixture.run("HSET pulse:count:1:x 17 1").await;
        fixture.advance(60);
        let cleaned = fixture.clean().await;
        assert_eq!(cleaned.skipped.unwrap().key, KNOWN);
        assert_eq!(fixture.counter("x", 1).await, []);
        let listed: Option<f64> = fixture.run("ZSCORE pulse:known: 1:x").await;
        assert_eq!(listed, None);
    }
    assert_eq!(fixture.counter("hits:/a", 1).await, []);
    let left: Vec<String> = fixture.run("HGETALL pulse:count:1:strange").await;
    assert_eq!(left, ["field", "1"]);
}
