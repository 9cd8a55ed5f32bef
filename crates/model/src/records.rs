//! Records: merged samples of each context in each slice of a tier, and the records that a folder remembers.

use std::borrow::Borrow;
use std::collections::HashMap;

use super::aggregate::Aggregate;
pub use super::context::RecordId;
use super::histogram::COARSE_SCALE;
use super::slice::Precision;
use super::slices::Merge;
use super::sorted::{self, Map};
pub use super::tier::TierSlice;
use super::tier::{FINEST, RolledUp, is_coarse};
use super::tiers::Tiers;
use crate::order::InOrder;

/// A slice of a tier and a context in it.
pub type RecordKey = (TierSlice, RecordId);

/// Merged samples of a context in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The samples.
    pub sums: Aggregate,
    /// A time in Unix seconds, for the coarser tiers: all slices of the finest tier that begin earlier are part of the
    /// sums. So a slice that is rolled up twice counts once, and readers know which slices they must add.
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

/// The records that a folder remembers, by tier, slice and context.
#[derive(Debug, Default)]
pub struct Records {
    slices: Map<TierSlice, HashMap<RecordId, Record>>,
}

impl Records {
    /// A record; `None` if the folder does not remember it.
    pub fn get(&self, (at, id): RecordKey) -> Option<&Record> {
        self.slices.get(&at)?.get(&id)
    }

    /// Adds to a record, which is created if needed. A new record of a coarser tier counts as including all slices that
    /// were rolled up before.
    pub fn add(&mut self, (at, id): RecordKey, added: &Aggregate, rolled: &RolledUp) {
        let record = self.of_slice(at).entry(id).or_default();
        record.sums.merge(added);
        record.sums.limit();
        if at.0 != FINEST.seconds {
            record.rolled_until = record.rolled_until.max(rolled.until());
        }
        if is_coarse(at.0) {
            record.sums.coarsen(COARSE_SCALE);
        }
    }

    /// Inserts a record that was read from the store.
    pub fn load(&mut self, (at, id): RecordKey, record: Record) {
        self.of_slice(at).insert(id, record);
    }

    fn of_slice(&mut self, at: TierSlice) -> &mut HashMap<RecordId, Record> {
        self.slices.or_insert_with(at, HashMap::new)
    }

