//! Keys that another program has made too large to be read. Problems and warnings name these keys, and the store reads
//! all other keys.

use std::time::Duration;

use tower_pulse::StoreErrorKind;
use tower_pulse_core::condition::Condition;
use tower_pulse_core::store::Store;
use tower_pulse_model::context::Kind;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::snapshot::{ContextSnapshot, Problem};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::reads::StoreReads;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, MS, NOW};

const STATS: &str = "pulse:stats:/a:AccessTime";
const SLOWEST: &str = "pulse:slowest:AccessTime";
const RECORDS: &str = "pulse:pulse:r1:60:1700001000";
const MIB: usize = 1 << 20;

/// A store in which three contexts have two samples each. The tests make keys of the first context too large.
async fn fixture() -> Fixture {
    let mut fixture = Fixture::redis().await;
    let batch = fixture.batch(&[
        ("/a", Kind::Http, NOW, &[MS, MS]),
        ("/b", Kind::Http, NOW, &[MS, MS]),
        ("timer", Kind::Timer, NOW, &[MS, MS]),
    ]);
    fixture.merge_whole(batch).await;
    fixture
}

fn field(context: &str) -> Vec<u8> {
    RecordId::new(Kind::Http, context).to_bytes().to_vec()
}

/// Adds 300,000 members on the server, which is faster than sending them.
async fn add_members(fixture: &Fixture, key: &str) {
    let add = "for n = 0, 299999 do redis.call('ZADD', KEYS[1], n, 'member ' .. n) end";
    let () = fixture.issue("EVAL", (add, 1, key)).await;
}

fn keys_of(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|p| &*p.key).collect()
}

fn assert_other_contexts_are_read(contexts: &[ContextSnapshot]) {
    for name in ["/b", "timer"] {
        let mut contexts = contexts.iter();
        let context = contexts.find(|context| context.context == name).unwrap();
        let hour = context.hour.as_ref().unwrap();
        assert_eq!(hour.times.count, 2.0, "{name}");
        assert_eq!(hour.aggregate.times.count, 2, "{name}");
    }
}

/// Checks that a snapshot names exactly these keys, and has the other contexts.
async fn assert_named(fixture: &Fixture, keys: &[&str]) {
    let snapshot = fixture.snapshot().await;
    assert_eq!(keys_of(&snapshot.problems), keys);
    assert_other_contexts_are_read(&snapshot.contexts);
}

/// Sends a request of the first context, which must take the server little time. Returns the quarantined keys.
async fn hit_quickly(fixture: &mut Fixture) -> Vec<String> {
    let before = fixture.server().cpu_micros().await;
    let quarantined = fixture.hit("/a", NOW, MS).await.quarantined_keys();
    let took = fixture.server().cpu_micros().await - before;
    assert!(took < 100_000, "the server took {took} µs");
    quarantined
}

#[tokio::test]
async fn sets_with_300_000_members_are_read_or_named() {
    let mut fixture = fixture().await;
    add_members(&fixture, STATS).await;
    assert_named(&fixture, &[]).await;
    assert_eq!(fixture.hours("/a").await.0, Some(2.0));
    assert_eq!(hit_quickly(&mut fixture).await, [STATS]);
    assert_eq!(fixture.counter("hits:/a", 60).await, [(NOW, 3)]);

    let () = fixture.issue("DEL", STATS).await;
    add_members(&fixture, SLOWEST).await;
    let query = fixture.store.query();
    let first = query.book_statistics(0, NOW).await.unwrap();
    assert_eq!(keys_of(&first.problems), [SLOWEST]);
    // The contexts of other programs come first, and `<all>` comes last. Reading every page would take minutes, because
    // each page lists all names.
    let last = query.book_statistics(first.total - 4, NOW).await.unwrap();
    assert_other_contexts_are_read(&last.contexts);
    assert_eq!(fixture.slowest_means().await.len(), 100);
    hit_quickly(&mut fixture).await;
    // Each call removes a part of the surplus.
    let left: usize = fixture.issue("ZCARD", SLOWEST).await;
    assert!((298_000..=299_100).contains(&left), "{left}");
}

#[tokio::test]
async fn a_record_of_20_mib_is_named_and_replaced() {
    let mut fixture = fixture().await;
    let huge = vec![b'x'; 20 * MIB];
    let () = fixture.issue("HSET", (RECORDS, field("/a"), huge)).await;
    for _ in 0..3 {
        assert_named(&fixture, &[RECORDS]).await;
    }
    let problem = &fixture.snapshot().await.problems[0];
    assert!(problem.reason.contains("/a"), "{problem:?}");
    assert_eq!(fixture.records("/a", 3_600).await, []);
    assert_eq!(fixture.records("/b", 3_600).await.len(), 1);
    let conditions = fixture.store.conditions();
    assert!((conditions.iter()).all(|warning| warning.condition == Condition::UnreadableKey));
    let warnings = fixture.store.warnings();
    assert!(warnings.iter().any(|text| text.contains(RECORDS)));

    // A folder that does not remember the record replaces the record.
    fixture.take_over("other", None).await;
    fixture.hit("/a", NOW, MS).await;
    let length: usize = fixture.issue("HSTRLEN", (RECORDS, field("/a"))).await;
    assert!(length < 1_000, "{length}");
}

