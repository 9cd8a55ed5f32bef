//! Writes a round in steps, and tables between rounds.

use std::time::Instant;

use super::additions::additions;
use super::lease::Lease;
use super::plan::{Outcome, Plan, RoundEnd};
use crate::error::StoreError;
use crate::model::pack;
use crate::model::records::{RecordKey, Records};
use crate::model::round::Round;
use crate::model::slice::Precision;
use crate::model::sorted;
use crate::model::tier::{FINEST, RolledUp, TIERS, TierSlice, tier};
use crate::random::random_name;
use crate::store::Position;
use crate::store::additions::Additions;
use crate::store::journal::{FoldStep, Journal, Partitions, Step};
use crate::store::retry::send_until_answered;
use crate::store::table::{FieldWrites, Table};

/// Entries that one step trims.
const TRIMMED_AT_ONCE: usize = 64;

impl Lease {
    /// Writes a round in steps.
    pub(super) async fn write(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        round: &Round,
        mut plans: Vec<Plan>,
        end: RoundEnd,
    ) -> Result<Outcome, StoreError> {
        let upto = end.upto;
        if plans.is_empty() {
            plans.push(Plan::default());
        }
        let steps = plans.len();
        for (number, plan) in plans.into_iter().enumerate() {
            let is_last = number + 1 == steps;
            let mut done = self.progress.done;
            plan.partitions.iter().for_each(|at| done.insert(*at));
            // Entries of this round may be trimmed by its last step, entries of earlier rounds by any step.
            let trimmable = self.folded.iter().take(TRIMMED_AT_ONCE);
            let trimmable = trimmable
                .take_while(|entry| is_last || entry.offset <= self.progress.low.offset)
                .copied();
            let trimmed: Vec<Position> = trimmable.collect();
            let states = self.state_writes(&plan.rankings);
            let fields = by_table(
                record_writes(
                    &self.records,
                    &plan.records,
                    &self.progress.rolled,
                    round.stamp(),
                )
                .chain(plan.fields)
                .chain(states),
            );
            let next = random_name();
            let step = FoldStep {
                version: &self.progress.version,
                next: &next,
                instance,
                upto: Some(upto),
                done: (!is_last).then_some(done),
                trim: trimmed.last().copied(),
                stamp: round.stamp(),
                additions: &additions(round, &plan.partitions, self.has_context_counters),
                fields: &fields,
                rolled: &self.progress.rolled,
                hole_bytes: end.hole_bytes,
                took_millis: millis_since(end.start),
            };
            let (sent, cost) = (Instant::now(), self.sizer.cost);
            match send_until_answered(|| journal.fold(&step)).await? {
                Step::Done(()) => {}
                Step::Stale(version) if version == next => {}
                Step::Stale(_) | Step::Absent => return Ok(Outcome::Lost),
            }
            if plan.cost > 0 {
                self.sizer.adapt(sent.elapsed(), cost.min(plan.cost));
            }
            self.folded.drain(..trimmed.len());
            self.progress.version = next;
            self.progress.done = done;
            self.progress.upto = Some(upto);
        }
        self.progress.low = upto;
        self.progress.upto = None;
        self.progress.done = Partitions::default();
        self.progress.aside.clear();
        self.stamp = round.stamp();
        self.took_millis = millis_since(end.start);
        while self.folded.len() > TRIMMED_AT_ONCE {
            if !self.trim(journal, instance).await? {
                return Ok(Outcome::Lost);
            }
        }
        Ok(Outcome::Folded)
    }

    /// Trims the oldest folded entries by a step that folds no entry. `false` when the lease is lost.
    pub(super) async fn trim(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
    ) -> Result<bool, StoreError> {
        let count = self.folded.len().min(TRIMMED_AT_ONCE);
        let last = self.folded.get(count.saturating_sub(1)).copied();
        let is_ours = self.write_between(journal, instance, &[], last).await?;
        if is_ours {
            self.folded.drain(..count);
        }
        Ok(is_ours)
    }

    /// Writes fields of tables by a step that folds no entry. `false` when the lease is lost.
    pub(super) async fn maintain_fields(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        fields: &[FieldWrites],
    ) -> Result<bool, StoreError> {
        self.write_between(journal, instance, fields, None).await
    }

    /// Writes records by a step that folds no entry. `false` when the lease is lost.
    pub(super) async fn maintain_records(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        records: &[RecordKey],
    ) -> Result<bool, StoreError> {
        let writes = record_writes(&self.records, records, &self.progress.rolled, self.stamp);
        let fields = by_table(writes);
        self.write_between(journal, instance, &fields, None).await
    }

    /// Writes fields of tables and trims entries by a step that folds no entry. `false` when the lease is lost.
    async fn write_between(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        fields: &[FieldWrites],
        trim: Option<Position>,
    ) -> Result<bool, StoreError> {
        let next = random_name();
        let step = FoldStep {
            version: &self.progress.version,
            next: &next,
            instance,
            upto: None,
            done: None,
            trim,
            stamp: self.stamp,
            additions: &Additions::default(),
            fields,
            rolled: &self.progress.rolled,
            hole_bytes: 0,
            took_millis: self.took_millis,
        };
        match send_until_answered(|| journal.fold(&step)).await? {
            Step::Done(()) => {}
            Step::Stale(version) if version == next => {}
            Step::Stale(_) | Step::Absent => return Ok(false),
        }
        self.progress.version = next;
        Ok(true)
    }
}

/// Combines the writes of each table, so that each is one command.
fn by_table(writes: impl IntoIterator<Item = FieldWrites>) -> Vec<FieldWrites> {
    let mut tables: Vec<(Table, FieldWrites)> = Vec::new();
    for mut write in writes {
        let new = || FieldWrites::new(write.table.clone(), None);
        let table = sorted::entry(&mut tables, write.table.clone(), new);
        table.ttl = table.ttl.or(write.ttl);
        table.removed.append(&mut write.removed);
        table.set.append(&mut write.set);
    }
    tables.into_iter().map(|(_, writes)| writes).collect()
}

/// The writes of records as this folder has them.
fn record_writes(
    records: &Records,
    keys: &[RecordKey],
    rolled: &RolledUp,
    now: i64,
) -> impl Iterator<Item = FieldWrites> {
    keys.iter().filter_map(move |(at, id)| {
        let record = records.get((*at, *id))?;
        let mut write = FieldWrites::new(Table::records(*at), Some(ttl(*at, rolled, now)));
        write
            .set
            .push((id.to_bytes().to_vec(), pack::record(record)));
        Some(write)
    })
}

/// Time to live of the records of a slice, in seconds. The clock of an instance may be ahead.
pub(super) fn ttl(at: TierSlice, rolled: &RolledUp, now: i64) -> i64 {
    // A slice that is not rolled up yet must outlive a stop of the whole service.
    let is_pending = at.0 == FINEST.seconds && !rolled.contains(at.1);
    let tier = match is_pending {
        true => TIERS.last().copied(),
        false => tier(at.0),
    };
    tier.map_or(i64::from(at.0), Precision::key_ttl) + at.1.saturating_sub(now).max(0)
}

fn millis_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
