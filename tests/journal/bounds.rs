//! A server whose memory is full, and the removal of old fences.

use redis::cmd;
use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::journal::Journal;

use crate::journal::drive::{Drive, contexts};
use crate::journal::tested_store::TestedStore;

const MORE_THAN_A_DAY: u64 = 86_400 + 60;

#[test]
fn a_server_out_of_memory_refuses_calls_but_folds_entries() {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    let names = contexts(3);
    drive.send(&mut flushing, &names);

    drive.limit_memory("1");
    let before = drive.data.state();
    let request = drive.until_append(&mut flushing, &names);
    let error = drive.data.run(&request).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains("memory"), "{error}");
    assert_eq!((drive.data.state(), drive.entries()), (before, 1));
    flushing.answer(Err(error));
    assert!(drive.until(&mut flushing, |_| true).is_none());

    drive.run_once(&mut folding);
    assert_eq!((drive.data.is_folded(), drive.entries()), (true, 0));
    assert_eq!(drive.counted(&names[0]), (1, 1));
    let count = ("stats:GET /0:AccessTime", "count");
    let all: Option<f64> = drive.data.query(cmd("ZSCORE").arg(count));
    assert_eq!((all, drive.number("quarantined")), (Some(1.0), 0));

    drive.limit_memory("0");
    drive.run_once(&mut flushing);
    drive.run_once(&mut folding);
    assert_eq!(drive.counted(&names[0]), (2, 2));
}

#[test]
fn a_fence_that_is_idle_for_a_day_is_removed_and_its_instance_continues() {
    let drive = Drive::start();
    let names = contexts(1);
    let (mut idle, mut busy) = (drive.flusher(), drive.flusher());
    let mut folding = drive.folder("folder");
    drive.send(&mut idle, &names);
    drive.send(&mut busy, &names);
    drive.run_once(&mut folding);
    drive.advance(70);
    drive.run_once(&mut idle);
    drive.advance(MORE_THAN_A_DAY);
    drive.send(&mut busy, &names);

    let fences = || {
        let state = drive.data.state();
        state.keys().filter(|field| field.starts_with("f:")).count()
    };
    assert_eq!(fences(), 2);
    let version = drive.field("v");
    let removed = |version: &str| {
        let removed = drive.data.store.remove_fences(version);
        drive.data.block_on(removed).unwrap()
    };
    assert_eq!((removed("another version"), fences()), (0, 2));
    assert_eq!((removed(&version), fences()), (1, 1));

    drive.send(&mut idle, &names);
    drive.run_once(&mut folding);
    assert_eq!(drive.counted(&names[0]), (4, 4));
    let idle = idle.as_flusher();
    assert_eq!((idle.lost(), idle.replayed(), fences()), (0, 0, 2));
}
