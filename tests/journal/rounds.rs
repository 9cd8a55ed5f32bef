//! Rounds that another folder takes over or that a failover interrupts, and steps that arrive twice.

use tower_pulse::StoreError;
use tower_pulse::StoreErrorKind::TimedOut;
use tower_pulse_core::store::journal::{Acquired, FoldStep, VersionedResult};
use tower_pulse_model::round::partition;

use crate::journal::drive::{Drive, contexts};
use crate::journal::net::{Reply, Request};
use crate::journal::process::Process;
use crate::journal::step::{is_fold, partitions};
use crate::journal::tested_store::TestedStore;

fn step_of(request: Option<Request>) -> FoldStep {
    match request {
        Some(Request::Fold(step)) => *step,
        _ => panic!("not a step of a fold"),
    }
}

#[test]
fn a_folder_that_takes_over_finishes_the_round() {
    let (drive, mut flushing, _) = Drive::with_processes();
    let names = contexts(120);
    drive.send(&mut flushing, &names);

    let (mut frozen, mut other) = (drive.folder("frozen"), drive.folder("other"));
    let first = step_of(drive.until(&mut frozen, is_fold));
    assert!(first.done.is_some(), "the round has only one step");
    drive.deliver(&frozen);
    let second = step_of(drive.until(&mut frozen, is_fold));

    drive.send(&mut flushing, &names);
    drive.free_lease();
    drive.until(&mut other, |request| {
        matches!(request, Request::Acquire(..))
    });
    let Reply::Acquire(Acquired::Mine(progress)) = drive.deliver(&other) else {
        panic!("the lease is free");
    };
    assert_eq!(progress.round_end, first.round_end);
    let mut written: Vec<usize> = partitions(&first).into_iter().collect();
    let mut partitions_of_first = written.iter();
    assert!(partitions_of_first.all(|partition| progress.done.contains(*partition)));
    loop {
        let step = step_of(drive.until(&mut other, is_fold));
        assert_eq!(step.round_end, first.round_end, "another round");
        written.extend(partitions(&step));
        drive.deliver(&other);
        if step.done.is_none() {
            break;
        }
    }
    let mut expected: Vec<usize> = names.iter().map(|name| partition(name)).collect();
    expected.push(partition("<all>"));
    for partitions in [&mut written, &mut expected] {
        partitions.sort_unstable();
    }
    expected.dedup();
    assert_eq!(written, expected, "each partition once");
    assert_eq!(drive.counted(&names[7]), (1, 1));

    // When the frozen folder continues, its step has no effect.
    assert_eq!(second.round_end, first.round_end);
    let Reply::Fold(VersionedResult::Stale(_)) = drive.deliver(&frozen) else {
        panic!("a step under an old version");
    };
    drive.run_once(&mut frozen);
    drive.run_once(&mut other);
    drive.run_once(&mut frozen);
    drive.assert_counted(&names, &[3_600], 2);
    assert!(drive.data.is_folded());
}

#[test]
fn a_step_that_arrives_again_takes_effect_once() {
    let drive = Drive::start();
    let names = contexts(60);
    drive.append(&names);
    let mut folding = drive.folder("folder");
    let mut steps = Vec::new();
    while let Some(request) = drive.until(&mut folding, is_fold) {
        // The step takes effect, but its answer is lost. The folder sends the step again. Then copies of all steps so
        // far arrive.
        let Ok(Reply::Fold(VersionedResult::Done(()))) = drive.data.run(&request) else {
            panic!("the step must be done");
        };
        folding.take_request();
        folding.answer(Err(StoreError::new(TimedOut, "no answer")));
        let again = step_of(drive.until(&mut folding, is_fold));
        let step = step_of(Some(request));
        assert_eq!((&again.version, &again.next), (&step.version, &step.next));
        let Reply::Fold(VersionedResult::Stale(version)) = drive.deliver(&folding) else {
            panic!("the step had taken effect");
        };
        assert_eq!(version, step.next);
        steps.push(step);
        for step in &steps {
            let reply = drive.data.run(&Request::Fold(Box::new(step.clone())));
            assert!(
                matches!(reply, Ok(Reply::Fold(VersionedResult::Stale(_)))),
                "{reply:?}"
            );
        }
    }
    assert!(steps.len() > 1);
    drive.assert_counted(&names, &[3_600], 1);
    assert!(drive.data.is_folded());
}

const SNAPSHOT: usize = 1;

#[test]
fn another_entry_at_the_same_offset_is_not_folded() {
    let drive = Drive::start();
    let names = contexts(1);
    let (mut losing, mut other) = (drive.flusher(), drive.flusher());
    // Both instances call `hello` before the failover, which loses the calls of the first instance.
    for flushing in [&mut losing, &mut other] {
        drive.run_once(flushing);
    }
    let mut folding = drive.folder("folder");
    drive.until_append(&mut losing, &names);
    drive.until(&mut folding, |request| matches!(request, Request::Read(..)));
    drive.data.save(SNAPSHOT);
    drive.run_once(&mut losing);
    let step = step_of(drive.until(&mut folding, is_fold));

    drive.data.restore(SNAPSHOT);
    drive.send(&mut other, &names);
    let head = drive.head();
    let round_end = step.round_end.unwrap();
    assert_eq!((head.offset, head == round_end), (round_end.offset, false));
    let reply = drive.deliver(&folding);
    assert!(
        matches!(reply, Reply::Fold(VersionedResult::Absent)),
        "{reply:?}"
    );
    for _ in 0..2 {
        drive.run_once(&mut losing);
        drive.run_once(&mut folding);
    }
    assert_eq!(drive.counted(&names[0]), (2, 2));
    assert_eq!(losing.replayed_and_lost(), (1, 0));
}

#[test]
fn a_failover_between_two_reads_of_a_round_ends_the_round() {
    let drive = Drive::start();
    let names = contexts(1);
    let (mut losing, mut other) = (drive.flusher(), drive.flusher());
    let mut folding = drive.folder("folder");
    // Limits a read to one entry.
    let read = |folding: &mut Process| {
        drive.until(folding, |request| matches!(request, Request::Read(..)));
        if let Some(Request::Read(_, _, _, bytes)) = &mut folding.wire.slot().request {
            *bytes = 1;
        }
    };
    drive.until_append(&mut losing, &names);
    read(&mut folding);
    drive.data.save(SNAPSHOT);
    drive.run_once(&mut losing);
    drive.send(&mut losing, &names);
    drive.deliver(&folding);
    read(&mut folding);

    drive.data.restore(SNAPSHOT);
    for _ in 0..3 {
        drive.send(&mut other, &contexts(9));
    }
    for _ in 0..2 {
        drive.run_once(&mut folding);
        drive.run_once(&mut losing);
    }
    drive.run_once(&mut folding);
    assert_eq!(drive.counted(&names[0]), (5, 5));
    assert_eq!(losing.replayed_and_lost(), (2, 0));
}
