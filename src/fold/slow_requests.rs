//! Folding the slowest and the newest failed requests: the lists of the contexts of a round are merged with those of
//! the store.

use std::collections::BTreeMap;

use super::lease::Lease;
use super::minute_reports::by_table;
use super::plan::{NAMES_AT_ONCE, Plan};
use crate::error::StoreError;
use crate::model::batch::Merge;
use crate::model::context::{ContextId, RecordId};
use crate::model::pack;
use crate::model::round::{Round, partition};
use crate::model::slice::{HOUR, hour_of};
use crate::model::slow_request::SlowRequests;
use crate::model::sorted;
use crate::store::journal::{Journal, Step};
use crate::store::table::{FieldWrites, Table};

/// Seconds for which the lists of an hour outlive the next hour, as clocks differ.
const SPARE_TIME: i64 = 600;

impl Lease {
    /// Adds the lists of a round to its plans, merged with those of the store. `false` when the lease is lost.
    pub(super) async fn plan_slow_requests(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        round: &Round,
        plans: &mut Vec<(usize, Plan)>,
    ) -> Result<bool, StoreError> {
        let oldest = hour_of(round.stamp()) - HOUR;
        let mut seen = 0;
        let mut added: BTreeMap<(i64, ContextId), SlowRequests> = BTreeMap::new();
        for group in round.groups() {
            let contexts = group.contexts.iter();
            let done = self.progress.done;
            for (context, judged) in contexts.filter(|(c, _)| !done.contains(partition(&c.name))) {
                let lists = judged.delta.slowest.iter();
                for (hour, list) in lists.filter(|(hour, _)| *hour >= oldest) {
                    let merged = added.entry((hour, context.clone()));
                    merged
                        .or_insert_with(|| SlowRequests::of(context.kind))
                        .merge(list);
                }
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        if added.is_empty() {
            return Ok(true);
        }
        let fields = by_table(added.keys().map(|(hour, context)| {
            let id = RecordId::new(context.kind, &context.name).to_bytes();
            (Table::SlowRequests { hour: *hour }, id.to_vec())
        }));
        let version = &self.progress.version;
        let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
            return Ok(false);
        };
        // Both are in the order of the hours, and then of the contexts.
        let values = values.into_iter().flatten();
        for (((hour, context), mut list), before) in added.into_iter().zip(values) {
            // A field that does not hold a list reads as empty, and is replaced.
            if let Some(before) = before.and_then(|b| pack::read_slow_requests(&b, context.kind)) {
                list.merge(&before);
            }
            let table = Table::SlowRequests { hour };
            let mut write =
                FieldWrites::new(table, Some(hour + 2 * HOUR + SPARE_TIME - round.stamp()));
            let id = RecordId::new(context.kind, &context.name).to_bytes();
            write.set.push((id.to_vec(), pack::slow_requests(&list)));
            let plan = sorted::entry(plans, partition(&context.name), Plan::default);
            plan.cost += 1;
            plan.fields.push(write);
            seen += 1;
            if seen % NAMES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(true)
    }
}
