//! The content of a file in a fixed order, composed to calls of bounded size.
//!
//! The records of each tier are brought over as they are, each into its own tier, so that every window has afterwards
//! what it had before. Only slices that are not part of the coarser tiers yet are added to those as well.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::ImportedFile;
use crate::FileStore;
use crate::export::ExportedCounter;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::store::table::{CONTEXTS, Table};
use tower_pulse_core::store::table_reads::{Answers, FieldPage, Purpose, TableRead};
use tower_pulse_core::store::{Store, history, marks};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, ContextId, Kind, RecordId};
use tower_pulse_model::pack::{self, packed};
use tower_pulse_model::ranking::{IdDelta, RankingDelta, RankingState};
use tower_pulse_model::slice::{Precision, Precisions};
use tower_pulse_model::slices::Slices;
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::tier::{COARSEST, DAY, FINEST, RolledUp, TierSlice};

/// Bytes of fields after which a call ends, with the page that it has begun.
const CALL_BYTES: usize = 256 * 1024;
/// About how many commands of a store a call costs, before the page that it has begun.
const CALL_COST: usize = 4_000;
/// Contexts that are read at once.
const CONTEXTS_AT_ONCE: usize = 500;
/// Counters that are read at once, each at one precision. A page of them costs a call less than what it has left.
const COUNTERS_AT_ONCE: usize = 10;

/// A part of the content. Parts are brought over in their order: coarse records before fine ones, as a coarse record
/// says up to which minute it is complete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    kind: u8,
    /// Smaller for longer slices.
    fineness: u32,
    /// The start of its slice, in Unix seconds.
    start: i64,
    /// The name of its ranking.
    ranking: Arc<str>,
}

packed!(Part {
    kind,
    fineness,
    start,
    ranking
});

// The numbers stand in files.
const NAMES: u8 = 0;
const RECORDS: u8 = 1;
const SLOW_REQUESTS: u8 = 2;
const COUNTERS: u8 = 3;
const RANKING: u8 = 4;
const MARKS: u8 = 5;
const END: u8 = u8::MAX;

impl Part {
    fn new(kind: u8) -> Self {
        Self {
            kind,
            fineness: 0,
            start: 0,
            ranking: "".into(),
        }
    }

    /// The part that a table is; `None` for tables that are not brought over, or by another way.
    fn of(table: &Table) -> Option<Self> {
        Some(match table {
            Table::Records { seconds, start } => Self {
                fineness: u32::MAX - seconds,
                start: *start,
                ..Self::new(RECORDS)
            },
            Table::SlowRequests { hour } => Self {
                start: *hour,
                ..Self::new(SLOW_REQUESTS)
            },
            Table::RankingSlice { ranking, start } => Self {
                start: *start,
                ranking: ranking.clone(),
                ..Self::new(RANKING)
            },
            _ => return None,
        })
    }
}

/// A place in the content, at the beginning of a page of a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    part: Part,
    page: Option<Arc<str>>,
}

packed!(Place { part, page });

impl Place {
    /// Before all content.
    pub(super) fn first() -> Self {
        Self::at(Part::new(NAMES))
    }

    fn at(part: Part) -> Self {
        Self { part, page: None }
    }

    /// Whether no content is behind it.
    pub(super) fn is_end(&self) -> bool {
        self.part.kind == END
    }
}

/// A part of the content as a call.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) batch: Batch,
    /// Where the next call begins.
    pub(super) until: Place,
    /// What the call brings over.
    pub(super) brought: ImportedFile,
    bytes: usize,
    cost: usize,
}

/// The content of a file. Nobody writes to it meanwhile.
pub(super) struct Content {
    file: Arc<FileStore>,
    /// The contexts with the time of their last sample, in Unix seconds, by the ids of their records.
    contexts: HashMap<RecordId, (ContextId, i64)>,
    /// The same contexts in the order of their ids.
    ids: Vec<RecordId>,
    parts: BTreeSet<Part>,
    /// The slices of the finest tier that are part of the coarser ones.
    rolled: RolledUp,
    /// The start of the first day that lacks no sample, in Unix seconds.
    whole_days_from: i64,
    rankings: HashMap<Arc<str>, RankingState>,
    /// When its first sample was recorded, in Unix seconds.
    since: Option<i64>,
    /// The precisions of the store that it goes to.
    precisions: Precisions,
}

