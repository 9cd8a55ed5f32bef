//! Records: merged samples of each context in each slice of a tier. The memory store holds all of its
//! records in this form; an instance that folds a journal holds those that it adds to.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::batch::{Aggregate, Merge};
pub use super::context::RecordId;
use super::histogram::COARSE_SCALE;
use super::slice::Precision;
use super::sorted;
pub use super::tier::TierSlice;
use super::tier::{FINEST, Revision, RolledUp, TIERS, is_coarse, tier};

/// A slice of a tier and a context in it.
pub type RecordKey = (TierSlice, RecordId);

/// Merged samples of a context in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The samples.
    pub sums: Aggregate,
    /// In the coarser tiers: slices of the finest tier that begin before this time, in Unix seconds, are
    /// part of the sums. So rolling a slice up twice changes nothing, and readers know which slices to add.
    pub rolled_until: i64,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            sums: Aggregate::default(),
            rolled_until: i64::MIN,
        }
    }
}

/// Bytes of a record in its map, without its sums.
const PER_RECORD: usize = 32;

/// Records by tier, slice and context.
#[derive(Clone, Debug, Default)]
pub struct Records {
    slices: BTreeMap<TierSlice, HashMap<RecordId, Record>>,
    /// Of each slice, the number of changes of all slices when it last changed.
    revisions: HashMap<TierSlice, Revision>,
    changes: Revision,
    /// About how many bytes they take in memory.
    bytes: usize,
}

fn bytes_of(records: &HashMap<RecordId, Record>) -> usize {
    let records = records.values();
    records.map(|record| record.sums.bytes() + PER_RECORD).sum()
}

impl Records {
    /// A record; `None` if it was neither added to nor inserted.
    pub fn get(&self, (at, id): RecordKey) -> Option<&Record> {
        self.slices.get(&at)?.get(&id)
    }

    /// Adds to a record, which is created if needed. A new record of a coarser tier has all slices that are
    /// rolled up from now on.
    pub fn add(&mut self, (at, id): RecordKey, added: &Aggregate, rolled: &RolledUp) {
        let record = match self.slices.entry(at).or_default().entry(id) {
            Entry::Occupied(entry) => {
                self.bytes -= entry.get().sums.bytes();
                entry.into_mut()
            }
            Entry::Vacant(entry) => {
                self.bytes += PER_RECORD;
                entry.insert(Record::default())
            }
        };
        self.changes += 1;
        self.revisions.insert(at, self.changes);
        record.sums.merge(added);
        record.sums.timers.limit();
        if at.0 != FINEST.seconds {
            record.rolled_until = record.rolled_until.max(rolled.until());
        }
        if is_coarse(at.0) {
            record.sums.coarsen(COARSE_SCALE);
        }
        self.bytes += record.sums.bytes();
    }

    /// Inserts a record that was read from the store.
    pub fn load(&mut self, (at, id): RecordKey, record: Record) {
        self.bytes += record.sums.bytes() + PER_RECORD;
        if let Some(before) = self.slices.entry(at).or_default().insert(id, record) {
            self.bytes -= before.sums.bytes() + PER_RECORD;
        }
    }

    /// Replaces a record, as a step of folding does in the store.
    pub fn replace(&mut self, key: RecordKey, record: Record) {
        self.load(key, record);
        self.changes += 1;
        self.revisions.insert(key.0, self.changes);
    }

    /// The contexts that have a record in a slice.
    pub fn ids_in(&self, at: TierSlice) -> impl Iterator<Item = RecordId> {
        let records = self.slices.get(&at).into_iter();
        records.flat_map(|records| records.keys().copied())
    }

