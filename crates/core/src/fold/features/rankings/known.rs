//! The state of the store's rankings that a folder remembers under its lease.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::store::table::{FieldWrites, Table};
use tower_pulse_model::pack;
use tower_pulse_model::ranking::specs::CarriedSpecs;
use tower_pulse_model::ranking::{RankingSpec, RankingState};

/// The rankings of the store.
#[derive(Default)]
pub(super) struct KnownRankings {
    pub(super) by_name: BTreeMap<Arc<str>, KnownRanking>,
    /// Whether all rankings of the store are known.
    pub(super) is_listed: bool,
    /// Rankings that had additions since their surplus ids were last dropped; the longest waiting first.
    pub(super) to_limit: VecDeque<Arc<str>>,
}

/// A ranking as the store holds it.
#[derive(Clone, Debug)]
pub(super) struct KnownRanking {
    pub(super) state: RankingState,
    /// The configurations of the instances, if they differ.
    pub(super) specs: CarriedSpecs,
    /// The number of ids; `None` until they are counted. Other programs may add some.
    pub(super) ids: Option<usize>,
}

impl KnownRanking {
    pub(super) fn new(spec: RankingSpec) -> Self {
        Self {
            state: RankingState::new(spec),
            specs: CarriedSpecs::default(),
            ids: None,
        }
    }

    pub(super) fn read(state: &[u8], specs: Option<&[u8]>) -> Option<Self> {
        Some(Self {
            state: pack::unpack(state)?,
            specs: specs.and_then(pack::unpack).unwrap_or_default(),
            ids: None,
        })
    }

    /// The write of the ranking's configurations.
    pub(super) fn specs_write(&self, name: &Arc<str>) -> FieldWrites {
        let specs = (!self.specs.is_empty()).then(|| pack::pack(&self.specs));
        FieldWrites::of(Table::RankingSpecs, None, name.as_bytes(), specs)
    }
}

impl KnownRankings {
    pub(super) fn get(&self, name: &str) -> Option<&KnownRanking> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut KnownRanking> {
        self.by_name.get_mut(name)
    }

    /// The ranking of this name, created if it is not known.
    pub(super) fn begin(&mut self, name: &Arc<str>, spec: RankingSpec) -> &mut KnownRanking {
        let ranking = self.by_name.entry(name.clone());
        ranking.or_insert_with(|| KnownRanking::new(spec))
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &KnownRanking)> {
        self.by_name.iter()
    }

    /// Notes that the surplus ids of a ranking are to be dropped after the round.
    pub(super) fn touch(&mut self, name: &Arc<str>) {
        if !self.to_limit.contains(name) {
            self.to_limit.push_back(name.clone());
        }
    }
}
