//! The bytes of a context in the process: its names, its shards, and one live cell.

use tower_pulse::Pulse;

use crate::Failure;
use crate::alloc;
use crate::driver::Runtimes;

const CONTEXTS: usize = 1_000;

/// The bytes of each context. The context has one live cell, because this thread records into one shard.
pub(crate) fn per_context(runtimes: &Runtimes) -> Result<f64, Failure> {
    let pulse = {
        let _inside = runtimes.background().enter();
        Pulse::builder().build()?
    };
    pulse.timer("warm up").stop();
    let names: Vec<_> = (0..CONTEXTS).map(|n| format!("context {n}")).collect();
    let bytes = alloc::retained_bytes(|| {
        for name in &names {
            pulse.timer(name).stop();
        }
    });
    runtimes.background().block_on(pulse.shutdown())?;
    Ok(bytes as f64 / CONTEXTS as f64)
}
