//! Ended slices are added to the coarser tiers once, also if a folder is interrupted half-way.

use tower_pulse_model::tier::WIDTHS;

use crate::journal::drive::{Drive, contexts};
use crate::journal::net::Request;
use crate::journal::step::is_of_roll_up;

/// Enough contexts for several steps of rolling up.
const CONTEXTS: usize = 250;

fn is_roll_up(request: &Request) -> bool {
    matches!(request, Request::Fold(step) if is_of_roll_up(step))
}

/// A minute that has ended, with a request of each context in it and another one in the journal.
fn with_an_ended_minute() -> (Drive, Vec<String>) {
    let drive = Drive::start();
    let names = contexts(CONTEXTS);
    let mut flushing = drive.flusher();
    drive.send(&mut flushing, &names);
    let mut folding = drive.folder("before");
    drive.turn(&mut folding);
    drive.pass(90);
    drive.send(&mut flushing, &names);
    drive.free_lease();
    (drive, names)
}

#[test]
fn another_folder_completes_a_roll_up_that_was_interrupted() {
    let (drive, names) = with_an_ended_minute();
    // Reading all contexts after each step would take a minute.
    let some: Vec<String> = names.iter().step_by(7).cloned().collect();
    let mut first = drive.folder("first");
    for _ in 0..2 {
        assert!(drive.until(&mut first, is_roll_up).is_some());
        drive.assert_counted(&some, &WIDTHS, 1);
        drive.deliver(&first);
    }
    drop(first);
    drive.free_lease();
    let mut second = drive.folder("second");
    // The second folder rolls up all contexts again before it folds.
    let mut steps = 0;
    while drive.until(&mut second, is_roll_up).is_some() {
        drive.assert_counted(&some, &WIDTHS, 1);
        drive.deliver(&second);
        steps += 1;
    }
    assert_eq!(steps, 4);
    drive.assert_counted(&some, &WIDTHS, 2);
    drive.pass(90);
    // Requests in a minute that is rolled up, and in the open minute.
    let mut flushing = drive.flusher();
    flushing.flushes().add(drive.batch_at(&names, -180));
    drive.send(&mut flushing, &names);
    drive.turn(&mut second);
    drive.assert_counted(&names, &WIDTHS, 4);
}

/// Records say which slices are part of them, so that rolling up does not depend on the state.
#[test]
fn a_state_deleted_during_a_roll_up_costs_no_folded_request() {
    let (drive, names) = with_an_ended_minute();
    let mut first = drive.folder("first");
    assert!(drive.until(&mut first, is_roll_up).is_some());
    drive.deliver(&first);
    drive.delete("pulse:state");
    drive.delete("pulse:journal");
    drive.pass(1);
    drive.append(&names);
    drive.take_over();
    // Only the requests in the journal are gone.
    drive.assert_counted(&names, &WIDTHS, 2);
}
