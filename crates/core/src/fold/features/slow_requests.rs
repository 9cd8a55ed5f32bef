//! Folding the slowest and the newest failed requests: merges the lists of the contexts of a round with the lists in
//! the store.

use crate::fold::leased_store::{Leased, LeasedStore, fields_by_table};
use crate::fold::plan::{NAMES_AT_ONCE, Plans};
use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::context::{ContextId, RecordId};
use tower_pulse_model::round::{Round, partition};
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::sorted::Map;

/// The lists of an hour outlive the next hour by this many seconds, because clocks differ.
const SPARE_TIME: i64 = 600;

pub(super) async fn merge(
    leased: &LeasedStore<'_>,
    round: &Round,
    plans: &mut Plans,
) -> Leased<()> {
    let oldest = hour_of(round.newest_at) - HOUR;
    let mut seen = 0;
    let mut added: Map<(i64, ContextId), SlowRequests> = Map::default();
    for group in &round.groups {
        let contexts = group.contexts.iter();
        for (context, accepted) in contexts.filter(|(c, _)| leased.is_left(partition(&c.name))) {
            let lists = accepted.delta.slowest.iter();
            for (hour, list) in lists.filter(|(hour, _)| *hour >= oldest) {
                let merged = added
                    .or_insert_with((hour, context.clone()), || SlowRequests::of(context.kind));
                merged.merge(list);
            }
            seen += 1;
            if seen % NAMES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    let fields = fields_by_table(added.keys().map(|(hour, context)| {
        let id = RecordId::new(context.kind, &context.name).to_bytes();
        (Table::SlowRequests { hour: *hour }, id.to_vec())
    }));
    let values = leased.load(&fields).await?;
    // The added lists and the values have the same order: by hour, then by context.
    let values = values.into_iter().flatten();
    for (((hour, context), mut list), before) in added.into_iter().zip(values) {
        // A field that does not hold a list reads as empty, and is replaced.
        if let Some(before) = before.and_then(|b| SlowRequests::unpack(&b, context.kind)) {
            list.merge(&before);
        }
        let table = Table::SlowRequests { hour };
        let ttl = hour + 2 * HOUR + SPARE_TIME - round.newest_at;
        let id = RecordId::new(context.kind, &context.name).to_bytes();
        let write = FieldWrites::of(table, Some(ttl), &id, Some(list.pack()));
        let plan = plans.of(partition(&context.name));
        plan.cost += 1;
        plan.fields.push(write);
        seen += 1;
        if seen % NAMES_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
