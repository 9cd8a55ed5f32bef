//! The records of contexts, combined into slices of one width.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ops::Range;

use super::record_cache::{HeldRecord, HeldRecords, RecordCache};
use super::slices::packed_records;
use crate::error::Result;
use crate::store::StoreFuture;
use crate::store::table::Table;
use crate::store::table_reads::{Purpose, RecordState, TableRead, TableReader, revisions};
use tower_pulse_model::context::ContextId;
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId, SliceSums, combine};
use tower_pulse_model::slice::{HOUR, Precision, latest_accepted};
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tier::{FINEST, Revision, RolledUp, TIERS, TierSlice};

const CONTEXTS_AT_ONCE: usize = 100;

const SLICES_AT_ONCE: usize = 8;

/// The tier from which hours are combined: the finest tier that retains all hours that are shown.
const HALF_HOURS: Precision = TIERS[1];

/// Number of contexts whose records are unpacked before the task yields.
const UNPACKED_AT_ONCE: usize = 8;

/// Asks for the records of some contexts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordQuery {
    /// The contexts.
    pub contexts: Vec<ContextId>,
    /// Length of the slices, in seconds: one of [`WIDTHS`](tower_pulse_model::tier::WIDTHS).
    pub width: u32,
    /// The tier from which the slices are combined.
    pub tier: Precision,
    /// The time of the query, in Unix seconds.
    pub now: i64,
}

/// The slices from which wider slices are combined.
struct SlicesToCombine {
    width: u32,
    tier: Precision,
    /// The slices of `tier`, oldest first. Then the minutes, in the finest tier, that are not yet added to `tier`.
    slices: Vec<TierSlice>,
}

impl SlicesToCombine {
    /// The slices of `tier` that begin within `starts`, and the minutes from the first start to `end` that are not yet
    /// added to `tier`.
    fn within(
        starts: Range<i64>,
        end: i64,
        width: u32,
        tier: Precision,
        rolled: &RolledUp,
    ) -> Self {
        let (pending, minutes) = (rolled.pending(), starts.start..end);
        let pending = pending.filter(|minute| minutes.contains(minute) && tier != FINEST);
        let pending = pending.map(|minute| (FINEST.seconds, minute));
        let of_tier = starts.step_by(tier.seconds as usize);
        let of_tier = of_tier.map(|start| (tier.seconds, start));
        Self {
            width,
            tier,
            slices: of_tier.chain(pending).collect(),
        }
    }

    fn retained(query: &RecordQuery, rolled: &RolledUp) -> Self {
        let (now, tier) = (query.now, query.tier);
        let seconds = i64::from(tier.seconds);
        let first = tier.slice(tier.cutoff(now)).saturating_add(seconds);
        // Slices of the next hour may exist, because the clock of another instance may be ahead.
        let last = tier.slice(latest_accepted(now));
        let starts = first..last.saturating_add(seconds);
        // If a clock was set back, the store may have even later minutes.
        Self::within(starts, i64::MAX, query.width, tier, rolled)
    }

    /// Combines the records of a context, given in the order of the slices.
    fn combine<R: Borrow<Record>>(
        &self,
        records: impl IntoIterator<Item = Option<R>>,
    ) -> Vec<SliceSums> {
        let (mut of_tier, mut pending) = (Vec::new(), Vec::new());
        for ((seconds, start), record) in self.slices.iter().zip(records) {
            let into = match *seconds == self.tier.seconds {
                true => &mut of_tier,
                false => &mut pending,
            };
            into.extend(record.map(|record| (*start, record)));
        }
        combine(self.width, self.tier, of_tier, pending)
    }
}

struct SeriesReader<'a> {
    reader: &'a dyn TableReader,
    /// The cache of records, and when the store's generation began.
    cache: Option<(&'a RecordCache, i64)>,
    revisions: HashMap<TierSlice, Revision>,
}

