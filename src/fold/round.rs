//! One round: its entries are read and merged (`gather`), divided into steps, and written (`steps`).

use std::time::Instant;

use super::gather::Read;
use super::lease::Lease;
use super::plan::{NAMES_AT_ONCE, Outcome, Plan, RoundEnd};
use crate::error::StoreError;
use crate::model::context::ALL;
use crate::model::pack::{self, ENTRY_VERSION};
use crate::model::records::{RecordId, RecordKey};
use crate::model::round::{self, Round, partition};
use crate::model::sorted;
use crate::model::tier::{FINEST, TierSlice};
use crate::random::random_name;
use crate::store::Position;
use crate::store::journal::{Entry, Journal, Step};
use crate::store::table::Table;

/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 500;

/// Ends the round when a step had no effect.
macro_rules! done_or_lost {
    ($step:expr) => {
        match $step {
            Step::Done(value) => value,
            Step::Stale(_) | Step::Absent => return Ok(Outcome::Lost),
        }
    };
}

impl Lease {
    /// Folds the round that was begun, or the next round. `own_now` is the time of this instance. After an error or [`Outcome::Lost`], the lease must
    /// not be used again.
    pub(super) async fn next_round(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        own_now: i64,
    ) -> Result<Outcome, StoreError> {
        let start = Instant::now();
        let mut stop_before = None;
        let gathered = loop {
            match self.gather(journal, instance, own_now, stop_before).await? {
                Read::Gathered(gathered) => break gathered,
                Read::Ended(outcome) => return Ok(outcome),
                // The entries before it are folded first, unless a begun round contains them and it.
                Read::Garbled(entry, false) if self.progress.upto.is_none() => {
                    stop_before = Some(entry.position);
                }
                Read::Garbled(entry, _) => return self.set_aside(journal, &entry).await,
            }
        };
        if self.progress.upto.is_none()
            && !self
                .expire_rankings(journal, instance, gathered.now)
                .await?
        {
            return Ok(Outcome::Lost);
        }
        if gathered.entries.is_empty() {
            let now = gathered.now.min(own_now);
            if self.progress.upto.is_none() && !self.roll_up_overdue(journal, instance, now).await?
            {
                return Ok(Outcome::Lost);
            }
            return self.skip_hole(journal, instance, gathered.head).await;
        }
        let upto = self.progress.upto.unwrap_or(gathered.end);
        let after = upto.offset.saturating_sub(gathered.end.offset);
        let hole_bytes = gathered.hole_bytes + after;
        if hole_bytes > 0 {
            tracing::error!(
                bytes = hole_bytes,
                "entries of the journal were gone before they were folded; their samples are lost"
            );
        }
        let is_caught_up = gathered.end == gathered.head;
        let round = gathered.round;
        if self.progress.upto.is_none() {
            // Either clock may be behind for a moment.
            self.progress.rolled.limit(gathered.now.max(own_now));
            self.stamp = self.stamp.max(round.stamp());
            if !self.roll_up(journal, instance).await? {
                return Ok(Outcome::Lost);
            }
        }
        let plans = match self.plan_steps(journal, instance, &round).await? {
            Some(plans) => plans,
            None => return Ok(Outcome::Lost),
        };
        self.folded.extend(gathered.entries);
        let end = RoundEnd {
            upto,
            hole_bytes,
            start,
        };
        let outcome = self.write(journal, instance, &round, plans, end).await?;
        if matches!(outcome, Outcome::Folded) && !self.limit_rankings(journal, instance).await? {
            return Ok(Outcome::Lost);
        }
        Ok(match outcome {
            Outcome::Folded if is_caught_up => Outcome::CaughtUp,
            outcome => outcome,
        })
    }

    async fn set_aside(
        &mut self,
        journal: &dyn Journal,
        entry: &Entry,
    ) -> Result<Outcome, StoreError> {
        tracing::error!(
            position = %entry.position, requests = entry.requests, version = entry.version,
            "an entry of the journal cannot be read by any instance, and is set aside"
        );
        let next = random_name();
        let step = journal.set_aside(&self.progress.version, &next, entry);
        done_or_lost!(step.await?);
        self.progress.version = next;
        self.progress.aside.push(entry.position);
        Ok(Outcome::Folded)
    }

    /// Makes all folders wait that cannot read this entry.
    pub(super) async fn wait_for_newer(
        &mut self,
        journal: &dyn Journal,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        tracing::warn!(
            position = %entry.position, version = entry.version, readable = ENTRY_VERSION,
            "folding waits at an entry of a newer version of this crate, for an instance that can read it"
        );
        let (version, next) = (&self.progress.version, random_name());
        // Without effect another instance folds by now.
        (journal.wait_for_newer(version, &next, entry).await).map(drop)
    }