/// The tables of the file.
async fn read(file: &FileStore, read: TableRead) -> Result<Answers, StoreError> {
    // A file has a journal.
    let Some(journal) = file.journal() else {
        return Ok(Answers::new(Vec::new()));
    };
    journal.read_tables(Purpose::Fold, &[read]).await
}

/// Whether the coarser tiers of a file have each slice of the finest tier that was to be added to them, for all
/// contexts or for none.
pub(super) async fn is_rolled_up(file: &FileStore) -> Result<bool, StoreError> {
    let state = read(file, TableRead::State).await?.state();
    Ok(state
        .rolled
        .is_none_or(|rolled| rolled.due().next().is_none()))
}

impl Content {
    pub(super) async fn read(
        file: Arc<FileStore>,
        precisions: &Precisions,
    ) -> Result<Self, StoreError> {
        let state = read(&file, TableRead::State).await?.state();
        let contexts = contexts(&file).await?;
        let mut ids: Vec<_> = contexts.keys().copied().collect();
        ids.sort_unstable();
        let parts = file.tables().await?;
        let parts = parts.iter().filter_map(Part::of);
        let others = [NAMES, COUNTERS, MARKS].map(Part::new);
        Ok(Self {
            ids,
            contexts,
            parts: parts.chain(others).collect(),
            rolled: state.rolled.unwrap_or_default(),
            whole_days_from: whole_days_from(&file).await?,
            rankings: rankings(&file).await?,
            since: state.since,
            precisions: precisions.clone(),
            file,
        })
    }

    /// Composes a call of what is behind a place: up to another place, or of about the usual size.
    pub(super) async fn compose(
        &self,
        from: &Place,
        until: Option<&Place>,
        now: i64,
    ) -> Result<Composed, StoreError> {
        let mut composed = Composed {
            batch: Batch::new(self.precisions.clone()),
            until: self.next_place(from.clone()),
            brought: ImportedFile::default(),
            bytes: 0,
            cost: 0,
        };
        composed.batch.since = self.since;
        loop {
            let is_last = match until {
                Some(until) => composed.until >= *until,
                None => composed.bytes >= CALL_BYTES || composed.cost >= CALL_COST,
            };
            if is_last || composed.until.is_end() {
                return Ok(composed);
            }
            let place = composed.until.clone();
            let next = self.add_page(&mut composed, &place, now).await?;
            composed.until = match next {
                Some(page) => Place {
                    page: Some(page.into()),
                    ..place
                },
                None => self.behind(&place.part),
            };
            tokio::task::yield_now().await;
        }
    }

    /// A place, or the beginning of the next part if its own has expired.
    fn next_place(&self, place: Place) -> Place {
        match place.is_end() || self.parts.contains(&place.part) {
            true => place,
            false => self.behind(&place.part),
        }
    }

    /// The beginning of the part behind one.
    fn behind(&self, part: &Part) -> Place {
        let behind = (std::ops::Bound::Excluded(part), std::ops::Bound::Unbounded);
        let next = self.parts.range::<Part, _>(behind).next();
        Place::at(next.cloned().unwrap_or(Part::new(END)))
    }

    /// Adds the page at a place. Returns where the next page of the part begins.
    async fn add_page(
        &self,
        composed: &mut Composed,
        place: &Place,
        now: i64,
    ) -> Result<Option<String>, StoreError> {
        let (part, page) = (&place.part, place.page.as_deref());
        match part.kind {
            NAMES => Ok(self.add_names(composed, page)),
            COUNTERS => self.add_counters(composed, page, now).await,
            MARKS => {
                self.add_marks(composed).await?;
                Ok(None)
            }
            RECORDS => {
                let at = (u32::MAX - part.fineness, part.start);
                let page = self.page(Table::records(at), page).await?;
                self.add_records(composed, at, &page);
                Ok(page.next)
            }
            SLOW_REQUESTS => {
                let table = Table::SlowRequests { hour: part.start };
                let page = self.page(table, page).await?;
                self.add_slow_requests(composed, part.start, &page);
                Ok(page.next)
            }
            _ => {
                let (ranking, start) = (part.ranking.clone(), part.start);
                let page = self
                    .page(Table::RankingSlice { ranking, start }, page)
                    .await?;
                self.add_ranking(composed, part, &page);
                Ok(page.next)
            }
        }
    }

