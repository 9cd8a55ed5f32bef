//! Reads counters.

use redis::Value;

use crate::RedisStore;
use crate::connection::Role;
use crate::value::{int, pairs};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::read::recorded_counter;
use tower_pulse_core::store::{CounterQuery, CounterSeries};
use tower_pulse_model::context::Metric;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::SliceCount;

impl RedisStore {
    pub(crate) async fn read_counters(&self, query: &CounterQuery) -> Result<Vec<CounterSeries>> {
        let mut pipeline = redis::Pipeline::with_capacity(query.names.len());
        for name in &query.names {
            let key = self.keys.count(query.precision, name);
            pipeline.cmd("HGETALL").arg(key);
        }
        let hashes = self.read_sized(Role::Read, &pipeline).await?;
        let mut counters = Vec::with_capacity(query.names.len());
        for (name, hash) in query.names.iter().zip(hashes) {
            // Without the book's keys, the counters of a context are computed from its records.
            let slices = match Metric::of_counter(name).filter(|_| !self.options.book_keys) {
                Some((metric, context)) => {
                    let (width, now) = (query.precision, self.now());
                    let cache = Some(&self.record_cache);
                    recorded_counter(self, cache, metric, context, width, now).await?
                }
                // A key of another type reads as empty.
                None => hash.as_ref().map_or_else(|_| Vec::new(), slices_of),
            };
            counters.push(CounterSeries::new(name.clone(), slices));
        }
        Ok(counters)
    }
}

pub(super) fn slices_of(hash: &Value) -> Vec<SliceCount> {
    let mut slices: Vec<_> = pairs(hash)
        .filter_map(|(slice, n)| Some(SliceCount::new(int(slice)?, int(n)?)))
        .collect();
    slices.order();
    slices
}
