//! The sums of contexts over the slices of a moving window.

use std::collections::HashMap;

use super::aggregate::Aggregate;
use super::pack;
use super::records::{Record, RecordId};
use super::tally::MAX_WINDOW_KEYS;
use super::tier::Revision;

/// The packed sums of a context; `None` if the context has no sums.
pub type PackedSums = (RecordId, Option<Box<[u8]>>);

/// The bytes of a context's sums in addition to their packed form.
const PER_CONTEXT: usize = 64;

/// The bytes of a slice in the list of a group's slices.
const PER_SLICE: usize = 40;

/// The sums of each context over some slices. While a window moves on, slices are added and removed, one group of
/// contexts after the other. The sums are packed, because they then take a fifth of the memory.
#[derive(Debug, Default)]
pub struct RunningSums {
    /// For each group, the slices with their revisions.
    slices: Vec<HashMap<i64, Revision>>,
    sums: HashMap<RecordId, Box<[u8]>>,
    bytes: usize,
    /// Whether some slices were removed while others stayed.
    is_reduced: bool,
}

impl RunningSums {
    /// The starts of a group's slices, in any order, with the revision that each slice had when it was added.
    pub fn slices(&self, group: usize) -> impl Iterator<Item = (i64, Revision)> {
        let slices = self.slices.get(group).into_iter().flatten();
        slices.map(|(start, revision)| (*start, *revision))
    }

    /// The revision that a group's slice had when the slice was added.
    pub fn revision(&self, group: usize, start: i64) -> Option<Revision> {
        self.slices.get(group)?.get(&start).copied()
    }

    /// The number of groups that have had slices.
    pub fn groups(&self) -> usize {
        self.slices.len()
    }

