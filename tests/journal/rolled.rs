//! A roll-up adds ended slices to the coarser tiers once, even if a folder is interrupted.

use tower_pulse_model::tier::WIDTHS;

use crate::journal::drive::{Drive, contexts};
use crate::journal::net::Request;
use crate::journal::step::is_roll_up_step;

/// Enough contexts for several steps of a roll-up.
const CONTEXTS: usize = 250;

fn is_roll_up(request: &Request) -> bool {
    matches!(request, Request::Fold(step) if is_roll_up_step(step))
}

/// A store in which a minute with a request of each context has ended. The journal has another request of each context.
fn with_an_ended_minute() -> (Drive, Vec<String>) {
    let (drive, mut flushing, mut folding) = Drive::with_processes();
    let names = contexts(CONTEXTS);
    drive.send(&mut flushing, &names);
    drive.run_once(&mut folding);
    drive.advance(90);
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
    drive.advance(90);
    // Appends requests of a minute that is rolled up, and of the current minute.
    let mut flushing = drive.flusher();
    flushing.as_flusher().add(drive.batch_at(&names, -180));
    drive.send(&mut flushing, &names);
    drive.run_once(&mut second);
    drive.assert_counted(&names, &WIDTHS, 4);
}

/// Each record of a coarser tier stores the time up to which slices were added to the record, so a roll-up does not
/// depend on the state.
#[test]
fn a_state_deleted_during_a_roll_up_loses_no_folded_request() {
    let (drive, names) = with_an_ended_minute();
    let mut first = drive.folder("first");
    assert!(drive.until(&mut first, is_roll_up).is_some());
    drive.deliver(&first);
    drive.delete("pulse:state");
    drive.delete("pulse:journal");
    drive.advance(1);
    drive.append(&names);
    drive.take_over(1);
    // Only the requests in the deleted journal are lost.
    drive.assert_counted(&names, &WIDTHS, 2);
}
