//! Keys of this crate that hold data of another program. Errors and warnings name each key. The store replaces the keys
//! whose data it can write again.

use tower_pulse_core::store::{Appended, FencedBatch};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::slice::Precisions;

use crate::rig::instances::TestFlusher;
use crate::rig::reads;
use crate::stores::fixture::{Fixture, MS, NOW, call};

const LEASE: &str = "pulse:pulse:lease:fold";
const STATE: &str = "pulse:pulse:state";
const JOURNAL: &str = "pulse:pulse:journal";

/// Appends and folds a call, then makes a key of this crate a set.
async fn poisoned(name: &str) -> Fixture {
    let mut fixture = Fixture::redis().await;
    fixture.hit("/a", NOW, MS).await;
    fixture.writer.folder.release().await.unwrap();
    let () = fixture.run(&format!("DEL pulse:pulse:{name}")).await;
    let () = fixture.run(&format!("SADD pulse:pulse:{name} x")).await;
    fixture
}

fn sample(fixture: &Fixture) -> Batch {
    fixture.batch(&[("/a", Kind::Http, NOW, &[MS])])
}

async fn next_call(fixture: &Fixture) -> FencedBatch {
    let generation = fixture.store.hello().await;
    FencedBatch {
        generation: generation.map_or_else(|_| "g".to_owned(), |generation| generation.id),
        ..call("a", 2, sample(fixture))
    }
}

/// Checks that a warning says that the key's value was replaced.
fn assert_replaced(fixture: &Fixture, name: &str) {
    let warnings = fixture.store.warnings();
    let is_named = |text: &String| text.starts_with(&format!("pulse:pulse:{name} held"));
    assert!(warnings.iter().any(is_named), "{warnings:?}");
}

