//! The most memory that a configuration can take, whatever clients send.

use super::aggregate::MAX_PART_BUCKETS;
use super::fleet::MAX_VERSION_BYTES;
use super::histogram::{BUCKETS, COARSE_SCALE, SCALE};
use super::minute_report::{MAX_REPORTED, MAX_REPORTED_BY_FLEET, REPORTED_MINUTES};
use super::ranking::RankingSpec;
use super::slice::{Precision, Precisions};
use super::slow_request::{
    FAILED_PER_CONTEXT, FAILED_PER_SECOND, SLOW_OF_ALL, SLOW_PER_CONTEXT, SLOW_PER_SECOND,
};
use super::tier::{TIERS, is_coarse};
use super::timer_sums::MAX_TIMERS;

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
}

/// The most memory that a configuration can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorstCase {
    /// Bytes in each process, after an outage of the store that is long enough to fill every retained
    /// slice.
    pub process_bytes: u64,
    /// Bytes in the store that the fleet shares, when it has every slice and every histogram has all
    /// buckets; 0 for a store in this process.
    pub store_bytes: u64,
}

impl WorstCase {
    /// Calculates it.
    #[doc(hidden)]
    pub fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        Self {
            process_bytes: ProcessBytes::new(bounds, precisions).total(),
            store_bytes: match bounds.memory_bytes {
                Some(_) => 0,
                None => store_bytes(bounds, precisions),
            },
        }
    }
}

impl WorstCase {
    /// Calculates that of a ranking. `is_shared` says whether the store is elsewhere.
    pub(crate) fn of_ranking(spec: RankingSpec, shards: usize, is_shared: bool) -> Self {
        let (ids, slices) = (u64::from(spec.max_ids), u64::from(spec.slices));
        let held = (ids + (shards * MIN_SHARD_IDS) as u64) * RANKED_ID;
        // The batch that waits, and the ranking itself where it is stored here.
        let pending = ids * (RANKED_ID + slices * PENDING_SLICE);
        // Between two times at which it is limited, it has more ids, in one slice and in the sums.
        let at_once = spec.most_at_once() as u64;
        let stored = (ids * (slices + 1) + 2 * (at_once - ids)) * RANKED_ID;
        // The additions of a round, in the instance that folds.
        let folded = (at_once + ids) * (RANKED_ID + PENDING_SLICE);
        match is_shared {
            true => Self {
                process_bytes: held + pending + folded,
                store_bytes: stored,
            },
            false => Self {
                process_bytes: held + pending + stored,
                store_bytes: 0,
            },
        }
    }
}

/// An id of a ranking, with its number: of [`MAX_NAME`](super::context::MAX_NAME) bytes, in a hash.
const RANKED_ID: u64 = 256 + 128;
/// A shard has room for at least this many ids of a ranking.
pub(crate) const MIN_SHARD_IDS: usize = 16;

/// A live cell of a context and recording shard, with its allocation.
const CELL: u64 = 2_400;
/// The buckets of the failures of a cell, or of its requests that were cut off, with their allocation.
const CELL_PART: u64 = 2_064;
/// A context's other structures in the process: registries, totals, the frame of its pending delta.
const CONTEXT: u64 = 2_048;
/// A pending slice of a counter.
const PENDING_SLICE: u64 = 32;
/// Minutes of which records are pending between two flushes: intervals are at most a minute long.
const PENDING_MINUTES: u64 = 2;
/// A field of a table of a store in this process, beside its value.
const STORED_FIELD: u64 = 8 + 96;
/// A slice of a counter of a store in this process.
const STORED_SLICE: u64 = 32;
/// A bucket of a histogram in this process.
const PENDING_BUCKET: u64 = 16;
/// A pending or cached record without its buckets: its sums, room that its histograms do not use, and the timers within
/// its requests, as many as are told apart and the others.
const PENDING_RECORD: u64 = 288 + 16 + 208 + (MAX_TIMERS as u64 + 1) * 40;
/// A context of a minute report in this process, or of the sums of such reports.
const REPORTED: u64 = buckets_at(SCALE) * PENDING_BUCKET + 288 + 16 + 208;
/// Versions that run side by side.
const VERSIONS: u64 = 2;
/// The timers within the requests of a context until the next drain: up to four lists.
const LIVE_TIMERS: u64 = 4 * (2 * MAX_TIMERS as u64 + 1) * 40;
/// A slow or failed request on the list of its context, without its texts.
const LISTED_REQUEST: u64 = 90;
/// A pending slow or failed request, or one of a store in this process, without its texts.
const SLOW_REQUEST: u64 = 144;
/// A packed slow or failed request without its texts.
const PACKED_REQUEST: u64 = 64;
/// Hours of which slow and failed requests may be pending.
const SLOW_HOURS: u64 = 2;
/// A field of a hash of packed slow and failed requests, without these.
const SLOW_FIELD: u64 = 120;
/// Hours of which a store has slow and failed requests, until they expire.
const STORED_SLOW_HOURS: u64 = 3;
/// A round of a fleet that is being folded: its entries as read, unpacked, and packed again.
const ROUND: u64 = 24 * 1024 * 1024;

