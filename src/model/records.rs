//! Records: what is kept of each context in each slice of a tier, merged. The memory store keeps all
//! of them here; whoever folds a journal keeps those that are still being added to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::batch::{Aggregate, Merge};
use super::histogram::COARSE_SCALE;
use super::slice::{HOUR, Precision};

/// The width of a tier's slices in seconds, and the start of one of them.
pub type TierSlice = (u32, i64);

/// Records by tier, slice and context.
#[derive(Debug, Default)]
pub struct Records {
    slices: BTreeMap<TierSlice, Slice>,
}

#[derive(Debug, Default)]
struct Slice {
    /// It has ended, and its histograms have been reduced to the coarse scale.
    is_coarse: bool,
    records: HashMap<Arc<str>, Aggregate>,
}

impl Records {
    /// The record of a context; `None` where none was added or loaded.
    pub fn get(&self, at: TierSlice, context: &str) -> Option<&Aggregate> {
        self.slices.get(&at)?.records.get(context)
    }

    /// Adds to the record of a context, which is empty when it is not there yet.
    pub fn add(&mut self, at: TierSlice, context: &Arc<str>, added: &Aggregate) {
        let slice = self.slices.entry(at).or_default();
        let record = match slice.records.get_mut(context) {
            Some(record) => record,
            None => slice.records.entry(context.clone()).or_default(),
        };
        record.merge(added);
        if slice.is_coarse {
            record.histogram.coarsen(COARSE_SCALE);
        }
    }

    /// Puts a record that was read from where it is kept.
    pub fn load(&mut self, at: TierSlice, context: Arc<str>, record: Aggregate) {
        self.slices
            .entry(at)
            .or_default()
            .records
            .insert(context, record);
    }

    /// Reduces the histograms of slices of an hour and wider that had ended at `now` to the coarse
    /// scale, once. Returns those that this changed.
    pub fn coarsen_ended(&mut self, now: i64) -> Vec<(TierSlice, Arc<str>)> {
        let mut changed = Vec::new();
        for (at, slice) in &mut self.slices {
            let width = i64::from(at.0);
            if width < HOUR || slice.is_coarse || at.1.saturating_add(width) > now {
                continue;
            }
            slice.is_coarse = true;
            for (context, record) in &mut slice.records {
                if record.histogram.scale() > COARSE_SCALE {
                    record.histogram.coarsen(COARSE_SCALE);
                    changed.push((*at, context.clone()));
                }
            }
        }
        changed
    }

    /// Drops the slices of each tier that are not retained at `now`; those of other tiers altogether.
    pub fn retain(&mut self, tiers: &[Precision], now: i64) {
        self.slices.retain(|(seconds, start), _| {
            let tier = tiers.iter().find(|tier| tier.seconds == *seconds);
            tier.is_some_and(|tier| *start > tier.cut_off(now))
        });
    }

    /// Drops all but the newest `count` slices of each tier.
    pub fn retain_newest(&mut self, count: usize) {
        let mut seen = (0, 0);
        let drop: Vec<TierSlice> = (self.slices.keys().rev())
            .filter(|(seconds, _)| {
                seen = if seen.0 == *seconds {
                    (*seconds, seen.1 + 1)
                } else {
                    (*seconds, 1)
                };
                seen.1 > count
            })
            .copied()
            .collect();
        for at in drop {
            self.slices.remove(&at);
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.slices.values().map(|slice| slice.records.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.slices.clear();
    }

    /// The records of a context at a tier, oldest first.
    pub fn of(&self, seconds: u32, context: &str) -> Vec<(i64, Aggregate)> {
        self.slices
            .range((seconds, i64::MIN)..=(seconds, i64::MAX))
            .filter_map(|((_, start), slice)| Some((*start, slice.records.get(context)?.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::histogram::Histogram;

    fn one(bucket: u16) -> Aggregate {
        let mut aggregate = Aggregate::default();
        aggregate.times.record(1_000);
        aggregate.histogram = Histogram::new(4, [(bucket, 1)]);
        aggregate
    }

    #[test]
    fn an_hour_that_has_ended_is_reduced_once_and_stays_so() {
        let mut records = Records::default();
        let context: Arc<str> = "GET /".into();
        for at in [(60, 0), (3_600, 0), (3_600, 3_600)] {
            records.add(at, &context, &one(17));
        }
        assert_eq!(records.coarsen_ended(3_599), []);
        assert_eq!(
            records.coarsen_ended(3_600),
            [((3_600, 0), context.clone())]
        );
        assert_eq!(records.coarsen_ended(3_600), []);
        records.add((3_600, 0), &context, &one(18));
        let hour = records.get((3_600, 0), "GET /").expect("it was added to");
        assert_eq!(hour.histogram.scale(), COARSE_SCALE);
        assert_eq!(hour.histogram.buckets(), [(4, 2)]);
        let minute = records.get((60, 0), "GET /").expect("it was added");
        assert_eq!(minute.histogram.scale(), 4);
    }

    #[test]
    fn slices_go_by_age_or_by_number() {
        let mut records = Records::default();
        let context: Arc<str> = "GET /".into();
        for minute in 0..5 {
            records.add((60, 60 * minute), &context, &one(1));
            records.add((300, 300 * minute), &context, &one(1));
        }
        records.retain(&[Precision::new(60, 3)], 270);
        let starts: Vec<_> = records.of(60, "GET /").iter().map(|(at, _)| *at).collect();
        assert_eq!(starts, [120, 180, 240]);
        assert_eq!(records.of(300, "GET /"), []);
        records.add((300, 0), &context, &one(1));
        records.retain_newest(2);
        assert_eq!(records.len(), 3);
        assert_eq!(records.of(60, "GET /")[0].0, 180);
    }
}
