//! Entries that no version of this crate sends. A folder sets these entries aside, in bounded time and memory. All
//! other data is folded and cleaned.

use tokio::runtime::Runtime;
use tower_pulse_model::context::ALL;
use tower_pulse_model::entry;
use tower_pulse_model::measures::Measure;

use crate::stores::fixture::{Fixture, MS, NOW};

const MIB: usize = 1 << 20;
const ASIDE: &str = "pulse:pulse:aside";
const STATE: &str = "pulse:pulse:state";
const JOURNAL: &str = "pulse:pulse:journal";
/// An entry that is set aside keeps at most this many bytes, for this many seconds.
const KEPT_BYTES: usize = 256 * 1024;
const KEPT_SECONDS: i64 = 7 * 86_400;

/// Appends an entry with these fields to the journal. The entry's position claims `length` bytes.
async fn append(fixture: &Fixture, length: usize, fields: &[(&str, &[u8])]) {
    let state: (String, String) = fixture.run(&format!("HMGET {STATE} head low")).await;
    let (head, low) = state;
    let bytes: usize = head.split_once('-').unwrap().0.parse().unwrap();
    let id = format!("{}-7", bytes + length);
    let own = ("i", "other", "s", 1, "t", NOW, "v", entry::ENTRY_VERSION);
    let () = fixture.issue("XADD", (JOURNAL, &id, own, fields)).await;
    let () = fixture.issue("HSET", (STATE, "head", &id)).await;
    if low == head {
        let () = fixture.issue("HSET", (STATE, "oldest", NOW)).await;
    }
}

/// Appends a payload in an entry that claims this number of requests.
async fn append_payload(fixture: &Fixture, payload: &[u8], requests: u64) {
    let requests = requests.to_string();
    let fields = [("n", requests.as_bytes()), ("p", payload)];
    append(fixture, payload.len() + 1, &fields).await;
}

fn push_uint(bytes: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

/// An entry without precisions, with empty contexts of these names.
fn entry_of<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = vec![entry::ENTRY_VERSION, 0];
    // The base time, and the number of late samples.
    push_uint(&mut bytes, 2 * NOW as usize);
    push_uint(&mut bytes, 0);
    push_uint(&mut bytes, names.len());
    for name in names {
        push_uint(&mut bytes, name.len());
        bytes.extend_from_slice(name);
        // An HTTP context, seen now, without records, hours and slow requests.
        bytes.extend([1, 0, 1, 1, 1, 0, 1]);
    }
    // No counters, rankings, reports or marks.
    bytes.extend([0, 0, 0, 0]);
    bytes
}

/// Sends a request, folds all entries, and checks that the request can be read. Returns the most bytes that were
/// allocated meanwhile.
fn fold_request(runtime: &Runtime, fixture: &mut Fixture, hits: f64) -> u64 {
    let allocated = allocation_counter::measure(|| {
        runtime.block_on(async {
            fixture.hit("GET /a", NOW, MS).await;
            assert_eq!(fixture.hours("GET /a").await.0, Some(hits));
        });
    });
    allocated.bytes_max
}

#[test]
fn entries_that_no_version_sends_are_set_aside_and_all_others_are_folded() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let mut fixture = runtime.block_on(Fixture::redis());
    let plain = fold_request(&runtime, &mut fixture, 1.0);

    let names: Vec<Vec<u8>> = (0..100_000)
        .map(|n| format!("GET /a/context/with/a/name/that/is/long/{n:06}").into_bytes())
        .collect();
    let many = entry_of(names.iter().map(|name| &**name));
    drop(names);
    assert!((5 * MIB..6 * MIB).contains(&many.len()), "{}", many.len());
    let long = vec![b'x'; 10 * MIB];
    let long = entry_of([&*long].into_iter());
    let huge = vec![b'?'; 24 * MIB];
    runtime.block_on(async {
        append_payload(&fixture, &many, 100_000).await;
        for _ in 0..3 {
            append_payload(&fixture, &long, 10).await;
        }
        append_payload(&fixture, &huge, 7).await;
        // The position of this entry states a wrong length. The entry has a field of another program, and no number of
        // requests.
        append(&fixture, 1, &[("foreign", &huge)]).await;
        // These fields take far more memory than their bytes.
        append(&fixture, 1, &vec![("f", &b"x"[..]); 120_000]).await;
    });
    drop((many, long, huge));

    let folded = fold_request(&runtime, &mut fixture, 2.0);
    // A folder reads entries of up to 11 MiB. An entry is in memory twice: as the client's reply, and as the payload.
    assert!(folded < plain + 40 * MIB as u64, "{folded} bytes");
    runtime.block_on(async {
        let exceptions = fixture.status().await.exceptions;
        assert_eq!(exceptions.quarantined, 0);
        let set_aside = fixture.run::<i64>("HGET pulse:pulse:state set_aside");
        assert_eq!(set_aside.await, 100_000 + 3 * 10 + 7 + 1 + 1);
        // The requests that the entries claim count as missing in the minute of the entries.
        let all = fixture.records(ALL, 60).await;
        let missing = all.iter();
        let missing = missing.map(|(_, sums)| sums.measures.get(Measure::Missing));
        assert_eq!(missing.sum::<u64>(), 100_000 + 3 * 10 + 7);
        assert_eq!(fixture.run::<i64>("ZCARD pulse:pulse:contexts").await, 1);
        let cleaned = fixture.clean().await;
        assert_eq!(cleaned.skipped, None);

        let aside: Vec<(String, Vec<Vec<u8>>)> = fixture.run(&format!("XRANGE {ASIDE} - +")).await;
        assert_eq!(aside.len(), 7);
        for (_, fields) in &aside {
            let bytes: usize = fields.iter().map(Vec::len).sum();
            assert!(bytes < KEPT_BYTES + 1_000, "{bytes} bytes");
            let cut = &fields[fields.len() - 2..];
            assert_eq!(cut[0], b"cut_from_bytes");
        }
        let cut = |at: usize| String::from_utf8_lossy(aside[at].1.last().unwrap()).parse();
        assert!(cut(4).is_ok_and(|bytes: usize| bytes > 24 * MIB));
        let usage = format!("MEMORY USAGE {ASIDE} SAMPLES 0");
        assert!(fixture.run::<i64>(&usage).await < 3 * MIB as i64);
        let left = fixture.run::<i64>(&format!("TTL {ASIDE}")).await;
        assert!((KEPT_SECONDS - 60..=KEPT_SECONDS).contains(&left), "{left}");
        assert_eq!(fixture.run::<i64>("XLEN pulse:pulse:journal").await, 0);
    });
    fold_request(&runtime, &mut fixture, 3.0);
}

#[tokio::test]
async fn an_orphaned_journal_is_bounded_in_bytes() {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    for _ in 0..20 {
        append_payload(&fixture, &vec![b'?'; MIB], 1).await;
    }
    fixture.run::<i64>("DEL pulse:pulse:state").await;
    fixture.store.hello().await.unwrap();
    let kept = fixture.run::<i64>("XLEN pulse:pulse:orphaned").await;
    assert_eq!(kept, 15, "whole entries of 16 MiB together");
    let left = fixture.run::<i64>("TTL pulse:pulse:orphaned").await;
    assert!((KEPT_SECONDS - 60..=KEPT_SECONDS).contains(&left), "{left}");
    let all = fixture.run::<i64>("HGET pulse:pulse:state orphaned");
    assert_eq!(all.await, 20);
    assert_eq!(fixture.run::<i64>("EXISTS pulse:pulse:journal").await, 0);
}
