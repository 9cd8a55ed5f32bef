//! Counters of contexts from their records, for stores that keep no counters of contexts.

use super::record_cache::RecordCache;
use super::records::{RecordQuery, records};
use crate::error::Result;
use crate::store::table_reads::TableReader;
use tower_pulse_model::context::{ALL, ContextId, Kind, Metric};
use tower_pulse_model::slice::SliceCount;
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::tier_for;

/// A counter of all contexts with this name, in slices of `width` seconds.
pub async fn recorded_counter(
    reader: &dyn TableReader,
    cache: Option<&RecordCache>,
    metric: Metric,
    context: &str,
    width: u32,
    now: i64,
) -> Result<Vec<SliceCount>> {
    let Some(tier) = tier_for(width) else {
        return Ok(Vec::new());
    };
    let kinds: &[Kind] = match context {
        ALL => &[Kind::All],
        _ => &[Kind::Http, Kind::Timer],
    };
    let contexts = kinds.iter().map(|kind| ContextId::new(*kind, context));
    let query = RecordQuery {
        contexts: contexts.collect(),
        width,
        tier,
        now,
    };
    let mut slices: Map<i64, i64> = Map::default();
    let read = records(reader, cache, &query).await?.into_iter();
    // A record without requests may exist for timers that ended after their request.
    for slice in read.flatten().filter(|slice| slice.sums.times.count > 0) {
        let n = match metric {
            Metric::Hits => slice.sums.times.count,
            Metric::Errors => slice.sums.outcomes.errors,
            Metric::Micros => slice.sums.times.sum / 1_000,
        };
        let sum = slices.or_insert_with(slice.start, i64::default);
        *sum = sum.saturating_add_unsigned(n);
    }
    let slices = slices.into_iter();
    Ok(slices.map(|(start, n)| SliceCount::new(start, n)).collect())
}