    /// The sums of a context without the `removed` records, which were added before, and with the `added` records.
    pub fn changed<'a>(
        &self,
        id: RecordId,
        removed: impl Iterator<Item = &'a Record>,
        added: impl Iterator<Item = &'a Record>,
    ) -> PackedSums {
        let mut sums = self.get(id);
        if let Some(sums) = &mut sums {
            removed.for_each(|record| sums.subtract(&record.sums));
        }
        // Sums without requests may still have timers and failures of earlier requests, or a count of missing requests.
        let is_empty = |sums: &Aggregate| {
            sums.timers.is_empty() && sums.kinds.is_empty() && sums.measures.is_empty()
        };
        sums = sums.filter(|sums| sums.times.count > 0 || !is_empty(sums));
        let added: Vec<&Aggregate> = added.map(|record| &record.sums).collect();
        if !added.is_empty() {
            let sums = sums.get_or_insert_default();
            sums.merge_all(&added);
            sums.codes.limit(MAX_WINDOW_KEYS);
            sums.kinds.limit(MAX_WINDOW_KEYS);
        }
        (id, sums.map(|sums| pack::aggregate(&sums).into()))
    }

    /// Removes slices of a group and adds others, which must be new. `sums` has the [resulting](Self::changed) sums of
    /// the group's contexts. A context without records in any of these slices may be left out.
    pub fn change(
        &mut self,
        group: usize,
        removed: impl Iterator<Item = i64>,
        added: impl Iterator<Item = (i64, Revision)>,
        sums: Vec<PackedSums>,
    ) {
        if self.slices.len() <= group {
            self.slices.resize_with(group + 1, HashMap::new);
        }
        let slices = &mut self.slices[group];
        let mut is_reduced = false;
        for start in removed {
            is_reduced |= slices.remove(&start).is_some();
        }
        // If no slice is left, as when an hour begins, the sums begin anew with exact bounds.
        self.is_reduced |= is_reduced && !slices.is_empty();
        for (start, revision) in added {
            let before = slices.insert(start, revision);
            debug_assert_eq!(before, None, "slices must be new");
        }
        for (id, sums) in sums {
            self.bytes += sums.as_ref().map_or(0, |sums| sums.len() + PER_CONTEXT);
            let before = match sums {
                Some(sums) => self.sums.insert(id, sums),
                None => self.sums.remove(&id),
            };
            self.bytes -= before.map_or(0, |before| before.len() + PER_CONTEXT);
        }
        if self.slices.iter().all(HashMap::is_empty) {
            self.clear();
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the smallest and the largest duration are exact. When a slice is removed, its smallest and largest
    /// duration stay in the sums, so the bounds may be too wide.
    pub fn has_exact_bounds(&self) -> bool {
        !self.is_reduced
    }

    /// The sums of a context.
    pub fn get(&self, id: RecordId) -> Option<Aggregate> {
        pack::read_aggregate(self.sums.get(&id)?)
    }

    /// The approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let slices = self.slices.iter().map(HashMap::len).sum::<usize>();
        self.bytes + slices * PER_SLICE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slices::Merge;
    use crate::tests::{http, lone_run, record_of, requests, timer, timer_sums};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn record(nanos: &[u64]) -> Record {
        let mut sums = Aggregate::default();
        for nanos in nanos {
            sums.merge(&requests(1, *nanos));
            sums.outcomes.counts[*nanos as usize % 10] += 1;
            let timed = timer_sums(2, 1, nanos / 2, nanos / 3);
            sums.timers.add(timer(nanos % 3), &timed);
            sums.timers.covered += nanos / 3;
            sums.codes.add(200 + *nanos as u16 % 5, 1);
            sums.kinds.add((nanos % 7).to_string().into(), 1);
        }
        record_of(sums)
    }

    type SliceOf<'a> = Option<(i64, &'a [(RecordId, Record)])>;

    /// Removes a slice and adds another one, in each of two groups of contexts.
    fn change(running: &mut RunningSums, removed: SliceOf<'_>, added: SliceOf<'_>) {
        let [taken, given] = [removed, added].map(|slice| slice.map_or(&[][..], |of| of.1));
        let ids: BTreeSet<RecordId> = taken.iter().chain(given).map(|(id, _)| *id).collect();
        for group in 0..2 {
            let is_in = |id: &&RecordId| usize::from(id.to_bytes()[7]) % 2 == group;
            let sums = ids.iter().filter(is_in).map(|id| {
                let [taken, given] = [taken, given].map(|records| {
                    let records = records.iter().filter(move |(of, _)| of == id);
                    records.map(|(_, record)| record)
                });
                running.changed(*id, taken, given)
            });
            let sums: Vec<_> = sums.collect();
            let removed = removed.map(|(start, _)| start);
            let added = added.map(|(start, _)| (start, 7));
            running.change(group, removed.into_iter(), added.into_iter(), sums);
        }
    }

    #[test]
    fn sums_that_begin_anew_have_exact_bounds() {
        let id = http("GET /");
        let first = [(id, record(&[1_000, 9_000]))];
        let second = [(id, record(&[2_000, 3_000]))];
        let mut running = RunningSums::default();
        change(&mut running, None, Some((0, &first)));
        change(&mut running, Some((0, &first)), Some((3_600, &second)));
        let times = running.get(id).expect("the second hour is in it").times;
        assert!(running.has_exact_bounds());
        assert_eq!((times.min, times.max), (2_000, 3_000));
        change(&mut running, None, Some((3_660, &first)));
        change(&mut running, Some((3_660, &first)), None);
        assert!(!running.has_exact_bounds());
    }

    #[test]
    fn timers_whose_requests_have_left_stay_until_they_leave() {
        let (id, timer) = (http("GET /"), timer("db"));
        let mut lone = Record::default();
        lone.sums.timers.add(timer, &lone_run(7));
        let (first, second) = ([(id, record(&[1_000]))], [(id, lone)]);
        let mut running = RunningSums::default();
        change(&mut running, None, Some((0, &first)));
        change(&mut running, None, Some((60, &second)));
        change(&mut running, Some((0, &first)), None);
        let sums = running.get(id).expect("the timer is left");
        let left = sums.timers.get(timer).map(|timer| timer.sum);
        assert_eq!((sums.times.count, left), (0, Some(7)));
        assert!(running.bytes() > PER_SLICE + PER_CONTEXT);
        change(&mut running, Some((60, &second)), None);
        assert_eq!((running.get(id), running.bytes()), (None, 0));
    }

    proptest! {
        #[test]
        fn the_sums_of_a_moved_window_equal_the_sums_of_its_slices(slices in vec(vec((0..3u8, vec(1_000..9_000_000_000u64, 1..9)), 0..4), 1..20), width in 1..8usize) {
            let slices: Vec<Vec<_>> = slices.into_iter().map(|slice| {
                let mut of: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
                for (name, nanos) in slice {
                    of.entry(name).or_default().extend(nanos);
                }
                let records = of.into_iter();
                records.map(|(name, nanos)| (http(name), record(&nanos))).collect()
            }).collect();
            let mut running = RunningSums::default();
            for (at, records) in slices.iter().enumerate() {
                let leaving = at.checked_sub(width).map(|at| (at as i64, &slices[at][..]));
                let entering = Some((at as i64, &records[..]));
                if at % 2 == 0 {
                    change(&mut running, leaving, entering);
                } else {
                    change(&mut running, None, entering);
                    change(&mut running, leaving, None);
                }
                let first = (at + 1).saturating_sub(width);
                for group in 0..2 {
                    let starts: BTreeSet<i64> = running.slices(group).map(|(start, _)| start).collect();
                    prop_assert!(starts.into_iter().eq(first as i64..=at as i64));
                }
                let mut expected: HashMap<RecordId, Aggregate> = HashMap::new();
                for (id, record) in slices[first..=at].iter().flatten() {
                    expected.entry(*id).or_default().merge(&record.sums);
                }
                prop_assert_eq!(running.sums.len(), expected.len());
                let bytes = running.sums.values().map(|sums| sums.len() + PER_CONTEXT).sum::<usize>();
                prop_assert_eq!(running.bytes(), bytes + 2 * (at - first + 1) * PER_SLICE);
                for (id, mut expected) in expected {
                    let sums = running.get(id).expect("it has sums");
                    if !running.has_exact_bounds() {
                        expected.times.min = sums.times.min;
                        expected.times.max = sums.times.max;
                    }
                    prop_assert_eq!(sums, expected);
                }
            }
        }
    }
}