    async fn page(&self, table: Table, from: Option<&str>) -> Result<FieldPage, StoreError> {
        let page = TableRead::Page(table, from.map(str::to_owned));
        Ok(read(&self.file, page).await?.page())
    }

    /// Adds contexts, also those that have no records.
    fn add_names(&self, composed: &mut Composed, page: Option<&str>) -> Option<String> {
        let first = page.and_then(|page| page.parse().ok()).unwrap_or(0usize);
        let ids = self.ids.iter().skip(first).take(CONTEXTS_AT_ONCE);
        for id in ids {
            let (context, last_seen) = &self.contexts[id];
            if context.kind != Kind::All {
                composed.batch.seen(context, *last_seen);
                composed.brought.contexts += 1;
                composed.cost += 1;
            }
        }
        let next = first + CONTEXTS_AT_ONCE;
        // Places are compared as texts.
        (next < self.ids.len()).then(|| format!("{next:010}"))
    }

    /// The context of a field of records or of lists.
    fn context(&self, field: &[u8], composed: &mut Composed) -> Option<&(ContextId, i64)> {
        let context = RecordId::from_bytes(field).and_then(|id| self.contexts.get(&id));
        composed.brought.unnamed += u64::from(context.is_none());
        context
    }

    fn add_records(&self, composed: &mut Composed, at: TierSlice, page: &FieldPage) {
        let (seconds, start) = at;
        if seconds == DAY && start < self.whole_days_from {
            return;
        }
        let is_part_of_coarser = match seconds {
            _ if seconds == FINEST.seconds => {
                self.rolled.contains(start) && !self.rolled.is_pending(start)
            }
            _ if seconds == COARSEST.seconds => start >= self.whole_days_from,
            _ => true,
        };
        for (field, value) in &page.fields {
            composed.bytes += value.len();
            composed.cost += 3;
            let Some(record) = pack::read_record(value) else {
                continue;
            };
            let Some((context, last_seen)) = self.context(field, composed) else {
                continue;
            };
            let last_seen = (*last_seen).max(start);
            match is_part_of_coarser {
                true => (composed.batch).add_whole(context, last_seen, at, &record.sums),
                false => (composed.batch).add_slice(context, last_seen, at, &record.sums),
            }
            composed.brought.records += 1;
        }
    }

    fn add_slow_requests(&self, composed: &mut Composed, hour: i64, page: &FieldPage) {
        for (field, value) in &page.fields {
            composed.bytes += value.len();
            composed.cost += 2;
            let Some((context, _)) = self.context(field, composed) else {
                continue;
            };
            if let Some(list) = SlowRequests::unpack(value, context.kind) {
                composed.brought.slow_requests += match context.kind {
                    // They are in the lists of their contexts as well.
                    Kind::All => 0,
                    _ => list.len() as u64,
                };
                composed.batch.add_slowest(context.clone(), hour, list);
            }
        }
    }

    fn add_ranking(&self, composed: &mut Composed, part: &Part, page: &FieldPage) {
        let Some(state) = self.rankings.get(&part.ranking) else {
            return;
        };
        let mut delta = RankingDelta::new(state.spec);
        for (id, count) in &page.fields {
            composed.bytes += id.len() + count.len();
            composed.cost += 3;
            let (Ok(id), Some(count)) = (std::str::from_utf8(id), integer(count)) else {
                continue;
            };
            let mut slices = Slices::default();
            slices.add(part.start, count, 1);
            let added = IdDelta {
                is_removed: false,
                slices,
            };
            delta.ids.insert(id.into(), added);
            composed.brought.ranked_ids += 1;
        }
        if !delta.is_empty() {
            composed.batch.add_ranking(part.ranking.clone(), delta);
        }
    }

