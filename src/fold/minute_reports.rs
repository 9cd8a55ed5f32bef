//! Folding minute reports: what an instance did in a minute is merged with what the store has of it, and so is what
//! the instances of a version of the application did.

use std::collections::BTreeMap;

use super::lease::Lease;
use super::plan::{NAMES_AT_ONCE, Plan};
use crate::error::StoreError;
use crate::model::batch::{Aggregate, Merge};
use crate::model::minute_report::REPORTED_MINUTES;
use crate::model::pack;
use crate::model::round::{Round, partition, partition_of_record};
use crate::store::journal::{Journal, Step};
use crate::store::table::{FieldWrites, Table};

/// A field of a table.
type Field = (Table, Vec<u8>);

/// Contexts of an instance that cost a step about as much as one command.
const CONTEXTS_PER_COST: usize = 8;

impl Lease {
    /// Adds the minute reports of a round to its plans, merged with what the store has. `false` when the lease is
    /// lost.
    pub(super) async fn plan_minute_reports(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        round: &Round,
        plans: &mut BTreeMap<usize, Plan>,
    ) -> Result<bool, StoreError> {
        let done = self.progress.done;
        let mut instances = BTreeMap::new();
        let mut versions: BTreeMap<Field, (usize, Aggregate)> = BTreeMap::new();
        for report in round.reports() {
            let minute = report.minute;
            if !done.contains(partition(&report.instance)) {
                let table = Table::InstanceMinutes { minute };
                let name = report.instance.as_bytes().to_vec();
                instances.insert((table, name), report);
            }
            let Some(version) = report.version.as_ref().filter(|_| report.is_side_by_side) else {
                continue;
            };
            for (id, aggregate) in &report.contexts {
                let partition = partition_of_record(*id);
                if done.contains(partition) {
                    continue;
                }
                let field = [&id.to_bytes()[..], version.as_bytes()].concat();
                let sums = versions.entry((Table::VersionMinutes { minute }, field));
                let (_, sums) = sums.or_insert_with(|| (partition, Aggregate::default()));
                sums.merge(aggregate);
            }
            tokio::task::yield_now().await;
        }
        if instances.is_empty() && versions.is_empty() {
            return Ok(true);
        }
        let fields = instances.keys().chain(versions.keys());
        let fields = by_table(fields);
        let version = &self.progress.version;
        let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
            return Ok(false);
        };
        // Both are in the order of the tables, and then of the fields. A field that cannot be read is replaced.
        let mut values = values.into_iter().flatten();
        for ((table, field), report) in instances {
            let before = values.next().flatten();
            let before = before.and_then(|before| pack::read_instance_minute(&before));
            let mut minute = before.unwrap_or_default();
            minute.add(report);
            let cost = 1 + minute.contexts.len() / CONTEXTS_PER_COST;
            let value = pack::instance_minute(&minute);
            let plan = plans.entry(partition(&report.instance)).or_default();
            add(plan, cost, table, field, value);
        }
        for (number, ((table, field), (partition, mut sums))) in versions.into_iter().enumerate() {
            let before = values.next().flatten();
            if let Some(before) = before.and_then(|before| pack::read_aggregate(&before)) {
                sums.merge(&before);
            }
            let plan = plans.entry(partition).or_default();
            add(plan, 1, table, field, pack::aggregate(&sums));
            if number % NAMES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(true)
    }
}

/// Groups sorted fields by their table.
fn by_table<'a>(fields: impl Iterator<Item = &'a Field>) -> Vec<(Table, Vec<Vec<u8>>)> {
    let mut tables: Vec<(Table, Vec<Vec<u8>>)> = Vec::new();
    for (table, field) in fields {
        match tables.last_mut() {
            Some((last, fields)) if last == table => fields.push(field.clone()),
            _ => tables.push((table.clone(), vec![field.clone()])),
        }
    }
    tables
}

fn add(plan: &mut Plan, cost: usize, table: Table, field: Vec<u8>, value: Vec<u8>) {
    let mut write = FieldWrites::new(table, Some(REPORTED_MINUTES.key_ttl()));
    write.set.push((field, value));
    plan.cost += cost;
    plan.fields.push(write);
}
