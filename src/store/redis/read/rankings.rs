//! Rankings, and the slowest and the failed requests.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Pipeline, Value, pipe};

use super::super::RedisStore;
use super::super::oversized::Reply;
use super::super::value::{bytes, float, int, items, pairs, text};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::context::ContextId;
use crate::model::ranking::{RankingSpec, RankingState};
use crate::model::records::RecordId;
use crate::model::slow_request::SlowRequests;
use crate::store::lists;
use crate::store::table::Table;
use crate::store::{RankedId, RankingPage, RankingPlace, RankingQuery, SlowRequestQuery};

/// How often a ranking is read again because a step of folding came in between.
const MAX_TRIES: usize = 20;
/// Ids that one command reads.
const IDS_AT_ONCE: usize = 10_000;
/// The most ids of a ranking and of the slices that have left its window, up to which all of them are read so that the
/// answer is exact. Beyond, only the ids of the answer are corrected, until the folder has taken the slices out.
const MAX_EXACT_IDS: usize = 20_000;
/// Slices by which the ids of such an answer are corrected, and ids beyond the answer that may be part of it then.
const MAX_CORRECTED_SLICES: usize = 8;
const MORE_CANDIDATES: usize = 500;

impl RedisStore {
    pub(in crate::store::redis) async fn read_slow_requests(
        &self,
        query: &SlowRequestQuery,
    ) -> Result<Vec<SlowRequests>, StoreError> {
        let contexts = &query.contexts;
        if contexts.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = pipe();
        let table = Table::SlowRequests { hour: query.hour };
        let fields = pipeline.cmd("HMGET").arg(self.keys.table(&table));
        for context in contexts {
            fields.arg(&RecordId::new(context.kind, &context.name).to_bytes()[..]);
        }
        let replies = self.read(&mut pipeline).await?;
        // A key of another type, or a field that is not a list, reads as empty.
        let fields = replies.first().and_then(|reply| reply.as_ref().ok());
        let fields = fields.map_or(&[][..], items);
        let list = |(at, context): (usize, &ContextId)| {
            lists::slow_requests(fields.get(at).and_then(bytes), context.kind)
        };
        Ok(contexts.iter().enumerate().map(list).collect())
    }

