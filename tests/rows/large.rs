//! Large rows, and many rows that are large together.

use std::time::Duration;

use tower_pulse::row_cache::{RowCache, RowError};
use tower_pulse_core::condition::Condition;
use tower_pulse_core::store::Store;
use tower_pulse_redis::rows::{FinishedRow, LeaseOf};

use crate::rig::server::issue;
use crate::rows::fixture::Service;

const HOUR: Duration = Duration::from_secs(3_600);
const MIB: usize = 1 << 20;
const MAX_BYTES: usize = 64 * MIB;

/// The byte that fills the row with this number.
fn letter(number: usize) -> u8 {
    b'a' + (number % 26) as u8
}

/// The row with this number, which has `bytes` bytes in JSON.
fn filled(number: usize, bytes: usize) -> String {
    String::from_utf8(vec![letter(number); bytes - 2]).unwrap()
}

/// A cache whose row `{number} {bytes}` is [`filled`].
fn cache(service: &Service, max_bytes: usize) -> RowCache {
    let builder = RowCache::builder(&service.pulse()).loader(async |id: String| {
        let (number, bytes) = id.split_once(' ').unwrap();
        let row = filled(number.parse().unwrap(), bytes.parse().unwrap());
        Ok::<_, String>(Some(row))
    });
    let builder = builder.unscheduled_age(HOUR).deadline(HOUR / 60);
    builder.max_bytes(max_bytes).build().unwrap()
}

async fn set(service: &Service, key: &str, value: Vec<u8>) {
    let mut connection = service.connection().await;
    let () = issue(&mut connection, "SET", (key, value)).await;
}

pub async fn rows_of_the_largest_sizes_are_written_and_read(service: &Service) {
    let rows = &service.store;
    let leased = rows.lease_rows("", "token", LeaseOf::Row("1"), 60.0).await;
    let row = FinishedRow {
        leased: leased.unwrap().rows.remove(0),
        loaded: Ok(Some(vec![b'x'; MAX_BYTES])),
        drop_missing: false,
        backoff: 0.0,
        ttl: Some(3_600.0),
        spread: 1.0,
    };
    assert!(rows.finish_row("", "token", &row).await.unwrap().is_written);
    let ids = ["1".to_owned()];
    let mut cached = rows.cached_rows("", &ids, MAX_BYTES).await.unwrap();
    let cached = cached.pop().flatten().expect("the row is cached");
    assert!(cached.ttl.is_some());
    assert_eq!(cached.json.len(), MAX_BYTES);

    let cache = cache(service, 15 * MIB);
    let id = format!("7 {}", 15 * MIB);
    let loaded = cache.get_or_load::<String>(&id).await.unwrap().unwrap();
    assert_eq!(loaded.value.len(), 15 * MIB - 2);
    let row = cache.get::<String>(&id).await.unwrap().unwrap();
    assert!(row.value == loaded.value);
    let larger = format!("7 {}", 15 * MIB + 1);
    let error = cache.get_or_load::<String>(&larger).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("max_bytes"), "{error}");

    let ids: Vec<_> = (0..400).map(|number| format!("{number} 100000")).collect();
    let loads = ids.iter().map(|id| cache.get_or_load::<String>(id));
    let loaded = futures_util::future::try_join_all(loads).await.unwrap();
    assert!(loaded.iter().all(Option::is_some));
    let rows = cache.get_many::<String>(&ids).await.unwrap();
    for (number, row) in rows.into_iter().enumerate() {
        assert!(row.unwrap().value == filled(number, 100_000), "{number}");
    }
    assert_eq!(service.store.warnings(), [""; 0]);
}

