//! What a step adds: to counters, and to when each context had its last sample.

use std::collections::BTreeMap;

use super::State;
use crate::model::slice::{Precision, SKEW_ALLOWED};
use crate::model::snapshot::Problem;
use crate::store::additions::Additions;
use crate::store::table::CONTEXTS;

impl State {
    /// Adds what a step adds. `now` is the time of its round. No other program can read statistics here, so that none
    /// are kept.
    pub(super) fn add(&mut self, additions: &Additions, now: i64) {
        for slice in &additions.counters {
            for (name, n) in &slice.added {
                self.count(name, slice.precision, slice.slice, *n, now);
            }
        }
        for added in &additions.statistics {
            let mut tables = CONTEXTS.into_iter();
            if let Some((_, table)) = tables.find(|(kind, _)| *kind == added.context.kind) {
                let name = added.context.name.as_bytes();
                self.tables.raise(table, name, added.last_seen);
            }
        }
        self.exceptions.late += additions.late;
        self.exceptions.skewed += additions.skewed;
    }

    fn count(&mut self, name: &str, precision: Precision, slice: i64, n: i128, now: i64) {
        debug_assert!(slice <= now.saturating_add(SKEW_ALLOWED));
        let by_precision = match self.counters.get_mut(name) {
            Some(counter) => counter,
            None => self.counters.entry(name.to_owned()).or_default(),
        };
        let slices = by_precision.entry(precision.seconds).or_default();
        let old = slices.get(&slice).copied();
        match i64::try_from(i128::from(old.unwrap_or(0)) + n) {
            Ok(sum) => {
                slices.insert(slice, sum);
            }
            Err(_) => self.exceptions.quarantine(Problem {
                key: format!("count:{}:{name}", precision.seconds),
                reason: "increment or decrement would overflow".to_owned(),
            }),
        }
        if old.is_none() {
            drop_pushed_out(slices, precision, slice);
        }
    }
}

/// Drops the slices for which a new slice leaves no room.
fn drop_pushed_out<V>(slices: &mut BTreeMap<i64, V>, precision: Precision, new: i64) {
    slices.remove(&precision.pushed_out_by(new));
    while slices.len() > precision.retained as usize {
        slices.pop_first();
    }
}
