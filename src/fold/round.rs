//! One round: its entries are read and merged, and the result is written in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lease::{Lease, new_version};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::context::ALL;
use crate::model::pack::{ENTRY_VERSION, EntryReader};
use crate::model::records::{Record, RecordId, RecordKey, Records};
use crate::model::round::{self, Round, partition};
use crate::model::tier::{FINEST, TierSlice};
use crate::store::Position;
use crate::store::journal::{Entry, FoldStep, Journal, Partitions, Step};
use crate::store::table::{FieldWrites, Table};

/// About how many bytes of entries one script reads; a larger read would block the server and the runtime.
const READ_BYTES: u64 = 512 * 1024;
/// About how many bytes of entries one round folds, and how long it reads entries. The size of the merged
/// round is bounded by the number of names.
const ROUND_BYTES: u64 = 32 * 1024 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);
/// Names that are merged, and records that are prepared, before the task yields to others.
const NAMES_AT_ONCE: usize = 64;
/// Records that one script reads.
const RECORDS_AT_ONCE: usize = 500;
/// Entries that one step trims.
const TRIMMED_AT_ONCE: usize = 64;
/// How often a step is sent until an answer comes.
const MAX_TRIES: usize = 3;
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Seconds for which an entry of a newer version waits for an instance that can read it.
const NEWER_GRACE: i64 = 600;

/// How a round ended.
pub(super) enum Outcome {
    /// The round is folded, and there may be more entries.
    Folded,
    /// The round is folded, and there were no more entries when it was read.
    CaughtUp,
    /// There was no entry to fold.
    Idle,
    /// Another instance folds, or a failover has taken the journal back in time.
    Lost,
    /// The next entry is of a newer version, and waits for an instance that can read it.
    Newer,
}

/// The part of a round that one step writes.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) partitions: Vec<usize>,
    pub(super) records: Vec<RecordKey>,
    /// Fields of tables as they are after the step.
    pub(super) fields: Vec<FieldWrites>,
    /// The rankings that the step adds to.
    pub(super) rankings: BTreeSet<Arc<str>>,
    pub(super) cost: usize,
}

