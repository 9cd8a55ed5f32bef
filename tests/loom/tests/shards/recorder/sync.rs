//! Replaces `crates/core/src/recorder/sync.rs` by the atomics of loom, and by the smallest sizes that allow every
//! interleaving.

pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::thread::yield_now;

/// Few buckets, because loom tracks each atomic.
pub(crate) const BUCKETS_PER_CELL: usize = 2;

/// The number of shards that a thread tries before it yields.
pub(crate) const TRIES: usize = 2;
