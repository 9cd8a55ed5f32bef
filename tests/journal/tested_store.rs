//! The store that the processes of a [`Scheduler`](crate::journal::scheduler::Scheduler) share. Only the test advances
//! the store's clock. A test can save the data in a snapshot, and restore the data later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::runtime::Runtime;
use tower_pulse::{ManualClock, StoreError};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::marks;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::slice::Precision;
use tower_pulse_model::tally::{MAX_CODES, MAX_KINDS};
use tower_pulse_model::tier::{DAY, tier_for};
use tower_pulse_model::tiers::LEAST_DAYS;

use crate::journal::net::{Reply, Request};
use crate::journal::redis_under_test::RedisUnderTest;
use crate::rig::reads::{StoreReads, every_kind};

pub const MAX_SAVED: usize = 15;
/// The scale of the coarsest histograms. The indexes of buckets in finer histograms are shifted to this scale.
const COARSEST_SCALE: u8 = 2;

/// A store whose data the scheduler can read and change.
pub trait TestedStore {
    fn store(&self) -> Arc<dyn Store>;

    fn io(&self) -> &Runtime;

    fn manual_clock(&self) -> &ManualClock;

    /// Unix seconds by the store's clock.
    fn now(&self) -> i64;

    fn clear(&self);

    /// Removes all data, as `FLUSHDB` does.
    fn lose_all(&self);

    /// Saves all data in the snapshot with a number from 1 to [`MAX_SAVED`].
    fn save(&self, number: usize);

    fn restore(&self, number: usize);

    /// The generation and, in Unix seconds, its beginning; `None` if no instance has begun one.
    fn generation(&self) -> Option<(String, i64)>;

    /// The number of the last call of an instance; 0 for none.
    fn fence(&self, instance: &str) -> u64;

    fn is_folded(&self) -> bool;

    /// The number of `late` or `skewed` samples, of `quarantined` writes, of `set_aside` requests, of `orphaned`
    /// entries, or of bytes in a `hole` of the journal.
    fn counted(&self, exception: &str) -> u64;

    fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64>;

    /// The counts of a context's exported statistics, for the current and for the last hour; `None` if the store
    /// exports no statistics.
    fn statistics(&self, context: &str) -> Option<(u64, u64)>;

    /// The total of each request in a ranking, and then the sum of its counts in the ranking's slices.
    fn ranking(&self, name: &str) -> [BTreeMap<usize, i64>; 2];

    /// The minutes that may have reports.
    fn reported_minutes(&self) -> Vec<i64>;

    /// The store, if other programs and evictions can change its keys: only in Redis.
    fn redis(&self) -> Option<&RedisUnderTest> {
        None
    }

    fn run(&self, request: &Request) -> Result<Reply, StoreError> {
        self.io().block_on(request.run(&*self.store()))
    }

    /// How often each request is in the minute reports of the instances, and in the minutes of the application's
    /// versions.
    fn reported(&self) -> [BTreeMap<usize, u64>; 2] {
        let minutes = self.reported_minutes();
        let (instances, versions) = self.io().block_on(async {
            let store = self.store();
            let instances = store.query().minute_reports(&minutes).await.unwrap();
            let versions = store.query().version_records(&minutes).await.unwrap();
            (instances, versions)
        });
        let instances = instances.iter().flatten();
        let instances = instances.flat_map(|(_, report)| &report.contexts);
        let versions = versions.iter().flatten().flat_map(|(_, records)| records);
        [
            requests_of(instances.map(|(_, sums)| sums)),
            requests_of(versions.map(|(_, sums)| sums)),
        ]
    }

    fn marked(&self) -> BTreeSet<usize> {
        let marks = self.io().block_on(marks::list(&*self.store())).unwrap();
        marks.iter().map(|mark| mark.id.parse().unwrap()).collect()
    }

    /// How often a context's records count each request. Each request has its own bucket, even in the coarsest
    /// histogram.
    fn records(&self, context: &str, width: u32) -> BTreeMap<usize, u64> {
        self.records_in(context, width, tier_for(width).unwrap())
    }

    /// How often the days of a context's history count each request.
    fn days(&self, context: &str) -> BTreeMap<usize, u64> {
        self.records_in(context, DAY, Precision::new(DAY, LEAST_DAYS))
    }

    fn records_in(&self, context: &str, width: u32, tier: Precision) -> BTreeMap<usize, u64> {
        let slices = (width, tier);
        let contexts = every_kind(context);
        let store = self.store();
        let records = store.records_of_tier(&contexts, slices, self.now());
        let records = self.io().block_on(records).unwrap();
        requests_of(records.iter().map(|(_, record)| record))
    }
}

/// Adds the status code and the kind of error of a request with this number, `n` times.
pub fn describe(sums: &mut Aggregate, request: usize, n: u64) {
    sums.codes.add(200 + (request % MAX_CODES) as u16, n);
    let kind = (request % MAX_KINDS).to_string();
    sums.kinds.add(kind.into(), n);
}

/// How often aggregates count each request, by its bucket. Codes and kinds of errors must agree with the buckets.
fn requests_of<'a>(all: impl Iterator<Item = &'a Aggregate>) -> BTreeMap<usize, u64> {
    let mut counts = BTreeMap::new();
    for sums in all {
        let shift = sums.histogram.scale() - COARSEST_SCALE;
        let mut described = Aggregate::default();
        for (bucket, n) in sums.histogram.buckets() {
            let request = usize::from(*bucket >> shift);
            describe(&mut described, request, *n);
            *counts.entry(request).or_default() += n;
        }
        let expected = (sums.histogram.count(), &described.codes, &described.kinds);
        let counted = (sums.times.count, &sums.codes, &sums.kinds);
        assert_eq!(counted, expected, "a record contradicts itself");
    }
    counts
}
