//! Entries of a later version of this crate. Folders fold all entries before the first such entry, and then wait for at
//! most ten minutes, even if the server's clock jumps.

use redis::cmd;
use tower_pulse_core::store::Upkeep;
use tower_pulse_model::entry::ENTRY_VERSION;

use crate::journal::drive::{Drive, LEASE, contexts};
use crate::journal::net::Request;
use crate::journal::process::Process;
use crate::journal::tested_store::TestedStore;

/// The minutes for which an entry of a later version waits for an instance that can read the entry.
const GRACE: u64 = 10;
const DAY: i64 = 86_400;
/// The version of this crate's entries, and the version of later entries.
const OWN: &str = "1";
const LATER: &str = "9";

/// A journal with three entries, and a folder that waits at the second entry, which has a later version.
fn waiting() -> (Drive, Process) {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    drive.send(&mut flushing, &contexts(1));
    assert!(drive.data.append_newer());
    drive.send(&mut flushing, &contexts(1));
    drive.run_once(&mut folding);
    let counted = drive.counted("GET /0");
    assert_eq!(counted, (1, 1), "the first entry is folded");
    (drive, folding)
}

/// The waiting entry in the store's status: its version, and the newest version that this crate can read.
fn reported(drive: &Drive) -> Option<(u64, u64)> {
    let now = drive.data.now();
    let status = drive.data.block_on(drive.data.store.status(now)).unwrap();
    let newer = status.newer?;
    Some((newer.version, newer.readable))
}

fn xdel(drive: &Drive, id: &str) {
    let () = drive.data.query(cmd("XDEL").arg("pulse:journal").arg(id));
}

/// The field `need` of `pulse:state` is the newest version among the entries. A rollback or a person can leave a `need`
/// that no entry has.
#[test]
fn a_need_that_no_entry_has_stops_no_folder() {
    for is_folded in [true, false] {
        let (drive, mut flushing, mut folding) = Drive::with_processes();
        drive.send(&mut flushing, &contexts(1));
        if is_folded {
            drive.run_once(&mut folding);
            drive.set("need", "4");
            // The takeover clears `need`, so folders of older versions do not wait.
            drive.take_over(1);
            assert_eq!(drive.number("need"), 0);
            drive.free_lease();
        }
        drive.set("need", "4");
        drive.send(&mut flushing, &contexts(1));
        assert_eq!(drive.number("need"), 4, "an append never lowers `need`");
        drive.run_once(&mut drive.folder("third"));
        assert_eq!(drive.counted("GET /0").0, 2);
        assert!(drive.data.is_folded());
        assert_eq!((drive.number("need"), reported(&drive)), (0, None));
    }
}

#[test]
fn an_append_raises_need_for_folders_of_older_versions() {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    for _ in 0..2 {
        drive.send(&mut flushing, &contexts(1));
        assert_eq!(drive.field("need"), OWN);
        // The entry is appended between the round's last read and the round's last step.
        drive.until(&mut folding, |request| matches!(request, Request::Fold(_)));
        assert!(drive.data.append_newer());
        drive.deliver(&folding);
        assert_eq!(drive.field("need"), LATER);
        drive.run_once(&mut folding);
        drive.wait(&mut folding, GRACE + 1);
        assert!(drive.data.is_folded());
        assert_eq!(drive.number("need"), 0);
    }
}

#[test]
fn folders_wait_at_an_entry_of_a_later_version_and_report_it() {
    let (drive, mut folding) = waiting();
    assert_eq!(reported(&drive), Some((9, ENTRY_VERSION.into())));
    let lease: Option<String> = drive.data.query(cmd("GET").arg(LEASE));
    assert_eq!(
        lease, None,
        "the lease would stop an instance that can read the entry"
    );
    // Another folder learns from the state that it must wait, without reading the journal.
    let mut second = drive.folder("second");
    let read = drive.until(&mut second, |request| matches!(request, Request::Read(..)));
    assert!(read.is_none());
    drive.wait(&mut folding, GRACE - 1);
    drive.run_once(&mut second);
    assert_eq!(drive.number("set_aside"), 0);
    drive.advance(60);
    // Another instance continues the count of minutes that the first instance began.
    drive.run_once(&mut second);
    assert_eq!(drive.number("set_aside"), 1);
    assert_eq!(drive.counted("GET /0"), (2, 2));
    assert_eq!((drive.data.is_folded(), reported(&drive)), (true, None));
}

#[test]
fn an_entry_that_was_deleted_by_hand_stops_no_folder() {
    let (drive, mut folding) = waiting();
    let newer = drive.field("newer");
    let (id, _) = newer.split_once(' ').unwrap();
    xdel(&drive, id);
    drive.run_times(&mut folding, 2);
    assert_eq!(drive.counted("GET /0"), (2, 2));
    assert!(drive.data.append_newer());
    drive.run_once(&mut folding);
    xdel(&drive, &drive.field("head"));
    let mut second = drive.folder("second");
    drive.run_times(&mut second, 2);
    assert_eq!((drive.data.is_folded(), reported(&drive)), (true, None));
    assert_eq!((drive.number("need"), drive.number("hole")), (0, 4));
}

