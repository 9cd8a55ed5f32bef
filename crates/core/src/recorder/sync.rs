//! The primitives of the recording shards, which `tests/loom` replaces to try every interleaving.

pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
pub(super) use std::thread::yield_now;

/// Number of buckets of a cell.
pub(super) const BUCKETS_PER_CELL: usize = tower_pulse_model::histogram::BUCKETS;

/// Number of attempts to take a shard before the thread yields to other threads.
pub(super) const TRIES: usize = 64;
