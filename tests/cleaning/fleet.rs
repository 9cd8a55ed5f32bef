//! Three instances clean the counters of another program at the same time, while a fourth instance writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tower_pulse::Clock;
use tower_pulse_core::store::{Cleaned, Store};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::slice::{Precision, Precisions};

use crate::cleaning::raw_redis::{KNOWN, PREFIX, key, keys, known_members, slices, write};
use crate::rig::server::{RedisServer, issue};
use crate::stores::fixture::{MergeReport, THIS_HOUR, Writer, call, calls, pass_of, redis_store};

const PRECISIONS: [u32; 3] = [1, 60, 3_600];
const DEAD: usize = 300;
const LIVE: usize = 30;
/// The time of the first pass, in which all three precisions are due.
const START: i64 = THIS_HOUR;

type Slices = BTreeMap<i64, i64>;

/// The slices of a counter after it was cleaned at `now`.
fn cleaned(precision: u32, slices: &Slices, now: i64) -> Slices {
    let cutoff = now - 120 * i64::from(precision);
    let live = slices.range(cutoff + 1..).rev().take(120);
    live.map(|(start, n)| (*start, *n)).collect()
}

/// Members of `known:` that do not name a counter.
const GARBAGE: [&[u8]; 8] = [
    b"garbage",
    b"",
    b":x",
    b"0:zero",
    b"-5:x",
    b"\xff\xfe",
    b"99999999999999999999:x",
    b"60 :x",
];

async fn write_garbage(server: &RedisServer) {
    let conn = &mut server.connection().await;
    for member in GARBAGE {
        let _: i64 = issue(conn, "ZADD", (KNOWN, 0, member)).await;
    }
    for (member, command, key, value) in [
        ("60:list", "RPUSH", key(60, "list"), ("x", "y")),
        ("1:words", "HSET", key(1, "words"), ("field", "1")),
        ("1:float", "HSET", key(1, "float"), ("1700000000.5", "1")),
    ] {
        let _: i64 = issue(conn, "ZADD", (KNOWN, 0, member)).await;
        let _: i64 = issue(conn, command, (key, value)).await;
    }
}

/// Writes counters without live slices. Some have no key, some have one slice, and one has more slices than one command
/// can list.
async fn write_dead(server: &RedisServer) {
    let conn = &mut server.connection().await;
    for n in 0..DEAD {
        for precision in PRECISIONS {
            let length = match n % 5 {
                0 => 0,
                1 => 1,
                2 => 60,
                3 => 150,
                _ => 40,
            };
            let length = if n == 7 { 5_000 } else { length };
            let newest = START - 120 * i64::from(precision) - n as i64 % 2 * 86_400;
            let slices = (0..length).map(|i| (newest - i * i64::from(precision), i));
            write(conn, precision, &format!("dead-{n}"), &slices.collect()).await;
        }
    }
}

/// Writes counters whose slices reach from before the cut-off until now. Some counters have gaps.
async fn write_live(server: &RedisServer) -> BTreeMap<(u32, String), Slices> {
    let conn = &mut server.connection().await;
    let mut rng = fastrand::Rng::with_seed(5);
    let mut model = BTreeMap::new();
    for n in 0..LIVE {
        for precision in PRECISIONS {
            let p = i64::from(precision);
            let gaps = [0.0, 0.3, 0.9][n % 3];
            let mut slices: Slices = (0..200)
                .filter(|back| *back == 0 || rng.f64() >= gaps)
                .map(|back| (Precision::new(precision, 120).slice(START) - back * p, 7))
                .collect();
            if n % 5 == 4 {
                // A slice of a writer whose clock is ahead.
                slices.insert(START + p, 9);
            }
            let name = format!("live-{n}");
            write(conn, precision, &name, &slices).await;
            model.insert((precision, name), slices);
        }
    }
    model
}

