//! This crate's own keys, when they hold something else: each is named, and those that are written again
//! by themselves heal.

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower_pulse::model::context::Kind;
use tower_pulse::model::slice::Precisions;
use tower_pulse::store::{FencedBatch, Heartbeat};
use tower_pulse::testing::TestFlusher;

use crate::bed::{Fixture, MS, NOW, call};

async fn run(connection: &mut MultiplexedConnection, words: &[&str]) {
    let mut command = cmd(words[0]);
    command
        .arg(&words[1..])
        .exec_async(connection)
        .await
        .unwrap();
}

fn key(name: &str) -> String {
    format!("pulse:pulse:{name}")
}

/// Makes one of the crate's own keys a set, after a first call.
async fn poisoned(name: &str) -> (Fixture, MultiplexedConnection) {
    let mut bed = Fixture::redis().await;
    bed.hit("GET /a", NOW, MS).await;
    bed.writer.folder.release().await.unwrap();
    let mut connection = bed.server().connection().await;
    run(&mut connection, &["DEL", &key(name)]).await;
    run(&mut connection, &["SADD", &key(name), "x"]).await;
    (bed, connection)
}

async fn next(bed: &Fixture) -> FencedBatch {
    let mut call = call("a", 2, bed.batch(&[("GET /a", Kind::Http, NOW, &[MS])]));
    let generation = bed.store.hello().await;
    call.generation = generation.map_or_else(|_| "g".to_owned(), |generation| generation.id);
    call
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        instance: "a".into(),
        at: NOW,
        in_flight: 1,
        dropped: 0,
    }
}

/// Health names the key as one whose value was replaced.
fn assert_healed(bed: &Fixture, name: &str) {
    let warnings = bed.store.warnings();
    let is_named = |text: &String| text.starts_with(&format!("{} held", key(name)));
    assert!(warnings.iter().any(is_named), "{warnings:?}");
}

