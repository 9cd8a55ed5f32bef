//! The most memory that a configuration can take, whatever clients send.

pub use super::bounds::{Bounds, FILE_CACHE, WorstCase};
use super::bounds::{
    FeatureBytes, PENDING_BUCKET, PENDING_SLICE, STORED_FIELD, buckets_at, packed_bytes,
    stored_slices,
};
use super::histogram::{COARSE_SCALE, SCALE};
use super::measures::MEASURES;
use super::slice::{Precision, Precisions};
use super::tier::{DAY, TIERS, is_coarse};
use super::timer_sums::MAX_TIMERS;
use super::{mark, minute_report, profile, slow_request};

impl WorstCase {
    /// Calculates it.
    pub fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        Self {
            process_bytes: ProcessBytes::new(bounds, precisions).total(),
            store_bytes: match (bounds.memory_bytes, bounds.file_bytes) {
                (Some(_), _) => 0,
                (None, Some(most)) => most,
                (None, None) => store_bytes(bounds, precisions),
            },
        }
    }
}

/// The measures of a context in a cell or a record.
const MEASURE_BYTES: u64 = 8 * MEASURES as u64;
/// A live cell of a context and recording shard, with its allocation.
pub(super) const CELL: u64 = 2_400 + MEASURE_BYTES;
/// The buckets of the failures of a cell, or of its requests that were cut off, with their allocation.
const CELL_PART: u64 = 2_064;
/// A context's other structures in the process: registries, totals, the frame of its pending delta.
pub(super) const CONTEXT: u64 = 2_048;
/// Minutes of which records are pending between two flushes: intervals are at most a minute long.
const PENDING_MINUTES: u64 = 2;
/// A slice of a counter of a store in this process.
const STORED_SLICE: u64 = 32;
/// A pending or cached record without its buckets: its sums, room that its histograms do not use, and the timers within
/// its requests, as many as are told apart and the others.
const PENDING_RECORD: u64 = 288 + MEASURE_BYTES + 16 + 208 + (MAX_TIMERS as u64 + 1) * 40;
/// The timers within the requests of a context until the next drain: up to four lists.
const LIVE_TIMERS: u64 = 4 * (2 * MAX_TIMERS as u64 + 1) * 40;
/// A round of a fleet that is being folded: its entries as read, unpacked, and packed again.
const ROUND: u64 = 24 * 1024 * 1024;

/// What is read at once for the admin router: two pages of 1,000 records, as they arrive and unpacked, and the series
/// that were looked at last.
const READING: u64 = 16 * 1024 * 1024;

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
    /// Sums of windows and answers, while somebody looks at the admin pages.
    pub asking: u64,
}