/// The history of a context that is compared with its past, busy in each of its minutes.
const JUDGED: u64 = 16 * 1024;
/// The log of changes, and what instances did in the last half hour.
const LOG: u64 = 8 * 1024 * 1024;

/// Synthetic contexts: `<unmatched>`, `<overflow>` and `<all>`.
const SYNTHETIC: usize = 3;

/// The parts of [`WorstCase::process_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessBytes {
    /// Contexts and counters, while the store answers.
    pub in_use: u64,
    /// Acknowledged calls that are retained for a replay.
    pub replay: u64,
    /// Folding of the fleet's journal.
    pub folding: u64,
    /// Slices and histograms: those of a store in this process, or those that are pending while a store is
    /// away.
    pub slices: u64,
    /// Change detection, in the instance that judges: the past hour of each context, and the changes.
    pub judging: u64,
}

impl ProcessBytes {
    /// Calculates them.
    pub fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        let contexts = (bounds.max_contexts + SYNTHETIC) as u64;
        let counters = (bounds.max_counters + 1) as u64;
        let name = bounds.name_bytes as u64;
        let cells = bounds.shards as u64 * (CELL + 2 * CELL_PART + 128);
        let is_reporting = bounds.has_fleet || bounds.has_version;
        // Contexts of a report, and those of the minute that is collected.
        let (reported, collected) = match (bounds.has_version, is_reporting) {
            (true, _) => (contexts, contexts),
            (false, true) => (of_instance(contexts), contexts),
            (false, false) => (0, 0),
        };
        let slices = precisions.counters.iter().map(|p| u64::from(p.retained));
        let slices = slices.sum::<u64>();
        let slices = match bounds.memory_bytes {
            Some(bytes) => {
                let reports = match bounds.has_version {
                    true => {
                        let report = packed_bytes(buckets_at(SCALE)) + STORED_FIELD;
                        let reported = of_instance(contexts) + contexts;
                        stored_slices(REPORTED_MINUTES) * reported * report
                    }
                    false => 0,
                };
                let records = (contexts * stored_records() + reports).min(bytes as u64);
                let pending = contexts
                    * PENDING_MINUTES
                    * (buckets_at(SCALE) * PENDING_BUCKET + PENDING_RECORD);
                let pending_slices =
                    (contexts + counters) * slices_between_flushes(precisions) * PENDING_SLICE;
                (3 * contexts + counters) * slices * STORED_SLICE
                    + records
                    + pending
                    + pending_slices
            }
            None => {
                // Above `pending_bytes` the pending records are compacted.
                let compacted = (bounds.pending_bytes as u64).max(contexts * compacted_records());
                let reports = reported_minutes() * reported * REPORTED;
                let records = (contexts * pending_records() + reports).min(compacted);
                (contexts + counters) * slices * PENDING_SLICE + records
            }
        };
        let text = bounds.slow_text_bytes as u64;
        let listed = (SLOW_PER_SECOND + FAILED_PER_SECOND) as u64 * (LISTED_REQUEST + text);
        let slow = SLOW_HOURS * listed_requests(contexts) * (SLOW_REQUEST + text);
        let slow = match bounds.memory_bytes {
            Some(_) => slow + stored_lists(contexts, text),
            None => slow,
        };
        let fine = buckets_at(SCALE);
        Self {
            in_use: contexts * (cells + CONTEXT + LIVE_TIMERS + 4 * name + listed)
                + counters * (1_024 + 2 * name)
                + (collected + reported) * REPORTED,
            replay: bounds.replay_bytes as u64,
            folding: match bounds.folder_records as u64 {
                0 => 0,
                records => {
                    let reported = match is_reporting {
                        true => reported_of_minute(contexts, bounds.has_version),
                        false => 0,
                    };
                    let records = records * (fine * PENDING_BUCKET + PENDING_RECORD);
                    let round = match bounds.is_in_process {
                        true => contexts * PENDING_MINUTES * record_bytes(fine),
                        false => ROUND,
                    };
                    round + records + reported * REPORTED
                }
            },
            slices: slices + slow,
            judging: contexts * JUDGED + LOG,
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> u64 {
        self.in_use + self.replay + self.folding + self.slices + self.judging
    }
}

/// Buckets of a record with this scale: those of the histogram and of its two parts.
const fn buckets_at(scale: u8) -> u64 {
    let buckets = BUCKETS >> (SCALE - scale);
    let of_part = match buckets < MAX_PART_BUCKETS {
        true => buckets,
        false => MAX_PART_BUCKETS,
    };
    (buckets + 2 * of_part) as u64
}

/// Minutes of which reports wait, or are stored in this process.
fn reported_minutes() -> u64 {
    u64::from(REPORTED_MINUTES.retained)
}

/// Slices of a counter that are pending between two flushes.
fn slices_between_flushes(precisions: &Precisions) -> u64 {
    let slices = precisions.counters.iter();
    let slices = slices.map(|p| (60 / p.seconds + 2).min(p.retained));
    slices.map(u64::from).sum()
}

/// Contexts of a minute that are stored of an instance.
fn of_instance(contexts: u64) -> u64 {
    contexts.min(MAX_REPORTED as u64)
}

/// Contexts of a minute that are stored of all instances and versions.
fn reported_of_minute(contexts: u64, has_version: bool) -> u64 {
    let instances = (MAX_REPORTED_BY_FLEET / MAX_REPORTED) as u64;
    let versions = if has_version { VERSIONS } else { 0 };
    instances * of_instance(contexts) + versions * contexts
}

/// Bytes in the store of what the instances and versions did in each minute. More than 16 instances report fewer
/// contexts each.
pub fn report_bytes(contexts: u64, has_version: bool) -> u64 {
    let minutes = stored_slices(REPORTED_MINUTES);
    let version = if has_version { MAX_VERSION_BYTES } else { 0 } as u64;
    let reported = reported_of_minute(contexts, has_version);
    minutes * reported * (packed_bytes(buckets_at(SCALE)) + version)
}

/// Buckets of a record of a tier.
fn buckets_of(tier: Precision) -> u64 {
    match is_coarse(tier.seconds) {
        true => buckets_at(COARSE_SCALE),
        false => buckets_at(SCALE),
    }
}

/// Slow and failed requests of an hour: those of each context, and the slow ones of all together.
fn listed_requests(contexts: u64) -> u64 {
    contexts * (SLOW_PER_CONTEXT + FAILED_PER_CONTEXT) as u64 + SLOW_OF_ALL as u64
}

/// Bytes of the slow and failed requests that a store has, with texts of this length each.
fn stored_lists(contexts: u64, text: u64) -> u64 {
    let requests = listed_requests(contexts) * (PACKED_REQUEST + text);
    STORED_SLOW_HOURS * (contexts * SLOW_FIELD + requests)
}

/// Bytes of a context's records when a store in this process has every slice of every tier.
fn stored_records() -> u64 {
    let records = TIERS.iter().map(|tier| {
        let record = record_bytes(buckets_of(*tier)) + STORED_FIELD;
        stored_slices(*tier) * record
    });
    records.sum()
}

/// Slices of a tier that a store has: one expires some time after readers stop showing it.
fn stored_slices(tier: Precision) -> u64 {
    (tier.key_ttl() / i64::from(tier.seconds)) as u64
}

/// Bytes of a context's records when every slice of every tier is pending.
fn pending_records() -> u64 {
    let (fine, coarse) = (buckets_at(SCALE), buckets_at(COARSE_SCALE));
    let records = |(at, tier): (usize, &Precision)| {
        let slices = u64::from(tier.retained);
        let fine_ones = if at == 0 { slices.min(2) } else { 0 };
        let coarse_ones = slices - fine_ones;
        (fine_ones * fine + coarse_ones * coarse) * PENDING_BUCKET + slices * PENDING_RECORD
    };
    TIERS.iter().enumerate().map(records).sum()
}

/// Bytes of a context's records when they are compacted: two slices of each tier but the widest, which has
/// all of its slices, most of them with a bucket per octave.
fn compacted_records() -> u64 {
    let (fine, coarsest) = (buckets_at(SCALE), buckets_at(0));
    let wide = u64::from(2 + TIERS[TIERS.len() - 1].retained);
    2 * (fine * PENDING_BUCKET + PENDING_RECORD)
        + wide * (coarsest * PENDING_BUCKET + PENDING_RECORD)
}

/// Bytes in the store, when it has every slice and every histogram has all buckets.
pub fn store_bytes(bounds: &Bounds, precisions: &Precisions) -> u64 {
    let contexts = (bounds.max_contexts + SYNTHETIC) as u64;
    let name = bounds.name_bytes as u64;
    let counter: u64 = precisions
        .counters
        .iter()
        .map(|p| hash_bytes(u64::from(p.retained), 24) + key_bytes(name + 32) + known_bytes(name))
        .sum();
    let records = TIERS
        .iter()
        .map(|tier| stored_slices(*tier) * record_bytes(buckets_of(*tier)));
    let records: u64 = records.sum();
    let statistics = 2 * (key_bytes(name + 32) + 160) + 2 * (key_bytes(name + 40) + 56);
    let indexes = 2 * known_bytes(name);
    let context = 3 * counter + records + statistics + indexes;
    let counters = (bounds.max_counters + 1) as u64;
    let slow = stored_lists(contexts, name + bounds.slow_text_bytes as u64);
    let reports = match bounds.has_fleet {
        true => report_bytes(contexts, bounds.has_version),
        false => 0,
    };
    contexts * context + counters * counter + slow + reports + bounds.journal_bytes
}

/// A packed record in its hash, with a count of a few digits in each bucket, and all timers.
fn record_bytes(buckets: u64) -> u64 {
    packed_bytes(buckets) + (MAX_TIMERS as u64 + 1) * 27
}

/// The same without timers.
fn packed_bytes(buckets: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            max_contexts: 97,
            max_counters: 12,
            shards: 5,
            replay_bytes: 1_000_003,
            pending_bytes: 1 << 20,
            memory_bytes: None,
            folder_records: 300,
            is_in_process: false,
            journal_bytes: 7_000_001,
            name_bytes: 53,
            slow_text_bytes: 320,
            has_fleet: true,
            has_version: true,
        }
    }

    fn precisions() -> Precisions {
        Precisions::new([1, 60], 512)
    }

    /// Whether the bounds hold is measured by tests/cleaning/worst_case.rs. Operators plan with them, so
    /// they change on purpose only.
    #[test]
    fn a_store_elsewhere() {
        let worst = WorstCase::new(&bounds(), &precisions());
        let parts = ProcessBytes::new(&bounds(), &precisions());
        let expected = ProcessBytes {
            in_use: 7_662_490,
            replay: 1_000_003,
            folding: 38_226_272,
            slices: 24_016_384,
            judging: 10_027_008,
        };
        assert_eq!(parts, expected);
        assert_eq!(worst.process_bytes, 80_932_157);
        assert_eq!(worst.store_bytes, 553_611_361);
        // Above 512 fields a hash is a table.
        let long = Precisions::new([1, 60], 513);
        assert_eq!(WorstCase::new(&bounds(), &long).store_bytes, 577_344_273);
    }

    #[test]
    fn slices_that_wait_are_compacted_above_their_bound() {
        let slices = |pending_bytes| {
            let bounds = Bounds {
                pending_bytes,
                ..bounds()
            };
            ProcessBytes::new(&bounds, &precisions()).slices
        };
        // What is compacted as far as can be takes more than the bound.
        assert_eq!(slices(6_000_000), slices(1));
        assert_eq!(slices(20_000_000), 4_723_584 + 20_000_000);
        assert_eq!(slices(usize::MAX), 380_989_184);
    }

    #[test]
    fn a_store_in_this_process() {
        let bounds = |memory_bytes| Bounds {
            memory_bytes: Some(memory_bytes),
            folder_records: 100,
            is_in_process: true,
            ..bounds()
        };
        let parts = |bytes| ProcessBytes::new(&bounds(bytes), &precisions());
        assert_eq!(parts(1 << 20).slices, 16_540_800);
        assert_eq!(parts(usize::MAX).slices, 216_838_944);
        assert_eq!(parts(1 << 20).folding, 11_273_448);
        assert_eq!(WorstCase::new(&bounds(1), &precisions()).store_bytes, 0);
    }
}
