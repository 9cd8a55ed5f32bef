//! Runs a drain with one recorder in every interleaving, and with two recorders in interleavings with few preemptions.

#![allow(
    dead_code,
    unused_imports,
    reason = "the files of the core have items for other modules, and unit tests that do not run"
)]

mod recorder;

use loom::model::Builder;
use loom::thread;

use self::recorder::Cells;

/// The most preemptions with two recorders: all interleavings of three threads would take hours.
const PREEMPTIONS: usize = 4;

/// Checks that each sample is drained once, although a drain visits only contexts whose dirty bit is set.
fn main() {
    // At the first sample, the recorder's shard is empty. At the second sample, the shard is filled, or empty again
    // after a drain.
    explore(None, 1, 2);
    explore(Some(PREEMPTIONS), 2, 1);
}

/// Explores recorders that each add `samples` samples during a drain.
fn explore(preemptions: Option<usize>, recorders: u64, samples: u64) {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let cells = Cells::default();
        let record = |recorder| {
            let cells = cells.clone();
            thread::spawn(move || (0..samples).for_each(|nanos| cells.record(recorder + nanos)))
        };
        let threads: Vec<_> = (0..recorders).map(record).collect();
        let early = cells.drain();
        for thread in threads {
            thread.join().expect("a recorder ends");
        }
        assert_eq!(early + cells.drain(), recorders * samples);
    });
}
