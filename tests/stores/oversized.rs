//! Keys that somebody has made so large that they cannot be read, or not at once: they are named, and all
//! others are answered.

use redis::aio::MultiplexedConnection;
use redis::{cmd, pipe};
use tower_pulse::model::context::{Kind, fnv1a};
use tower_pulse::model::snapshot::Snapshot;

use crate::bed::{Fixture, MS, NOW};

const STATS: &str = "pulse:stats:GET /a:AccessTime";
const SLOWEST: &str = "pulse:slowest:AccessTime";
const MIB: usize = 1 << 20;

/// A store in which three contexts have two requests each, of which a test may poison the first.
async fn bed() -> (Fixture, MultiplexedConnection) {
    let mut bed = Fixture::redis().await;
    for context in ["GET /a", "GET /b", "timer"] {
        let kind = if context == "timer" {
            Kind::Timer
        } else {
            Kind::Http
        };
        let batch = bed.batch(&[(context, kind, NOW, &[MS, MS])]);
        bed.merge_clean(batch).await;
    }
    let connection = bed.server().connection().await;
    (bed, connection)
}

/// Adds so many members to a sorted set.
async fn add_members(connection: &mut MultiplexedConnection, key: &str, count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(10_000) {
        let mut add = cmd("ZADD");
        add.arg(key);
        for n in some {
            add.arg(n).arg(format!("member {n}"));
        }
        add.exec_async(connection).await.unwrap();
    }
}

fn named(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.problems.iter().map(|p| &*p.key).collect()
}

/// The other contexts are as they should be.
fn assert_others(snapshot: &Snapshot) {
    for name in ["GET /b", "timer"] {
        let mut contexts = snapshot.contexts.iter();
        let context = contexts.find(|context| context.context == name).unwrap();
        let hour = context.hour.as_ref().unwrap();
        assert_eq!(hour.times.count, 2.0, "{name}");
        assert_eq!(hour.spread.times.count, 2, "{name}");
    }
}

#[tokio::test]
async fn a_set_of_statistics_with_300_000_members() {
    let (mut bed, mut connection) = bed().await;
    add_members(&mut connection, STATS, 300_000).await;
    let snapshot = bed.snapshot().await;
    assert_eq!(named(&snapshot), [STATS]);
    assert_others(&snapshot);
    let context = bed.context("GET /b").await;
    assert!(context.hour.is_some());

    let before = bed.server().cpu_micros().await;
    let merged = bed.hit("GET /a", NOW, MS).await;
    let took = bed.server().cpu_micros().await - before;
    assert!(took < 100_000, "the server took {took} µs");
    let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, [STATS]);
    let hits = bed.store.counter("hits:GET /a", 60).await.unwrap();
    assert_eq!(hits, [(NOW, 3)]);
}

#[tokio::test]
async fn a_ranking_with_300_000_members() {
    let (mut bed, mut connection) = bed().await;
    add_members(&mut connection, SLOWEST, 300_000).await;
    let snapshot = bed.snapshot().await;
    assert_eq!(named(&snapshot), [SLOWEST]);
    assert_others(&snapshot);
    assert_eq!(bed.store.slowest().await.unwrap().len(), 100);
    let before = bed.server().cpu_micros().await;
    bed.hit("GET /a", NOW, MS).await;
    let took = bed.server().cpu_micros().await - before;
    assert!(took < 100_000, "the server took {took} µs");
    // It goes by itself, a part at a time.
    let left: usize = cmd("ZCARD")
        .arg(SLOWEST)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!((298_000..=299_100).contains(&left), "{left}");
}

#[tokio::test]
async fn a_record_of_20_mib() {
    let (mut bed, mut connection) = bed().await;
    let key = format!("pulse:pulse:r1:60:{NOW}");
    let field = fnv1a(b"GET /a").to_be_bytes();
    let mut set = cmd("HSET");
    set.arg(&key).arg(&field).arg(vec![b'x'; 20 * MIB]);
    set.exec_async(&mut connection).await.unwrap();
    for _ in 0..3 {
        let snapshot = bed.snapshot().await;
        assert_eq!(named(&snapshot), [&key]);
        assert!(snapshot.problems[0].reason.contains("GET /a"));
        assert_others(&snapshot);
    }
    let records = bed.store.records("GET /a", 3_600, NOW).await.unwrap();
    assert_eq!(records, []);
    assert_eq!(
        bed.store.records("GET /b", 3_600, NOW).await.unwrap().len(),
        1
    );
    let warnings = bed.store.warnings();
    assert!(
        warnings.iter().any(|text| text.contains(&key)),
        "{warnings:?}"
    );

    // A folder that remembers nothing writes it anew.
    bed.writer.folder.release().await.unwrap();
    bed.writer = crate::bed::Writer::new(bed.store.clone(), bed.clock.clone());
    bed.hit("GET /a", NOW, MS).await;
    let length: usize = cmd("HSTRLEN")
        .arg(&key)
        .arg(&field)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!(length < 1_000, "{length}");
}