/// Lets all stores try the same pass at the same time. Exactly one of them runs the pass. Returns the report of the
/// pass.
async fn clean(stores: &[Arc<dyn Store>], now: i64) -> Cleaned {
    let passes = stores.iter().enumerate().map(|(n, store)| async move {
        let pass = pass_of(&format!("cleaner-{n}"), now, 60);
        store.upkeep().clean(&pass).await.unwrap()
    });
    let done = futures_util::future::join_all(passes).await;
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    assert_eq!(done.len(), 1, "a pass is done once");
    done.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_clean_the_counters_of_another_program() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    for command in [
        "SET known x",
        "ZADD known: 0 1:dead-1",
        "HSET count:1:dead-1 17 1",
        "HSET pulsecount:1:dead-1 17 1",
        "ZADD pulse 5 x",
        "HSET pulse2:count:60:x 1 1",
    ] {
        let _: redis::Value = server.run(command).await;
    }
    let outside = async || {
        let mut dumps = BTreeMap::new();
        let conn = &mut server.connection().await;
        for key in keys(conn, "*").await {
            if !key.starts_with(PREFIX.as_bytes()) {
                let dump: Vec<u8> = issue(conn, "DUMP", &key).await;
                dumps.insert(key, dump);
            }
        }
        dumps
    };
    let before = outside().await;
    assert_eq!(before.len(), 6);
    write_dead(&server).await;
    write_garbage(&server).await;
    let mut model = write_live(&server).await;

    let (clock, manual_clock) = Clock::manual(START);
    let store = || -> Arc<dyn Store> {
        Arc::new(redis_store(&server.url(), PREFIX).with_clock(clock.clone()))
    };
    let stores = [store(), store(), store()];
    let writer = Writer::new(store(), clock.clone());
    let write_some = async |first: u64, now: i64| {
        for seq in first..first + 20 {
            let mut batch = Batch::new(Precisions::default());
            for n in 0..LIVE {
                batch.count(&format!("live-{n}").into(), now, 1);
            }
            batch.count(&format!("new-{seq}").into(), now, 1);
            let applied = writer.apply(&call("writer", seq, batch)).await.unwrap();
            assert_eq!(applied, MergeReport::default());
        }
    };
    let mut add = |now: i64| {
        for ((precision, _), slices) in &mut model {
            let p = Precision::new(*precision, 120);
            let slice = p.slice(now);
            if !slices.contains_key(&slice) {
                slices.remove(&p.cutoff(slice));
            }
            *slices.entry(slice).or_default() += 20;
        }
    };

    let (first, ()) = tokio::join!(clean(&stores, START), write_some(1, START));
    add(START);
    manual_clock.advance(std::time::Duration::from_secs(60));
    let (second, ()) = tokio::join!(clean(&stores, START + 60), write_some(21, START + 60));
    add(START + 60);

    assert!(first.skipped.is_some() && second.skipped.is_some());
    assert_eq!(first.counters, (DEAD * 3) as u64);

    let members = known_members(conn).await;
    let mut names = members.iter().map(|member| String::from_utf8_lossy(member));
    assert!(!names.any(|name| name.contains("dead")));
    assert_eq!(keys(conn, "pulse:count:*:dead*").await.len(), 0);
    for member in GARBAGE {
        assert!(members.iter().any(|m| m == member), "garbage is left alone");
    }
    for ((precision, name), slices_then) in &model {
        let now = slices(conn, *precision, name).await;
        // Slices of an hour are due only in the first pass.
        let most = cleaned(*precision, slices_then, START);
        let least = cleaned(*precision, slices_then, START + 60);
        assert!(now.len() <= 121, "{precision}:{name} has {}", now.len());
        for (start, n) in &least {
            assert_eq!(now.get(start), Some(n), "{precision}:{name} at {start}");
        }
        for (start, n) in &now {
            assert_eq!(most.get(start), Some(n), "{precision}:{name} at {start}");
        }
        let member = format!("{precision}:{name}").into_bytes();
        assert!(members.contains(&member), "a counter with slices is listed");
    }
    for seq in 1..41 {
        let new = slices(conn, 3_600, &format!("new-{seq}")).await;
        assert_eq!(new, BTreeMap::from([(START, 1)]));
    }
    assert_eq!(outside().await, before);
}

/// Gaps in a counter that is being written leave old slices that no new slice removes.
#[tokio::test]
async fn old_slices_of_a_written_counter_are_removed_within_sixteen_passes() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let store: Arc<dyn Store> = Arc::new(redis_store(&server.url(), PREFIX));
    clean(std::slice::from_ref(&store), START - 60).await;
    // A hundred old slices and twenty live ones. Before each pass, the time to live is set as a writer would.
    let old = (0..100).map(|i| (START - 10_000 - 60 * i, 1));
    let live = (0..20).map(|i| (START - 60 * i, 1));
    write(conn, 60, "gaps", &old.chain(live).collect()).await;
    let mut passes = 0;
    while slices(conn, 60, "gaps").await.len() > 20 {
        let _: i64 = issue(conn, "EXPIRE", (key(60, "gaps"), 7_800)).await;
        clean(std::slice::from_ref(&store), START + 60 * passes).await;
        passes += 1;
        assert!(passes <= 16);
    }
    // This time to live shows that the counter is idle, so the next pass removes all its old slices.
    let old = (0..100).map(|i| (START - 10_000 - 60 * i, 1));
    write(conn, 60, "idle", &old.collect()).await;
    let _: i64 = issue(conn, "EXPIRE", (key(60, "idle"), 7_600)).await;
    clean(&[store], START + 60 * passes).await;
    assert_eq!(slices(conn, 60, "idle").await.len(), 0);
}

#[tokio::test]
async fn a_hash_of_any_length_is_cleaned_in_parts() {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let many = (0..50_000).map(|i| (START - i, 1));
    write(conn, 1, "many", &many.collect()).await;
    let ahead = (0..1_500).map(|i| (START + i, 1));
    write(conn, 1, "ahead", &ahead.collect()).await;
    let _: () = issue(conn, "CONFIG", "RESETSTAT").await;
    let store: Arc<dyn Store> = Arc::new(redis_store(&server.url(), PREFIX));
    let cleaned = clean(&[store], START).await;
    let removed = 50_000 - 120 + 1_500 - 120;
    assert_eq!(cleaned.slices, removed);
    // Each command lists or removes some hundreds of slices.
    let calls = calls(&server).await;
    for command in ["hscan", "hdel"] {
        assert!(calls[command] >= removed / 1_000, "{command}: {calls:?}");
    }
    let expected: Slices = (0..120).map(|i| (START - i, 1)).collect();
    assert_eq!(slices(conn, 1, "many").await, expected);
    let expected: Slices = (1_380..1_500).map(|i| (START + i, 1)).collect();
    assert_eq!(slices(conn, 1, "ahead").await, expected);
}
