//! Collects the additions of a step to counters and statistics, from the partitions that the step writes. Other
//! programs may add to the keys of counters and statistics. So a step adds to the values of these keys, but replaces
//! fields of tables.

use std::sync::Arc;

use super::leased_store::LeasedStore;
use super::plan::{NAMES_AT_ONCE, Plans};
use crate::store::additions::{Additions, CounterAdditions, CounterSlice, StatisticsAdditions};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::aggregate::RequestCounts;
use tower_pulse_model::context::{ALL, ContextId, Kind, Metric};
use tower_pulse_model::context_delta::ContextDelta;
use tower_pulse_model::round::{AcceptedDelta, Group, Round, partition};
use tower_pulse_model::sorted::Map;

/// Adds the cost of the additions of a round to the plans of their partitions.
pub(super) async fn plan(leased: &LeasedStore<'_>, round: &Round, plans: &mut Plans) {
    let mut seen = 0;
    for group in &round.groups {
        let contexts = group.contexts.iter();
        let contexts = contexts.map(|(context, accepted)| (&*context.name, accepted.delta.cost()));
        let counters = group.counters.iter().map(|(name, series)| {
            let slices = series.iter().map(|slices| slices.len());
            (&**name, slices.sum())
        });
        for (name, cost) in contexts.chain(counters) {
            let partition = partition(name);
            if leased.is_left(partition) {
                plans.of(partition).cost += cost;
            }
            seen += 1;
            if seen % NAMES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
    if round.late > 0 && leased.is_left(partition(ALL)) {
        plans.of(partition(ALL)).cost += 1;
    }
}

/// The additions of a step that writes `partitions`. Without `has_context_counters`, `<all>` is the only context with
/// counters.
pub(super) fn additions(
    round: &Round,
    partitions: &[usize],
    has_context_counters: bool,
) -> Additions {
    let mut additions = Additions::default();
    for group in &round.groups {
        for (context, AcceptedDelta { delta, skewed }) in group.contexts_of(partitions) {
            if has_context_counters || context.kind == Kind::All {
                count_requests(&mut additions.counters, group, context, delta);
            }
            additions.skewed += match context.kind {
                Kind::All => 0,
                _ => *skewed,
            };
            let hours = delta.hours.iter();
            let hours = hours.map(|(hour, times)| (hour, AccessTimeStats::from(times)));
            additions.statistics.push(StatisticsAdditions {
                context: context.clone(),
                last_seen: delta.last_seen,
                hours: hours.collect(),
            });
        }
        let counters = &mut additions.counters;
        for (name, series) in group.counters_of(partitions) {
            for (precision, slices) in group.precisions.counters.iter().zip(series) {
                for (slice, n) in slices.iter() {
                    let into = counters.or_insert_with((*precision, slice), Vec::new);
                    into.push((Arc::clone(name), i128::from(*n)));
                }
            }
        }
    }
    if partitions.contains(&partition(ALL)) {
        additions.late = round.late;
    }
    additions
}

/// Adds the hits, errors and microseconds of a context to its counters.
fn count_requests(
    counters: &mut Map<CounterSlice, CounterAdditions>,
    group: &Group,
    context: &ContextId,
    delta: &ContextDelta,
) {
    let names = Metric::ALL.map(|metric| (metric, Arc::from(metric.counter(&context.name))));
    for (precision, slices) in group.precisions.counters.iter().zip(&delta.counters) {
        for (slice, counts) in slices.iter() {
            let into = counters.or_insert_with((*precision, slice), Vec::new);
            for (metric, name) in &names {
                let n = count_of(*metric, counts);
                // An addition of 0 errors or microseconds must not create a slice.
                if n > 0 || *metric == Metric::Hits {
                    into.push((Arc::clone(name), i128::from(n)));
                }
            }
        }
    }
}

fn count_of(metric: Metric, counts: &RequestCounts) -> u64 {
    match metric {
        Metric::Hits => counts.hits,
        Metric::Errors => counts.errors,
        Metric::Micros => counts.micros,
    }
}