/// The row was written by an instance with a larger `max_bytes`.
pub async fn a_row_beyond_max_bytes_of_the_reader_is_not_read(service: &Service) {
    let (large, small) = (cache(service, 2_000), cache(service, 1_000));
    for id in ["1 1000", "2 1001"] {
        large.get_or_load::<String>(id).await.unwrap().unwrap();
    }
    assert!(small.get::<String>("1 1000").await.unwrap().is_some());
    assert!(small.get::<String>("2 1001").await.unwrap().is_none());
    // The caller does not wait for the other instance to load the row.
    let error = small.get_or_load::<String>("2 1001").await.unwrap_err();
    assert!(matches!(error, RowError::Load(_)), "{error}");
    assert!(error.to_string().contains("max_bytes"), "{error}");
    assert!(large.get::<String>("2 1001").await.unwrap().is_some());
}

/// Many sizes are just below, at or just above the sizes of the chunks that reads ask for.
#[tokio::test]
async fn rows_of_all_sizes_are_read_together() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let mut random = fastrand::Rng::with_seed(crate::rig::seed::seed());
    for count in [1, 3, 40, 300, 1_500] {
        // A read first asks for this many bytes of each row.
        let part = (MIB / count).max(1_024);
        let ids: Vec<_> = (0..count).map(|n| format!("{count} {n}")).collect();
        let mut large = 0;
        let sizes: Vec<usize> = (0..count)
            .map(|_| match random.u32(0..20) {
                0 => 0,
                1..4 => part - 1 + random.usize(0..3),
                4 if large < 2 => {
                    large += 1;
                    4 * MIB - 1 + random.usize(0..3)
                }
                5 => (16 * part).min(6 * MIB) - 1 + random.usize(0..3),
                _ => random.usize(1..200),
            })
            .collect();
        for (number, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
            let row = (format!("inv:{}", ids[number]), vec![letter(number); *size]);
            let () = issue(&mut connection, "SET", row).await;
        }
        let rows = &service.store;
        let rows = rows.cached_rows("", &ids, MAX_BYTES).await.unwrap();
        assert_eq!(rows.len(), count);
        for (number, (row, size)) in rows.iter().zip(sizes).enumerate() {
            let json = row.as_ref().map_or(&[][..], |row| &row.json);
            assert_eq!(json.len(), size, "row {number} of {count}");
            assert!(json.iter().all(|byte| *byte == letter(number)));
        }
    }
    assert_eq!(service.store.warnings(), [""; 0]);
}

#[tokio::test]
async fn small_rows_cost_as_many_commands_as_separate_reads() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let ids: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    let all = ids.iter().map(|id| (format!("inv:{id}"), "\"a row\""));
    let () = issue(&mut connection, "MSET", all.collect::<Vec<_>>()).await;
    let rows = &service.store;
    let reads = async || {
        let commands = ["get", "getrange", "strlen", "pttl", "hmget"];
        service.calls(&commands).await
    };
    // Two commands for each row, and one command for the states of each thousand rows.
    for (count, expected) in [(1, 3), (100, 201), (1_000, 2_001), (5_000, 10_005)] {
        let before = reads().await;
        let rows = rows.cached_rows("", &ids[..count], MIB).await.unwrap();
        assert!(rows.iter().all(Option::is_some));
        assert_eq!(reads().await - before, expected);
    }
}

