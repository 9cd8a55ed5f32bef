//! Writes a round in steps, and tables between rounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::additions::additions;
use super::features::Features;
use super::leased_store::{Interrupted, Leased, LeasedStore};
use super::plan::Plans;
use crate::random::random_name;
use crate::store::Position;
use crate::store::journal::{FoldStep, VersionedResult};
use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::round::Round;
use tower_pulse_model::sorted;

/// The most entries that one step trims.
const TRIMMED_AT_ONCE: usize = 64;
/// A step is sent at most this many times, until an answer comes.
const MAX_TRIES: usize = 3;
const RETRY_DELAY: Duration = Duration::from_millis(50);

impl LeasedStore<'_> {
    /// Writes a round in steps. `start` is when this instance began to fold the round. `hole_bytes` is the size of
    /// entries that were lost before they were folded.
    pub(super) async fn write_round(
        &mut self,
        features: &mut Features,
        round: &Round,
        plans: Plans,
        round_end: Position,
        hole_bytes: u64,
        start: Instant,
    ) -> Leased<()> {
        let steps = plans.into_steps(self.lease.sizer.cost);
        let last = steps.len() - 1;
        for (number, planned) in steps.into_iter().enumerate() {
            let is_last = number == last;
            let (lease, partitions) = (&*self.lease, &planned.partitions);
            let mut done = lease.progress.done;
            partitions.iter().for_each(|at| done.insert(*at));
            // The last step of the round may trim entries of this round; any step may trim entries of earlier rounds.
            let trimmable = lease.folded.iter().take(TRIMMED_AT_ONCE);
            let trimmable = trimmable
                .take_while(|entry| is_last || entry.offset <= lease.progress.committed.offset)
                .copied();
            let trimmed: Vec<Position> = trimmable.collect();
            let writes = features.writes(lease, partitions);
            let fields = writes_by_table(planned.plan.fields.into_iter().chain(writes));
            let has_counters = self.store.has_context_counters();
            let step = FoldStep {
                round_end: Some(round_end),
                done: (!is_last).then_some(done),
                newest_at: round.newest_at,
                additions: Arc::new(additions(round, partitions, has_counters)),
                hole_bytes,
                took_millis: millis_since(start),
                ..self.step(fields.into(), trimmed.last().copied())
            };
            let sent = Instant::now();
            self.send(&step).await?;
            let lease = &mut *self.lease;
            if planned.plan.cost > 0 {
                let cost = lease.sizer.cost.min(planned.plan.cost);
                lease.sizer.adapt(sent.elapsed(), cost);
            }
            lease.folded.drain(..trimmed.len());
            lease.progress.version = step.next;
            lease.progress.done = done;
            lease.progress.round_end = Some(round_end);
        }
        let lease = &mut *self.lease;
        lease.progress.finish(round_end);
        lease.newest_at = round.newest_at;
        lease.took_millis = millis_since(start);
        while self.lease.folded.len() > TRIMMED_AT_ONCE {
            self.trim().await?;
        }
        Ok(())
    }

    /// Trims the oldest folded entries by a step that folds no entry.
    pub(super) async fn trim(&mut self) -> Leased<()> {
        let count = self.lease.folded.len().min(TRIMMED_AT_ONCE);
        let last = self.lease.folded.get(count.saturating_sub(1)).copied();
        self.write_between([].into(), last).await?;
        self.lease.folded.drain(..count);
        Ok(())
    }

    /// Writes fields of tables by a step that folds no entry.
    pub(super) async fn write(&mut self, fields: &[FieldWrites]) -> Leased<()> {
        self.write_between(fields.into(), None).await
    }

    async fn write_between(
        &mut self,
        fields: Arc<[FieldWrites]>,
        trim: Option<Position>,
    ) -> Leased<()> {
        let step = self.step(fields, trim);
        self.send(&step).await?;
        self.lease.progress.version = step.next;
        Ok(())
    }

    /// A step that folds no entry.
    fn step(&self, fields: Arc<[FieldWrites]>, trim: Option<Position>) -> FoldStep {
        let lease = &*self.lease;
        FoldStep {
            version: lease.progress.version.clone(),
            next: random_name(),
            instance: self.instance.to_owned(),
            round_end: None,
            done: None,
            trim,
            newest_at: lease.newest_at,
            additions: Arc::default(),
            fields,
            rolled: lease.progress.rolled.clone(),
            hole_bytes: 0,
            took_millis: lease.took_millis,
        }
    }

    /// Sends a step until an answer shows whether the step took effect, at most [`MAX_TRIES`] times.
    async fn send(&self, step: &FoldStep) -> Leased<()> {
        let mut tries = 1;
        loop {
            match self.journal.fold(step).await {
                Ok(VersionedResult::Done(())) => return Ok(()),
                Ok(VersionedResult::Stale(version)) if version == step.next => return Ok(()),
                Ok(_) => return Err(Interrupted::Lost),
                // The answer to the next try shows whether one of the tries took effect.
                Err(error) if tries < MAX_TRIES && error.kind().is_without_answer() => {
                    tries += 1;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Combines the writes of each table into one. No write may remove a whole table.
pub(super) fn writes_by_table(writes: impl IntoIterator<Item = FieldWrites>) -> Vec<FieldWrites> {
    let mut tables: Vec<(Table, FieldWrites)> = Vec::new();
    for mut write in writes {
        debug_assert!(!write.is_ended);
        let new = || FieldWrites::new(write.table.clone(), None);
        let table = sorted::entry(&mut tables, write.table.clone(), new);
        table.ttl = table.ttl.or(write.ttl);
        table.removed.append(&mut write.removed);
        table.set.append(&mut write.set);
    }
    tables.into_iter().map(|(_, writes)| writes).collect()
}

fn millis_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