#[tokio::test]
async fn forty_records_of_2_mib_are_named() {
    let mut fixture = fixture().await;
    for n in 0..40 {
        let context = format!("/many/{n}");
        fixture.hit(&context, NOW, MS).await;
        let large = vec![b'x'; 2 * MIB];
        let record = (RECORDS, field(&context), large);
        let () = fixture.issue("HSET", record).await;
    }
    for _ in 0..2 {
        assert_named(&fixture, &[RECORDS; 40]).await;
    }
    assert_eq!(fixture.snapshot().await.contexts.len(), 43);
}

#[tokio::test]
async fn a_key_with_a_name_of_30_mib_is_named() {
    let huge = vec![b'x'; 30 * MIB];
    for key in [SLOWEST, "pulse:pulse:contexts", "pulse:pulse:instances"] {
        let mut fixture = fixture().await;
        let () = fixture.issue("ZADD", (key, NOW + 9, &huge)).await;
        for _ in 0..3 {
            assert_named(&fixture, &[key]).await;
        }
        let _ = fixture.slowest_means().await;
        fixture.status().await;
        let warnings = fixture.store.warnings();
        assert!(warnings.iter().any(|text| text.contains(key)), "{key}");
        fixture.hit("/b", NOW, MS).await;
        assert_eq!(fixture.hours("/b").await.0, Some(3.0), "{key}");
        let () = fixture.issue("DEL", key).await;
        for seconds in [0, 6] {
            fixture.store.upkeep().status(NOW + seconds).await.unwrap();
        }
        assert_eq!(fixture.store.warnings(), [""; 0], "{key}");
    }
    // The store asks only for the known members of statistics.
    let fixture = fixture().await;
    let () = fixture.issue("ZADD", (STATS, 1, &huge)).await;
    assert_named(&fixture, &[]).await;
    assert_eq!(fixture.hours("/a").await.0, Some(2.0));
}

/// After reads that time out, the store finds the large record by its size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_does_not_arrive_in_time_is_left_out() {
    let fixture = fixture().await;
    let fill = "redis.call('HSET', KEYS[1], ARGV[1], string.rep('x', 64 * 1024 * 1024))";
    let () = fixture.issue("EVAL", (fill, 1, RECORDS, field("/a"))).await;
    let options = RedisOptions::new(&fixture.server().url()).unwrap();
    let options = options.prefix("pulse:");
    let options = options.response_timeout(Duration::from_millis(10));
    let store = RedisStore::open(options).unwrap();
    let mut errors = Vec::new();
    until("the record is left out", async || {
        let records = store.records_of("/a", 3_600, NOW).await;
        errors.extend(records.as_ref().err().map(tower_pulse::StoreError::kind));
        records.is_ok_and(|records| records.is_empty())
    })
    .await;
    assert!(errors.contains(&StoreErrorKind::TimedOut), "{errors:?}");
    until("another record is read", async || {
        let records = store.records_of("/b", 3_600, NOW).await;
        records.is_ok_and(|records| records.len() == 1)
    })
    .await;
    let warnings = store.warnings();
    assert!(matches!(&warnings[..], [text] if text.contains(RECORDS)));
}

#[tokio::test]
async fn hours_counters_and_instances_of_20_mib_are_left_out() {
    let fixture = fixture().await;
    let (hits, instance) = ("pulse:count:1:hits", "pulse:pulse:instance:i");
    let huge = vec![b'x'; 20 * MIB];
    let start = format!("{STATS}:start");
    let () = fixture.issue("SET", (start, &huge)).await;
    let () = fixture.issue("HSET", (hits, "field", &huge)).await;
    let () = fixture.issue("HSET", (instance, "in_flight", &huge)).await;
    let alive = ("pulse:pulse:instances", NOW, "i");
    let () = fixture.issue("ZADD", alive).await;
    assert_named(&fixture, &[hits, instance]).await;
    // An hour that cannot be read counts as missing, like any text that is not an hour.
    assert_eq!(fixture.hours("/a").await.0, Some(2.0));
    assert_eq!(fixture.counter("hits", 1).await, []);
    assert_eq!(fixture.counter("hits:/b", 1).await, [(NOW, 2)]);
}

/// A counter that another program has written each second for a day, without cleaning, is not too large.
#[tokio::test]
async fn a_counter_of_a_day_of_seconds_is_read() {
    let fixture = fixture().await;
    let slices: Vec<(i64, i64)> = (0..86_400).map(|n| (NOW - n, 1)).collect();
    for chunk in slices.chunks(10_000) {
        let () = fixture.issue("HSET", ("pulse:count:1:day", chunk)).await;
    }
    assert_eq!(fixture.counter("day", 1).await.len(), 86_400);
    assert_eq!(fixture.store.warnings(), [""; 0]);
}