/// The retained records of the contexts in a query, in the order of the query. The slices of a context are oldest
/// first.
pub(in crate::store) fn records<'a>(
    reader: &'a dyn TableReader,
    cache: Option<&'a RecordCache>,
    query: &'a RecordQuery,
) -> StoreFuture<'a, Vec<Vec<SliceSums>>> {
    Box::pin(async move {
        let reads = [TableRead::State, TableRead::Revisions];
        let mut answers = reader.read_tables(Purpose::Query, &reads).await?;
        let state = RecordState::new(answers.page());
        let revisions = revisions(&answers.page());
        let rolled = state.rolled_at(query.now);
        let slices = SlicesToCombine::retained(query, &rolled);
        let reader = SeriesReader {
            reader,
            // The cache needs revisions to know which records have changed.
            cache: cache.zip(state.created).filter(|_| !revisions.is_empty()),
            revisions,
        };
        let mut answer = Vec::with_capacity(query.contexts.len());
        for context in &query.contexts {
            let id = RecordId::new(context.kind, &context.name);
            answer.push(reader.read(id, &slices).await?);
        }
        Ok(answer)
    })
}

impl SeriesReader<'_> {
    /// Combines the records of a context. Reads only the slices that are not in the cache or have changed.
    async fn read(&self, id: RecordId, slices: &SlicesToCombine) -> Result<Vec<SliceSums>> {
        let series = (id, slices.tier.seconds);
        let slices_read = &slices.slices;
        let revision = |slice: &TierSlice| self.revisions.get(slice).copied();
        let mut held = match self.cache {
            Some((cache, created)) => cache.take(series, created),
            None => HeldRecords::new(),
        };
        held.retain(|slice, record| record.revision == revision(slice));
        let unread = slices_read.iter().copied();
        let unread: Vec<_> = unread.filter(|slice| !held.contains_key(slice)).collect();
        let read = packed_records(self.reader, &unread, &[id]).await?;
        for (slice, packed) in unread.into_iter().zip(read) {
            let packed = packed.into_iter().flatten().next().map(Vec::into);
            let revision = revision(&slice);
            held.insert(slice, HeldRecord { revision, packed });
        }
        let record = |slice| pack::read_record(held.get(slice)?.packed.as_ref()?);
        let combined = slices.combine(slices_read.iter().map(record));
        if let Some((cache, created)) = self.cache {
            held.retain(|slice, _| slices_read.contains(slice));
            cache.put(series, created, held);
        }
        Ok(combined)
    }
}

/// The records of many contexts in the hours that begin within `starts`, in the order of the contexts. Fields without a
/// readable record are left out, and added to `problems`.
pub(super) async fn hourly_records(
    reader: &dyn TableReader,
    contexts: &[ContextId],
    starts: Range<i64>,
    rolled: &RolledUp,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Vec<SliceSums>>> {
    let end = starts.end;
    let slices = SlicesToCombine::within(starts, end, HOUR as u32, HALF_HOURS, rolled);
    let mut combined = Vec::with_capacity(contexts.len());
    for part in contexts.chunks(CONTEXTS_AT_ONCE) {
        let ids = part.iter().map(|id| RecordId::new(id.kind, &id.name));
        let ids: Vec<_> = ids.collect();
        let mut by_slice = Vec::with_capacity(slices.slices.len());
        for slices in slices.slices.chunks(SLICES_AT_ONCE) {
            by_slice.extend(packed_records(reader, slices, &ids).await?);
        }
        for (at, context) in part.iter().enumerate() {
            if at % UNPACKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            let records = slices.slices.iter().zip(&mut by_slice);
            let records = records.map(|(slice, values)| {
                let packed = values.get_mut(at)?.take()?;
                let record = pack::read_record(&packed);
                if record.is_none() {
                    problems.push(Problem::new(
                        reader.name_of(&Table::records(*slice)),
                        format!("the field of {} holds no record", context.name),
                    ));
                }
                record
            });
            combined.push(slices.combine(records));
        }
    }
    Ok(combined)
}
