//! Replaces `crates/core/src/recorder/sync.rs`: has the atomics of loom, and the smallest sizes that show every
//! interleaving.

pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::thread::yield_now;

/// Few, as loom tracks each atomic.
pub(crate) const BUCKETS_PER_CELL: usize = 2;

/// Number of shards to try before the thread yields to others.
pub(crate) const TRIES: usize = 2;