/// An instance of the later version began the round, and does not finish it.
#[test]
fn an_interrupted_round_waits_for_its_later_version_and_is_finished_without_it() {
    let (drive, mut folding) = waiting();
    let head = drive.field("head");
    drive.set("upto", &head);
    drive.set("newer", "");
    drive.run_once(&mut folding);
    assert_eq!(reported(&drive), Some((9, ENTRY_VERSION.into())));
    assert_eq!(drive.counted("GET /0"), (1, 1));
    drive.wait(&mut folding, GRACE);
    assert_eq!(drive.counted("GET /0"), (2, 2));
    assert!(drive.data.is_folded());
    assert_eq!(drive.number("set_aside"), 1);
}

#[test]
fn entries_of_a_later_version_wait_together() {
    let (drive, mut folding) = waiting();
    let mut flushing = drive.flusher();
    for _ in 0..4 {
        drive.advance(5);
        assert!(drive.data.append_newer());
        drive.send(&mut flushing, &contexts(1));
    }
    drive.wait(&mut folding, GRACE + 1);
    drive.run_once(&mut folding);
    assert!(drive.data.is_folded());
    assert_eq!(drive.number("set_aside"), 5);
    assert_eq!(drive.counted("GET /0"), (6, 6));
    // An entry that is appended an hour later waits for its own ten minutes.
    drive.advance(3_600);
    assert!(drive.data.append_newer());
    drive.wait(&mut folding, GRACE);
    assert_eq!(drive.number("set_aside"), 5);
    drive.wait(&mut folding, 1);
    assert_eq!(drive.number("set_aside"), 6);
    // Each entry is set aside ten minutes after it was appended, not ten minutes after the entry before it.
    assert!(drive.data.append_newer());
    drive.wait(&mut folding, 3);
    assert!(drive.data.append_newer());
    drive.wait(&mut folding, GRACE - 2);
    assert_eq!(drive.number("set_aside"), 7);
    drive.wait(&mut folding, 2);
    drive.run_once(&mut folding);
    assert!(drive.data.is_folded());
    assert_eq!(drive.number("set_aside"), 8);
}

/// The server's clock was ahead when the entry was appended.
#[test]
fn an_entry_of_a_later_version_with_a_time_a_year_ahead_waits_for_ten_minutes() {
    let drive = Drive::start();
    drive.append(&contexts(1));
    let now = drive.data.now();
    drive.data.manual_clock.set_wall(now + 365 * DAY);
    assert!(drive.data.append_newer());
    drive.data.manual_clock.set_wall(now);
    let mut folding = drive.folder("folder");
    drive.run_once(&mut folding);
    assert_eq!(reported(&drive), Some((9, ENTRY_VERSION.into())));
    drive.wait(&mut folding, GRACE - 1);
    assert_eq!(drive.number("set_aside"), 0);
    drive.wait(&mut folding, 1);
    assert!(drive.data.is_folded());
    assert_eq!(drive.number("set_aside"), 1);
}

/// The clock jumps while the entry waits, and then stays there or jumps back.
#[test]
fn jumps_of_the_servers_clock_neither_end_nor_prolong_the_wait() {
    for jump in [DAY, -DAY] {
        for is_permanent in [true, false] {
            let (drive, mut folding) = waiting();
            drive.wait(&mut folding, 1);
            let now = drive.data.now();
            drive.data.manual_clock.set_wall(now + jump);
            drive.run_once(&mut folding);
            assert_eq!(drive.number("set_aside"), 0, "{jump} {is_permanent}");
            let from = if is_permanent { now + jump } else { now };
            let mut waited = 0;
            while drive.number("set_aside") == 0 && waited <= GRACE {
                waited += 1;
                drive.data.manual_clock.set_wall(from + 60 * waited as i64);
                drive.run_once(&mut folding);
            }
            // A jump ahead counts as at most a minute.
            let is_ten = (GRACE - 2..=GRACE).contains(&waited);
            assert!(is_ten, "{jump} {is_permanent}: {waited}");
            assert!(drive.data.is_folded());
            assert_eq!(drive.counted("GET /0"), (2, 2));
        }
    }
}

/// Each note (the field `newer` of `pulse:state`) is garbage, or names an entry that this version can read.
#[test]
fn a_wrong_note_about_a_later_version_stops_no_folder() {
    let huge = "99999999999999999999999-1 9 1 1";
    for note in ["x", "1-1", "x 9 1 1", huge, "7-7 9 1 0", "HEAD 1 NOW 0"] {
        let drive = Drive::start();
        drive.append(&contexts(1));
        let is_readable = note.starts_with("HEAD");
        let note = note.replace("HEAD", &drive.field("head"));
        drive.set("newer", &note.replace("NOW", &drive.data.now().to_string()));
        assert!(reported(&drive).is_none() || !is_readable);
        drive.run_once(&mut drive.folder("folder"));
        assert_eq!(drive.counted("GET /0"), (1, 1), "{note}");
        assert_eq!((drive.data.is_folded(), reported(&drive)), (true, None));
        assert!(drive.field("newer").is_empty() || !is_readable);
    }
}
