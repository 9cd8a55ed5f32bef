//! Keys of this crate that hold data of another program. Errors and warnings name each key; keys that this crate
//! writes again by itself are replaced.

use redis::aio::MultiplexedConnection;
use tower_pulse_core::store::{FencedBatch, Heartbeat};
use tower_pulse_core::testing::TestFlusher;
use tower_pulse_model::context::Kind;
use tower_pulse_model::slice::Precisions;

use crate::fixture::{Fixture, MS, NOW, call};
use crate::rig::reads;
use crate::rig::server::issue;

fn key(name: &str) -> String {
    format!("pulse:pulse:{name}")
}

/// Appends and folds a call, then makes a key of this crate a set.
async fn poisoned(name: &str) -> (Fixture, MultiplexedConnection) {
    let mut fixture = Fixture::redis().await;
    fixture.hit("GET /a", NOW, MS).await;
    fixture.writer.folder.release().await.unwrap();
    let mut connection = fixture.server().connection().await;
    let () = issue(&mut connection, "DEL", key(name)).await;
    let () = issue(&mut connection, "SADD", (key(name), "x")).await;
    (fixture, connection)
}

async fn next_call(fixture: &Fixture) -> FencedBatch {
    let mut call = call("a", 2, fixture.batch(&[("GET /a", Kind::Http, NOW, &[MS])]));
    let generation = fixture.store.hello().await;
    call.generation = generation.map_or_else(|_| "g".to_owned(), |generation| generation.id);
    call
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        in_flight: 1,
        ..reads::heartbeat("a", NOW)
    }
}

/// Checks that a warning names the key as one whose value was replaced.
fn assert_replaced(fixture: &Fixture, name: &str) {
    let warnings = fixture.store.warnings();
    let is_named = |text: &String| text.starts_with(&format!("{} held", key(name)));
    assert!(warnings.iter().any(is_named), "{warnings:?}");
}

