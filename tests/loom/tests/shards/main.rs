//! Recorders and a drain, in every interleaving.

#![allow(
    dead_code,
    unused_imports,
    reason = "the recorder uses more of these files, and their own tests do not run here"
)]

mod recorder;

use loom::model::Builder;
use loom::thread;

use self::recorder::Cells;

/// The most preemptions that are explored with two recorders: all interleavings of three threads would take hours.
const INTERRUPTIONS: usize = 4;

/// Nothing is lost or doubled, although a drain visits only marked contexts.
fn main() {
    // The recorder finds its shard empty for its first sample, and filled for its second, or empty again if a drain
    // comes between.
    explore(None, 1, 2);
    explore(Some(INTERRUPTIONS), 2, 1);
}

/// Explores recorders that each add some samples during a drain.
fn explore(interruptions: Option<usize>, recorders: u64, samples: u64) {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = interruptions;
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
