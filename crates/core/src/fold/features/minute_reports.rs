//! Folding minute reports: merges the report of an instance with the report that the store has for the same minute. The
//! reports of versions of the application are merged in the same way.

use crate::fold::leased_store::{Leased, LeasedStore, fields_by_table};
use crate::fold::plan::{NAMES_AT_ONCE, Plan, Plans};
use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::minute_report::{InstanceMinute, REPORTED_MINUTES};
use tower_pulse_model::pack;
use tower_pulse_model::round::{Round, partition, partition_of_record};
use tower_pulse_model::slices::Merge;

type Field = (Table, Vec<u8>);

/// Writing this many contexts of a report costs a step about as much as one command.
const CONTEXTS_PER_COST: usize = 8;

pub(super) async fn merge(
    leased: &LeasedStore<'_>,
    round: &Round,
    plans: &mut Plans,
) -> Leased<()> {
    let now = round.newest_at;
    let mut instances: Vec<(Field, (usize, i64, &InstanceMinute))> = Vec::new();
    let mut versions: Vec<(Field, (usize, i64, &Aggregate))> = Vec::new();
    for (minute, sums) in round.reports.iter() {
        let minute = *minute;
        // If the clock of an instance is ahead, the minutes of that instance live longer by the difference.
        let ttl = REPORTED_MINUTES.key_ttl() + (minute - now).max(0);
        for (name, report) in sums.instances.iter() {
            let field = (Table::InstanceMinutes { minute }, name.as_bytes().to_vec());
            instances.push((field, (partition(name), ttl, report)));
        }
        let contexts = sums.versions.iter().flat_map(|(version, contexts)| {
            let contexts = contexts.iter();
            contexts.map(move |(id, aggregate)| (version, *id, aggregate))
        });
        for (version, id, aggregate) in contexts {
            let field = [&id.to_bytes()[..], version.as_bytes()].concat();
            let field = (Table::VersionMinutes { minute }, field);
            versions.push((field, (partition_of_record(id), ttl, aggregate)));
        }
        tokio::task::yield_now().await;
    }
    instances.retain(|(_, (partition, ..))| leased.is_left(*partition));
    versions.retain(|(_, (partition, ..))| leased.is_left(*partition));
    if instances.is_empty() && versions.is_empty() {
        return Ok(());
    }
    let instance_fields = instances.iter().map(|(field, _)| field);
    let version_fields = versions.iter().map(|(field, _)| field);
    let fields = fields_by_table(instance_fields.chain(version_fields).cloned());
    let values = leased.load(&fields).await?;
    // The values are in the order of the fields. A value that cannot be unpacked is replaced.
    let mut values = values.into_iter().flatten();
    for (field, (partition, ttl, added)) in instances {
        let before = values.next().flatten();
        let before = before.and_then(|before| pack::unpack::<InstanceMinute>(&before));
        let mut minute = before.unwrap_or_default();
        minute.merge(added.clone());
        let cost = 1 + minute.contexts.len() / CONTEXTS_PER_COST;
        add(plans.of(partition), cost, field, ttl, pack::pack(&minute));
    }
    for (number, (field, (partition, ttl, added))) in versions.into_iter().enumerate() {
        let before = values.next().flatten();
        let before = before.and_then(|before| pack::read_aggregate(&before));
        let mut sums = before.unwrap_or_default();
        sums.merge(added);
        add(plans.of(partition), 1, field, ttl, pack::aggregate(&sums));
        if number % NAMES_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

fn add(plan: &mut Plan, cost: usize, (table, field): Field, ttl: i64, value: Vec<u8>) {
    plan.cost += cost;
    (plan.fields).push(FieldWrites::of(table, Some(ttl), &field, Some(value)));
}
