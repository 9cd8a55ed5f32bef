//! Counters by name and precision.

use std::collections::HashMap;

use crate::store::{Cleaned, MAX_COUNTER_NAMES, Pass};
use tower_pulse_model::context::is_reserved;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{
    DEFAULT_RETAINED, Precision, Precisions, SliceCount, latest_accepted,
};
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::sorted::{self, Map};

/// The counts of a counter at a precision, by the start of the slice.
type SliceCounts = Map<i64, i64>;

/// All counters.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The counts by the name of the counter. For each of its few precisions, sorted: the seconds, and the counts.
    by_name: HashMap<String, Vec<(u32, SliceCounts)>>,
    /// The counters to write to a file, with the precisions that have changed; `None` in a store without a file.
    pub changed: Option<Map<(String, u32), ()>>,
}

impl Counters {
    /// Adds to a slice of a counter. `now` is the time of the newest entry in the round.
    ///
    /// # Errors
    /// The sum does not fit into 64 bits. The counter is unchanged.
    pub(super) fn add(
        &mut self,
        name: &str,
        precision: Precision,
        slice: i64,
        n: i128,
        now: i64,
    ) -> Result<(), Problem> {
        debug_assert!(slice <= latest_accepted(now));
        let by_precision = match self.by_name.get_mut(name) {
            Some(counter) => counter,
            None => self.by_name.entry(name.to_owned()).or_default(),
        };
        let slices = sorted::entry(by_precision, precision.seconds, SliceCounts::default);
        let overflow = || {
            Problem::new(
                format!("count:{}:{name}", precision.seconds),
                "increment or decrement would overflow",
            )
        };
        match slices.get_mut(&slice) {
            Some(count) => {
                let sum = i64::try_from(i128::from(*count) + n);
                *count = sum.map_err(|_| overflow())?;
            }
            None => {
                slices.insert(slice, i64::try_from(n).map_err(|_| overflow())?);
                drop_pushed_out(slices, precision, slice);
            }
        }
        self.note(name, precision.seconds);
        Ok(())
    }

    fn note(&mut self, name: &str, precision: u32) {
        if let Some(changed) = &mut self.changed {
            changed.insert((name.to_owned(), precision), ());
        }
    }

    /// The counts of a counter at a precision.
    pub fn get(&self, name: &str, precision: u32) -> Option<&Map<i64, i64>> {
        let by_precision = self.by_name.get(name)?;
        let slices = by_precision
            .iter()
            .find(|(seconds, _)| *seconds == precision);
        slices.map(|(_, slices)| slices)
    }

    /// Sets the counts of a counter at a precision.
    pub fn set(&mut self, name: &str, precision: u32, counts: Map<i64, i64>) {
        let by_precision = self.by_name.entry(name.to_owned()).or_default();
        *sorted::entry(by_precision, precision, SliceCounts::default) = counts;
    }

    pub(super) fn slices(&self, name: &str, precision: u32) -> Vec<SliceCount> {
        self.get(name, precision).map_or_else(Vec::new, |slices| {
            let slices = slices.iter();
            slices
                .map(|(start, n)| SliceCount::new(*start, *n))
                .collect()
        })
    }

    /// The names of the user's counters that have slices at any of the precisions.
    pub(super) fn names(&self, precisions: &[u32]) -> Vec<String> {
        let counters = self.by_name.iter().filter(|(name, by_precision)| {
            let mut seconds = by_precision.iter().map(|(seconds, _)| seconds);
            !is_reserved(name) && seconds.any(|seconds| precisions.contains(seconds))
        });
        let mut names: Vec<_> = counters.map(|(name, _)| name.clone()).collect();
        names.order();
        names.truncate(MAX_COUNTER_NAMES);
        names
    }

    pub(super) fn remove(&mut self, name: &str) {
        let removed = self.by_name.remove(name).unwrap_or_default();
        for (precision, _) in removed {
            self.note(name, precision);
        }
    }

    pub(super) fn clean(&mut self, pass: &Pass, precisions: &Precisions, cleaned: &mut Cleaned) {
        let changed = &mut self.changed;
        for (name, by_precision) in &mut self.by_name {
            by_precision.retain_mut(|(seconds, slices)| {
                if !pass.examines(i64::from(*seconds)) {
                    return true;
                }
                let precision = precisions
                    .counter(*seconds)
                    .unwrap_or(Precision::new(*seconds, DEFAULT_RETAINED));
                let before = slices.len();
                let cutoff = precision.cutoff(pass.now);
                // Stops at the first slice that stays, because a search would lock the store for longer.
                while let Some(oldest) = slices.first()
                    && (*oldest <= cutoff || slices.len() > precision.retained as usize)
                {
                    slices.pop_first();
                }
                if let Some(changed) = changed
                    && slices.len() < before
                {
                    changed.insert((name.clone(), *seconds), ());
                }
                cleaned.examined += 1;
                cleaned.slices += (before - slices.len()) as u64;
                cleaned.counters += u64::from(slices.is_empty());
                !slices.is_empty()
            });
        }
        self.by_name
            .retain(|_, by_precision| !by_precision.is_empty());
    }
}

fn drop_pushed_out(slices: &mut SliceCounts, precision: Precision, new: i64) {
    let pushed_out = precision.cutoff(new);
    // Usually, the new slice is the newest, and pushes out only the slice at the cutoff. A search for all slices to
    // drop would take as long as the addition.
    if slices.first().is_some_and(|oldest| *oldest <= pushed_out) {
        slices.remove(&pushed_out);
    }
    while slices.len() > precision.retained as usize {
        slices.pop_first();
    }
}
