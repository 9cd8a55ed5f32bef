//! Keys that another program has made too large to be read. Problems and warnings name them, and all other keys
//! are read.

use std::time::Duration;

use crate::rig::reads::StoreReads;
use crate::rig::wait::until;
use redis::aio::MultiplexedConnection;
use redis::pipe;
use tower_pulse::StoreErrorKind;
use tower_pulse_core::condition::Condition;
use tower_pulse_core::store::Store;
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::snapshot::{ContextSnapshot, Problem};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::fixture::{Fixture, MS, NOW};
use crate::rig::server::issue;

const STATS: &str = "pulse:stats:GET /a:AccessTime";
const SLOWEST: &str = "pulse:slowest:AccessTime";
const MIB: usize = 1 << 20;

/// A store in which three contexts have two samples each. The tests make keys of the first context too large.
async fn fixture() -> (Fixture, MultiplexedConnection) {
    let mut fixture = Fixture::redis().await;
    for context in ["GET /a", "GET /b", "timer"] {
        let kind = if context == "timer" {
            Kind::Timer
        } else {
            Kind::Http
        };
        let batch = fixture.batch(&[(context, kind, NOW, &[MS, MS])]);
        fixture.merge_clean(batch).await;
    }
    let connection = fixture.server().connection().await;
    (fixture, connection)
}

/// Adds members on the server, which is faster than sending them.
async fn add_members(connection: &mut MultiplexedConnection, key: &str, count: usize) {
    let add = "for n = 0, ARGV[1] - 1 do redis.call('ZADD', KEYS[1], n, 'member ' .. n) end";
    let () = issue(connection, "EVAL", (add, 1, key, count)).await;
}

fn keys_of(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|p| &*p.key).collect()
}

/// Checks that the other contexts are read.
fn assert_other_contexts_are_read(contexts: &[ContextSnapshot]) {
    for name in ["GET /b", "timer"] {
        let mut contexts = contexts.iter();
        let context = contexts.find(|context| context.context == name).unwrap();
        let hour = context.hour.as_ref().unwrap();
        assert_eq!(hour.times.count, 2.0, "{name}");
        assert_eq!(hour.aggregate.times.count, 2, "{name}");
    }
}

#[tokio::test]
async fn statistics_with_300_000_members_are_read_and_quarantined() {
    let (mut fixture, mut connection) = fixture().await;
    add_members(&mut connection, STATS, 300_000).await;
    let snapshot = fixture.snapshot().await;
    assert_eq!(keys_of(&snapshot.problems), [""; 0]);
    assert_other_contexts_are_read(&snapshot.contexts);
    assert_eq!(fixture.hours("GET /a").await.0, Some(2.0));

    let before = fixture.server().cpu_micros().await;
    let merged = fixture.hit("GET /a", NOW, MS).await;
    let took = fixture.server().cpu_micros().await - before;
    assert!(took < 100_000, "the server took {took} µs");
    let keys: Vec<_> = merged.quarantined.iter().map(|p| &*p.key).collect();
    assert_eq!(keys, [STATS]);
    let hits = fixture.counter("hits:GET /a", 60).await;
    assert_eq!(hits, [(NOW, 3)]);
}

#[tokio::test]
async fn a_ranking_with_300_000_members_is_named_and_shrinks() {
    let (mut fixture, mut connection) = fixture().await;
    add_members(&mut connection, SLOWEST, 300_000).await;
    let page = async |offset| {
        fixture
            .store
            .query()
            .book_statistics(offset, NOW)
            .await
            .unwrap()
    };
    let first = page(0).await;
    assert_eq!(keys_of(&first.problems), [SLOWEST]);
    // Those of other programs come first, and the context of all is the last. Each page lists all of the names: to read
    // every page takes minutes, which `Book` spreads over hours.
    assert_other_contexts_are_read(&page(first.total - 4).await.contexts);
    assert_eq!(fixture.slowest_means().await.len(), 100);
    let before = fixture.server().cpu_micros().await;
    fixture.hit("GET /a", NOW, MS).await;
    let took = fixture.server().cpu_micros().await - before;
    assert!(took < 100_000, "the server took {took} µs");
    // Each call removes a part of the surplus.
    let left: usize = issue(&mut connection, "ZCARD", SLOWEST).await;
    assert!((298_000..=299_100).contains(&left), "{left}");
}

#[tokio::test]
async fn a_record_of_20_mib_is_named_and_replaced() {
    let (mut fixture, mut connection) = fixture().await;
    let key = format!("pulse:pulse:r1:60:{NOW}");
    let field = RecordId::new(Kind::Http, "GET /a").to_bytes();
    let () = issue(
        &mut connection,
        "HSET",
        (&key, &field, vec![b'x'; 20 * MIB]),
    )
    .await;
    for _ in 0..3 {
        let snapshot = fixture.snapshot().await;
        assert_eq!(keys_of(&snapshot.problems), [&key]);
        assert!(snapshot.problems[0].reason.contains("GET /a"));
        assert_other_contexts_are_read(&snapshot.contexts);
    }
    let records = fixture
        .store
        .records_of("GET /a", 3_600, NOW)
        .await
        .unwrap();
    assert_eq!(records, []);
    assert_eq!(
        fixture
            .store
            .records_of("GET /b", 3_600, NOW)
            .await
            .unwrap()
            .len(),
        1
    );
    let conditions = fixture.store.conditions();
    assert!((conditions.iter()).all(|warning| warning.condition == Condition::UnreadableKey));
    let warnings = fixture.store.warnings();
    assert!(
        warnings.iter().any(|text| text.contains(&key)),
        "{warnings:?}"
    );

    // A folder that does not remember the record replaces it.
    fixture.writer.folder.release().await.unwrap();
    fixture.writer = crate::fixture::Writer::new(fixture.store.clone(), fixture.clock.clone());
    fixture.hit("GET /a", NOW, MS).await;
    let length: usize = issue(&mut connection, "HSTRLEN", (&key, &field)).await;
    assert!(length < 1_000, "{length}");
}