impl ProcessBytes {
    /// Calculates them.
    pub fn new(bounds: &Bounds, precisions: &Precisions) -> Self {
        let contexts = bounds.contexts();
        let counters = (bounds.max_counters + 1) as u64;
        let name = bounds.name_bytes as u64;
        let cells = bounds.shards as u64 * (CELL + 2 * CELL_PART + 128);
        let fine = buckets_at(SCALE) * PENDING_BUCKET + PENDING_RECORD;
        let slices = precisions.counters.iter().map(|p| u64::from(p.retained));
        let slices = slices.sum::<u64>();
        let [lists, marks, reports, profiles] = feature_bytes(bounds);
        let slices = match bounds.memory_bytes {
            Some(bytes) => {
                let records = contexts * stored_records(bounds) + reports.stored;
                let records = records.min(bytes as u64);
                let pending_slices =
                    (contexts + counters) * slices_between_flushes(precisions) * PENDING_SLICE;
                let counted = (3 * contexts + counters) * slices * STORED_SLICE;
                let pending = contexts * PENDING_MINUTES * fine + pending_slices;
                counted + records + pending + lists.stored + marks.stored + profiles.stored
            }
            None => {
                // Above `pending_bytes` the pending records are compacted.
                let compacted = (bounds.pending_bytes as u64).max(contexts * compacted_records());
                let records = (contexts * pending_records() + reports.waiting).min(compacted);
                let held = match bounds.file_bytes {
                    // `hits`, `errors` and `micros` of all requests are counters too.
                    Some(_) => FILE_CACHE as u64 + (counters + 3) * slices * STORED_SLICE,
                    None => 0,
                };
                (contexts + counters) * slices * PENDING_SLICE + records + held
            }
        };
        Self {
            in_use: contexts * (cells + CONTEXT + LIVE_TIMERS + 4 * name)
                + counters * (1_024 + 2 * name)
                + lists.in_use
                + reports.in_use,
            replay: bounds.replay_bytes as u64,
            folding: match bounds.folder_records as u64 {
                0 => 0,
                records => {
                    let round = match bounds.is_in_process {
                        true => contexts * PENDING_MINUTES * record_bytes(buckets_at(SCALE)),
                        false => ROUND,
                    };
                    round + records * fine + reports.folding
                }
            },
            slices: slices + lists.waiting + marks.waiting,
            judging: bounds.judging_bytes,
            asking: match bounds.query_bytes as u64 {
                0 => 0,
                held => held + READING,
            },
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> u64 {
        self.in_use + self.replay + self.folding + self.slices + self.judging + self.asking
    }
}

/// The bytes of slow requests, marks, minute reports and profiles.
fn feature_bytes(bounds: &Bounds) -> [FeatureBytes; 4] {
    [
        slow_request::worst_case(bounds),
        mark::worst_case(),
        minute_report::worst_case(bounds),
        profile::worst_case(bounds),
    ]
}

/// Slices of a counter that are pending between two flushes.
fn slices_between_flushes(precisions: &Precisions) -> u64 {
    let slices = precisions.counters.iter();
    let slices = slices.map(|p| (60 / p.seconds + 2).min(p.retained));
    slices.map(u64::from).sum()
}

/// Buckets of a record of a tier.
fn buckets_of(tier: Precision) -> u64 {
    match is_coarse(tier.seconds) {
        true => buckets_at(COARSE_SCALE),
        false => buckets_at(SCALE),
    }
}

/// The tiers that a store has, with the days of its history.
fn tiers(bounds: &Bounds) -> impl Iterator<Item = Precision> {
    let days = Precision::new(DAY, bounds.history_days);
    let days = (days.retained > 0).then_some(days);
    TIERS.into_iter().chain(days)
}

/// Bytes of a context's records when a store in this process has every slice of every tier.
fn stored_records(bounds: &Bounds) -> u64 {
    let records = tiers(bounds).map(|tier| {
        let record = record_bytes(buckets_of(tier)) + STORED_FIELD;
        stored_slices(tier) * record
    });
    records.sum()
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
    let contexts = bounds.contexts();
    let name = bounds.name_bytes as u64;
    let records = tiers(bounds).map(|tier| stored_slices(tier) * record_bytes(buckets_of(tier)));
    let context = context_keys_bytes(precisions, name) + records.sum::<u64>();
    let counters = (bounds.max_counters + 1) as u64;
    let features = feature_bytes(bounds)
        .iter()
        .map(|bytes| bytes.stored)
        .sum::<u64>();
    contexts * context
        + counters * counter_bytes(precisions, name)
        + features
        + bounds.journal_bytes
}

/// The keys of a counter of the book's layout, at all precisions.
fn counter_bytes(precisions: &Precisions, name: u64) -> u64 {
    let counters = precisions.counters.iter();
    let keys = counters
        .map(|p| hash_bytes(u64::from(p.retained), 24) + key_bytes(name + 32) + known_bytes(name));
    keys.sum()
}

/// What the store has of a context beside its records: three counters, statistics and its place in indexes.
pub(super) fn context_keys_bytes(precisions: &Precisions, name: u64) -> u64 {
    let statistics = 2 * (key_bytes(name + 32) + 160) + 2 * (key_bytes(name + 40) + 56);
    3 * counter_bytes(precisions, name) + statistics + 2 * known_bytes(name)
}

/// A packed record in its hash, with a count of a few digits in each bucket, and all timers.
fn record_bytes(buckets: u64) -> u64 {
    packed_bytes(buckets) + (MAX_TIMERS as u64 + 1) * 27
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
            file_bytes: None,
            folder_records: 300,
            is_in_process: false,
            journal_bytes: 7_000_001,
            name_bytes: 53,
            slow_text_bytes: 320,
            has_fleet: true,
            has_version: true,
            query_bytes: 0,
            history_days: 0,
            judging_bytes: 10_027_008,
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
            in_use: 7_911_002,
            replay: 1_000_003,
            folding: 38_238_784,
            slices: 24_397_984,
            judging: 10_027_008,
            asking: 0,
        };
        assert_eq!(parts, expected);
        assert_eq!(worst.process_bytes, 81_574_781);
        assert_eq!(worst.store_bytes, 562_196_121);
        // Above 512 fields a hash is a table.
        let long = Precisions::new([1, 60], 513);
        assert_eq!(WorstCase::new(&bounds(), &long).store_bytes, 585_929_033);
    }

    #[test]
    fn a_history_is_stated_in_the_store_alone() {
        let of = |history_days| {
            let bounds = Bounds {
                history_days,
                ..bounds()
            };
            WorstCase::new(&bounds, &precisions())
        };
        let (without, year) = (of(0), of(365));
        assert_eq!(year.process_bytes, without.process_bytes);
        // A day is kept until two days after it has left the history.
        let day = record_bytes(buckets_at(COARSE_SCALE));
        assert_eq!(year.store_bytes - without.store_bytes, 100 * 367 * day);
        assert_eq!(day, 2_601);
    }

    #[test]
    fn what_is_read_for_the_page_is_bounded() {
        let bounds = Bounds {
            query_bytes: 3_000_000,
            ..bounds()
        };
        let parts = ProcessBytes::new(&bounds, &precisions());
        assert_eq!(parts.asking, 3_000_000 + READING);
        assert_eq!(parts.total(), 81_574_781 + parts.asking);
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
        assert_eq!(slices(20_000_000), 4_849_184 + 20_000_000);
        assert_eq!(slices(usize::MAX), 382_333_344);
    }

    #[test]
    fn a_store_in_a_file() {
        let elsewhere = ProcessBytes::new(&bounds(), &precisions());
        let bounds = Bounds {
            file_bytes: Some(1 << 28),
            ..bounds()
        };
        let parts = ProcessBytes::new(&bounds, &precisions());
        // 16 counters with 1,024 slices.
        assert_eq!(
            parts.slices - elsewhere.slices,
            (16 << 20) + 16 * 1_024 * 32
        );
        assert_eq!(WorstCase::new(&bounds, &precisions()).store_bytes, 1 << 28);
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
        assert_eq!(parts(1 << 20).slices, 17_063_200);
        assert_eq!(parts(usize::MAX).slices, 220_196_584);
        assert_eq!(parts(1 << 20).folding, 11_289_360);
        assert_eq!(WorstCase::new(&bounds(1), &precisions()).store_bytes, 0);
    }
}
