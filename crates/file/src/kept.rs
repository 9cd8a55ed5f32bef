//! What the file keeps beside the tables: the state of the journal and its entries, the counters, and the rest of the
//! [`State`].

#[cfg(test)]
mod frozen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, TableDefinition};

use super::fields::{Definition, EXTENTS, FileFields, fields_of, remove_range};
use super::keys::table_of;
use super::trouble::Trouble;
use tower_pulse_core::store::in_process::{Counters, Entered, Fence, Heartbeats, State, Tables};
use tower_pulse_core::store::journal::{Entry, Partitions};
use tower_pulse_core::store::{Exceptions, Position};
use tower_pulse_model::pack::{self, Reader, Writer, packed};
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tier::{Revision, RolledUp};

/// The state: one value.
const STATE: Definition = TableDefinition::new("state");
/// The key of that value.
const CURRENT: &[u8] = b"current";
/// The entries that are not folded, by the end of their position: eight bytes, the highest first.
const ENTRIES: Definition = TableDefinition::new("journal");
/// The slices of counters, by [precision and name](counter_key).
pub(super) const COUNTERS: Definition = TableDefinition::new("counters");

/// The state without its entries, counters and tables.
#[derive(Debug)]
struct KeptState {
    generation: Arc<str>,
    created: i64,
    since: i64,
    /// When the state was written, in Unix seconds.
    written_at: i64,
    fences: Vec<KeptFence>,
    head: Position,
    low: Position,
    upto: Option<Position>,
    done: Arc<str>,
    stamp: Option<i64>,
    version: Arc<str>,
    aside: Vec<Position>,
    set_aside: u64,
    hole_bytes: u64,
    late: u64,
    skewed: u64,
    quarantined: u64,
    quarantined_keys: Vec<KeptProblem>,
    ranked_since: i64,
    rolled: Arc<str>,
    gaps: Vec<KeptGap>,
}

packed!(KeptState {
    generation,
    created,
    since,
    written_at,
    fences,
    head,
    low,
    upto,
    done,
    stamp,
    version,
    aside,
    set_aside,
    hole_bytes,
    late,
    skewed,
    quarantined,
    quarantined_keys,
    ranked_since,
    rolled,
    gaps,
});

/// A time in which no process recorded.
#[derive(Debug)]
struct KeptGap {
    from: i64,
    to: i64,
}

packed!(KeptGap { from, to });

#[derive(Debug)]
struct KeptFence {
    instance: Arc<str>,
    seq: u64,
    at: i64,
}

packed!(KeptFence { instance, seq, at });

#[derive(Debug)]
struct KeptProblem {
    key: Arc<str>,
    reason: Arc<str>,
}

packed!(KeptProblem { key, reason });

/// An entry of the journal.
#[derive(Debug)]
struct KeptEntry {
    position: Position,
    stamp: i64,
    version: u64,
    requests: u64,
}

packed!(KeptEntry {
    position,
    stamp,
    version,
    requests
});

/// A count of a counter, and the start of its slice.
#[derive(Debug)]
pub(super) struct KeptCount {
    pub(super) start: i64,
    pub(super) n: i64,
}

packed!(KeptCount { start, n });

impl KeptState {
    fn new(state: &State, written_at: i64) -> Self {
        let (journal, exceptions) = (&state.journal, &state.exceptions);
        let fences = state.fences.iter();
        let problems = exceptions.quarantined_keys.iter();
        Self {
            generation: state.generation.as_str().into(),
            created: state.created,
            since: state.since,
            written_at,
            fences: fences
                .map(|(instance, fence)| KeptFence {
                    instance: instance.as_str().into(),
                    seq: fence.seq,
                    at: fence.at,
                })
                .collect(),
            head: journal.head,
            low: journal.low,
            upto: journal.upto,
            done: journal.done.to_hex().into(),
            stamp: journal.stamp,
            version: journal.version.as_str().into(),
            aside: journal.aside.clone(),
            set_aside: journal.set_aside,
            hole_bytes: journal.hole_bytes,
            late: exceptions.late,
            skewed: exceptions.skewed,
            quarantined: exceptions.quarantined,
            quarantined_keys: problems
                .map(|problem| KeptProblem {
                    key: problem.key.as_str().into(),
                    reason: problem.reason.as_str().into(),
                })
                .collect(),
            ranked_since: state.ranked_since,
            rolled: state.rolled.to_string().into(),
            gaps: state
                .gaps
                .iter()
                .map(|(from, to)| KeptGap {
                    from: *from,
                    to: *to,
                })
                .collect(),
        }
    }