#[tokio::test]
async fn forty_records_of_2_mib_are_named() {
    let (mut fixture, mut connection) = fixture().await;
    let key = format!("pulse:pulse:r1:60:{NOW}");
    for n in 0..40 {
        let context = format!("GET /many/{n}");
        fixture.hit(&context, NOW, MS).await;
        let field = RecordId::new(Kind::Http, &context).to_bytes();
        let () = issue(&mut connection, "HSET", (&key, &field, vec![b'x'; 2 * MIB])).await;
    }
    for _ in 0..2 {
        let snapshot = fixture.snapshot().await;
        assert_eq!(keys_of(&snapshot.problems), [&*key; 40]);
        assert_eq!(snapshot.contexts.len(), 43);
        assert_other_contexts_are_read(&snapshot.contexts);
    }
}

#[tokio::test]
async fn a_key_with_a_name_of_30_mib_is_named() {
    for key in [SLOWEST, "pulse:pulse:contexts", "pulse:pulse:instances"] {
        let (mut fixture, mut connection) = fixture().await;
        let () = issue(
            &mut connection,
            "ZADD",
            (key, NOW + 9, vec![b'x'; 30 * MIB]),
        )
        .await;
        for _ in 0..3 {
            let snapshot = fixture.snapshot().await;
            assert_eq!(keys_of(&snapshot.problems), [key]);
            assert_other_contexts_are_read(&snapshot.contexts);
        }
        let _ = fixture.slowest_means().await;
        assert!(fixture.store.upkeep().status(NOW).await.is_ok());
        let warnings = fixture.store.warnings();
        assert!(
            warnings.iter().any(|text| text.contains(key)),
            "{warnings:?}"
        );
        fixture.hit("GET /b", NOW, MS).await;
        assert_eq!(fixture.hours("GET /b").await.0, Some(3.0), "{key}");
        let () = issue(&mut connection, "DEL", key).await;
        for seconds in [0, 6] {
            fixture.store.upkeep().status(NOW + seconds).await.unwrap();
        }
        assert_eq!(fixture.store.warnings(), [""; 0], "{key}");
    }
}

/// Only the members of statistics are asked for.
#[tokio::test]
async fn statistics_beside_a_name_of_30_mib_are_read() {
    let (fixture, mut connection) = fixture().await;
    let () = issue(&mut connection, "ZADD", (STATS, 1, vec![b'x'; 30 * MIB])).await;
    let snapshot = fixture.snapshot().await;
    assert_eq!(keys_of(&snapshot.problems), [""; 0]);
    assert_eq!(fixture.hours("GET /a").await.0, Some(2.0));
    assert_other_contexts_are_read(&snapshot.contexts);
}

/// A record that is too large to arrive in time is found by its size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_late_is_left_out() {
    let (fixture, mut connection) = fixture().await;
    let key = format!("pulse:pulse:r1:60:{NOW}");
    let fill = "redis.call('HSET', KEYS[1], ARGV[1], string.rep('x', 128 * 1024 * 1024))";
    let () = issue(
        &mut connection,
        "EVAL",
        (
            fill,
            1,
            &key,
            &RecordId::new(Kind::Http, "GET /a").to_bytes(),
        ),
    )
    .await;
    let options = RedisOptions::new(&fixture.server().url()).unwrap();
    let options = options.prefix("pulse:").unwrap();
    let options = options.response_timeout(Duration::from_millis(10));
    let store = RedisStore::open(options).unwrap();
    let records = async |context| store.records_of(context, 3_600, NOW).await;
    let mut errors = Vec::new();
    until("it is left out", async || match records("GET /a").await {
        Ok(records) => records.is_empty(),
        Err(error) => {
            errors.push(error.kind());
            false
        }
    })
    .await;
    assert!(
        errors.contains(&StoreErrorKind::TimedOut),
        "{errors:?} {:?}",
        store.warnings()
    );
    until("others are read", async || {
        records("GET /b")
            .await
            .is_ok_and(|records| records.len() == 1)
    })
    .await;
    let warnings = store.warnings();
    assert!(
        matches!(&warnings[..], [one] if one.contains(&key)),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn hours_counters_and_instances_of_20_mib_are_left_out() {
    let (fixture, mut connection) = fixture().await;
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
    let snapshot = fixture.snapshot().await;
    assert_eq!(
        keys_of(&snapshot.problems),
        [hits, "pulse:pulse:instance:i"]
    );
    assert_other_contexts_are_read(&snapshot.contexts);
    // An hour that cannot be read counts as missing, as any text that is not an hour.
    assert_eq!(fixture.hours("GET /a").await.0, Some(2.0));
    assert_eq!(fixture.counter("hits", 1).await, []);
    let others = fixture.counter("hits:GET /b", 1).await;
    assert_eq!(others, [(NOW, 2)]);
}

/// A counter of seconds that another program has written for a day without cleaning it is not too large.
#[tokio::test]
async fn a_counter_of_a_day_of_seconds_is_read() {
    let (fixture, mut connection) = fixture().await;
    let slices: Vec<(i64, i64)> = (0..86_400).map(|n| (NOW - n, 1)).collect();
    for chunk in slices.chunks(10_000) {
        let () = issue(&mut connection, "HSET", ("pulse:count:1:day", chunk)).await;
    }
    let day = fixture.counter("day", 1).await;
    assert_eq!(day.len(), 86_400);
    assert_eq!(fixture.store.warnings(), [""; 0]);
}
