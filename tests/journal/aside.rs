//! Entries that cannot be folded: unreadable entries, entries of a later version, and a journal or a state that was
//! deleted alone.

use redis::cmd;

use crate::drive::{Drive, contexts};
use crate::ground::Ground;

/// Minutes for which an entry of a later version waits for an instance that can read it.
const GRACE: u64 = 10;

#[test]
fn an_entry_of_a_later_version_waits_for_ten_minutes() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    let mut folding = drive.folder("folder");
    let append = |flushing: &mut _, name: &str| {
        drive.send(&flusher, flushing, &[name.to_owned()]);
    };
    append(&mut flushing, "GET /a");
    drive.turn(&mut folding);
    // The folder that holds the lease folds the entries before the later one.
    append(&mut flushing, "GET /a");
    assert!(drive.data.append_newer());
    append(&mut flushing, "GET /b");
    drive.turn(&mut folding);
    assert_eq!(drive.counted("GET /a"), (2, 2));
    assert_eq!(drive.counted("GET /b"), (0, 0));
    let lease: Option<String> = drive.data.query(cmd("GET").arg("pulse:lease:fold"));
    assert_eq!(
        lease, None,
        "a lease would stop an instance that can read the entry"
    );

    let mut another = drive.folder("another");
    drive.wait(&mut another, GRACE - 1);
    drive.pass(59);
    drive.turn(&mut folding);
    assert_eq!(drive.counted("GET /b"), (0, 0));
    assert_eq!(drive.number("set_aside"), 0);
    drive.pass(1);
    drive.turn(&mut folding);
    assert_eq!(drive.counted("GET /b"), (1, 1));
    assert_eq!(drive.number("set_aside"), 1);
    assert_eq!((drive.data.is_folded(), drive.entries()), (true, 0));
    // Instances of this version fold again.
    append(&mut flushing, "GET /b");
    drive.turn(&mut drive.folder("another"));
    drive.turn(&mut folding);
    assert_eq!(drive.counted("GET /b"), (2, 2));
}

#[test]
fn a_journal_that_was_deleted_alone_is_reported_as_a_hole() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    let mut folding = drive.folder("folder");
    let append = |flushing: &mut _| {
        drive.send(&flusher, flushing, &contexts(2));
    };
    append(&mut flushing);
    drive.turn(&mut folding);
    append(&mut flushing);
    let () = drive.data.query(cmd("DEL").arg("pulse:journal"));
    drive.turn(&mut folding);
    let hole = drive.number("hole");
    assert!(hole > 0 && drive.data.is_folded());
    // A hole before other entries.
    append(&mut flushing);
    let () = drive.data.query(cmd("DEL").arg("pulse:journal"));
    append(&mut flushing);
    drive.turn(&mut folding);
    assert!(drive.number("hole") > hole && drive.data.is_folded());
    assert_eq!(drive.counted("GET /1"), (2, 2));
    assert_eq!(drive.number("orphaned"), 0);
}

#[test]
fn a_state_that_was_deleted_alone_orphans_the_journal() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    let mut folding = drive.folder("folder");
    let append = |flushing: &mut _| {
        drive.send(&flusher, flushing, &contexts(2));
    };
    append(&mut flushing);
    drive.turn(&mut folding);
    append(&mut flushing);
    let () = drive.data.query(cmd("DEL").arg("pulse:state"));
    append(&mut flushing);
    drive.turn(&mut folding);
    drive.pass(6);
    let () = drive.data.query(cmd("DEL").arg("pulse:lease:fold"));
    drive.turn(&mut folding);
    drive.turn(&mut flushing);
    drive.turn(&mut folding);
    assert_eq!(drive.number("orphaned"), 1);
    let orphaned: usize = drive.data.query(cmd("XLEN").arg("pulse:orphaned"));
    assert_eq!(orphaned, 1);
    // The folded call and the call after the loss count. The call between is sent again or counted as lost.
    let (hits, recorded) = drive.counted("GET /1");
    assert_eq!((hits, hits + flusher.lost() / 2), (recorded, 2));
    assert!(drive.data.is_folded());
}

/// Requests that were acknowledged meanwhile were in no count.
#[test]
fn a_state_that_comes_back_counts_what_was_appended_to_another_one() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    let mut append = |contexts_count| {
        drive.send(&flusher, &mut flushing, &contexts(contexts_count));
    };
    let rename = |from: &str, to: &str| {
        let () = drive.data.query(cmd("RENAME").arg(from).arg(to));
    };
    let fold = || {
        let () = drive.data.query(cmd("DEL").arg("pulse:lease:fold"));
        drive.turn(&mut drive.folder("folder"));
    };
    append(50);
    fold();
    rename("pulse:state", "away");
    append(1);
    fold();
    append(1);
    assert_eq!(drive.entries(), 1, "nobody has folded it");
    rename("away", "pulse:state");
    append(1);
    for _ in 0..2 {
        fold();
        let (hits, recorded) = drive.counted("GET /0");
        let lost = flusher.lost() + drive.number("set_aside");
        assert_eq!((hits, recorded), (3 - flusher.lost(), hits));
        assert_eq!(hits + lost, 4, "of 4 requests");
    }
    assert!(drive.data.is_folded());
}
