//! Rankings within a moving window.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::store::StoreFuture;
use crate::store::table::Table;
use crate::store::table_reads::{
    Answers, Purpose, RankingPlace, RecordState, TablePage, TableRead, TableReader, number,
    read_table,
};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::ranking::{RankingSpec, RankingState};

/// The maximum number of attempts to read a ranking while steps of folding change it.
const MAX_TRIES: usize = 20;
const IDS_AT_ONCE: usize = 10_000;
/// Expired slices have left the window, but the folder may not have subtracted them yet from the sums. An exact answer
/// subtracts these slices from all sums, if the ranking and these slices have at most this many ids together. With more
/// ids, only the ids that may be in the answer are corrected.
const MAX_EXACT_IDS: usize = 20_000;
/// With more ids than [`MAX_EXACT_IDS`], an answer subtracts at most this number of slices. The subtraction may bring
/// other ids into the answer, so [`MORE_CANDIDATES`] further ids are read.
const MAX_CORRECTED_SLICES: usize = 8;
const MORE_CANDIDATES: usize = 500;

/// Asks for a part of a ranking within a moving window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RankingQuery {
    /// The name of the ranking.
    pub name: String,
    /// The time of the query, in Unix seconds.
    pub now: i64,
    /// The number of ids to skip, from the highest on.
    pub offset: usize,
    /// The number of ids to return after the skipped ids.
    pub limit: usize,
    /// The ids whose places the answer has in [`RankingPage::places`].
    pub ids: Vec<String>,
}

/// An id of a ranking.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "query", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RankedId {
    /// The id.
    pub id: String,
    /// The sum of all additions within the window.
    pub score: i64,
}

impl RankedId {
    pub(crate) fn new(id: impl Into<String>, score: i64) -> Self {
        Self {
            id: id.into(),
            score,
        }
    }
}

/// A part of a ranking.
#[derive(Clone, Debug)]
pub struct RankingPage {
    /// The configuration in effect.
    pub spec: RankingSpec,
    /// Number of ids.
    pub total: usize,
    /// The sum of the counts for which the ranking had no room.
    pub dropped: u64,
    /// The ids from `offset` on, highest scores first. Ids with equal scores are in descending order.
    pub top: Vec<RankedId>,
    /// The places of [`RankingQuery::ids`]; `None` for an id that is not in the ranking.
    pub places: Vec<Option<RankingPlace>>,
}

impl RankingPage {
    /// A page from all ids and their sums.
    pub fn new(
        spec: RankingSpec,
        dropped: u64,
        mut totals: Vec<(Arc<str>, i64)>,
        query: &RankingQuery,
    ) -> Self {
        totals.order_by(|(id, score), (other_id, other)| (other, other_id).cmp(&(score, id)));
        let place = |id: &String| {
            let rank = totals.iter().position(|(name, _)| **name == **id)?;
            let score = totals[rank].1;
            Some(RankingPlace { score, rank })
        };
        let top = totals.iter().skip(query.offset).take(query.limit);
        Self {
            spec,
            total: totals.len(),
            dropped,
            top: top
                .map(|(id, score)| RankedId::new(&**id, *score))
                .collect(),
            places: query.ids.iter().map(place).collect(),
        }
    }
}

pub(in crate::store) fn ranking_names<'a>(
    reader: &'a dyn TableReader,
) -> StoreFuture<'a, Vec<String>> {
    Box::pin(async move {
        let read = TableRead::All(Table::Rankings);
        let page = read_table(reader, Purpose::Query, read).await?;
        let mut names: Vec<_> = page.names().collect();
        names.order();
        Ok(names)
    })
}

pub(in crate::store) fn ranking_page<'a>(
    reader: &'a dyn TableReader,
    query: &'a RankingQuery,
) -> StoreFuture<'a, Option<RankingPage>> {
    Box::pin(async move {
        let reading = Reading {
            reader,
            query,
            ranking: query.name.as_str().into(),
        };
        reading.page().await
    })
}

struct Reading<'a> {
    reader: &'a dyn TableReader,
    query: &'a RankingQuery,
    ranking: Arc<str>,
}