    /// Called when no entry was read. Trims the journal if it is folded completely. Otherwise entries are gone,
    /// and the journal goes on behind them.
    async fn skip_hole(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        head: Position,
    ) -> Result<Outcome, StoreError> {
        if self.progress.upto.is_none() && head == self.progress.low {
            if self.is_trimmed && self.folded.is_empty() {
                return Ok(Outcome::Idle);
            }
            // At the bound of the journal no entry is appended, so that no later round would trim these.
            self.folded.push_back(self.progress.low);
            self.is_trimmed = self.trim(journal, instance).await?;
            return Ok(match self.is_trimmed {
                true => Outcome::Idle,
                false => Outcome::Lost,
            });
        }
        tracing::error!(
            "entries of the journal were gone before they were folded; their samples are lost"
        );
        let next = random_name();
        let step = journal.close_hole(&self.progress.version, &next);
        done_or_lost!(step.await?);
        // The next acquisition of the lease reads where the journal goes on.
        Ok(Outcome::Lost)
    }

    /// Adds the round to the records, of which it reads those that are not remembered, and divides the round
    /// into steps. `None` when the lease is lost.
    async fn plan_steps(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        round: &Round,
    ) -> Result<Option<Vec<Plan>>, StoreError> {
        let done = self.progress.done;
        let left = |name: &str| !done.contains(partition(name));
        let rolled = self.progress.rolled.clone();
        let mut partitions: Vec<(usize, Plan)> = Vec::new();
        let mut seen = 0;
        for group in round.groups() {
            for (context, judged) in group.contexts.iter().filter(|(c, _)| left(&c.name)) {
                let plan = sorted::entry(&mut partitions, partition(&context.name), Plan::default);
                plan.cost += judged.delta.cost();
                let id = RecordId::new(context.kind, &context.name);
                for (at, _) in round::records(&judged.delta, &rolled, round.stamp()) {
                    plan.records.push((at, id));
                    if at.0 == FINEST.seconds {
                        self.progress.rolled.add(at.1);
                    }
                }
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            for (name, series) in group.counters.iter().filter(|(name, _)| left(name)) {
                let cost: usize = series.iter().map(|slices| slices.len()).sum();
                sorted::entry(&mut partitions, partition(name), Plan::default).cost += cost;
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        let mut missing: Vec<RecordKey> = Vec::new();
        for (_, plan) in &mut partitions {
            plan.records.sort_unstable();
            plan.records.dedup();
            let keys = plan.records.iter().copied();
            missing.extend(keys.filter(|key| self.records.get(*key).is_none()));
            tokio::task::yield_now().await;
        }
        if round.late() > 0 && left(ALL) {
            sorted::entry(&mut partitions, partition(ALL), Plan::default).cost += 1;
        }
        let is_ours = self.plan_slow_requests(journal, instance, round, &mut partitions);
        if !is_ours.await?
            || !(self.plan_rankings(journal, instance, round, &mut partitions)).await?
            || !(self.plan_minute_reports(journal, instance, round, &mut partitions)).await?
        {
            return Ok(None);
        }
        if !self.load(journal, instance, &missing).await? {
            return Ok(None);
        }
        for group in round.groups() {
            for (context, judged) in group.contexts.iter().filter(|(c, _)| left(&c.name)) {
                let id = RecordId::new(context.kind, &context.name);
                for (at, added) in round::records(&judged.delta, &rolled, round.stamp()) {
                    self.records.add((at, id), added, &rolled);
                }
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        let mut plans: Vec<Plan> = Vec::new();
        for (partition, mut more) in partitions {
            more.partitions.push(partition);
            match plans.last_mut() {
                Some(plan) if plan.cost + more.cost <= self.sizer.cost => {
                    plan.cost += more.cost;
                    plan.partitions.append(&mut more.partitions);
                    plan.records.append(&mut more.records);
                    plan.fields.append(&mut more.fields);
                    plan.rankings.append(&mut more.rankings);
                }
                _ => plans.push(more),
            }
        }
        Ok(Some(plans))
    }

    /// Reads records from the store. A missing record, or a field that holds none, reads as an empty one. `false` when
    /// the lease is lost.
    pub(super) async fn load(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        keys: &[RecordKey],
    ) -> Result<bool, StoreError> {
        for part in keys.chunks(RECORDS_AT_ONCE) {
            let mut ids: Vec<(TierSlice, Vec<RecordId>)> = Vec::new();
            for (at, id) in part {
                sorted::entry(&mut ids, *at, Vec::new).push(*id);
            }
            let fields = ids.iter().map(|(at, ids)| {
                let ids = ids.iter().map(|id| id.to_bytes().to_vec());
                (Table::records(*at), ids.collect())
            });
            let fields: Vec<_> = fields.collect();
            let version = &self.progress.version;
            let Step::Done(values) = journal.load_fields(instance, version, &fields).await? else {
                return Ok(false);
            };
            for ((at, ids), values) in ids.into_iter().zip(values) {
                for (id, value) in ids.into_iter().zip(values) {
                    let record = value.and_then(|value| pack::read_record(&value));
                    self.records.load((at, id), record.unwrap_or_default());
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(true)
    }
}
