//! Replaces `crates/core/src/recorder/sync.rs`. The atomics are loom's, and the sizes are the smallest that allow every
//! interleaving.

pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::thread::yield_now;

/// Few buckets, because loom tracks each atomic.
pub(crate) const BUCKETS_PER_CELL: usize = 2;

/// The number of attempts before a thread yields.
pub(crate) const TRIES: usize = 2;
