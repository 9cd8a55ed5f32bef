//! The configuration on which the most memory depends, and the sizes that several features share. What a feature takes
//! is calculated in its own file; [`WorstCase`](super::worst_case) adds it up.

use super::aggregate::MAX_PART_BUCKETS;
use super::histogram::{BUCKETS, SCALE};
use super::measures;
use super::slice::Precision;

/// The configuration that the calculation depends on.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The most contexts, timers included.
    pub max_contexts: usize,
    /// The most counters that the user may add.
    pub max_counters: usize,
    /// Number of recording shards per context.
    pub shards: usize,
    /// The most bytes of acknowledged calls that are retained for a replay.
    pub replay_bytes: usize,
    /// Bytes of pending records above which they are compacted.
    pub pending_bytes: usize,
    /// Approximate limit in bytes of the records of a store in this process; `None` for a store elsewhere.
    pub memory_bytes: Option<usize>,
    /// The most bytes of the file that the store is; `None` for another store.
    pub file_bytes: Option<u64>,
    /// The most records that this process caches while it folds; 0 if it has nothing to fold.
    pub folder_records: usize,
    /// Whether the store is in this process, so that the journal is what its flushes have packed.
    pub is_in_process: bool,
    /// The most bytes of the journal in the store; 0 for a store in this process.
    pub journal_bytes: u64,
    /// The longest name: at most [`MAX_NAME`](super::context::MAX_NAME).
    pub name_bytes: usize,
    /// The most bytes of the trace id and the path of a slow or failed request: 0 if neither is recorded.
    pub slow_text_bytes: usize,
    /// Whether other instances may share the store, so that each reports its minutes.
    pub has_fleet: bool,
    /// Whether the application has a version: all contexts are reported while several run side by side.
    pub has_version: bool,
    /// The most bytes that are held of what is read for the admin router; 0 without one.
    pub query_bytes: usize,
    /// The days of the history; 0 without one.
    pub history_days: u32,
    /// The most bytes that the instance takes which looks for changes.
    pub judging_bytes: u64,
}

/// The most memory that a configuration can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorstCase {
    /// Bytes in each process, after an outage of the store that is long enough to fill every retained
    /// slice.
    pub process_bytes: u64,
    /// Bytes in the store that the fleet shares, when it has every slice and every histogram has all
    /// buckets; 0 for a store in this process.
    pub store_bytes: u64,
}

/// The most bytes that a feature takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FeatureBytes {
    /// In the process, while the store answers.
    pub(super) in_use: u64,
    /// Additions that wait for the store.
    pub(super) waiting: u64,
    /// In the instance that folds.
    pub(super) folding: u64,
    /// In the store.
    pub(super) stored: u64,
}

/// The most bytes of a file's pages that are held in memory.
pub const FILE_CACHE: usize = 16 * 1024 * 1024;

/// Synthetic contexts: `<unmatched>`, `<overflow>` and `<all>`.
const SYNTHETIC: usize = 3;

/// A pending slice of a counter.
pub(super) const PENDING_SLICE: u64 = 32;
/// A field of a table of a store in this process, beside its value.
pub(super) const STORED_FIELD: u64 = 8 + 96;
/// A bucket of a histogram in this process.
pub(super) const PENDING_BUCKET: u64 = 16;

impl Bounds {
    /// The most contexts, with the synthetic ones.
    pub fn contexts(&self) -> u64 {
        (self.max_contexts + SYNTHETIC) as u64
    }
}

/// Buckets of a record with this scale: those of the histogram and of its two parts.
pub(super) const fn buckets_at(scale: u8) -> u64 {
    let buckets = BUCKETS >> (SCALE - scale);
    let of_part = match buckets < MAX_PART_BUCKETS {
        true => buckets,
        false => MAX_PART_BUCKETS,
    };
    (buckets + 2 * of_part) as u64
}

/// Slices of a tier that a store has: one expires some time after readers stop showing it.
pub(super) fn stored_slices(tier: Precision) -> u64 {
    (tier.key_ttl() / i64::from(tier.seconds)) as u64
}

/// A packed record in its hash, with a count of a few digits in each bucket, without timers.
pub(super) fn packed_bytes(buckets: u64) -> u64 {
    buckets * 5 + 180 + measures::PACKED_BYTES
}