impl Reading<'_> {
    async fn read(&self, reads: &[TableRead]) -> Result<Answers> {
        self.reader.read_tables(Purpose::Query, reads).await
    }

    fn totals(&self) -> Table {
        Table::RankingTotals {
            ranking: self.ranking.clone(),
        }
    }

    fn slice(&self, start: i64) -> Table {
        let ranking = self.ranking.clone();
        Table::RankingSlice { ranking, start }
    }

    /// A read of the ranking's field in a table.
    fn of_ranking(&self, table: Table) -> TableRead {
        TableRead::Values(table, [self.query.name.clone().into_bytes()].into())
    }

    async fn page(&self) -> Result<Option<RankingPage>> {
        let query = self.query;
        let reads = [Table::Rankings, Table::RankingsDropped].map(|table| self.of_ranking(table));
        let mut answers = self.read(&reads).await?;
        let Some(mut state) = state_in(answers.page()) else {
            return Ok(None);
        };
        let dropped = answers.page().value();
        let dropped = dropped.and_then(|n| u64::try_from(number(&n)?).ok());
        let dropped = dropped.unwrap_or(0);
        for _ in 0..MAX_TRIES {
            let expired: Vec<i64> = state.expired(query.now).collect();
            if expired.len() == state.slices.len() {
                // All slices have left the window.
                let page = RankingPage::new(state.spec, dropped, Vec::new(), query);
                return Ok(Some(page));
            }
            if expired.is_empty() {
                let page = self.page_of_totals(state.spec, dropped, query.limit);
                return page.await.map(Some);
            }
            if self.count_ids(&expired).await? > MAX_EXACT_IDS {
                let corrected = &expired[..expired.len().min(MAX_CORRECTED_SLICES)];
                let page = self.corrected_page(state.spec, dropped, corrected);
                return page.await.map(Some);
            }
            match self.totals_within(&expired).await? {
                Ok(totals) => {
                    let page = RankingPage::new(state.spec, dropped, totals, query);
                    return Ok(Some(page));
                }
                // Other slices have expired, or the folder has subtracted some.
                Err(Some(other)) => state = other,
                Err(None) => return Ok(None),
            }
        }
        Err(self.changes_too_often())
    }

    /// The number of ids of the ranking, plus the number of ids of each of these slices.
    async fn count_ids(&self, slices: &[i64]) -> Result<usize> {
        let slices = slices.iter().map(|start| self.slice(*start));
        let tables = [self.totals()].into_iter().chain(slices);
        let reads: Vec<_> = tables.map(TableRead::Count).collect();
        let mut counts = self.read(&reads).await?;
        let counts = reads.iter().map(|_| counts.page().count);
        Ok(counts.fold(0, usize::saturating_add))
    }

    /// Answers from the totals, which may include expired slices.
    async fn page_of_totals(
        &self,
        spec: RankingSpec,
        dropped: u64,
        limit: usize,
    ) -> Result<RankingPage> {
        let ids = self.query.ids.iter().map(|id| id.clone().into_bytes());
        let reads = [
            TableRead::Count(self.totals()),
            TableRead::Ranks(self.totals(), self.ranks(0, limit)),
            TableRead::Places(self.totals(), ids.collect()),
        ];
        let mut answers = self.read(&reads).await?;
        let total = answers.page().count;
        let mut top: Vec<_> = answers.page().numbers().collect();
        if top.len() == IDS_AT_ONCE && limit > IDS_AT_ONCE {
            top = self.long_top(limit).await?;
        }
        let places = answers.page().values.into_iter();
        let top = top.into_iter().filter_map(|(id, score)| {
            let id = String::from_utf8(id).ok()?;
            Some(RankedId { id, score })
        });
        Ok(RankingPage {
            spec,
            total,
            dropped,
            top: top.collect(),
            places: places.map(|place| unpack(&place?)).collect(),
        })
    }

    /// The ranks to read next: of the `limit` ids after the query's offset, the ids from `from` on.
    fn ranks(&self, from: usize, limit: usize) -> Range<usize> {
        let start = self.query.offset.saturating_add(from);
        let count = limit.saturating_sub(from).min(IDS_AT_ONCE);
        start..start.saturating_add(count)
    }

    /// Reads more ids than one read returns. Begins again if a step of folding came between two reads, because the step
    /// may have moved an id to other ranks.
    async fn long_top(&self, limit: usize) -> Result<Vec<(Vec<u8>, i64)>> {
        for _ in 0..MAX_TRIES {
            let (mut all, mut version) = (Vec::new(), None);
            loop {
                let ranks = self.ranks(all.len(), limit);
                let reads = [TableRead::Ranks(self.totals(), ranks), TableRead::State];
                let mut answers = self.read(&reads).await?;
                let part: Vec<_> = answers.page().numbers().collect();
                let now = RecordState::new(answers.page()).version;
                if *version.get_or_insert_with(|| now.clone()) != now {
                    break;
                }
                let is_last = part.len() < IDS_AT_ONCE;
                all.extend(part);
                if is_last || all.len() >= limit {
                    return Ok(all);
                }
            }
        }
        Err(self.changes_too_often())
    }

    /// Answers from the totals, and subtracts the slices in `expired` from the sums of the ids in the answer.
    async fn corrected_page(
        &self,
        spec: RankingSpec,
        dropped: u64,
        expired: &[i64],
    ) -> Result<RankingPage> {
        let limit = match self.query.limit {
            0 => 0,
            limit => limit.saturating_add(MORE_CANDIDATES),
        };
        let mut page = self.page_of_totals(spec, dropped, limit).await?;
        let ids = page.top.iter().map(|ranked| &ranked.id);
        let ids: Vec<_> = ids
            .chain(&self.query.ids)
            .map(|id| id.clone().into_bytes())
            .collect();
        let mut expired_sums: Vec<i64> = vec![0; ids.len()];
        let parts = ids.chunks(IDS_AT_ONCE);
        for (part, sums) in parts.zip(expired_sums.chunks_mut(IDS_AT_ONCE)) {
            for start in expired {
                let reads = [TableRead::Values(self.slice(*start), part.into())];
                let counts = self.read(&reads).await?.page();
                for (sum, n) in sums.iter_mut().zip(counts.values) {
                    let n = n.and_then(|n| number(&n)).unwrap_or(0);
                    *sum = sum.saturating_add(n);
                }
            }
        }
        let (of_top, of_places) = expired_sums.split_at(page.top.len());
        for (ranked, expired) in page.top.iter_mut().zip(of_top) {
            ranked.score = ranked.score.saturating_sub(*expired);
        }
        for (place, expired) in page.places.iter_mut().zip(of_places) {
            let corrected = |place: RankingPlace| RankingPlace {
                score: place.score.saturating_sub(*expired),
                ..place
            };
            *place = place.map(corrected).filter(|place| place.score != 0);
        }
        page.top.retain(|ranked| ranked.score != 0);
        (page.top).order_by(|a, b| (b.score, &b.id).cmp(&(a.score, &a.id)));
        page.top.truncate(self.query.limit);
        Ok(page)
    }

    /// Reads all totals, and subtracts the slices in `expired`. There is an inner error if other slices must be
    /// subtracted, or if a step of folding came between the reads. This error is the current state of the ranking, for
    /// the next attempt; `None` if the ranking was removed.
    async fn totals_within(
        &self,
        expired: &[i64],
    ) -> Result<Result<Vec<(Arc<str>, i64)>, Option<RankingState>>> {
        let mut reads = vec![
            TableRead::State,
            self.of_ranking(Table::Rankings),
            TableRead::Ranks(self.totals(), 0..usize::MAX),
        ];
        let slices = expired.iter().map(|start| self.slice(*start));
        reads.extend(slices.map(TableRead::All));
        reads.push(TableRead::State);
        let mut answers = self.read(&reads).await?;
        let version = RecordState::new(answers.page()).version;
        let state = state_in(answers.page());
        let Some(state) = state else {
            return Ok(Err(None));
        };
        let mut totals: HashMap<Vec<u8>, i64> = answers.page().numbers().collect();
        for (id, n) in expired.iter().flat_map(|_| answers.page().numbers()) {
            let total = totals.entry(id).or_default();
            *total = total.saturating_sub(n);
        }
        let is_undisturbed = version == RecordState::new(answers.page()).version;
        if !is_undisturbed || !state.expired(self.query.now).eq(expired.iter().copied()) {
            return Ok(Err(Some(state)));
        }
        let totals = totals.into_iter().filter(|(_, total)| *total != 0);
        let totals =
            totals.filter_map(|(id, total)| Some((std::str::from_utf8(&id).ok()?.into(), total)));
        Ok(Ok(totals.collect()))
    }

    fn changes_too_often(&self) -> StoreError {
        let name = &self.query.name;
        let message = format!("the ranking {name:?} changes too often to be read");
        StoreError::new(StoreErrorKind::Unexpected, message)
    }
}

fn state_in(mut page: TablePage) -> Option<RankingState> {
    unpack(&page.value()?)
}
