//! Bounds: the memory of the server, the length of the journal, the number of fences.

use redis::cmd;
use tower_pulse::StoreErrorKind;

use crate::drive::{Drive, contexts};
use crate::ground::Ground;
use crate::net::{Reply, Request};

/// A day, and a little more.
const MORE_THAN_A_DAY: u64 = 86_400 + 60;
/// Entries that one script removes.
const TRIMMED_AT_ONCE: usize = 64;
/// Turns of a folder within which the whole journal is trimmed.
const MAX_TURNS: usize = 5;

#[test]
fn a_server_out_of_memory_refuses_calls_but_folds_entries() {
    let drive = Drive::start();
    let names = contexts(3);
    let (flusher, mut flushing) = drive.flusher();
    drive.send(&flusher, &mut flushing, &names);

    let limit = |bytes: u64| -> () {
        let mut config = cmd("CONFIG");
        drive
            .data
            .query(config.arg(&["SET", "maxmemory", &bytes.to_string()]))
    };
    limit(1);
    let before = drive.data.state();
    flusher.add(drive.batch(&names));
    let request = drive.until(&mut flushing, |request| {
        matches!(request, Request::Append(_))
    });
    let error = drive.data.run(&request.unwrap()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains("memory"), "{error}");
    assert_eq!((drive.data.state(), drive.entries()), (before, 1));
    flushing.answer(Err(error));
    assert!(drive.until(&mut flushing, |_| true).is_none());

    let mut folding = drive.folder("folder");
    drive.turn(&mut folding);
    assert_eq!((drive.data.is_folded(), drive.entries()), (true, 0));
    assert_eq!(drive.counted(&names[0]), (1, 1));
    let all: Option<f64> = drive
        .data
        .query(cmd("ZSCORE").arg("stats:GET /0:AccessTime").arg("count"));
    assert_eq!((all, drive.number("quarantined")), (Some(1.0), 0));

    limit(0);
    drive.turn(&mut flushing);
    drive.turn(&mut folding);
    assert_eq!(drive.counted(&names[0]), (2, 2));
}

#[test]
fn the_journal_is_trimmed_a_few_entries_at_a_time_until_it_is_empty() {
    let drive = Drive::start();
    let names = contexts(2);
    let (flusher, mut flushing) = drive.flusher();
    for _ in 0..3 * TRIMMED_AT_ONCE + 8 {
        drive.send(&flusher, &mut flushing, &names);
    }
    let appended = drive.entries() as u64;
    let mut folding = drive.folder("folder");
    let mut left = drive.entries();
    for _ in 0..MAX_TURNS {
        while drive
            .until(&mut folding, |request| matches!(request, Request::Fold(_)))
            .is_some()
        {
            drive.deliver(&folding);
            let entries = drive.entries();
            assert!(
                left - entries <= TRIMMED_AT_ONCE,
                "{left} to {entries} at once"
            );
            left = entries;
        }
    }
    assert_eq!(left, 0);
    assert_eq!(drive.counted(&names[1]), (appended, appended));
    // A turn without entries to trim changes nothing.
    drive.turn(&mut folding);
    assert_eq!((drive.entries(), drive.data.is_folded()), (0, true));
}

#[test]
fn entries_that_a_folder_left_are_trimmed_by_the_next_one() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    for _ in 0..2 * TRIMMED_AT_ONCE {
        drive.send(&flusher, &mut flushing, &contexts(2));
    }
    let mut first = drive.folder("first");
    drive.until(&mut first, |request| matches!(request, Request::Fold(_)));
    drive.deliver(&first);
    assert!(drive.data.is_folded() && drive.entries() > 0);
    drop(first);
    let () = drive.data.query(cmd("DEL").arg("pulse:lease:fold"));
    drive.send(&flusher, &mut flushing, &contexts(1));
    let mut second = drive.folder("second");
    for _ in 0..MAX_TURNS {
        drive.turn(&mut second);
    }
    assert_eq!((drive.entries(), drive.data.is_folded()), (0, true));
    assert_eq!(drive.counted("GET /1").0, 2 * TRIMMED_AT_ONCE as u64);
}

#[test]
fn calls_have_hundreds_of_contexts_if_there_are_so_many() {
    let drive = Drive::start();
    let (flusher, mut flushing) = drive.flusher();
    flusher.add(drive.batch(&contexts(5_000)));
    for _ in 0..3 {
        let request = drive.until(&mut flushing, |request| {
            matches!(request, Request::Append(_))
        });
        let Some(Request::Append(call)) = request else {
            panic!("it appends nothing");
        };
        let contexts = call.batch.contexts.len();
        assert!((256..2_000).contains(&contexts), "{contexts}");
        drive.deliver(&flushing);
    }
}

#[test]
fn a_fence_that_is_idle_for_a_day_is_removed_and_its_instance_goes_on() {
    let drive = Drive::start();
    let names = contexts(1);
    let ((idle, mut idle_flushing), (busy, mut busy_flushing)) = (drive.flusher(), drive.flusher());
    let mut folding = drive.folder("folder");
    for (flusher, flushing) in [(&idle, &mut idle_flushing), (&busy, &mut busy_flushing)] {
        drive.send(flusher, flushing, &names);
    }
    drive.turn(&mut folding);
    drive.pass(70);
    drive.turn(&mut idle_flushing);
    drive.pass(MORE_THAN_A_DAY);
    drive.send(&busy, &mut busy_flushing, &names);

    let fences = || {
        drive
            .data
            .state()
            .keys()
            .filter(|field| field.starts_with("f:"))
            .count()
    };
    assert_eq!(fences(), 2);
    let version = drive.data.state()["v"].clone();
    let removed = |version: &str| match drive.data.run(&Request::RemoveFences(version.to_owned())) {
        Ok(Reply::RemoveFences(removed)) => removed,
        other => panic!("{other:?}"),
    };
    assert_eq!((removed("another version"), fences()), (0, 2));
    assert_eq!((removed(&version), fences()), (1, 1));

    drive.send(&idle, &mut idle_flushing, &names);
    drive.turn(&mut folding);
    assert_eq!(drive.counted(&names[0]), (4, 4));
    assert_eq!((idle.lost(), idle.replayed(), fences()), (0, 0, 2));
}