    /// Adds counters at the precisions that both stores have.
    async fn add_counters(
        &self,
        composed: &mut Composed,
        page: Option<&str>,
        now: i64,
    ) -> Result<Option<String>, StoreError> {
        let after = page.and_then(|page| {
            let (seconds, name) = page.split_once(' ')?;
            Some((seconds.parse().ok()?, name.into()))
        });
        let counters = self.file.counters_behind(after, COUNTERS_AT_ONCE).await?;
        for counter in &counters {
            composed.bytes += counter.name.len() + 8 * counter.counts.len();
            composed.cost += 2 * counter.counts.len();
            composed.brought.counters += u64::from(add_counter(&mut composed.batch, counter, now));
        }
        let last = counters
            .last()
            .filter(|_| counters.len() == COUNTERS_AT_ONCE);
        Ok(last.map(|last| format!("{:010} {}", last.seconds, last.name)))
    }

    async fn add_marks(&self, composed: &mut Composed) -> Result<(), StoreError> {
        for mark in marks::list(&*self.file).await? {
            // A store has no more marks than a batch has room for.
            if composed.batch.add_mark(mark).is_ok() {
                composed.brought.marks += 1;
                composed.cost += 1;
            }
        }
        Ok(())
    }
}

/// Adds the slices of a counter that its precision retains. `false` if there are none.
fn add_counter(batch: &mut Batch, counter: &ExportedCounter, now: i64) -> bool {
    let precisions = batch.precisions().counters.clone();
    let at = (precisions.iter()).position(|precision| precision.seconds == counter.seconds);
    let Some((at, precision)) = at.map(|at| (at, precisions[at])) else {
        return false;
    };
    let counts = counter.counts.iter();
    let retained = counts.filter(|(start, _)| *start > precision.cut_off(now));
    let mut slices = Slices::default();
    for (start, n) in retained {
        slices.add(*start, *n, precision.retained as usize);
    }
    if slices.is_empty() {
        return false;
    }
    let delta = batch.counters.entry(counter.name.clone());
    let delta = delta.or_insert_with(|| vec![Slices::default(); precisions.len()]);
    delta[at] = slices;
    true
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The contexts of a file with the time of their last sample, by the ids of their records.
async fn contexts(file: &FileStore) -> Result<HashMap<RecordId, (ContextId, i64)>, StoreError> {
    let all = (RecordId::new(Kind::All, ALL), (ContextId::all(), i64::MIN));
    let mut contexts = HashMap::from([all]);
    for (kind, table) in CONTEXTS {
        let mut first = 0;
        loop {
            let ranks = first..first + CONTEXTS_AT_ONCE;
            let ranked = read(file, TableRead::Ranks(table.clone(), ranks))
                .await?
                .ranks();
            let count = ranked.len();
            for (name, last_seen) in ranked {
                if let Ok(name) = std::str::from_utf8(&name) {
                    let context = ContextId::new(kind, name);
                    contexts.insert(RecordId::new(kind, name), (context, last_seen));
                }
            }
            if count < CONTEXTS_AT_ONCE {
                break;
            }
            first += count;
        }
    }
    Ok(contexts)
}

/// The start of the first day that lacks no sample. Without days there is none.
async fn whole_days_from(file: &FileStore) -> Result<i64, StoreError> {
    let Some(journal) = file.journal() else {
        return Ok(i64::MAX);
    };
    let day = Precision::new(DAY, 1);
    Ok(match history::read(journal, Purpose::Fold).await? {
        None => i64::MAX,
        Some(history) if history.since == i64::MIN => i64::MIN,
        Some(history) => match day.slice(history.since) {
            start if start == history.since => start,
            start => start.saturating_add(i64::from(DAY)),
        },
    })
}

/// The configurations of the rankings of a file.
async fn rankings(file: &FileStore) -> Result<HashMap<Arc<str>, RankingState>, StoreError> {
    let mut from = None;
    let mut rankings = HashMap::new();
    loop {
        let page = read(file, TableRead::Page(Table::Rankings, from))
            .await?
            .page();
        for (name, state) in &page.fields {
            let state = std::str::from_utf8(state).ok();
            let state = state.and_then(RankingState::from_text);
            if let (Ok(name), Some(state)) = (std::str::from_utf8(name), state) {
                rankings.insert(name.into(), state);
            }
        }
        from = page.next;
        if from.is_none() {
            return Ok(rankings);
        }
    }
}
