//! Stamps are the times at which entries were appended. A stamp is in the future if the server's clock was ahead. Such
//! a stamp counts as the time at which a folder reads the entry.

use tower_pulse_model::pack::from_hex;
use tower_pulse_model::slice::HOUR;
use tower_pulse_model::tier::{RolledUp, WIDTHS};

use crate::journal::drive::{Drive, contexts};
use crate::journal::net::Request;
use crate::journal::step::is_fold;
use crate::journal::tested_store::TestedStore;
use crate::stores::fixture::NOW;

const DAY: i64 = 86_400;
/// Longer than the widest window.
const YEAR: i64 = 365 * DAY;

fn set_clock(drive: &Drive, time: i64) {
    drive.data.manual_clock.set_wall(time);
}

/// The time up to which slices are rolled up.
fn rolled_until(drive: &Drive) -> i64 {
    from_hex::<RolledUp>(&drive.field("rolled")).map_or(i64::MIN, |rolled| rolled.until())
}

#[test]
fn a_stamp_in_the_future_removes_no_other_sample_from_the_windows() {
    for ahead in [3 * HOUR, DAY, 3 * DAY, YEAR] {
        let (drive, mut flushing, mut folding) = Drive::with_processes();
        let names = contexts(2);
        drive.send(&mut flushing, &names);
        set_clock(&drive, NOW + ahead);
        drive.send(&mut flushing, &names);
        set_clock(&drive, NOW);
        drive.send(&mut flushing, &names);
        drive.run_once(&mut folding);
        drive.assert_counted(&names, &WIDTHS, 3);
        let until = rolled_until(&drive);
        assert!(until <= NOW + HOUR, "{ahead}: {until}");
        for calls in 4..7 {
            drive.advance(90);
            drive.send(&mut flushing, &names);
            drive.run_once(&mut folding);
            drive.assert_counted(&names, &WIDTHS, calls);
        }
        assert_eq!((drive.number("late"), drive.number("skewed")), (0, 0));
    }
}

/// A sample is two hours in the future when its round begins. Another folder finishes the round an hour later.
#[test]
fn both_folders_of_a_round_handle_a_stamp_in_the_future_alike() {
    let (drive, mut flushing, _) = Drive::with_processes();
    let names = contexts(120);
    set_clock(&drive, NOW + DAY);
    flushing.as_flusher().add(drive.batch(&names));
    flushing.as_flusher().add(drive.batch_at(&names, 2 * HOUR));
    drive.run_once(&mut flushing);
    set_clock(&drive, NOW);
    let mut dead = drive.folder("dead");
    let step = drive.until(&mut dead, is_fold);
    let has_more = matches!(step, Some(Request::Fold(step)) if step.done.is_some());
    assert!(has_more, "the round has only one step");
    drive.deliver(&dead);
    drive.advance(HOUR as u64);
    drive.take_over(1);
    assert!(drive.data.is_folded());
    drive.assert_counted(&names, &[3_600], 1);
    assert_eq!(drive.number("skewed"), names.len() as u64);
}

/// The clock is ahead when an entry is appended, and still when the entry is folded.
#[test]
fn a_roll_up_beyond_the_present_is_reset_and_no_sample_is_lost() {
    for ahead in [DAY, YEAR] {
        let (drive, mut flushing, mut folding) = Drive::with_processes();
        let names = contexts(2);
        drive.send(&mut flushing, &names);
        drive.run_once(&mut folding);
        set_clock(&drive, NOW + ahead);
        let mut batch = drive.batch(&[]);
        batch.count(&"sales".into(), NOW, 1);
        flushing.as_flusher().add(batch);
        drive.run_once(&mut flushing);
        drive.take_over(1);
        assert!(rolled_until(&drive) > NOW + ahead - 120);
        set_clock(&drive, NOW);
        for calls in 2..4 {
            drive.send(&mut flushing, &names);
            drive.take_over(1);
            drive.assert_counted(&names, &WIDTHS, calls);
        }
        let until = rolled_until(&drive);
        assert!(until <= NOW + 8 * HOUR, "{until}");
        drive.free_lease();
        let mut folding = drive.folder("later");
        // The clock passes `until`. From then on, slices are rolled up as they end.
        for seconds in [3_000; 10].into_iter().chain([90]) {
            drive.advance(seconds);
            drive.send(&mut flushing, &names);
            drive.run_once(&mut folding);
        }
        let now = drive.data.now();
        let until = rolled_until(&drive);
        assert!((now - 120..=now).contains(&until), "{until} at {now}");
        drive.assert_counted(&names, &[1_800, 3_600, 21_600, 86_400], 3 + 11);
    }
}
