//! The memory that contexts with usual requests take, beside the [worst case](super::worst_case) that no client exceeds.
//!
//! It is added up from packed sizes: each context has a record in each slice that is kept, of requests whose durations
//! spread over about two octaves. tests/cleaning/expected.rs measures what 10, 50 and 200 such contexts allocate, 104 kB
//! each on one thread without change detection, and keeps this between that and twice as much. In Redis, a busy context
//! took 112 kB with everything on.

use super::bounds::{Bounds, FILE_CACHE, STORED_FIELD, stored_slices};
use super::profile::MOST_PACKED;
use super::slice::Precisions;
use super::tier::TIERS;
use super::worst_case::{CELL, CONTEXT, context_keys_bytes};

/// The contexts of a service of which nothing is known yet.
pub const USUAL_CONTEXTS: usize = 50;

/// A packed record of two octaves, 16 buckets each, with few failures and no timers.
const RECORD: u64 = 240;
/// A packed profile in which all hours were recorded, in a field.
const PROFILE: u64 = MOST_PACKED + STORED_FIELD;
/// A usual name, in bytes.
const NAME: u64 = 32;
/// What an instance takes without any context: its tasks, buffers and the answers of the page.
const BASE: u64 = 1_000_000;
/// The past hour of a context, in the instance that looks for changes.
const JUDGED: u64 = 10_000;
/// The sums of the windows that somebody looks at, and the lists of slow requests.
const ASKED: u64 = 12_000;

/// The memory that contexts with usual requests take: in each minute some, few of which fail, with durations that spread over
/// two octaves, on all cores. Contexts that are seldom asked for take less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ExpectedBytes {
    /// The number of contexts that it is about.
    pub contexts: usize,
    /// Bytes in each process, while the store answers.
    pub process_bytes: u64,
    /// Bytes in the store that the fleet shares; 0 for a store in this process.
    pub store_bytes: u64,
}

impl ExpectedBytes {
    /// Calculates it.
    pub fn new(bounds: &Bounds, precisions: &Precisions, contexts: usize) -> Self {
        let contexts = contexts.min(bounds.max_contexts);
        let n = contexts as u64;
        let stored = match bounds.memory_bytes {
            Some(most) => (n * records(STORED_FIELD)).min(most as u64) + n * PROFILE,
            None => 0,
        };
        let of_context = bounds.shards as u64 * CELL + CONTEXT + 4 * NAME + JUDGED + ASKED;
        Self {
            contexts,
            process_bytes: BASE + n * of_context + stored + cached(bounds, n),
            store_bytes: match (bounds.memory_bytes, bounds.file_bytes) {
                (Some(_), _) => 0,
                // Pages of a file are two thirds full, and grow by doubling.
                (None, Some(most)) => (2 * n * (records(0) + PROFILE)).min(most),
                (None, None) => n * (records(0) + PROFILE + context_keys_bytes(precisions, NAME)),
            },
        }
    }
}

/// Bytes of a file's pages that are held in memory.
fn cached(bounds: &Bounds, contexts: u64) -> u64 {
    match bounds.file_bytes {
        Some(_) => (2 * contexts * records(0)).min(FILE_CACHE as u64),
        None => 0,
    }
}

/// Bytes of the records of a context in every slice that a store keeps.
fn records(per_field: u64) -> u64 {
    let slices: u64 = TIERS.iter().map(|tier| stored_slices(*tier)).sum();
    slices * (RECORD + per_field)
}