/// The end of a round, its missing bytes, and when this instance began to fold it.
struct RoundEnd {
    upto: Position,
    hole_bytes: u64,
    start: Instant,
}

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
    /// Folds the round that was begun, or the next round. After an error or [`Outcome::Lost`], the lease must
    /// not be used again.
    pub(super) async fn next_round(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
    ) -> Result<Outcome, StoreError> {
        let start = Instant::now();
        let mut stop_before = None;
        let gathered = loop {
            match self.gather(journal, instance, stop_before).await? {
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

    /// Reads and merges the entries of a round, part by part.
    async fn gather(
        &self,
        journal: &dyn Journal,
        instance: &str,
        stop_before: Option<Position>,
    ) -> Result<Read, StoreError> {
        let (start, low) = (Instant::now(), self.progress.low);
        let aside = &self.progress.aside;
        let mut gathered = Gathered {
            round: Round::default(),
            entries: Vec::new(),
            end: low,
            head: low,
            now: 0,
            hole_bytes: 0,
        };
        loop {
            let version = &self.progress.version;
            let step = journal.read(instance, version, gathered.end, READ_BYTES);
            let Step::Done(read) = step.await? else {
                return Ok(Read::Ended(Outcome::Lost));
            };
            let mut entries = read.entries;
            (gathered.head, gathered.now) = (read.head, read.now);
            let is_stop = |entry: &Entry| {
                Some(entry.position) == stop_before
                    || entry.version > u64::from(ENTRY_VERSION) && !aside.contains(&entry.position)
            };
            let stop = entries.iter().position(is_stop);
            let is_last_part = stop.is_some() || entries.is_empty();
            if let Some(at) = stop {
                let is_first = at == 0 && gathered.entries.is_empty();
                if is_first || self.progress.upto.is_some() {
                    let is_waiting = read.now.saturating_sub(entries[at].stamp) < NEWER_GRACE;
                    return Ok(match is_waiting {
                        true => Read::Ended(Outcome::Newer),
                        false => Read::Garbled(entries.swap_remove(at), true),
                    });
                }
                entries.truncate(at);
            }
            if let Err(at) = gathered.add(&entries, aside).await {
                let is_first = at == 0 && gathered.entries.len() == 1;
                return Ok(Read::Garbled(entries.swap_remove(at), is_first));
            }
            let (end, upto) = (gathered.end, self.progress.upto);
            // The end of a round that was begun is fixed.
            let is_large = upto.is_none()
                && (end.offset - low.offset >= ROUND_BYTES || start.elapsed() >= READ_TIME);
            if is_last_part || is_large || end == gathered.head || Some(end) == upto {
                return Ok(Read::Gathered(gathered));
            }
        }
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
        let next = new_version();
        let step = journal.set_aside(&self.progress.version, &next, entry);
        done_or_lost!(step.await?);
        self.progress.version = next;
        self.progress.aside.push(entry.position);
        Ok(Outcome::Folded)
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
        let next = new_version();
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
        let mut partitions: BTreeMap<usize, Plan> = BTreeMap::new();
        let mut missing: Vec<RecordKey> = Vec::new();
        let mut seen = 0;
        for group in round.groups() {
            for (context, judged) in group.contexts.iter().filter(|(c, _)| left(&c.name)) {
                let plan = partitions.entry(partition(&context.name)).or_default();
                plan.cost += judged.delta.cost();
                let id = RecordId::new(context.kind, &context.name);
                for (at, _) in round::records(&judged.delta, &rolled, round.stamp()) {
                    let key = (at, id);
                    if !plan.records.contains(&key) {
                        plan.records.push(key);
                        missing.extend(self.records.get(key).is_none().then_some(key));
                    }
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
                partitions.entry(partition(name)).or_default().cost += cost;
            }
        }
        if round.late() > 0 && left(ALL) {
            partitions.entry(partition(ALL)).or_default().cost += 1;
        }
        let is_ours = self.plan_slow_requests(journal, instance, round, &mut partitions);
        if !is_ours.await?
            || !(self.plan_rankings(journal, instance, round, &mut partitions)).await?
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

    /// Reads records from the store. `false` when the lease is lost.
    pub(super) async fn load(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        keys: &[RecordKey],
    ) -> Result<bool, StoreError> {
        for part in keys.chunks(RECORDS_AT_ONCE) {
            let version = &self.progress.version;
            let Step::Done(records) = journal.load(instance, version, part).await? else {
                return Ok(false);
            };
            for (key, record) in part.iter().zip(records) {
                self.records.load(*key, record);
            }
        }
        Ok(true)
    }

    /// Writes a round in steps.
    async fn write(
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
            let records = with_values(&self.records, &plan.records);
            let states = self.state_writes(&plan.rankings);
            let fields = by_table(plan.fields.into_iter().chain(states));
            let next = new_version();
            let step = FoldStep {
                version: &self.progress.version,
                next: &next,
                instance,
                upto: Some(upto),
                done: (!is_last).then_some(done),
                trim: trimmed.last().copied(),
                round,
                partitions: &plan.partitions,
                records: &records,
                fields: &fields,
                rolled: &self.progress.rolled,
                released: &[],
                hole_bytes: end.hole_bytes,
                took_millis: millis_since(end.start),
            };
            let (sent, cost) = (Instant::now(), self.sizer.cost);
            match write_with_retries(journal, &step).await? {
                Step::Done(()) => {}
                Step::Stale(version) if version == next => {}
                Step::Stale(_) | Step::Absent => return Ok(Outcome::Lost),
            }
            drop(records);
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
    async fn trim(&mut self, journal: &dyn Journal, instance: &str) -> Result<bool, StoreError> {
        let count = self.folded.len().min(TRIMMED_AT_ONCE);
        let last = self.folded.get(count.saturating_sub(1)).copied();
        let is_ours = self.maintain(journal, instance, &[], &[], last).await?;
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
        self.write_between(journal, instance, (&[], fields), &[], None)
            .await
    }

    /// Writes records and trims entries by a step that folds no entry. `false` when the lease is lost.
    pub(super) async fn maintain(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        records: &[RecordKey],
        released: &[TierSlice],
        trim: Option<Position>,
    ) -> Result<bool, StoreError> {
        self.write_between(journal, instance, (records, &[]), released, trim)
            .await
    }

    async fn write_between(
        &mut self,
        journal: &dyn Journal,
        instance: &str,
        (records, fields): (&[RecordKey], &[FieldWrites]),
        released: &[TierSlice],
        trim: Option<Position>,
    ) -> Result<bool, StoreError> {
        let records = with_values(&self.records, records);
        let next = new_version();
        let step = FoldStep {
            version: &self.progress.version,
            next: &next,
            instance,
            upto: None,
            done: None,
            trim,
            round: &Round::empty(self.stamp),
            partitions: &[],
            records: &records,
            fields,
            rolled: &self.progress.rolled,
            released,
            hole_bytes: 0,
            took_millis: self.took_millis,
        };
        match write_with_retries(journal, &step).await? {
            Step::Done(()) => {}
            Step::Stale(version) if version == next => {}
            Step::Stale(_) | Step::Absent => return Ok(false),
        }
        drop(records);
        self.progress.version = next;
        Ok(true)
    }
}

/// Combines the writes of each table, so that each is one command.
fn by_table(writes: impl IntoIterator<Item = FieldWrites>) -> Vec<FieldWrites> {
    let mut tables: BTreeMap<Table, FieldWrites> = BTreeMap::new();
    for mut write in writes {
        match tables.get_mut(&write.table) {
            Some(table) => {
                table.ttl = table.ttl.or(write.ttl);
                table.removed.append(&mut write.removed);
                table.set.append(&mut write.set);
            }
            None => drop(tables.insert(write.table.clone(), write)),
        }
    }
    tables.into_values().collect()
}

/// Looks up the values of records.
fn with_values<'a>(records: &'a Records, keys: &[RecordKey]) -> Vec<(RecordKey, &'a Record)> {
    let keys = keys.iter();
    keys.filter_map(|key| Some((*key, records.get(*key)?)))
        .collect()
}

/// Writes a step, and sends it again if no answer came. The answer then says whether it had taken effect.
async fn write_with_retries(
    journal: &dyn Journal,
    step: &FoldStep<'_>,
) -> Result<Step<()>, StoreError> {
    let mut tries = 1;
    loop {
        match journal.fold(step).await {
            Err(error) if tries < MAX_TRIES && is_in_doubt(&error) => {
                tries += 1;
                tokio::time::sleep(RETRY_DELAY).await;
            }
            result => return result,
        }
    }
}

fn millis_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn is_in_doubt(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::TimedOut | StoreErrorKind::Unreachable
    )
}

/// The result of reading a round.
enum Read {
    Gathered(Gathered),
    /// There is no round to fold.
    Ended(Outcome),
    /// An entry that cannot be folded, and whether it is the first entry that is not folded.
    Garbled(Entry, bool),
}

/// Entries that were read for a round.
struct Gathered {
    /// The sum of the entries.
    round: Round,
    entries: Vec<Position>,
    /// The position of the last entry that was read.
    end: Position,
    /// The newest entry of the journal.
    head: Position,
    /// The store's time, in Unix seconds.
    now: i64,
    /// Bytes that are missing between the entries.
    hole_bytes: u64,
}

impl Gathered {
    /// Merges more entries except those that were set aside, and yields to other tasks meanwhile. The error is
    /// the index of an entry that cannot be read.
    async fn add(&mut self, entries: &[Entry], aside: &[Position]) -> Result<(), usize> {
        for (at, entry) in entries.iter().enumerate() {
            // The offset of an entry is its end. Its length is that of its payload and one byte more.
            let length = entry.payload.len() as u64 + 1;
            let begins = entry.position.offset.saturating_sub(length);
            self.hole_bytes += begins.saturating_sub(self.end.offset);
            self.end = entry.position;
            self.entries.push(entry.position);
            if aside.contains(&entry.position) {
                continue;
            }
            let mut reader = EntryReader::new(&entry.payload).map_err(|_| at)?;
            let round = &mut self.round;
            while (round.add_part(&mut reader, entry.stamp, NAMES_AT_ONCE)).map_err(|_| at)? {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