#[tokio::test]
async fn a_row_of_another_program_that_is_too_large_is_named_and_replaced() {
    let service = Service::redis().await;
    let cache = cache(&service, MAX_BYTES);
    let small = service.builder().name("small").max_bytes(1_000).build();
    let small = small.unwrap();
    let ids: Vec<String> = (0..50).map(|number| format!("{number} 20000")).collect();
    for id in &ids {
        cache.get_or_load::<String>(id).await.unwrap();
    }
    set(&service, "inv:9 20000", vec![b'1'; MAX_BYTES + 1]).await;
    set(&service, "inv:small:1", vec![b'1'; 1_001]).await;
    assert!(cache.get::<String>("9 20000").await.unwrap().is_none());
    assert!(small.get::<u64>("1").await.unwrap().is_none());
    let rows = cache.get_many::<String>(&ids).await.unwrap();
    let missing: Vec<_> = (0..50).filter(|at| rows[*at].is_none()).collect();
    assert_eq!(missing, [9]);
    let warnings = service.store.warnings();
    let [first, second] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    let conditions = service.store.conditions();
    assert!((conditions.iter()).all(|warning| warning.condition == Condition::LargeRow));
    assert!(first.contains(": inv:9 20000 is"), "{first}");
    assert!(second.contains(": inv:small:1 is"), "{second}");
    for (warning, max_bytes) in [(first, "67108864"), (second, "1000")] {
        assert!(warning.contains("max_bytes"), "{warning}");
        assert!(warning.contains(max_bytes), "{warning}");
    }
    let row = cache.get_or_load::<String>("9 20000").await.unwrap();
    assert_eq!(row.unwrap().value.len(), 19_998);
    assert!(cache.get::<String>("9 20000").await.unwrap().is_some());
    assert_eq!(service.store.warnings().len(), 1);
}

/// The garbage is a row of a million line breaks, and a state of 30 MiB.
#[tokio::test]
async fn rows_beside_large_garbage_are_read() {
    let service = Service::redis().await;
    let mut connection = service.connection().await;
    let state = ("pulse:rows:", "1", vec![b'x'; 30 * MIB]);
    let () = issue(&mut connection, "HSET", state).await;
    let lines = vec![b'\n'; MIB];
    for (id, row) in [("1", &b"1"[..]), ("2", b"22"), ("lines", &lines)] {
        set(&service, &format!("inv:{id}"), row.to_vec()).await;
    }
    let ids = ["1", "2", "none", "lines"].map(str::to_owned);
    for (max_bytes, lengths) in [(MIB, [1, 2, 0, MIB]), (MIB - 1, [1, 2, 0, 0])] {
        let rows = service.store.cached_rows("", &ids, max_bytes).await;
        let rows = rows.unwrap();
        let length = |at: usize| rows[at].as_ref().map_or(0, |row| row.json.len());
        assert_eq!([0, 1, 2, 3].map(length), lengths, "{max_bytes}");
    }
    let warnings = service.store.warnings();
    let [first, second] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(first.contains(": inv:lines is"), "{first}");
    assert!(second.contains(": pulse:rows:;"), "{second}");
}

/// A read returns one complete version of the row, never a mix of two versions.
#[tokio::test]
async fn a_large_row_is_read_whole_and_by_many_at_once() {
    let service = Service::redis().await;
    let server = service.server.as_ref().unwrap();
    let sizes = [(b'a', 300_000), (b'b', 5 * MIB), (b'c', 6 * MIB)];
    let rows = sizes.map(|(byte, size)| vec![byte; size]);
    set(&service, "inv:1", rows[0].clone()).await;
    let mut connection = server.connection().await;
    // Each caller reads few bytes, but together they read more bytes than a single answer may have.
    let mut quoted = vec![b'x'; 300_000];
    (quoted[0], quoted[299_999]) = (b'"', b'"');
    set(&service, "inv:2", quoted).await;
    let cache = cache(&service, 8 * MIB);
    let many = (0..60).map(|_| cache.get::<String>("2"));
    for row in futures_util::future::join_all(many).await {
        assert!(row.unwrap().is_some());
    }
    assert_eq!(service.store.warnings(), [""; 0]);
    let writer = tokio::spawn(async move {
        for row in rows.iter().cycle() {
            let () = issue(&mut connection, "SET", ("inv:1", row)).await;
        }
    });
    for _ in 0..8 {
        let ids = ["1".to_owned()];
        let rows = service.store.cached_rows("", &ids, 8 * MIB).await;
        let row = rows.unwrap().pop().flatten();
        let json = row.expect("the row is cached").json;
        assert!(json.iter().all(|byte| *byte == json[0]));
    }
    writer.abort();
}