#[tokio::test]
async fn forty_records_of_2_mib() {
    let (mut bed, mut connection) = bed().await;
    let key = format!("pulse:pulse:r1:60:{NOW}");
    for n in 0..40 {
        let context = format!("GET /many/{n}");
        bed.hit(&context, NOW, MS).await;
        let field = fnv1a(context.as_bytes()).to_be_bytes();
        let mut set = cmd("HSET");
        set.arg(&key).arg(&field).arg(vec![b'x'; 2 * MIB]);
        set.exec_async(&mut connection).await.unwrap();
    }
    for _ in 0..2 {
        let snapshot = bed.snapshot().await;
        assert_eq!(named(&snapshot), [&*key; 40]);
        assert_eq!(snapshot.contexts.len(), 43);
        assert_others(&snapshot);
    }
}

#[tokio::test]
async fn a_name_of_30_mib() {
    for key in [
        SLOWEST,
        "pulse:pulse:contexts",
        "pulse:pulse:instances",
        STATS,
    ] {
        let (mut bed, mut connection) = bed().await;
        let mut add = cmd("ZADD");
        add.arg(key).arg(NOW + 9).arg(vec![b'x'; 30 * MIB]);
        add.exec_async(&mut connection).await.unwrap();
        for _ in 0..3 {
            let snapshot = bed.snapshot().await;
            assert_eq!(named(&snapshot), [key]);
            assert_others(&snapshot);
        }
        let _ = bed.store.slowest().await.unwrap();
        assert!(bed.store.status(NOW).await.is_ok());
        let warnings = bed.store.warnings();
        assert!(
            warnings.iter().any(|text| text.contains(key)),
            "{warnings:?}"
        );
        bed.hit("GET /b", NOW, MS).await;
        assert_eq!(bed.hours("GET /b").await.0, Some(3.0), "{key}");
    }
}

#[tokio::test]
async fn hours_counters_and_instances_of_20_mib() {
    let (bed, mut connection) = bed().await;
    let huge = "x".repeat(20 * MIB);
    let start = format!("{STATS}:start");
    let hits = "pulse:count:1:hits";
    let mut poison = pipe();
    poison.cmd("SET").arg(&start).arg(&huge);
    poison.cmd("HSET").arg(hits).arg("field").arg(&huge);
    poison
        .cmd("ZADD")
        .arg("pulse:pulse:instances")
        .arg(NOW)
        .arg("i");
    poison
        .cmd("HSET")
        .arg("pulse:pulse:instance:i")
        .arg("in_flight")
        .arg(&huge);
    poison.exec_async(&mut connection).await.unwrap();
    let snapshot = bed.snapshot().await;
    assert_eq!(named(&snapshot), [hits, "pulse:pulse:instance:i"]);
    assert_others(&snapshot);
    // The hour that cannot be read counts as missing, as any that is none.
    assert_eq!(bed.hours("GET /a").await.0, Some(2.0));
    assert_eq!(bed.store.counter("hits", 1).await.unwrap(), []);
    let others = bed.store.counter("hits:GET /b", 1).await.unwrap();
    assert_eq!(others, [(NOW, 2)]);
}

/// What other programs write without ever cleaning it is not too large: a second's counter of a day.
#[tokio::test]
async fn a_counter_of_a_day_is_read() {
    let (bed, mut connection) = bed().await;
    let slices: Vec<(i64, i64)> = (0..86_400).map(|n| (NOW - n, 1)).collect();
    for some in slices.chunks(10_000) {
        let mut set = cmd("HSET");
        set.arg("pulse:count:1:day").arg(some);
        set.exec_async(&mut connection).await.unwrap();
    }
    let day = bed.store.counter("day", 1).await.unwrap();
    assert_eq!(day.len(), 86_400);
    assert_eq!(bed.store.warnings(), [""; 0]);
}
