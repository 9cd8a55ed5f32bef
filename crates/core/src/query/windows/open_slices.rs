//! The slices that may still change, with their records packed as in the store.

use std::collections::HashMap;

use crate::store::PackedRecords;
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::tier::{Revision, TierSlice};

/// A slice stays open for this number of seconds after its end, because instances may still flush samples of it.
const OPEN_FOR: i64 = 150;

/// A slice is dropped this number of seconds after it has settled. Until then, windows add its records without another
/// read.
const SETTLED_FOR: i64 = 10;

/// Approximate bytes of a record, without its packed form.
const PER_RECORD: usize = 56;

/// Whether a slice may still change.
pub(super) fn is_open((seconds, start): TierSlice, now: i64) -> bool {
    let end = start.saturating_add(i64::from(seconds));
    end.saturating_add(OPEN_FOR) > now
}

/// The records of a slice.
#[derive(Default)]
pub(super) struct OpenSlice {
    revision: Option<Revision>,
    /// The number of groups of contexts that were read.
    groups: usize,
    records: HashMap<RecordId, Box<[u8]>>,
    bytes: usize,
}

impl OpenSlice {
    /// A slice whose records are not read yet.
    pub(super) fn new(revision: Option<Revision>) -> Self {
        Self {
            revision,
            ..Self::default()
        }
    }

    /// Adds the records of another group of contexts.
    pub(super) fn add(&mut self, contexts: &[RecordId], records: PackedRecords) {
        self.groups += 1;
        for (id, packed) in contexts.iter().zip(records) {
            if let Some(packed) = packed {
                self.bytes += packed.len() + PER_RECORD;
                self.records.insert(*id, packed.into());
            }
        }
    }

    /// Whether the slice has no records.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record of a context.
    pub(super) fn get(&self, id: RecordId) -> Option<Record> {
        pack::read_record(self.packed(id)?)
    }

    /// The packed record of a context.
    pub(super) fn packed(&self, id: RecordId) -> Option<&[u8]> {
        self.records.get(&id).map(|packed| &**packed)
    }
}

/// The open slices that were read.
#[derive(Default)]
pub(super) struct OpenSlices(HashMap<TierSlice, OpenSlice>);

impl OpenSlices {
    pub(super) fn get(&self, at: TierSlice) -> Option<&OpenSlice> {
        self.0.get(&at)
    }

    /// The slice, if its records were read at this revision for this number of groups.
    pub(super) fn whole(
        &self,
        at: TierSlice,
        revision: Option<Revision>,
        groups: usize,
    ) -> Option<&OpenSlice> {
        let slice = self.0.get(&at);
        slice.filter(|slice| slice.revision == revision && slice.groups == groups)
    }

    pub(super) fn insert(&mut self, at: TierSlice, slice: OpenSlice) {
        self.0.insert(at, slice);
    }

    /// Drops slices that settled at least [`SETTLED_FOR`] seconds ago, unless they are pending.
    pub(super) fn retain(&mut self, now: i64, is_pending: impl Fn(TierSlice) -> bool) {
        let earlier = now.saturating_sub(SETTLED_FOR);
        self.0
            .retain(|at, _| is_open(*at, earlier) || is_pending(*at));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Approximate bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(|slice| slice.bytes).sum()
    }

    /// The mean size of a record in bytes, in the slice with the largest records; `None` without records.
    pub(super) fn record_bytes(&self) -> Option<usize> {
        let slices = self.0.values();
        let means = slices.filter_map(|slice| slice.bytes.checked_div(slice.records.len()));
        means.max()
    }
}