    pub(in crate::store::redis) async fn read_ranking_names(
        &self,
    ) -> Result<Vec<String>, StoreError> {
        let mut pipeline = pipe();
        pipeline.cmd("HKEYS").arg(self.keys.table(&Table::Rankings));
        let replies = self.read(&mut pipeline).await?;
        let names = replies.first().and_then(|reply| reply.as_ref().ok());
        let names = names.map_or(&[][..], items).iter();
        let mut names: Vec<String> = names.filter_map(text).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(in crate::store::redis) async fn read_ranking(
        &self,
        query: &RankingQuery,
    ) -> Result<Option<RankingPage>, StoreError> {
        let (state, dropped) = self.read_ranking_state(query).await?;
        let Some(mut state) = state else {
            return Ok(None);
        };
        for _ in 0..MAX_TRIES {
            let expired: Vec<i64> = state.expired(query.now).collect();
            if expired.len() == state.slices.len() {
                // The whole window is over.
                let page = RankingPage::new(state.spec, dropped, Vec::new(), query);
                return Ok(Some(page));
            }
            if expired.is_empty() {
                return self.read_totals(query, state.spec, dropped).await.map(Some);
            }
            if self.count_ids(query, &expired).await? > MAX_EXACT_IDS {
                let corrected = &expired[..expired.len().min(MAX_CORRECTED_SLICES)];
                let read = self.read_corrected(query, state.spec, dropped, corrected);
                return read.await.map(Some);
            }
            let read = self.read_expiring(query, &expired).await?;
            match read {
                Ok(totals) => {
                    let page = RankingPage::new(state.spec, dropped, totals, query);
                    return Ok(Some(page));
                }
                // Other slices have expired, or the folder has taken some out.
                Err(Some(other)) => state = other,
                Err(None) => return Ok(None),
            }
        }
        Err(self.changes_too_often(query))
    }

    /// The number of ids of a ranking and of some slices together.
    async fn count_ids(&self, query: &RankingQuery, slices: &[i64]) -> Result<usize, StoreError> {
        let mut pipeline = pipe();
        let totals = self.keys.table(&totals_of(query));
        pipeline.cmd("ZCARD").arg(totals);
        for start in slices {
            let slice = self.keys.table(&slice_of(query, *start));
            pipeline.cmd("HLEN").arg(slice);
        }
        let replies = self.read(&mut pipeline).await?;
        let counts = replies
            .iter()
            .filter_map(|reply| count(reply.as_ref().ok()?));
        Ok(counts.fold(0, usize::saturating_add))
    }

    /// Reads the totals, of which no slice has left the window.
    async fn read_totals(
        &self,
        query: &RankingQuery,
        spec: RankingSpec,
        dropped: u64,
    ) -> Result<RankingPage, StoreError> {
        let totals = self.keys.table(&totals_of(query));
        let mut pipeline = pipe();
        pipeline.cmd("ZCARD").arg(&totals);
        self.add_range(&mut pipeline, &totals, query, 0);
        for id in &query.ids {
            pipeline.cmd("ZSCORE").arg(&totals).arg(id);
            pipeline.cmd("ZREVRANK").arg(&totals).arg(id);
        }
        let replies = self.read(&mut pipeline).await?;
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let mut top = reply(1).map(totals_in).unwrap_or_default();
        if top.len() == IDS_AT_ONCE && query.limit > IDS_AT_ONCE {
            top = self.read_long_top(query, &totals).await?;
        }
        let place = |at: usize| {
            let score = reply(2 + 2 * at).and_then(score)?;
            let rank = reply(3 + 2 * at).and_then(count)?;
            Some(RankingPlace { score, rank })
        };
        let top = top.into_iter().take(query.limit);
        Ok(RankingPage {
            spec,
            total: reply(0).and_then(count).unwrap_or(0),
            dropped,
            top: top.map(|(id, score)| RankedId::new(&*id, score)).collect(),
            places: (0..query.ids.len()).map(place).collect(),
        })
    }

    /// Adds the command that reads the ids from `from` after the offset of the query on.
    fn add_range(&self, pipeline: &mut Pipeline, totals: &str, query: &RankingQuery, from: usize) {
        // An inclusive range cannot be empty, and the server's numbers have a sign.
        let most = isize::MAX.unsigned_abs();
        let offset = query.offset.saturating_add(from).min(most);
        let limit = query.limit.saturating_sub(from).clamp(1, IDS_AT_ONCE);
        let last = (offset.saturating_add(limit) - 1).min(most);
        let top = pipeline.cmd("ZREVRANGE").arg(totals);
        top.arg(offset).arg(last).arg("WITHSCORES");
    }

    /// Reads more ids than one command does. When a step of folding comes in between, it begins again, as an id may
    /// have moved from one part to another.
    async fn read_long_top(
        &self,
        query: &RankingQuery,
        totals: &str,
    ) -> Result<Vec<(Arc<str>, i64)>, StoreError> {
        for _ in 0..MAX_TRIES {
            let (mut all, mut version) = (Vec::new(), None);
            loop {
                let mut pipeline = pipe();
                self.add_range(&mut pipeline, totals, query, all.len());
                pipeline.cmd("HGET").arg(self.keys.state()).arg("v");
                let replies = self.read(&mut pipeline).await?;
                let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
                let now = reply(1).and_then(bytes).map(<[u8]>::to_vec);
                if *version.get_or_insert_with(|| now.clone()) != now {
                    break;
                }
                let part = reply(0).map(totals_in).unwrap_or_default();
                let is_last = part.len() < IDS_AT_ONCE;
                all.extend(part);
                if is_last || all.len() >= query.limit {
                    return Ok(all);
                }
            }
        }
        Err(self.changes_too_often(query))
    }

    /// Reads the ids of the answer, and takes these slices, which have left the window, out of their sums.
    async fn read_corrected(
        &self,
        query: &RankingQuery,
        spec: RankingSpec,
        dropped: u64,
        expired: &[i64],
    ) -> Result<RankingPage, StoreError> {
        let limit = match query.limit {
            0 => 0,
            limit => limit.saturating_add(MORE_CANDIDATES),
        };
        let candidates = RankingQuery {
            limit,
            ..query.clone()
        };
        let mut page = self.read_totals(&candidates, spec, dropped).await?;
        let ids: Vec<&str> = (page.top.iter().map(|ranked| &*ranked.id))
            .chain(query.ids.iter().map(|id| &**id))
            .collect();
        let mut left: Vec<i64> = vec![0; ids.len()];
        for (part, left) in ids.chunks(IDS_AT_ONCE).zip(left.chunks_mut(IDS_AT_ONCE)) {
            for start in expired {
                let mut pipeline = pipe();
                let slice = self.keys.table(&slice_of(query, *start));
                pipeline.cmd("HMGET").arg(slice).arg(part);
                let replies = self.read(&mut pipeline).await?;
                let counts = replies.first().and_then(|reply| reply.as_ref().ok());
                let counts = counts.map_or(&[][..], items).iter();
                for (left, n) in left.iter_mut().zip(counts) {
                    *left = left.saturating_add(int(n).unwrap_or(0));
                }
            }
        }
        let (of_top, of_places) = left.split_at(page.top.len());
        for (ranked, left) in page.top.iter_mut().zip(of_top) {
            ranked.score = ranked.score.saturating_sub(*left);
        }
        for (place, left) in page.places.iter_mut().zip(of_places) {
            let corrected = |place: RankingPlace| RankingPlace {
                score: place.score.saturating_sub(*left),
                ..place
            };
            *place = place.map(corrected).filter(|place| place.score != 0);
        }
        page.top.retain(|ranked| ranked.score != 0);
        (page.top).sort_unstable_by(|a, b| (b.score, &b.id).cmp(&(a.score, &a.id)));
        page.top.truncate(query.limit);
        Ok(page)
    }

    fn changes_too_often(&self, query: &RankingQuery) -> StoreError {
        let message = format!("the ranking {:?} changes too often to be read", query.name);
        let server_info = self.connections.server_info();
        server_info.error(StoreErrorKind::Unexpected, &message)
    }

    async fn read_ranking_state(
        &self,
        query: &RankingQuery,
    ) -> Result<(Option<RankingState>, u64), StoreError> {
        let mut pipeline = pipe();
        for table in [Table::Rankings, Table::RankingsDropped] {
            let field = pipeline.cmd("HGET").arg(self.keys.table(&table));
            field.arg(&query.name);
        }
        let replies = self.read(&mut pipeline).await?;
        let dropped = replies.get(1).and_then(|reply| reply.as_ref().ok());
        let dropped = dropped.and_then(int).and_then(|n| u64::try_from(n).ok());
        Ok((state_in(replies.first()), dropped.unwrap_or(0)))
    }

    /// Reads all totals, without the slices that have left the window but are not taken out yet. The error is the
    /// current state of the ranking: other slices must be taken out, or a step of folding came in between.
    async fn read_expiring(
        &self,
        query: &RankingQuery,
        expired: &[i64],
    ) -> Result<Result<Vec<(Arc<str>, i64)>, Option<RankingState>>, StoreError> {
        let keys = &self.keys;
        let mut pipeline = pipe();
        let version = |pipeline: &mut Pipeline| {
            pipeline.cmd("HGET").arg(keys.state()).arg("v");
        };
        version(&mut pipeline);
        let state = pipeline.cmd("HGET").arg(keys.table(&Table::Rankings));
        state.arg(&query.name);
        let totals = pipeline.cmd("ZREVRANGE").arg(keys.table(&totals_of(query)));
        totals.arg(0).arg(-1).arg("WITHSCORES");
        for start in expired {
            let slice = keys.table(&slice_of(query, *start));
            pipeline.cmd("HGETALL").arg(slice);
        }
        version(&mut pipeline);
        let replies = self.read(&mut pipeline).await?;
        let Some(state) = state_in(replies.get(1)) else {
            return Ok(Err(None));
        };
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let is_undisturbed = reply(0).and_then(bytes) == reply(3 + expired.len()).and_then(bytes);
        if !is_undisturbed || !state.expired(query.now).eq(expired.iter().copied()) {
            return Ok(Err(Some(state)));
        }
        let totals = reply(2).map(totals_in).unwrap_or_default();
        let mut totals: HashMap<_, _> = totals.into_iter().collect();
        for at in 0..expired.len() {
            let slice = reply(3 + at).map(pairs).into_iter().flatten();
            for (id, n) in slice {
                if let (Some(id), Some(n)) = (text(id), int(n)) {
                    let total = totals.entry(id.into()).or_default();
                    *total = total.saturating_sub(n);
                }
            }
        }
        totals.retain(|_, total| *total != 0);
        Ok(Ok(totals.into_iter().collect()))
    }
}

fn totals_of(query: &RankingQuery) -> Table {
    Table::RankingTotals {
        ranking: (&*query.name).into(),
    }
}

fn slice_of(query: &RankingQuery, start: i64) -> Table {
    let ranking = (&*query.name).into();
    Table::RankingSlice { ranking, start }
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(int(value)?).ok()
}

fn state_in(reply: Option<&Reply>) -> Option<RankingState> {
    RankingState::from_text(text(reply?.as_ref().ok()?)?)
}

/// A score of a ranking. Scores are integers, unless another program has written them.
fn score(value: &Value) -> Option<i64> {
    float(value).map(|score| score as i64)
}

/// The members of a sorted set, in the order of the reply.
fn totals_in(set: &Value) -> Vec<(Arc<str>, i64)> {
    pairs(set)
        .filter_map(|(id, total)| Some((text(id)?.into(), score(total)?)))
        .collect()
}
