//! The slowest contexts, as in the book's recipe *access times*.

use std::sync::Arc;

use super::records::hourly_records;
use crate::error::Result;
use crate::store::table::CONTEXTS;
use crate::store::table_reads::{MAX_NAMES, Purpose, RecordState, TableRead, TableReader};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slowest::{self, RankedContext};
use tower_pulse_model::sorted::{self, Map};

/// The `limit` slowest contexts, slowest first, by the mean of each context's newest hour with samples. Only contexts
/// with a sample after `since` count.
pub async fn slowest(
    reader: &dyn TableReader,
    since: i64,
    limit: usize,
    now: i64,
) -> Result<Vec<RankedContext>> {
    let mut reads = vec![TableRead::State];
    reads.extend(CONTEXTS.map(|(_, table)| TableRead::Ranks(table, 0..MAX_NAMES)));
    let mut answers = reader.read_tables(Purpose::Query, &reads).await?;
    let rolled = RecordState::new(answers.page()).rolled_at(now);
    // The newest hour of each name, and the kinds of contexts with this name. Contexts of the same name are ranked as
    // one.
    let mut by_name: Map<String, (i64, Vec<Kind>)> = Map::default();
    for (kind, _) in CONTEXTS {
        for (name, last_seen) in answers.page().numbers() {
            let Some(name) = String::from_utf8(name).ok().filter(|_| last_seen > since) else {
                continue;
            };
            let (newest, kinds) = by_name.or_insert_with(name, || (i64::MIN, Vec::new()));
            *newest = hour_of(last_seen).max(*newest);
            kinds.push(kind);
        }
    }
    let mut contexts: Vec<(i64, ContextId)> = Vec::new();
    for (name, (hour, kinds)) in by_name {
        let name = Arc::<str>::from(name);
        let ids = kinds
            .into_iter()
            .map(|kind| ContextId::new(kind, name.clone()));
        contexts.extend(ids.map(|id| (hour, id)));
    }
    // Contexts of the same name stay next to each other.
    contexts.order_by_key(|(hour, _)| *hour);
    let mut ranking = Vec::new();
    for of_hour in contexts.chunk_by(|(hour, _), (other, _)| hour == other) {
        let hour = of_hour[0].0;
        let ids: Vec<_> = of_hour.iter().map(|(_, id)| id.clone()).collect();
        // `last_seen` is limited to the store's time. The newest sample may be in the next hour, if a clock is ahead, or
        // in the hour before, if the sample that set `last_seen` was refused because it was too far ahead.
        let hours = hour - HOUR..hour + 2 * HOUR;
        let problems = &mut Vec::new();
        let records = hourly_records(reader, &ids, hours, &rolled, problems).await?;
        let mut records = records.into_iter();
        for of_name in of_hour.chunk_by(|(_, id), (_, other)| id.name == other.name) {
            let mut by_hour: Vec<(i64, AccessTimeStats)> = Vec::new();
            for slice in records.by_ref().take(of_name.len()).flatten() {
                let times = AccessTimeStats::from(&slice.sums.times);
                sorted::entry(&mut by_hour, slice.start, AccessTimeStats::default).merge(&times);
            }
            let mean = by_hour.iter().rev().find_map(|(_, times)| times.mean());
            ranking.extend(mean.map(|mean| RankedContext::new(&*of_name[0].1.name, mean)));
        }
        slowest::sort(&mut ranking);
        ranking.truncate(limit);
    }
    Ok(ranking)
}