    /// Sets all of a state that is kept here, with the entries of its journal.
    fn restore(self, state: &mut State, entries: VecDeque<Entry>) {
        state.generation = self.generation.to_string();
        (state.created, state.since) = (self.created, self.since);
        let fences = self.fences.into_iter();
        state.fences = fences
            .map(|KeptFence { instance, seq, at }| (instance.to_string(), Fence { seq, at }))
            .collect();
        state.journal = Entered {
            entries,
            head: self.head,
            low: self.low,
            upto: self.upto,
            done: Partitions::from_hex(&self.done),
            stamp: self.stamp,
            version: self.version.to_string(),
            aside: self.aside,
            set_aside: self.set_aside,
            hole_bytes: self.hole_bytes,
        };
        let problems = self.quarantined_keys.into_iter();
        state.exceptions = Exceptions {
            late: self.late,
            skewed: self.skewed,
            quarantined: self.quarantined,
            quarantined_keys: problems
                .map(|KeptProblem { key, reason }| Problem::new(&*key, &*reason))
                .collect(),
        };
        state.ranked_since = self.ranked_since;
        state.rolled = RolledUp::from_text(&self.rolled);
        let gaps = self.gaps.into_iter();
        state.gaps = gaps.map(|KeptGap { from, to }| (from, to)).collect();
    }
}

/// What is left of an earlier opening of the same file by this process.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) heartbeats: Heartbeats,
    /// The number of writes of slices.
    pub(super) writes: Revision,
}

/// A state and when it was written, in Unix seconds; `None` for a new one.
pub(super) type Loaded = (State, Option<i64>);

/// Begins a transaction, and loads the state that it finds. `generation` is the name of a new state, which begins `now`.
pub(super) fn load(
    path: &Arc<Path>,
    database: &Database,
    generation: String,
    now: i64,
    earlier: &Earlier,
) -> Result<Loaded, Trouble> {
    load_state(path, database, generation, now, earlier)?
        .ok_or_else(|| Trouble::Damaged("its state cannot be read".to_owned()))
}

/// `None` if the state cannot be read.
fn load_state(
    path: &Arc<Path>,
    database: &Database,
    generation: String,
    now: i64,
    earlier: &Earlier,
) -> Result<Option<Loaded>, redb::Error> {
    let transaction = database.begin_write()?;
    let kept = {
        let stored = transaction.open_table(STATE)?;
        let kept = stored.get(CURRENT)?;
        kept.map(|kept| kept.value().to_vec())
    };
    let mut extents = BTreeMap::new();
    for extent in transaction.open_table(EXTENTS)?.iter()? {
        let (name, extent) = extent?;
        // A later version may have tables that this one does not know. They stay.
        if let Some(table) = table_of(name.value()) {
            let Some(extent) = pack::unpack(extent.value()) else {
                return Ok(None);
            };
            extents.insert(table, extent);
        }
    }
    let mut entries = VecDeque::new();
    for entry in transaction.open_table(ENTRIES)?.iter()? {
        let Some(entry) = read_entry(entry?.1.value()) else {
            return Ok(None);
        };
        entries.push_back(entry);
    }
    let mut counters = Counters::default();
    for counter in transaction.open_table(COUNTERS)?.iter()? {
        let (key, slices) = counter?;
        let slices = pack::unpack::<Vec<KeptCount>>(slices.value());
        let (Some((precision, name)), Some(slices)) = (counter_of(key.value()), slices) else {
            return Ok(None);
        };
        let slices = slices.into_iter();
        let slices = slices.map(|KeptCount { start, n }| (start, n)).collect();
        counters.set(name, precision, slices);
    }
    counters.changed = Some(BTreeSet::new());
    let mut state = State::new(
        generation,
        now,
        Box::new(FileFields::new(path.clone(), transaction)),
    );
    state.counters = counters;
    state.heartbeats = earlier.heartbeats.clone();
    let Some(kept) = kept else {
        return Ok(extents.is_empty().then_some((state, None)));
    };
    let Some(kept) = pack::unpack::<KeptState>(&kept) else {
        return Ok(None);
    };
    let written_at = kept.written_at;
    kept.restore(&mut state, entries);
    state.tables = Tables::reopened(state.tables.into_fields(), extents, earlier.writes);
    Ok(Some((state, Some(written_at))))
}