#[tokio::test]
async fn a_state_or_journal_of_another_type_is_named() {
    for name in ["state", "journal"] {
        let fixture = poisoned(name).await;
        let call = next_call(&fixture).await;
        let mut errors = vec![fixture.store.append(&call).await.unwrap_err()];
        if name == "state" {
            errors.push(fixture.store.hello().await.unwrap_err());
            errors.push(fixture.writer.folder.fold().await.unwrap_err());
        }
        let expected = format!("pulse:pulse:{name} holds something of another type: delete it");
        for error in errors {
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}

/// The answer to an append says whether an instance folds.
#[tokio::test]
async fn a_lease_with_a_foreign_value_is_not_held_and_is_acquired() {
    for (poison, is_held) in [
        (format!("SADD {LEASE} x"), false),
        (format!("SET {LEASE} another"), false),
        (format!("SET {LEASE} another EX 100000"), false),
        (format!("SET {LEASE} another EX 5"), true),
    ] {
        let fixture = poisoned("lease:fold").await;
        let () = fixture.run(&format!("DEL {LEASE}")).await;
        let () = fixture.run(&poison).await;
        let appended = fixture.store.append(&next_call(&fixture).await).await;
        let Appended::Done(receipt) = appended.unwrap() else {
            panic!("{poison}");
        };
        assert_eq!(receipt.has_leader, is_held, "{poison}");
        if !is_held {
            assert!(fixture.writer.folder.fold().await.unwrap(), "{poison}");
            assert_eq!(fixture.hours("/a").await.0, Some(2.0), "{poison}");
            assert_replaced(&fixture, "lease:fold");
        }
    }
}

#[tokio::test]
async fn heartbeats_and_cleaning_replace_keys_of_another_type() {
    for name in ["instances", "instance:a", "versions"] {
        let fixture = poisoned(name).await;
        let mut heartbeat = reads::heartbeat("a", NOW);
        heartbeat.in_flight = 1;
        let beat = fixture.store.upkeep().heartbeat(&heartbeat).await;
        assert_eq!(beat.unwrap().0.instances, 1, "{name}");
        let fleet = fixture.snapshot().await.fleet;
        assert_eq!((fleet.instances, fleet.in_flight), (1, 1), "{name}");
        assert_replaced(&fixture, name);
    }
    let fixture = poisoned("instances").await;
    fixture.store.upkeep().deregister("a").await.unwrap();
    assert_replaced(&fixture, "instances");
    let fixture = poisoned("lease:clean").await;
    let () = fixture.run("EXPIRE pulse:pulse:lease:clean 100000").await;
    let _ = fixture.clean().await;
    assert_replaced(&fixture, "lease:clean");
}

#[tokio::test]
async fn a_quarantine_of_another_type_is_replaced() {
    let mut fixture = poisoned("quarantine").await;
    // The quarantine was empty at the last listing, so the store lists it again only some seconds later.
    fixture.store.upkeep().status(NOW + 5).await.unwrap();
    assert_replaced(&fixture, "quarantine");
    // A quarantine with too many fields is deleted when the next key is quarantined.
    let many = (0..1_000).map(|n| (format!("key {n}"), "7 why #1"));
    let many = ("pulse:pulse:quarantine", many.collect::<Vec<_>>());
    let () = fixture.issue("HSET", many).await;
    let status = fixture.store.upkeep().status(NOW + 10).await.unwrap();
    assert_eq!(status.exceptions.quarantined_keys.len(), 100);
    let () = fixture.run("SET pulse:known: x").await;
    fixture.hit("/b", NOW, MS).await;
    let keys = fixture.status().await.exceptions.quarantined_keys;
    let keys: Vec<_> = keys.iter().map(|problem| &*problem.key).collect();
    assert_eq!(keys, ["pulse:known:"]);
}

#[tokio::test]
async fn a_foreign_value_in_the_key_of_entries_set_aside_is_replaced() {
    for is_full in [false, true] {
        let fixture = poisoned("aside").await;
        if is_full {
            // A stream that accepts no further entry.
            let () = fixture.run("DEL pulse:pulse:aside").await;
            let last = "18446744073709551615-18446744073709551615 foo bar";
            let () = fixture.run(&format!("XADD pulse:pulse:aside {last}")).await;
        }
        let mut call = next_call(&fixture).await;
        fixture.store.append(&call).await.unwrap();
        let head: String = fixture.run(&format!("HGET {STATE} head")).await;
        // An entry with more fields than a script can pass on, and with a number of requests that overflows.
        let () = fixture.run(&format!("DEL {JOURNAL}")).await;
        let fields = (("t", NOW, "v", 1, "n", u64::MAX), ("p", "garbage"));
        let many: Vec<_> = (0..10_000).map(|n| (n, "x")).collect();
        let () = fixture.issue("XADD", (JOURNAL, head, fields, many)).await;
        assert!(fixture.writer.folder.fold().await.unwrap());
        let aside: usize = fixture.run("XLEN pulse:pulse:aside").await;
        assert_eq!(aside, 1);
        assert_replaced(&fixture, "aside");
        (call.seq, call.previous) = (3, 2);
        fixture.store.append(&call).await.unwrap();
        assert!(fixture.writer.folder.fold().await.unwrap());
        assert_eq!(fixture.hours("/a").await.0, Some(2.0));
    }
}

#[tokio::test]
async fn garbage_in_numbers_of_the_state_does_not_stop_folding() {
    let mut fixture = Fixture::redis().await;
    let mut hits = 0.0;
    for field in ["need", "trimmed", "oldest", "aside", "done", "took"] {
        fixture.take_over(field, None).await;
        let () = fixture.run(&format!("HSET {STATE} {field} garbage")).await;
        fixture.merge_whole(sample(&fixture)).await;
        hits += 1.0;
        assert_eq!(fixture.hours("/a").await.0, Some(hits), "{field}");
    }
}

/// No sample is lost or counted twice.
#[tokio::test]
async fn an_instance_with_a_garbled_fence_continues_under_a_new_name() {
    for garbage in "garbage,99999999999999999999 7,9999999999999999 7,,-1 7".split(',') {
        let fixture = Fixture::redis().await;
        let (store, clock) = (fixture.store.clone(), fixture.clock.clone());
        let flusher = TestFlusher::new(store, clock, Precisions::default(), 1 << 20);
        flusher.add(sample(&fixture));
        let first = flusher.flush().await.unwrap().unwrap();
        let field = format!("f:{}", first.instance);
        let () = fixture.issue("HSET", (STATE, &field, garbage)).await;
        // A flusher with nothing to append notices only an empty fence.
        if garbage.is_empty() {
            flusher.flush().await.unwrap();
        }
        flusher.add(sample(&fixture));
        let second = flusher.flush().await.unwrap().unwrap();
        assert_ne!(first.instance, second.instance, "{garbage}");
        assert!(fixture.writer.folder.fold().await.unwrap());
        assert_eq!(fixture.hours("/a").await.0, Some(2.0), "{garbage}");
        assert_eq!((flusher.lost(), flusher.replayed()), (0, 0), "{garbage}");
        assert_replaced(&fixture, "state");
    }
}
