//! Short forms of a store's queries.

use std::sync::Arc;

use tower_pulse::{Pulse, StoreError};
use tower_pulse_core::store::{CounterQuery, SliceCount};
use tower_pulse_core::store::{Heartbeat, RecordQuery, Store};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::slice::Precision;
use tower_pulse_model::snapshot::{ContextSnapshot, FleetSnapshot, Problem};
use tower_pulse_model::tier::tier_for;

/// Gives access to the store of a `Pulse`, which the crate `tower-pulse` hides.
pub trait StoreOf {
    /// The store, with the methods that an instance uses.
    fn backend(&self) -> Arc<dyn Store>;
}

impl StoreOf for Pulse {
    fn backend(&self) -> Arc<dyn Store> {
        self.store().clone().into()
    }
}

/// All contexts of a store, and the state of the fleet.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All contexts except `<all>`, by name.
    pub contexts: Vec<ContextSnapshot>,
    /// All HTTP contexts together.
    pub all: ContextSnapshot,
    pub fleet: FleetSnapshot,
    /// Keys whose value has the wrong form, each once.
    pub problems: Vec<Problem>,
}

#[allow(async_fn_in_trait, reason = "only tests call it")]
pub trait StoreReads: Store {
    /// The slices of a counter with their counts, oldest first.
    async fn counter(&self, name: &str, precision: u32) -> Result<Vec<(i64, i64)>, StoreError> {
        let query = CounterQuery::new([name], precision);
        let counters = self.query().counters(&query).await?;
        let slices = counters.iter().flat_map(|counter| &counter.slices);
        Ok(slices.map(|slice| (slice.start, slice.count)).collect())
    }

    /// All contexts, including those that only other programs have recorded.
    async fn snapshot(&self, now: i64) -> Result<Snapshot, StoreError> {
        let fleet = self.query().fleet(now).await?;
        let mut problems = fleet.problems.clone();
        let mut contexts = Vec::new();
        if self.query().exports().is_some() {
            loop {
                let page = self.query().book_statistics(contexts.len(), now).await?;
                problems.extend(page.problems);
                if page.contexts.is_empty() {
                    break;
                }
                contexts.extend(page.contexts);
            }
        } else {
            let index = self.query().record_index(now).await?.contexts.into_iter();
            let mut names: Vec<String> = index.map(|id| id.name.to_string()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                contexts.extend(self.query().contexts(&name, now).await?);
            }
        }
        contexts.retain(|context| context.context != ALL);
        contexts.sort_by(|a, b| (&a.context, a.kind).cmp(&(&b.context, b.kind)));
        let mut seen = Vec::new();
        problems.retain(|problem| {
            let is_new = !seen.contains(problem);
            seen.extend(is_new.then(|| problem.clone()));
            is_new
        });
        let all = self.context(ALL, now).await?;
        Ok(Snapshot {
            contexts,
            all: all.unwrap_or_else(|| ContextSnapshot {
                context: ALL.to_owned(),
                kind: Kind::All,
                hour: None,
                last_hour: None,
            }),
            fleet,
            problems,
        })
    }

    /// The context of this name: the path, if a path and a timer have the name.
    async fn context(&self, name: &str, now: i64) -> Result<Option<ContextSnapshot>, StoreError> {
        let contexts = self.query().contexts(name, now).await?;
        Ok(contexts.into_iter().max_by_key(|context| context.kind))
    }

    /// The records under this name in slices of `width` seconds, oldest first.
    async fn records_of(
        &self,
        name: &str,
        width: u32,
        now: i64,
    ) -> Result<Vec<(i64, Aggregate)>, StoreError> {
        let slices = (width, tier_for(width).expect("a tier has such slices"));
        self.records_of_tier(&every_kind(name), slices, now).await
    }

    /// The number of each page's requests in all slices of `width` seconds.
    async fn counts_of(
        &self,
        pages: &[String],
        width: u32,
        now: i64,
    ) -> Result<Vec<u64>, StoreError> {
        let contexts = pages.iter();
        let contexts = contexts.map(|page| ContextId::new(Kind::Http, page.as_str()));
        let query = RecordQuery {
            contexts: contexts.collect(),
            width,
            tier: tier_for(width).expect("a tier has such slices"),
            now,
        };
        let records = self.query().records(&query).await?.into_iter();
        let counts = records
            .map(|slices| -> u64 { slices.iter().map(|slice| slice.sums.times.count).sum() });
        Ok(counts.collect())
    }

    /// The records of these contexts in slices of `width` seconds, combined from the slices of a tier.
    async fn records_of_tier(
        &self,
        contexts: &[ContextId],
        (width, tier): (u32, Precision),
        now: i64,
    ) -> Result<Vec<(i64, Aggregate)>, StoreError> {
        let query = RecordQuery {
            contexts: contexts.to_vec(),
            width,
            tier,
            now,
        };
        let records = self.query().records(&query).await?;
        Ok((records.into_iter().flatten())
            .map(|slice| (slice.start, slice.sums))
            .collect())
    }

    /// The slowest contexts with their means in seconds, slowest first.
    async fn slowest_means(&self) -> Result<Vec<(String, f64)>, StoreError> {
        let ranking = self.query().slowest(100).await?;
        let ranking = ranking.into_iter();
        Ok(ranking
            .map(|ranked| (ranked.context, ranked.mean))
            .collect())
    }
}

pub fn every_kind(name: &str) -> [ContextId; 3] {
    [Kind::All, Kind::Http, Kind::Timer].map(|kind| ContextId::new(kind, name))
}

pub fn pairs_of(slices: &[SliceCount]) -> Vec<(i64, i64)> {
    let slices = slices.iter();
    slices.map(|slice| (slice.start, slice.count)).collect()
}

impl<S: Store + ?Sized> StoreReads for S {}

/// A heartbeat of an instance that flushes every second, and has nothing to report.
pub fn heartbeat(instance: &str, at: i64) -> Heartbeat {
    Heartbeat {
        instance: instance.to_owned(),
        name: None,
        at,
        every: 1,
        in_flight: 0,
        paths: Vec::new(),
        dropped: 0,
        version: None,
        skew: None,
        cleaning: None,
    }
}
