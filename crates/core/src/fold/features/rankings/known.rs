//! A ranking of the store, as a folder remembers it under its lease.

use std::sync::Arc;

use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::pack;
use tower_pulse_model::ranking::RankingState;
use tower_pulse_model::ranking::specs::CarriedSpecs;

#[derive(Clone, Debug)]
pub(super) struct KnownRanking {
    pub(super) state: RankingState,
    /// The configurations of the instances; empty if all are alike.
    pub(super) specs: CarriedSpecs,
    /// The number of ids that the folder knows of; `None` if the folder must count the ids. Other programs may have
    /// added further ids.
    pub(super) ids: Option<usize>,
}

impl KnownRanking {
    pub(super) fn read(state: &[u8], specs: Option<&[u8]>) -> Option<Self> {
        Some(Self {
            state: pack::unpack(state)?,
            specs: specs.and_then(pack::unpack).unwrap_or_default(),
            ids: None,
        })
    }

    pub(super) fn specs_write(&self, name: &Arc<str>) -> FieldWrites {
        let specs = (!self.specs.is_empty()).then(|| pack::pack(&self.specs));
        FieldWrites::of(Table::RankingSpecs, None, name.as_bytes(), specs)
    }
}