    /// The records of the coarser tiers that a context's records of some slices of the finest tier are
    /// added to. The slices are given oldest first.
    pub fn coarser(id: RecordId, minutes: &[i64]) -> Vec<RecordKey> {
        let mut keys = Vec::new();
        for tier in &TIERS[1..] {
            for minute in minutes {
                let key = ((tier.seconds, tier.slice(*minute)), id);
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Adds a context's records of some slices of the finest tier to those of the coarser tiers, unless
    /// they are part of them already.
    pub fn roll_up(&mut self, id: RecordId, minutes: &[i64], rolled: &RolledUp) {
        for ((width, start), id) in Self::coarser(id, minutes) {
            let end = start.saturating_add(i64::from(width));
            let since = self.get(((width, start), id)).map(|r| r.rolled_until);
            let since = since.unwrap_or(i64::MIN).max(start);
            let parts = minutes
                .iter()
                .filter(|minute| (since..end).contains(*minute));
            let parts: Vec<_> = parts
                .filter_map(|minute| self.get(((FINEST.seconds, *minute), id)))
                .map(|part| part.sums.clone())
                .collect();
            for part in parts {
                self.add(((width, start), id), &part, rolled);
            }
        }
    }

    /// Drops slices that their tier does not retain at `now`, except slices that are still to be rolled up.
    pub fn retain(&mut self, now: i64, rolled: &RolledUp) {
        let is_pending = |at: &TierSlice| at.0 == FINEST.seconds && rolled.is_pending(at.1);
        self.retain_slices(|at| {
            tier(at.0).is_some_and(|tier| at.1 > tier.cut_off(now)) || is_pending(at)
        });
    }

    /// Drops the oldest slices until the records take about `bytes`. Slices of the finest tier go first, as
    /// the coarser tiers include them. Slices that are still to be rolled up stay.
    pub fn retain_bytes(&mut self, bytes: usize, rolled: &RolledUp) {
        while self.bytes > bytes {
            let mut droppable = self.slices.keys().filter(|at| {
                at.0 != FINEST.seconds || rolled.contains(at.1) && !rolled.is_pending(at.1)
            });
            let Some(at) = droppable.next().copied() else {
                return;
            };
            if let Some(records) = self.slices.remove(&at) {
                self.bytes -= bytes_of(&records);
                self.revisions.remove(&at);
            }
        }
    }

    fn forget_revisions(&mut self) {
        let slices = &self.slices;
        self.revisions.retain(|at, _| slices.contains_key(at));
    }

    /// Which content each slice has.
    pub fn revisions(&self) -> impl Iterator<Item = (TierSlice, Revision)> {
        self.revisions.iter().map(|(at, revision)| (*at, *revision))
    }

    /// The records of all contexts in a slice.
    pub fn in_slice(&self, at: TierSlice) -> Vec<(RecordId, Record)> {
        let records = self.slices.get(&at).into_iter().flatten();
        records.map(|(id, record)| (*id, record.clone())).collect()
    }

    /// Drops all but the newest `count` slices of the finest tier.
    pub fn retain_newest(&mut self, count: usize) {
        self.retain_slices(|(seconds, _)| *seconds == FINEST.seconds);
        while self.slices.len() > count
            && let Some((_, records)) = self.slices.pop_first()
        {
            self.bytes -= bytes_of(&records);
        }
    }

    fn retain_slices(&mut self, is_retained: impl Fn(&TierSlice) -> bool) {
        self.slices.retain(|at, records| {
            let is_retained = is_retained(at);
            if !is_retained {
                self.bytes -= bytes_of(records);
            }
            is_retained
        });
        self.forget_revisions();
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.slices.values().map(HashMap::len).sum()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Drops all records.
    pub fn clear(&mut self) {
        self.slices.clear();
        self.revisions.clear();
        self.bytes = 0;
    }

    /// The records of a context in some slices of a tier, oldest first.
    pub fn of(
        &self,
        seconds: u32,
        starts: std::ops::Range<i64>,
        id: RecordId,
    ) -> impl Iterator<Item = (i64, &Record)> {
        let slices = self
            .slices
            .range((seconds, starts.start)..(seconds, starts.end));
        slices.filter_map(move |((_, start), records)| Some((*start, records.get(&id)?)))
    }
}

/// The samples of a context in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSums {
    /// Start of the slice, in Unix seconds.
    pub start: i64,
    /// The samples.
    pub sums: Aggregate,
}

/// Sorts the sums of contexts by id, of which none appears twice.
pub(crate) fn sort_by_id(sums: &mut [(RecordId, Aggregate)]) {
    sums.sort_unstable_by_key(|(id, _)| *id);
}

/// Combines records of a tier, and pending slices of the finest tier, to slices of `width` seconds, oldest
/// first. Both are given oldest first.
pub fn combine<R: Borrow<Record>>(
    width: u32,
    tier: Precision,
    records: impl IntoIterator<Item = (i64, R)>,
    pending: impl IntoIterator<Item = (i64, R)>,
) -> Vec<SliceSums> {
    let wide = Precision::new(width, 1);
    let mut slices: Vec<(i64, Aggregate)> = Vec::new();
    let mut rolled_until: BTreeMap<i64, i64> = BTreeMap::new();
    let mut add = |start: i64, sums: &Aggregate| {
        sorted::entry(&mut slices, wide.slice(start), Aggregate::default).merge(sums);
    };
    for (start, record) in records {
        rolled_until.insert(start, record.borrow().rolled_until);
        add(start, &record.borrow().sums);
    }
    if tier != FINEST {
        for (start, record) in pending {
            let until = rolled_until.get(&tier.slice(start));
            if until.is_none_or(|until| start >= *until) {
                add(start, &record.borrow().sums);
            }
        }
    }
    let slices = slices.into_iter();
    slices
        .map(|(start, sums)| SliceSums { start, sums })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::context::Kind;
    use crate::model::histogram::Histogram;
    use crate::model::timer_sums::{MAX_TIMERS, TimerSums};

    const HALF_HOUR: u32 = 1_800;
    const SIX_HOURS: u32 = 21_600;

    fn one(bucket: u16) -> Aggregate {
        let mut aggregate = Aggregate::default();
        aggregate.times.record(1_000);
        aggregate.histogram = Histogram::new(4, [(bucket, 1)]);
        aggregate
    }

    fn count(records: &Records, key: RecordKey) -> u64 {
        records.get(key).map_or(0, |record| record.sums.times.count)
    }

    #[test]
    fn records_are_counted_and_cleared() {
        let (mut records, rolled) = (Records::default(), RolledUp::default());
        assert!(records.is_empty());
        for (minute, context) in [(60, "GET /"), (60, "GET /a"), (60, "GET /"), (120, "GET /")] {
            records.add(
                ((60, minute), RecordId::new(Kind::Http, context)),
                &one(17),
                &rolled,
            );
        }
        assert_eq!((records.len(), records.is_empty()), (3, false));
        assert_eq!(records.bytes, 3 * (one(17).bytes() + PER_RECORD));
        records.clear();
        assert_eq!((records.len(), records.is_empty()), (0, true));
        assert_eq!(records.bytes, 0);
    }

    #[test]
    fn a_record_tells_a_limited_number_of_timers_apart() {
        let (mut records, rolled) = (Records::default(), RolledUp::default());
        let key = ((60, 60), RecordId::new(Kind::Http, "GET /"));
        for number in 0..40 {
            let mut added = one(1);
            let timer = RecordId::new(Kind::Timer, &number.to_string());
            let sums = TimerSums {
                count: 1,
                sum: 7,
                ..TimerSums::default()
            };
            added.timers.add(timer, &sums);
            records.add(key, &added, &rolled);
        }
        let record = records.get(key).expect("it was added");
        let timers = &record.sums.timers;
        assert_eq!(timers.len(), MAX_TIMERS + 1);
        assert_eq!(timers.iter().map(|(_, sums)| sums.sum).sum::<u64>(), 40 * 7);
        assert_eq!(records.bytes, record.sums.bytes() + PER_RECORD);
    }

    /// Instances of all versions must agree, as they share the records.
    #[test]
    fn ids_of_records_never_change() {
        let id = RecordId::new(Kind::Http, "GET /");
        assert_eq!(u64::from_be_bytes(id.to_bytes()), 0x2394_853d_eaed_2a45);
        assert_eq!(RecordId::from_bytes(&id.to_bytes()), Some(id));
        for other in [&b""[..], b"1234567", b"123456789"] {
            assert_eq!(RecordId::from_bytes(other), None);
        }
    }

    #[test]
    fn slices_that_have_ended_are_rolled_up_once() {
        let (mut records, mut rolled) = (Records::default(), RolledUp::from_text("60"));
        let id = RecordId::new(Kind::Http, "GET /");
        for minute in [60, 120, 1_800] {
            records.add(((60, minute), id), &one(17), &rolled);
            rolled.add(minute);
        }
        rolled.advance(10_000);
        let due: Vec<_> = rolled.due().collect();
        assert_eq!(due, [60, 120, 1_800]);
        assert_eq!(records.ids_in((60, 120)).collect::<Vec<_>>(), [id]);
        // An instance that was interrupted has left these slices due.
        records.roll_up(id, &due, &rolled);
        records.roll_up(id, &due, &rolled);
        rolled.finish();
        assert_eq!(rolled.due().count(), 0);
        assert_eq!(count(&records, ((HALF_HOUR, 0), id)), 2);
        assert_eq!(count(&records, ((HALF_HOUR, 1_800), id)), 1);
        assert_eq!(count(&records, ((SIX_HOURS, 0), id)), 3);
        let scale = |key| records.get(key).map(|r| r.sums.histogram.scale());
        assert_eq!(scale(((HALF_HOUR, 0), id)), Some(4));
        assert_eq!(scale(((SIX_HOURS, 0), id)), Some(COARSE_SCALE));
    }

    #[test]
    fn pending_slices_are_added_unless_they_are_part_of_the_record() {
        let (mut records, mut rolled) = (Records::default(), RolledUp::default());
        let id = RecordId::new(Kind::Http, "GET /");
        rolled.advance(3_600);
        records.add(((HALF_HOUR, 3_600), id), &one(1), &rolled);
        for minute in [3_540, 3_600, 3_660, 5_400] {
            records.add(((60, minute), id), &one(2), &rolled);
        }
        let half_hours = || records.of(HALF_HOUR, 0..10_000, id);
        let minutes = || records.of(60, 0..10_000, id);
        let combined = |width| {
            let tier = crate::model::tier::tier_for(width).expect("there is one");
            let slices = match tier == FINEST {
                true => combine(width, tier, minutes(), []),
                false => combine(width, tier, half_hours(), minutes()),
            };
            let slices = slices.into_iter();
            slices
                .map(|slice| (slice.start, slice.sums.times.count))
                .collect::<Vec<_>>()
        };
        // The record at 3,600 includes slices before 3,600 only: none.
        assert_eq!(rolled.until(), 3_540);
        assert_eq!(combined(HALF_HOUR), [(1_800, 1), (3_600, 3), (5_400, 1)]);
        assert_eq!(combined(3_600), [(0, 1), (3_600, 4)]);
        assert_eq!(
            combined(60),
            [(3_540, 1), (3_600, 1), (3_660, 1), (5_400, 1)]
        );
        rolled.advance(3_700);
        records.add(((HALF_HOUR, 3_600), id), &one(1), &rolled);
        let part = combine(
            3_600,
            TIERS[1],
            records.of(HALF_HOUR, 3_600..7_200, id),
            records.of(60, 3_600..7_200, id),
        );
        let counts: Vec<_> = part.iter().map(|part| part.sums.times.count).collect();
        // The record at 3,600 includes the slice at 3,600 by now, two in all; 3,660 and 5,400 are pending.
        assert_eq!((rolled.until(), counts), (3_660, vec![4]));
    }

    #[test]
    fn the_oldest_slices_are_dropped_by_size_and_pending_ones_stay() {
        let (mut records, rolled) = (Records::default(), RolledUp::from_text("59940"));
        let id = RecordId::new(Kind::Http, "GET /");
        for minute in 990..1_001 {
            records.add(((60, 60 * minute), id), &one(1), &rolled);
        }
        for at in [
            (HALF_HOUR, 57_600),
            (HALF_HOUR, 59_400),
            (SIX_HOURS, 43_200),
        ] {
            records.add((at, id), &one(1), &rolled);
        }
        let record = one(1).bytes() + PER_RECORD;
        let slices = |records: &Records| records.slices.keys().copied().collect::<Vec<_>>();
        records.retain_bytes(14 * record, &rolled);
        assert_eq!(records.len(), 14);
        records.retain_bytes(13 * record, &rolled);
        assert_eq!(
            slices(&records)[0],
            (60, 60 * 991),
            "the oldest of the finest tier"
        );
        // Minutes 999 and 1,000 are not rolled up.
        records.retain_bytes(5 * record - 1, &rolled);
        let pending = [(60, 60 * 999), (60, 60 * 1_000)];
        assert_eq!(
            slices(&records),
            [&pending[..], &[(HALF_HOUR, 59_400), (SIX_HOURS, 43_200)]].concat()
        );
        records.retain_bytes(0, &rolled);
        assert_eq!(slices(&records), pending);
    }

    #[test]
    fn slices_that_are_still_to_be_rolled_up_are_retained_however_old() {
        let (mut records, mut rolled) = (Records::default(), RolledUp::default());
        let id = RecordId::new(Kind::Http, "GET /");
        rolled.add(60);
        for at in [(60, 0), (60, 60), (HALF_HOUR, 0)] {
            records.add((at, id), &one(1), &rolled);
        }
        records.retain(1_700_000_000, &rolled);
        assert_eq!(records.len(), 1);
        assert_eq!(count(&records, ((60, 60), id)), 1);
    }

    #[test]
    fn slices_are_dropped_by_age_or_by_number() {
        let (mut records, rolled) = (Records::default(), RolledUp::default());
        let id = RecordId::new(Kind::Http, "GET /");
        for minute in 0..5 {
            records.add(((60, 60 * minute), id), &one(1), &rolled);
        }
        records.add(((HALF_HOUR, 0), id), &one(1), &rolled);
        records.add(((77, 0), id), &one(1), &rolled);
        records.retain(60 * 132, &rolled);
        let starts: Vec<_> = records.of(60, 0..i64::MAX, id).map(|(at, _)| at).collect();
        assert_eq!(starts, [180, 240]);
        assert_eq!(records.len(), 3, "a tier that there is not is dropped");
        assert_eq!(records.bytes, 3 * (one(1).bytes() + PER_RECORD));
        records.retain_newest(1);
        assert_eq!(records.len(), 1);
        assert_eq!(count(&records, ((60, 240), id)), 1);
        assert_eq!(records.bytes, one(1).bytes() + PER_RECORD);
        records.load(((60, 240), id), Record::default());
        assert_eq!(records.bytes, Aggregate::default().bytes() + PER_RECORD);
    }
}
