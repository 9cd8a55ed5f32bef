//! The most memory that a configuration can take, whatever clients send.

use super::histogram::{BUCKETS, COARSE_SCALE, SCALE};
use super::slice::{Precision, Precisions};
use super::tier::{TIERS, is_coarse};

/// What the calculation depends on.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The most contexts, timers included.
    pub max_contexts: usize,
    /// The most counters of the user's.
    pub max_counters: usize,
    /// Recording shards per context.
    pub shards: usize,
    /// The most bytes that acknowledged calls are kept for a replay.
    pub replay_bytes: usize,
    /// Bytes of pending records above which they are compacted.
    pub pending_bytes: usize,
    /// The most records that this process remembers while it folds; 0 where there is no journal.
    pub folder_records: usize,
    /// The most bytes of the journal; 0 where there is none.
    pub journal_bytes: u64,
    /// How long a name is: [`MAX_NAME`](super::context::MAX_NAME) at the most.
    pub name_bytes: usize,
}

/// What a configuration comes to at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// Bytes in each process, at the end of an outage of the store that is long enough to fill every
    /// slice that is kept.
    pub process_bytes: u64,
    /// Bytes in the store that the fleet shares, when every slice is there and every histogram is as
    /// wide as it can be.
    pub store_bytes: u64,
}

impl WorstCase {
    /// Calculates it.
    pub fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        Self {
            process_bytes: process_bytes(bounds, precisions),
            store_bytes: store_bytes(bounds, precisions),
        }
    }
}

/// A live cell of a context and recording shard, with its allocation.
const CELL: u64 = 2_400;
/// A context's other structures in the process: registries, totals, the pending delta's frame.
const CONTEXT: u64 = 2_048;
/// A pending slice of a counter.
const PENDING_SLICE: u64 = 32;
/// A bucket of a histogram in this process.
const PENDING_BUCKET: u64 = 16;
/// A pending or remembered record without its buckets.
const PENDING_RECORD: u64 = 208;
/// A round that is being folded: what was read, unpacked, and packed again.
const ROUND: u64 = 24 * 1024 * 1024;

/// Synthetic contexts: `<unmatched>`, `<overflow>` and `<all>`.
const SYNTHETIC: usize = 3;

/// Bytes in this process, at the end of an outage of the store that is long enough to fill every
/// slice that is kept.
pub fn process_bytes(bounds: &Bounds, precisions: &Precisions) -> u64 {
    let contexts = (bounds.max_contexts + SYNTHETIC) as u64;
    let name = bounds.name_bytes as u64;
    let slices: u64 = precisions
        .counters
        .iter()
        .map(|p| u64::from(p.samples))
        .sum();
    let cells = bounds.shards as u64 * (CELL + 128);
    let fine = BUCKETS as u64;
    let coarse = fine >> (SCALE - COARSE_SCALE);
    let records = |(at, tier): (usize, &Precision)| {
        let samples = u64::from(tier.samples);
        let fine_ones = if at == 0 { samples.min(2) } else { 0 };
        let coarse_ones = samples - fine_ones;
        (fine_ones * fine + coarse_ones * coarse) * PENDING_BUCKET + samples * PENDING_RECORD
    };
    let records: u64 = TIERS.iter().enumerate().map(records).sum();
    // Compacted: two slices of each tier, but of the widest all, with a bucket per octave.
    let coarsest = fine >> SCALE;
    let compacted = 2 * (fine * PENDING_BUCKET + PENDING_RECORD)
        + u64::from(2 + TIERS[2].samples) * (coarsest * PENDING_BUCKET + PENDING_RECORD);
    let records = (contexts * records).min((bounds.pending_bytes as u64).max(contexts * compacted));
    let context = cells + CONTEXT + 4 * name + slices * PENDING_SLICE;
    let counter = 1_024 + 2 * name + slices * PENDING_SLICE;
    let counters = (bounds.max_counters + 1) as u64;
    let folder = match bounds.folder_records as u64 {
        0 => 0,
        records => ROUND + records * (fine * PENDING_BUCKET + PENDING_RECORD),
    };
    contexts * context + records + counters * counter + bounds.replay_bytes as u64 + folder
}

/// Bytes in the store, when every slice is there and every histogram is as wide as it can be.
pub fn store_bytes(bounds: &Bounds, precisions: &Precisions) -> u64 {
    let contexts = (bounds.max_contexts + SYNTHETIC) as u64;
    let name = bounds.name_bytes as u64;
    let counter: u64 = precisions
        .counters
        .iter()
        .map(|p| hash_bytes(u64::from(p.samples), 24) + key_bytes(name + 32) + known_bytes(name))
        .sum();
    let records: u64 = TIERS
        .iter()
        .map(|tier| {
            // A slice goes by its time to live, some time after it is not shown any more.
            let slices = (tier.key_ttl() / i64::from(tier.seconds)) as u64;
            let buckets = match is_coarse(tier.seconds) {
                true => BUCKETS as u64 >> (SCALE - COARSE_SCALE),
                false => BUCKETS as u64,
            };
            slices * record_bytes(buckets)
        })
        .sum();
    let statistics = 2 * (key_bytes(name + 32) + 160) + 2 * (key_bytes(name + 40) + 56);
    let indexes = 2 * known_bytes(name);
    let context = 3 * counter + records + statistics + indexes;
    let counters = (bounds.max_counters + 1) as u64;
    contexts * context + counters * counter + bounds.journal_bytes
}

/// A packed record in its hash, with a count of a few digits in each bucket.
fn record_bytes(buckets: u64) -> u64 {
    buckets * 5 + 180
}

/// A hash of small integers: a listpack up to 512 fields, a table beyond.
fn hash_bytes(fields: u64, field: u64) -> u64 {
    if fields <= 512 {
        fields * 14 + 64
    } else {
        fields * (field + 64)
    }
}

/// A key with its entries in the keyspace and among the expiring keys.
fn key_bytes(key: u64) -> u64 {
    key + 120
}

/// A member of a large sorted set.
fn known_bytes(member: u64) -> u64 {
    member + 120
}
