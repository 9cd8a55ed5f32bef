//! Entries that another program adds to the journal. The server makes their ids from its time, far above the ids of
//! this crate. The stream then refuses the lower ids of this crate's entries.

use redis::cmd;
use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Store;

use crate::journal::drive::{Drive, contexts};
use crate::journal::net::Request;
use crate::journal::tested_store::TestedStore;

const JOURNAL: &str = "pulse:journal";

/// The highest possible id. A stream that has used this id accepts no more entries.
const LAST_ID: &str = "18446744073709551615-18446744073709551615";

/// Adds an entry as another program does. Returns its id.
fn add_foreign(drive: &Drive, id: &str) -> String {
    let mut add = cmd("XADD");
    drive.data.query(add.arg(JOURNAL).arg(&[id, "foo", "bar"]))
}

/// Checks that each call was counted once, that no loss is reported, and that the journal is empty.
fn assert_counted_once(drive: &Drive, calls: u64) {
    assert!(drive.data.is_folded());
    drive.assert_counted(&contexts(2), &[3_600], calls);
    for field in ["hole", "orphaned", "set_aside"] {
        assert_eq!(drive.number(field), 0, "{field}");
    }
    assert_eq!(drive.entries(), 0);
    let keys: Vec<String> = drive.data.query(cmd("KEYS").arg("pulse:journal*"));
    assert!(keys.len() <= 1, "{keys:?}");
}

/// Whether a warning names the journal.
pub(crate) fn has_warning(drive: &Drive) -> bool {
    let warnings = drive.data.store.warnings();
    let mut warnings = warnings.iter();
    warnings.any(|text| text.starts_with("pulse:journal held") && text.contains("another program"))
}

#[test]
fn entries_of_another_program_stop_no_append() {
    for (id, is_deleted) in [("*", false), ("*", true), (LAST_ID, false), (LAST_ID, true)] {
        let (drive, mut flushing, mut folding) = Drive::with_processes();
        for is_folded in [false, true] {
            drive.send(&mut flushing, &contexts(2));
            if is_folded {
                drive.run_once(&mut folding);
            }
            let foreign = add_foreign(&drive, id);
            if is_deleted {
                // The stream remembers its last id, even if the entry with this id is deleted.
                let () = drive.data.query(cmd("XDEL").arg(JOURNAL).arg(foreign));
            }
            assert!(!has_warning(&drive) || is_folded);
            drive.send(&mut flushing, &contexts(2));
            assert!(has_warning(&drive), "{id} {is_deleted}");
        }
        drive.run_times(&mut folding, 2);
        assert_counted_once(&drive, 4);
        assert_eq!(flushing.replayed_and_lost(), (0, 0));
    }
}

/// The stream has more entries than one command of the script copies. The first foreign entry is added in the middle of
/// a round.
#[test]
fn entries_that_are_not_folded_survive_the_removal_of_foreign_entries() {
    let (drive, mut flushing, _) = Drive::with_processes();
    let mut append = |calls: usize| {
        for _ in 0..calls {
            drive.send(&mut flushing, &contexts(2));
        }
    };
    append(70);
    let mut dead = drive.folder("dead");
    drive.until(&mut dead, |request| matches!(request, Request::Fold(_)));
    append(150);
    add_foreign(&drive, "*");
    append(1);
    // The round in progress ends before the foreign entry, so the round's step still takes effect.
    drive.deliver(&dead);
    drop(dead);
    drive.free_lease();
    append(1);
    add_foreign(&drive, "*");
    add_foreign(&drive, "*");
    let mut next = drive.folder("next");
    drive.run_once(&mut next);
    append(1);
    drive.run_times(&mut next, 8);
    assert_counted_once(&drive, 223);
}

/// A folder reads up to the newest entry that an instance has appended. Foreign entries after this entry do not count
/// as progress.
#[test]
fn foreign_entries_after_the_newest_entry_are_not_folded() {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    drive.send(&mut flushing, &contexts(2));
    let head = drive.field("head");
    for id in ["7000-1", "*"] {
        add_foreign(&drive, id);
    }
    drive.run_times(&mut folding, 3);
    let state = drive.data.state();
    assert_eq!((&state["low"], &state["head"]), (&head, &head));
    drive.send(&mut flushing, &contexts(2));
    drive.run_times(&mut folding, 2);
    assert_counted_once(&drive, 2);
}

/// The id of the foreign entry is between the ids of two entries, so the stream accepts the later entry.
#[test]
fn a_foreign_entry_between_two_entries_is_set_aside() {
    let (drive, mut flushing, _) = Drive::with_processes();
    for chain in ["18446744073709551615", "0"] {
        drive.send(&mut flushing, &contexts(2));
        let offset = drive.head().offset;
        let beyond = u64::from(chain == "0");
        add_foreign(&drive, &format!("{}-{chain}", offset + 5 * beyond));
    }
    drive.send(&mut flushing, &contexts(2));
    drive.take_over(3);
    let aside: usize = drive.data.query(cmd("XLEN").arg("pulse:aside"));
    assert_eq!(aside, 2);
    assert!(has_warning(&drive));
    assert_counted_once(&drive, 3);
}

/// The foreign entry is between two entries that are copied, and has more fields than a script can pass to a command.
#[test]
fn a_foreign_entry_of_ten_thousand_fields_loses_no_entry() {
    let (drive, mut flushing, _) = Drive::with_processes();
    drive.send(&mut flushing, &contexts(2));
    let offset = drive.head().offset;
    let mut add = cmd("XADD");
    add.arg(JOURNAL).arg(format!("{}-1", offset + 1));
    for n in 0..10_000 {
        add.arg(n).arg("x");
    }
    let _: String = drive.data.query(&add);
    drive.send(&mut flushing, &contexts(2));
    add_foreign(&drive, "*");
    drive.send(&mut flushing, &contexts(2));
    drive.take_over(3);
    assert_counted_once(&drive, 3);
}

#[test]
fn foreign_entries_stay_until_the_server_has_memory() {
    let (drive, mut flushing, _) = Drive::with_processes();
    drive.send(&mut flushing, &contexts(2));
    add_foreign(&drive, "*");
    drive.limit_memory("1");
    let before = drive.data.state();
    let request = drive.until_append(&mut flushing, &contexts(2));
    let error = drive.data.run(&request).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert_eq!((drive.data.state(), drive.entries()), (before, 2));
    drive.limit_memory("0");
    flushing.answer(Err(error));
    drive.run_times(&mut flushing, 2);
    drive.take_over(2);
    assert_counted_once(&drive, 2);
}
