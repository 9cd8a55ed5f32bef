//! Rankings within a moving window.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::State;
use crate::model::ranking::{RankingDelta, RankingSpec};
use crate::model::ranking_specs::CarriedSpecs;
use crate::model::round::Round;
use crate::store::{RankingPage, RankingQuery};

/// A ranking: the additions by slice, and their sums. Ids whose number is 0 are left out.
#[derive(Debug)]
pub(super) struct Ranking {
    /// The configuration that holds.
    spec: RankingSpec,
    /// The configurations of the instances, where they differ.
    specs: CarriedSpecs,
    slices: BTreeMap<i64, HashMap<Arc<str>, i64>>,
    /// The sums of all slices.
    totals: HashMap<Arc<str>, i64>,
    dropped: u64,
}

impl State {
    /// Adds to a ranking.
    pub(super) fn add_to_ranking(&mut self, name: &Arc<str>, round: &Round, delta: &RankingDelta) {
        let ranking = self.rankings.entry(name.clone());
        let ranking = ranking.or_insert_with(|| Ranking::new(delta.spec));
        ranking.add(delta, round.ranking_specs(name), round.stamp());
    }

    /// Drops the rankings whose slices have all left the window. What is left of those that had no room for some
    /// ids is how much was added to these.
    pub(super) fn expire_rankings(&mut self, now: i64) {
        self.rankings.retain(|_, ranking| {
            ranking.expire(now);
            !ranking.slices.is_empty() || ranking.dropped > 0
        });
    }

    pub(super) fn ranking_names(&self) -> Vec<String> {
        let rankings = self.rankings.iter();
        let rankings = rankings.filter(|(_, ranking)| !ranking.slices.is_empty());
        let names = rankings.map(|(name, _)| String::from(&**name));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    /// What the operator should know of rankings with several configurations.
    pub(super) fn ranking_warnings(&self) -> Vec<String> {
        let mixed = (self.rankings.iter()).filter(|(_, ranking)| ranking.specs.is_mixed());
        let mut warnings: Vec<_> = mixed.map(|(name, r)| r.specs.warning(name)).collect();
        warnings.sort_unstable();
        warnings
    }

    pub(super) fn ranking_page(&mut self, query: &RankingQuery) -> Option<RankingPage> {
        let ranking = self.rankings.get_mut(&*query.name)?;
        ranking.expire(query.now);
        if ranking.slices.is_empty() {
            return None;
        }
        Some(ranking.page(query))
    }
}

impl Ranking {
    fn new(spec: RankingSpec) -> Self {
        Self {
            spec,
            specs: CarriedSpecs::default(),
            slices: BTreeMap::new(),
            totals: HashMap::new(),
            dropped: 0,
        }
    }

    fn add(&mut self, delta: &RankingDelta, specs: Option<&CarriedSpecs>, now: i64) {
        self.expire(now);
        if self.slices.is_empty() {
            (self.spec, self.specs) = (delta.spec, CarriedSpecs::default());
        }
        if let Some(specs) = specs {
            self.spec = self.specs.merge(self.spec, specs, now);
        }
        self.dropped = self.dropped.saturating_add(delta.dropped);
        let oldest = self.spec.oldest(now);
        for (id, added) in &delta.ids {
            if added.is_removed {
                self.remove(id);
            }
            let in_window = added.slices.iter().filter(|(start, _)| *start >= oldest);
            for (start, n) in in_window {
                let slice = self.slices.entry(start).or_default();
                add_to(slice, id, *n);
                add_to(&mut self.totals, id, *n);
            }
        }
        self.expire(now);
        self.limit();
    }

    fn remove(&mut self, id: &str) {
        self.totals.remove(id);
        for slice in self.slices.values_mut() {
            slice.remove(id);
        }
    }

    /// Takes the slices that are before the window out of the totals.
    fn expire(&mut self, now: i64) {
        self.spec = self.specs.expire(self.spec, now);
        let retained = self.slices.split_off(&self.spec.oldest(now));
        let expired = std::mem::replace(&mut self.slices, retained);
        for (id, n) in expired.into_values().flatten() {
            add_to(&mut self.totals, &id, n.saturating_neg());
        }
    }

    /// Drops the smallest counts of the oldest slice until there are at most `max_ids` ids.
    fn limit(&mut self) {
        while self.totals.len() > self.spec.max_ids as usize
            && let Some((start, slice)) = self.slices.pop_first()
        {
            let mut counts: Vec<_> = slice.into_iter().map(|(id, n)| (n, id)).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            while self.totals.len() > self.spec.max_ids as usize
                && let Some((n, id)) = counts.pop()
            {
                self.dropped = self.dropped.saturating_add(n.unsigned_abs());
                add_to(&mut self.totals, &id, n.saturating_neg());
            }
            if !counts.is_empty() {
                let left = counts.into_iter().map(|(n, id)| (id, n));
                self.slices.insert(start, left.collect());
            }
        }
    }

    fn page(&self, query: &RankingQuery) -> RankingPage {
        let totals = self.totals.iter();
        let totals = totals.map(|(id, total)| (id.clone(), *total)).collect();
        RankingPage::new(self.spec, self.dropped, totals, query)
    }
}

/// Adds to the number of an id. An id whose number is 0 is left out.
fn add_to(numbers: &mut HashMap<Arc<str>, i64>, id: &Arc<str>, n: i64) {
    let number = numbers.entry(id.clone()).or_default();
    *number = number.saturating_add(n);
    if *number == 0 {
        numbers.remove(id);
    }
}
