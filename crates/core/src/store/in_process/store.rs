//! Implements the traits of a store with the state of one process.

use super::table_reads::len_of_part;
use super::{InProcessStore, StateAccess};
use crate::condition::{Condition, Warning};
use crate::store::journal::Journal;
use crate::store::locality::{IN_PROCESS, Locality};
use crate::store::table_reads::{Answers, Purpose, TableRead, TableReader};
use crate::store::{CounterQuery, CounterSeries, Query, Store, StoreFuture, Upkeep, read};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slowest::{RANKING_LEN, RankedContext};
use tower_pulse_model::snapshot::FleetSnapshot;

impl Store for InProcessStore {
    fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn query(&self) -> &dyn Query {
        self
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn locality(&self) -> &'static Locality {
        &IN_PROCESS
    }

    fn reset_remedy(&self) -> Option<&'static str> {
        let has_trouble = !self.executor.trouble().is_empty();
        (!has_trouble).then_some("look for the program that deleted its data")
    }

    fn explains_failures(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.executor.describe()
    }

    fn has_context_counters(&self) -> bool {
        self.has_context_counters
    }

    fn conditions(&self) -> Vec<Warning> {
        let texts = self.executor.trouble().into_iter();
        texts.map(|text| Condition::File.warning(text)).collect()
    }

    fn sync(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.with(StateAccess::Durable, |_| Ok(())))
    }

    fn durable_seq(&self, instance: &str) -> Option<u64> {
        self.executor.durable_seq(instance)
    }
}

impl Query for InProcessStore {
    fn tables(&self) -> &dyn TableReader {
        self
    }

    fn fleet(&self, now: i64) -> StoreFuture<'_, FleetSnapshot> {
        let precisions = self.precisions.clone();
        Box::pin(self.with(StateAccess::Read, move |state| {
            Ok(state.fleet(&precisions, now))
        }))
    }

    fn counters<'a>(&'a self, query: &'a CounterQuery) -> StoreFuture<'a, Vec<CounterSeries>> {
        Box::pin(async move {
            let asked = query.clone();
            let slices = self.with(StateAccess::Read, move |state| {
                let names = asked.names.iter();
                let slices = names.map(|name| state.counters.slices(name, asked.precision));
                Ok(slices.collect::<Vec<_>>())
            });
            let mut counters = Vec::with_capacity(query.names.len());
            for (name, mut slices) in query.names.iter().zip(slices.await?) {
                let recorded = Metric::of_counter(name).filter(|_| !self.has_context_counters);
                if let Some((metric, context)) = recorded {
                    let (width, now) = (query.precision, self.now());
                    slices =
                        read::recorded_counter(self, None, metric, context, width, now).await?;
                }
                counters.push(CounterSeries::new(name.clone(), slices));
            }
            Ok(counters)
        })
    }

    fn counter_names<'a>(&'a self, precisions: &'a [u32]) -> StoreFuture<'a, Vec<String>> {
        let precisions = precisions.to_vec();
        Box::pin(self.with(StateAccess::Read, move |state| {
            Ok(state.counters.names(&precisions))
        }))
    }

    fn slowest(&self, limit: usize) -> StoreFuture<'_, Vec<RankedContext>> {
        let limit = limit.min(RANKING_LEN);
        Box::pin(async move {
            let since = self
                .with(StateAccess::Read, |state| Ok(state.kept.ranked_since))
                .await?;
            read::slowest(self, since, limit, self.now()).await
        })
    }
}

impl TableReader for InProcessStore {
    fn read_tables<'a>(&'a self, _: Purpose, reads: &'a [TableRead]) -> StoreFuture<'a, Answers> {
        Box::pin(async move {
            let now = self.now();
            let (mut answers, mut unread) = (Vec::with_capacity(reads.len()), reads);
            while !unread.is_empty() {
                if !answers.is_empty() {
                    // Other tasks can then use the store and this thread.
                    tokio::task::yield_now().await;
                }
                let (part, later) = unread.split_at(len_of_part(unread));
                let part = part.to_vec();
                let answered = self.with(StateAccess::Read, move |state| {
                    let answers = part.iter().map(|read| state.answer(read, now));
                    answers.collect::<Result<Vec<_>, _>>()
                });
                answers.extend(answered.await?);
                unread = later;
            }
            Ok(Answers::new(answers))
        })
    }
}
