//! The slices that may still change, with their records packed as in the store.

use std::collections::HashMap;

use crate::store::PackedRecords;
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::tier::{Revision, TierSlice};

/// A slice stays open for this number of seconds after its end, because instances may still flush samples of it.
const OPEN_FOR: i64 = 150;

/// The records of a slice stay cached for this number of seconds after the slice has settled, so that they are added to
/// the sums without another read.
pub(super) const SETTLED_FOR: i64 = 10;

/// Approximate bytes of a record, without its packed form.
const PER_RECORD: usize = 56;

pub(super) fn is_open((seconds, start): TierSlice, now: i64) -> bool {
    let end = start.saturating_add(i64::from(seconds));
    end.saturating_add(OPEN_FOR) > now
}

#[derive(Default)]
pub(super) struct OpenSlice {
    pub revision: Option<Revision>,
    /// The number of groups of contexts that were read.
    pub groups: usize,
    pub records: HashMap<RecordId, Box<[u8]>>,
    pub bytes: usize,
}

impl OpenSlice {
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

    pub(super) fn get(&self, id: RecordId) -> Option<Record> {
        pack::read_record(self.packed(id)?)
    }

    pub(super) fn packed(&self, id: RecordId) -> Option<&[u8]> {
        self.records.get(&id).map(|packed| &**packed)
    }
}