#[tokio::test]
async fn a_state_or_journal_of_another_type_is_named() {
    for name in ["state", "journal"] {
        let (bed, _connection) = poisoned(name).await;
        let call = next(&bed).await;
        let mut errors = vec![bed.store.append(&call).await.unwrap_err().to_string()];
        if name == "state" {
            errors.push(bed.store.hello().await.unwrap_err().to_string());
            errors.push(bed.writer.folder.fold().await.unwrap_err().to_string());
        }
        for error in errors {
            let expected = format!("{} holds something of another type: delete it", key(name));
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[tokio::test]
async fn a_lease_to_fold_that_is_none_is_taken() {
    for poison in [
        &["SADD", "pulse:pulse:lease:fold", "x"][..],
        &["SET", "pulse:pulse:lease:fold", "somebody"],
        &["SET", "pulse:pulse:lease:fold", "somebody", "EX", "100000"],
    ] {
        let (mut bed, mut connection) = poisoned("lease:fold").await;
        run(&mut connection, &["DEL", "pulse:pulse:lease:fold"]).await;
        run(&mut connection, poison).await;
        let again = bed.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        bed.merge_clean(again).await;
        assert_eq!(bed.hours("GET /a").await.0, Some(2.0), "{poison:?}");
        assert_healed(&bed, "lease:fold");
    }
}

/// Whoever appends sees that nobody folds.
#[tokio::test]
async fn a_lease_to_fold_that_is_none_is_nobodys() {
    let (bed, _connection) = poisoned("lease:fold").await;
    let call = next(&bed).await;
    let appended = bed.store.append(&call).await.unwrap();
    let tower_pulse::store::Appended::Done(receipt) = appended else {
        panic!("{appended:?}");
    };
    assert!(!receipt.is_attended);
}

#[tokio::test]
async fn leases_and_notes_of_cleaning_of_another_type_heal() {
    for name in ["lease:clean", "lease:clean:last"] {
        let (bed, mut connection) = poisoned(name).await;
        run(&mut connection, &["EXPIRE", &key(name), "100000"]).await;
        assert!(bed.store.last_pass().await.unwrap().is_none());
        assert!(
            bed.store.clean(&bed.pass()).await.unwrap().is_some(),
            "{name}"
        );
        assert!(bed.store.last_pass().await.unwrap().is_some());
        assert_healed(&bed, name);
    }
}

#[tokio::test]
async fn a_note_of_20_mib_heals() {
    let (bed, mut connection) = poisoned("lease:clean:last").await;
    let huge = "x".repeat(20 << 20);
    run(&mut connection, &["DEL", &key("lease:clean:last")]).await;
    run(
        &mut connection,
        &["HSET", &key("lease:clean:last"), "problems", &huge],
    )
    .await;
    assert!(bed.store.last_pass().await.unwrap().is_none());
    assert!(bed.store.clean(&bed.pass()).await.unwrap().is_some());
    assert!(bed.store.last_pass().await.unwrap().is_some());
    assert_healed(&bed, "lease:clean:last");
}

#[tokio::test]
async fn instances_of_another_type_heal() {
    for name in ["instances", "instance:a"] {
        let (bed, _connection) = poisoned(name).await;
        bed.store.heartbeat(&heartbeat()).await.unwrap();
        let snapshot = bed.snapshot().await;
        assert_eq!((snapshot.instances, snapshot.in_flight), (1, 1), "{name}");
        assert_healed(&bed, name);
    }
    let (bed, _connection) = poisoned("instances").await;
    bed.store.deregister("a").await.unwrap();
    assert_healed(&bed, "instances");
}

#[tokio::test]
async fn a_quarantine_that_is_none_heals() {
    let (mut bed, mut connection) = poisoned("quarantine").await;
    bed.store.status(NOW).await.unwrap();
    assert_healed(&bed, "quarantine");
    // One with too many fields goes when the next key is quarantined.
    for n in 0..1_000 {
        let field = format!("key {n}");
        run(
            &mut connection,
            &["HSET", &key("quarantine"), &field, "7 why"],
        )
        .await;
    }
    let keys = bed
        .store
        .status(NOW)
        .await
        .unwrap()
        .exceptions
        .quarantined_keys;
    assert_eq!(keys.len(), 100);
    run(&mut connection, &["SET", "pulse:known:", "x"]).await;
    bed.hit("GET /b", NOW, MS).await;
    let keys = bed
        .store
        .status(NOW)
        .await
        .unwrap()
        .exceptions
        .quarantined_keys;
    let keys: Vec<_> = keys.iter().map(|problem| &*problem.key).collect();
    assert_eq!(keys, ["pulse:known:"]);
}

#[tokio::test]
async fn what_is_set_aside_heals() {
    let (bed, mut connection) = poisoned("aside").await;
    let call = next(&bed).await;
    bed.store.append(&call).await.unwrap();
    let head: String = cmd("HGET")
        .arg(key("state"))
        .arg("head")
        .query_async(&mut connection)
        .await
        .unwrap();
    // An entry with more fields than a script can pass on, and more requests than can be added.
    run(&mut connection, &["DEL", &key("journal")]).await;
    let mut add = cmd("XADD");
    add.arg(key("journal")).arg(head);
    add.arg("t")
        .arg(NOW)
        .arg("v")
        .arg(1)
        .arg("n")
        .arg(u64::MAX)
        .arg("p")
        .arg("garbage");
    for n in 0..10_000 {
        add.arg(n).arg("x");
    }
    add.exec_async(&mut connection).await.unwrap();
    assert!(bed.writer.folder.fold().await.unwrap());
    let aside: usize = cmd("XLEN")
        .arg(key("aside"))
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(aside, 1);
    assert_healed(&bed, "aside");
    let call = FencedBatch {
        seq: 3,
        previous: 2,
        ..call
    };
    bed.store.append(&call).await.unwrap();
    assert!(bed.writer.folder.fold().await.unwrap());
    assert_eq!(bed.hours("GET /a").await.0, Some(2.0));
}

#[tokio::test]
async fn numbers_of_the_state_that_are_none_do_not_stop_it() {
    for field in ["need", "trimmed", "oldest", "aside", "done", "took"] {
        let (mut bed, mut connection) = poisoned("lease:fold").await;
        run(&mut connection, &["HSET", &key("state"), field, "garbage"]).await;
        let again = bed.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        bed.merge_clean(again).await;
        assert_eq!(bed.hours("GET /a").await.0, Some(2.0), "{field}");
    }
}

/// An instance whose fence is garbled goes on under a new name, and nothing is lost or doubled.
#[tokio::test]
async fn a_garbled_fence_heals() {
    for garbage in [
        "garbage",
        "99999999999999999999 7",
        "9999999999999999 7",
        "",
        "-1 7",
    ] {
        let bed = Fixture::redis().await;
        let mut connection = bed.server().connection().await;
        let precisions = Precisions::default();
        let flusher = TestFlusher::new(bed.store.clone(), bed.clock.clone(), precisions, 1 << 20);
        let one = || bed.batch(&[("GET /a", Kind::Http, NOW, &[MS])]);
        flusher.add(one());
        let first = flusher.flush().await.unwrap().unwrap();
        let field = format!("f:{}", first.instance);
        run(&mut connection, &["HSET", &key("state"), &field, garbage]).await;
        // Once with nothing to append, once with something.
        if garbage.is_empty() {
            flusher.flush().await.unwrap();
        }
        flusher.add(one());
        let second = flusher.flush().await.unwrap().unwrap();
        assert_ne!(first.instance, second.instance, "{garbage}");
        assert!(bed.writer.folder.fold().await.unwrap());
        assert_eq!(bed.hours("GET /a").await.0, Some(2.0), "{garbage}");
        assert_eq!((flusher.lost(), flusher.replayed()), (0, 0), "{garbage}");
        assert_healed(&bed, "state");
    }
}