#[tokio::test]
async fn a_state_or_journal_of_another_type_is_named() {
    for name in ["state", "journal"] {
        let (fixture, _connection) = poisoned(name).await;
        let call = next_call(&fixture).await;
        let mut errors = vec![fixture.store.append(&call).await.unwrap_err().to_string()];
        if name == "state" {
            errors.push(fixture.store.hello().await.unwrap_err().to_string());
            errors.push(fixture.writer.folder.fold().await.unwrap_err().to_string());
        }
        for error in errors {
            let expected = format!("{} holds something of another type: delete it", key(name));
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[tokio::test]
async fn a_foreign_lease_to_fold_is_taken() {
    for poison in [
        &["SADD", "pulse:pulse:lease:fold", "x"][..],
        &["SET", "pulse:pulse:lease:fold", "somebody"],
        &["SET", "pulse:pulse:lease:fold", "somebody", "EX", "100000"],
    ] {
        let (mut fixture, mut connection) = poisoned("lease:fold").await;
        let () = issue(&mut connection, "DEL", "pulse:pulse:lease:fold").await;
        let () = issue(&mut connection, poison[0], &poison[1..]).await;
        let batch = fixture.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        fixture.merge_clean(batch).await;
        assert_eq!(fixture.hours("GET /a").await.0, Some(2.0), "{poison:?}");
        assert_replaced(&fixture, "lease:fold");
    }
}

/// The answer to an append says that no instance folds.
#[tokio::test]
async fn a_foreign_lease_to_fold_does_not_count_as_held() {
    let (fixture, mut connection) = poisoned("lease:fold").await;
    let mut call = next_call(&fixture).await;
    for (poison, has_leader) in [
        (&["SADD", "pulse:pulse:lease:fold", "x"][..], false),
        (&["SET", "pulse:pulse:lease:fold", "x"], false),
        (
            &["SET", "pulse:pulse:lease:fold", "x", "EX", "100000"],
            false,
        ),
        (&["SET", "pulse:pulse:lease:fold", "x", "EX", "5"], true),
    ] {
        let () = issue(&mut connection, "DEL", "pulse:pulse:lease:fold").await;
        let () = issue(&mut connection, poison[0], &poison[1..]).await;
        let appended = fixture.store.append(&call).await.unwrap();
        let tower_pulse_core::store::Appended::Done(receipt) = appended else {
            panic!("{appended:?}");
        };
        assert_eq!(receipt.has_leader, has_leader, "{poison:?}");
        (call.seq, call.previous) = (call.seq + 1, call.seq);
    }
}

#[tokio::test]
async fn a_lease_of_cleaning_of_another_type_is_replaced() {
    let (fixture, mut connection) = poisoned("lease:clean").await;
    let () = issue(&mut connection, "EXPIRE", (&key("lease:clean"), "100000")).await;
    let cleaned = fixture.store.upkeep().clean(&fixture.pass()).await.unwrap();
    assert!(cleaned.is_some());
    assert_replaced(&fixture, "lease:clean");
}

#[tokio::test]
async fn heartbeats_replace_keys_of_another_type() {
    for name in ["instances", "instance:a", "versions"] {
        let (fixture, _connection) = poisoned(name).await;
        fixture
            .store
            .upkeep()
            .heartbeat(&heartbeat())
            .await
            .unwrap();
        let snapshot = fixture.snapshot().await;
        assert_eq!(snapshot.fleet.instances, 1, "{name}");
        assert_eq!(snapshot.fleet.in_flight, 1, "{name}");
        assert_replaced(&fixture, name);
    }
    let (fixture, _connection) = poisoned("instances").await;
    fixture.store.upkeep().deregister("a").await.unwrap();
    assert_replaced(&fixture, "instances");
}

#[tokio::test]
async fn a_quarantine_of_another_type_is_replaced() {
    let (mut fixture, mut connection) = poisoned("quarantine").await;
    // It was empty a moment ago, so it is not looked at for some seconds.
    fixture.store.upkeep().status(NOW + 5).await.unwrap();
    assert_replaced(&fixture, "quarantine");
    // A quarantine with too many fields is deleted when the next key is quarantined.
    for n in 0..1_000 {
        let field = format!("key {n}");
        let () = issue(
            &mut connection,
            "HSET",
            (key("quarantine"), field, "7 why #1"),
        )
        .await;
    }
    let status = fixture.store.upkeep().status(NOW + 10).await.unwrap();
    let keys = status.exceptions.quarantined_keys;
    assert_eq!(keys.len(), 100);
    let () = issue(&mut connection, "SET", ("pulse:known:", "x")).await;
    fixture.hit("GET /b", NOW, MS).await;
    let status = fixture.store.upkeep().status(NOW).await.unwrap();
    let keys = status.exceptions.quarantined_keys;
    let keys: Vec<_> = keys.iter().map(|problem| &*problem.key).collect();
    assert_eq!(keys, ["pulse:known:"]);
}

#[tokio::test]
async fn a_key_of_entries_set_aside_that_holds_something_else_is_replaced() {
    let (fixture, connection) = poisoned("aside").await;
    sets_aside(fixture, connection).await;
    // A stream that takes no further entry.
    let (fixture, mut connection) = poisoned("aside").await;
    let () = issue(&mut connection, "DEL", &key("aside")).await;
    let last = "18446744073709551615-18446744073709551615";
    let () = issue(&mut connection, "XADD", (key("aside"), last, "foo", "bar")).await;
    sets_aside(fixture, connection).await;
}

/// Sets an entry aside, which replaces what is there.
async fn sets_aside(fixture: Fixture, mut connection: MultiplexedConnection) {
    let call = next_call(&fixture).await;
    fixture.store.append(&call).await.unwrap();
    let head: String = issue(&mut connection, "HGET", (key("state"), "head")).await;
    // An entry with more fields than a script can pass on, and with a number of requests that overflows.
    let () = issue(&mut connection, "DEL", &key("journal")).await;
    let fields = (("t", NOW, "v", 1, "n", u64::MAX), ("p", "garbage"));
    let many: Vec<_> = (0..10_000).map(|n| (n, "x")).collect();
    let () = issue(
        &mut connection,
        "XADD",
        (key("journal"), head, fields, many),
    )
    .await;
    assert!(fixture.writer.folder.fold().await.unwrap());
    let aside: usize = issue(&mut connection, "XLEN", key("aside")).await;
    assert_eq!(aside, 1);
    assert_replaced(&fixture, "aside");
    let call = FencedBatch {
        seq: 3,
        previous: 2,
        ..call
    };
    fixture.store.append(&call).await.unwrap();
    assert!(fixture.writer.folder.fold().await.unwrap());
    assert_eq!(fixture.hours("GET /a").await.0, Some(2.0));
}

#[tokio::test]
async fn garbage_in_numbers_of_the_state_does_not_stop_folding() {
    for field in ["need", "trimmed", "oldest", "aside", "done", "took"] {
        let (mut fixture, mut connection) = poisoned("lease:fold").await;
        let () = issue(&mut connection, "HSET", (&key("state"), field, "garbage")).await;
        let batch = fixture.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        fixture.merge_clean(batch).await;
        assert_eq!(fixture.hours("GET /a").await.0, Some(2.0), "{field}");
    }
}

/// An instance whose fence is garbled goes on under a new name, and no sample is lost or counted twice.
#[tokio::test]
async fn an_instance_with_a_garbled_fence_goes_on_under_a_new_name() {
    for garbage in [
        "garbage",
        "99999999999999999999 7",
        "9999999999999999 7",
        "",
        "-1 7",
    ] {
        let fixture = Fixture::redis().await;
        let mut connection = fixture.server().connection().await;
        let precisions = Precisions::default();
        let flusher = TestFlusher::new(
            fixture.store.clone(),
            fixture.clock.clone(),
            precisions,
            1 << 20,
        );
        let one_sample = || fixture.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        flusher.add(one_sample());
        let first = flusher.flush().await.unwrap().unwrap();
        let field = format!("f:{}", first.instance);
        let () = issue(&mut connection, "HSET", (&key("state"), &field, garbage)).await;
        // In one case the instance notices with nothing to append, in the others by appending.
        if garbage.is_empty() {
            flusher.flush().await.unwrap();
        }
        flusher.add(one_sample());
        let second = flusher.flush().await.unwrap().unwrap();
        assert_ne!(first.instance, second.instance, "{garbage}");
        assert!(fixture.writer.folder.fold().await.unwrap());
        assert_eq!(fixture.hours("GET /a").await.0, Some(2.0), "{garbage}");
        assert_eq!((flusher.lost(), flusher.replayed()), (0, 0), "{garbage}");
        assert_replaced(&fixture, "state");
    }
}
