//! Reads the state of the store's rankings, once per lease.

use std::collections::HashMap;
use std::sync::Arc;

use super::Rankings;
use super::known::KnownRanking;
use crate::error::StoreError;
use crate::fold::leased_store::{Leased, LeasedStore};
use crate::store::journal::{FieldValues, Journal};
use crate::store::table::Table;
use crate::store::table_reads::{Purpose, read_pages};
use crate::task::boxed;

impl Rankings {
    /// Reads the rankings of these names that are not known yet.
    pub(super) async fn load(
        &mut self,
        leased: &LeasedStore<'_>,
        names: impl Iterator<Item = &Arc<str>>,
    ) -> Leased<()> {
        let unknown = names.filter(|name| !self.is_listed && !self.known.contains_key(*name));
        let unknown: Vec<_> = unknown.cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = unknown
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let fields = [Table::Rankings, Table::RankingSpecs].map(|table| (table, names.clone()));
        let values = leased.load(&fields).await?;
        let mut values = values.into_iter().map(FieldValues::into_iter);
        let (states, specs) = (values.next(), values.next());
        let values = states
            .into_iter()
            .flatten()
            .zip(specs.into_iter().flatten());
        for (name, (state, specs)) in unknown.into_iter().zip(values) {
            let ranking = state.and_then(|state| KnownRanking::read(&state, specs.as_deref()));
            self.known.extend(ranking.map(|ranking| (name, ranking)));
        }
        Ok(())
    }

    /// Reads all rankings, once. Rankings that are known already keep their state.
    pub(super) async fn load_all(&mut self, journal: &dyn Journal) -> Result<(), StoreError> {
        if self.is_listed {
            return Ok(());
        }
        let (states, specs) = (&Table::Rankings, &Table::RankingSpecs);
        let states = boxed(read_pages(journal, Purpose::Fold, states, usize::MAX)).await?;
        let specs = boxed(read_pages(journal, Purpose::Fold, specs, usize::MAX)).await?;
        let specs: HashMap<_, _> = specs.into_iter().collect();
        for (name, state) in states {
            let specs = specs.get(&name).map(Vec::as_slice);
            let ranking = KnownRanking::read(&state, specs);
            if let (Ok(name), Some(ranking)) = (String::from_utf8(name), ranking) {
                self.known.entry(name.into()).or_insert(ranking);
            }
        }
        // The previous folder may have ended before it removed the surplus ids.
        let names: Vec<_> = self.known.keys().cloned().collect();
        names.iter().for_each(|name| self.limit_later(name));
        self.is_listed = true;
        Ok(())
    }
}
