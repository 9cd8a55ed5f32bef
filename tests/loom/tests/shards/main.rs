//! Two recorders and a drain, in every interleaving of at most four preemptions.

#![allow(
    dead_code,
    unused_imports,
    reason = "the recorder uses more of these files, and their own tests do not run here"
)]

mod recorder;

use loom::model::Builder;
use loom::thread;

use self::recorder::Cells;

/// Nothing is lost or doubled, although only what is marked is drained.
fn main() {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    // Without a bound it takes hours. The authors of loom advise two or three.
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let cells = Cells::default();
        let record = |nanos| {
            let cells = cells.clone();
            thread::spawn(move || cells.record(nanos))
        };
        let recorders = [0, 1].map(record);
        let early = cells.drain();
        for recorder in recorders {
            recorder.join().expect("a recorder ends");
        }
        assert_eq!(early + cells.drain(), 2);
    });
}