/// Writes what has changed of the state, and commits the transaction: then it is durable.
pub(super) fn commit(state: &mut State, database: &Database, now: i64) -> Result<(), redb::Error> {
    let kept = pack::pack(&KeptState::new(state, now));
    let transaction = fields_of(state)?.take()?;
    transaction.open_table(STATE)?.insert(CURRENT, &*kept)?;
    {
        let mut stored = transaction.open_table(ENTRIES)?;
        let folded = state.journal.entries.front();
        let folded = folded.map_or(u64::MAX, |entry| entry.position.offset);
        remove_range(&mut stored, &[], &folded.to_be_bytes())?;
        for entry in &state.journal.entries {
            stored.insert(
                &entry.position.offset.to_be_bytes()[..],
                &*pack_entry(entry),
            )?;
        }
        let mut stored = transaction.open_table(COUNTERS)?;
        let changed = state.counters.changed.replace(BTreeSet::new());
        for (name, precision) in changed.unwrap_or_default() {
            let Some(slices) = state.counters.get(&name, precision) else {
                stored.remove(&*counter_key(precision, &name))?;
                continue;
            };
            let slices = slices.iter();
            let slices = slices.map(|(start, n)| KeptCount {
                start: *start,
                n: *n,
            });
            let slices: Vec<_> = slices.collect();
            stored.insert(&*counter_key(precision, &name), &*pack::pack(&slices))?;
        }
    }
    transaction.commit()?;
    let next = database.begin_write()?;
    fields_of(state)?.begin(next);
    Ok(())
}

/// The key of a counter at a precision. Keys have the order of precisions, and then of names.
pub(super) fn counter_key(precision: u32, name: &str) -> Vec<u8> {
    [&precision.to_be_bytes(), name.as_bytes()].concat()
}

/// The precision and the name of a counter by its key.
pub(super) fn counter_of(key: &[u8]) -> Option<(u32, &str)> {
    let (precision, name) = key.split_first_chunk()?;
    Some((
        u32::from_be_bytes(*precision),
        std::str::from_utf8(name).ok()?,
    ))
}

fn pack_entry(entry: &Entry) -> Vec<u8> {
    let mut packed = pack::pack(&KeptEntry {
        position: entry.position,
        stamp: entry.stamp,
        version: entry.version,
        requests: entry.requests,
    });
    let mut out = Writer(std::mem::take(&mut packed));
    out.bytes(&entry.payload);
    out.0
}

fn read_entry(bytes: &[u8]) -> Option<Entry> {
    let mut from = Reader(bytes);
    let kept = <KeptEntry as pack::Packed>::read(&mut from)?;
    Some(Entry {
        position: kept.position,
        stamp: kept.stamp,
        version: kept.version,
        requests: kept.requests,
        payload: from.bytes()?.to_vec(),
    })
}
