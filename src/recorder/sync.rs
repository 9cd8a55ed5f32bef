//! What the recording shards are built of, and what `tests/loom` replaces to try every interleaving.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use std::thread::yield_now;

/// Number of buckets of a cell.
pub(crate) const BUCKETS_PER_CELL: usize = tower_pulse_model::histogram::BUCKETS;

/// Number of shards to try before the thread yields to others.
pub(crate) const TRIES: usize = 64;
