//! The atomics of the recording shards. Loom replaces them with its own, to try every interleaving.

#[cfg(all(test, pulse_loom))]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    thread::yield_now,
};
#[cfg(not(all(test, pulse_loom)))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    thread::yield_now,
};