    /// The keys of the coarser records to which a context's records of `minutes` (slices of the finest tier) belong.
    /// The slices must be sorted, oldest first.
    pub fn coarser(id: RecordId, minutes: &[i64], tiers: Tiers) -> Vec<RecordKey> {
        let mut keys = Vec::new();
        for tier in tiers.iter().filter(|tier| *tier != FINEST) {
            for minute in minutes {
                let key = ((tier.seconds, tier.slice(*minute)), id);
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Adds a context's records of some slices of the finest tier to its records of the coarser tiers. A slice that a
    /// coarser record includes already is not added again.
    pub fn roll_up(&mut self, id: RecordId, minutes: &[i64], tiers: Tiers, rolled: &RolledUp) {
        for ((width, start), id) in Self::coarser(id, minutes, tiers) {
            let end = start.saturating_add(i64::from(width));
            let since = self.get(((width, start), id)).map(|r| r.rolled_until);
            let since = since.unwrap_or(i64::MIN).max(start);
            let parts = minutes
                .iter()
                .filter(|minute| (since..end).contains(*minute));
            let parts = parts.filter_map(|minute| self.get(((FINEST.seconds, *minute), id)));
            let parts: Vec<_> = parts.map(|part| part.sums.clone()).collect();
            for part in parts {
                self.add(((width, start), id), &part, rolled);
            }
        }
    }

    /// Drops all but the newest `count` slices of the finest tier.
    pub fn retain_newest(&mut self, count: usize) {
        self.slices.retain(|at, _| at.0 == FINEST.seconds);
        while self.slices.len() > count {
            self.slices.pop_first();
        }
    }

    /// The number of records.
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
    }
}

/// The samples of a context in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSums {
    /// The start of the slice, in Unix seconds.
    pub start: i64,
    /// The samples.
    pub sums: Aggregate,
}

/// Sorts the sums of contexts by id. No id may appear twice.
pub fn sort_by_id(sums: &mut [(RecordId, Aggregate)]) {
    sums.order_by_key(|(id, _)| *id);
}

/// Combines records of a tier, and pending slices of the finest tier, into slices of `width` seconds, oldest first.
/// `records` and `pending` must be sorted, oldest first.
pub fn combine<R: Borrow<Record>>(
    width: u32,
    tier: Precision,
    records: impl IntoIterator<Item = (i64, R)>,
    pending: impl IntoIterator<Item = (i64, R)>,
) -> Vec<SliceSums> {
    let wide = Precision::new(width, 1);
    let mut slices: Vec<(i64, Aggregate)> = Vec::new();
    let mut rolled_until = Map::default();
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
    let of_slice = |(start, sums)| SliceSums { start, sums };
    slices.into_iter().map(of_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::SCALE;
    use crate::pack;
    use crate::tally::MAX_CODES;
    use crate::tests::{history, http, lone_run, requests, timer};
    use crate::tier::{DAY, TIERS};
    use crate::timer_sums::MAX_TIMERS;

    const HALF_HOUR: u32 = 1_800;
    const SIX_HOURS: u32 = 21_600;

    fn one() -> Aggregate {
        requests(1, 2_000)
    }

    fn rolled_until(end: i64) -> RolledUp {
        pack::unpack(&pack::pack(&(end, Vec::<i64>::new()))).expect("it is a state")
    }

    fn records_in(
        records: &Records,
        seconds: u32,
        starts: std::ops::Range<i64>,
        id: RecordId,
    ) -> impl Iterator<Item = (i64, &Record)> {
        let slices = records.slices.iter();
        let slices = slices.filter(move |(at, _)| at.0 == seconds && starts.contains(&at.1));
        slices.filter_map(move |((_, start), records)| Some((*start, records.get(&id)?)))
    }

    #[test]
    fn a_record_has_a_limited_number_of_separate_timers_and_codes() {
        let (mut records, rolled) = (Records::default(), RolledUp::default());
        let key = ((60, 60), http("GET /"));
        for number in 0..40 {
            let mut added = one();
            added.timers.add(timer(number), &lone_run(7));
            added.codes.add(400 + number, 1);
            records.add(key, &added, &rolled);
        }
        let record = records.get(key).expect("it was added");
        let (timers, codes) = (&record.sums.timers, &record.sums.codes);
        assert_eq!(timers.len(), MAX_TIMERS + 1);
        assert_eq!(timers.iter().map(|(_, sums)| sums.sum).sum::<u64>(), 40 * 7);
        assert_eq!((codes.iter().len(), codes.total()), (MAX_CODES, 40));
    }

    /// Instances of all versions share the records, so the ids must agree.
    #[test]
    fn ids_of_records_never_change() {
        let id = http("GET /");
        assert_eq!(u64::from_be_bytes(id.to_bytes()), 0x2394_853d_eaed_2a45);
        assert_eq!(RecordId::from_bytes(&id.to_bytes()), Some(id));
        for other in [&b""[..], b"1234567", b"123456789"] {
            assert_eq!(RecordId::from_bytes(other), None);
        }
    }

    #[test]
    fn slices_that_have_ended_are_rolled_up_once() {
        let (mut records, mut rolled) = (Records::default(), rolled_until(60));
        let history = Some(history(30, 0, 0));
        let tiers = Tiers { history };
        let id = http("GET /");
        for minute in [60, 120, 1_800] {
            records.add(((60, minute), id), &one(), &rolled);
            rolled.add(minute);
        }
        rolled.advance(10_000);
        let due: Vec<_> = rolled.due().collect();
        assert_eq!(due, [60, 120, 1_800]);
        // The slices are rolled up twice, as after an interruption.
        records.roll_up(id, &due, tiers, &rolled);
        records.roll_up(id, &due, tiers, &rolled);
        rolled.finish();
        assert_eq!(rolled.due().count(), 0);
        for (slice, count, scale) in [
            ((HALF_HOUR, 0), 2, SCALE),
            ((HALF_HOUR, 1_800), 1, SCALE),
            ((SIX_HOURS, 0), 3, COARSE_SCALE),
            ((DAY, 0), 3, COARSE_SCALE),
        ] {
            let sums = &records.get((slice, id)).expect("it is there").sums;
            assert_eq!((sums.times.count, sums.histogram.scale()), (count, scale));
        }
    }

    #[test]
    fn pending_slices_are_added_unless_they_are_part_of_the_record() {
        let (mut records, mut rolled) = (Records::default(), RolledUp::default());
        let id = http("GET /");
        rolled.advance(3_600);
        records.add(((HALF_HOUR, 3_600), id), &one(), &rolled);
        for minute in [3_540, 3_600, 3_660, 5_400] {
            records.add(((60, minute), id), &one(), &rolled);
        }
        let half_hours = || records_in(&records, HALF_HOUR, 0..10_000, id);
        let minutes = || records_in(&records, 60, 0..10_000, id);
        let combined = |width| {
            let tier = crate::tier::tier_for(width).expect("there is one");
            let slices = match tier == FINEST {
                true => combine(width, tier, minutes(), []),
                false => combine(width, tier, half_hours(), minutes()),
            };
            let slices = slices.into_iter();
            let counts = slices.map(|slice| (slice.start, slice.sums.times.count));
            counts.collect::<Vec<_>>()
        };
        // The record at 3,600 includes no slices yet, because only those before 3,540 are rolled up.
        assert_eq!(rolled.until(), 3_540);
        assert_eq!(combined(HALF_HOUR), [(1_800, 1), (3_600, 3), (5_400, 1)]);
        assert_eq!(combined(3_600), [(0, 1), (3_600, 4)]);
        let minutes = [(3_540, 1), (3_600, 1), (3_660, 1), (5_400, 1)];
        assert_eq!(combined(60), minutes);
        rolled.advance(3_700);
        records.add(((HALF_HOUR, 3_600), id), &one(), &rolled);
        let [wide, fine] =
            [HALF_HOUR, 60].map(|width| records_in(&records, width, 3_600..7_200, id));
        let part = combine(3_600, TIERS[1], wide, fine);
        let counts: Vec<_> = part.iter().map(|part| part.sums.times.count).collect();
        // The record at 3,600 has two samples. The slices at 3,660 and 5,400 are pending, with one sample each.
        assert_eq!((rolled.until(), counts), (3_660, vec![4]));
    }

    #[test]
    fn only_the_newest_slices_of_the_finest_tier_are_remembered() {
        let (mut records, rolled) = (Records::default(), RolledUp::default());
        let id = http("GET /");
        for at in [(60, 120), (60, 180), (60, 240), (HALF_HOUR, 0)] {
            records.add((at, id), &one(), &rolled);
        }
        records.retain_newest(2);
        let slices: Vec<_> = records.slices.keys().copied().collect();
        assert_eq!(slices, [(60, 180), (60, 240)]);
    }
}
