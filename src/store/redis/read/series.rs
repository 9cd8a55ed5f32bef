//! Counters, records and the ranking.

use std::collections::{BTreeMap, HashMap};

use redis::{Value, cmd, pipe};

use super::super::RedisStore;
use super::super::value::{bytes, float, int, items, pairs, text};
use super::record_cache::{HeldRecord, HeldRecords, SeriesId};
use super::record_index::revisions;
use super::{ROLLED, rolled_up};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::context::{ALL, ContextId, Kind, Metric};
use crate::model::pack;
use crate::model::records::{Record, RecordId, combine};
use crate::model::round::SKEW_ALLOWED;
use crate::model::slice::SliceCount;
use crate::model::slowest::{self, RankedContext};
use crate::model::tier::{FINEST, Revision, TierSlice, tier_for};
use crate::store::{ContextRecords, CounterQuery, CounterSeries, RecordQuery};

/// Which data the store holds, without the data.
struct Contents {
    /// When the store's generation began, in Unix seconds.
    created: Option<i64>,
    /// Which content a slice has.
    revisions: HashMap<TierSlice, Revision>,
}

impl RedisStore {
    pub(in crate::store::redis) async fn read_counters(
        &self,
        query: &CounterQuery,
    ) -> Result<Vec<CounterSeries>, StoreError> {
        let mut pipeline = redis::Pipeline::with_capacity(query.names.len());
        for name in &query.names {
            let key = self.keys.count(query.precision, name);
            pipeline.cmd("HGETALL").arg(key);
        }
        let hashes = self.read(&mut pipeline).await?;
        let mut counters = Vec::with_capacity(query.names.len());
        for (name, hash) in query.names.iter().zip(hashes) {
            // Without the book's keys, the counters of a context are computed from its records.
            let slices = match Metric::of_counter(name).filter(|_| !self.book_keys) {
                Some((metric, context)) => {
                    self.recorded_metric(metric, context, query.precision)
                        .await?
                }
                // A key of another type reads as empty.
                None => hash.as_ref().map_or_else(|_| Vec::new(), slices_of),
            };
            counters.push(CounterSeries::new(name.clone(), slices));
        }
        Ok(counters)
    }

    /// A counter of a context, computed from its records.
    async fn recorded_metric(
        &self,
        metric: Metric,
        context: &str,
        width: u32,
    ) -> Result<Vec<SliceCount>, StoreError> {
        let kinds: &[Kind] = match context {
            ALL => &[Kind::All],
            _ => &[Kind::Http, Kind::Timer],
        };
        let contexts = kinds.iter().map(|kind| ContextId::new(*kind, context));
        let now = self.clock.clone().unwrap_or_else(Clock::system);
        let query = RecordQuery {
            contexts: contexts.collect(),
            width,
            now: now.now_seconds(),
        };
        let mut slices: BTreeMap<i64, i64> = BTreeMap::new();
        let read = self.read_records(&query).await?.into_iter();
        let slices_read = read.flat_map(|read| read.slices);
        // A slice may have nothing but timers that ended after their requests.
        for slice in slices_read.filter(|slice| slice.sums.times.count > 0) {
            let n = match metric {
                Metric::Hits => slice.sums.times.count,
                Metric::Errors => slice.sums.outcomes.errors,
                Metric::Micros => slice.sums.times.sum / 1_000,
            };
            let sum = slices.entry(slice.start).or_default();
            *sum = sum.saturating_add_unsigned(n);
        }
        let slices = slices.into_iter();
        Ok(slices.map(|(start, n)| SliceCount::new(start, n)).collect())
    }

    pub(in crate::store::redis) async fn read_records(
        &self,
        query: &RecordQuery,
    ) -> Result<Vec<ContextRecords>, StoreError> {
        let records = |context: &ContextId, slices| ContextRecords {
            context: context.clone(),
            slices,
        };
        let contexts = query.contexts.iter();
        let Some(tier) = tier_for(query.width) else {
            return Ok(contexts.map(|id| records(id, Vec::new())).collect());
        };
        // Slices of the next hour may exist, as the clock of another instance may be ahead.
        let ahead = tier.slice(query.now.saturating_add(SKEW_ALLOWED));
        let first = tier
            .slice(tier.cut_off(query.now))
            .saturating_add(i64::from(tier.seconds));
        let starts = (first..=ahead).step_by(tier.seconds as usize);
        let mut pipeline = pipe();
        let state = pipeline.cmd("HMGET").arg(self.keys.state());
        state.arg(ROLLED).arg("created");
        pipeline.cmd("HGETALL").arg(self.keys.revisions());
        let replies = self.read(&mut pipeline).await?;
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let state = reply(0).map_or(&[][..], items);
        let rolled = rolled_up(state.first(), query.now);
        let contents = Contents {
            created: state.get(1).and_then(int),
            revisions: reply(1).map_or_else(HashMap::new, revisions),
        };
        let pending = rolled
            .pending()
            .filter(|minute| *minute >= first && tier != FINEST);
        let slices = starts.map(|start| (tier.seconds, start));
        let slices: Vec<TierSlice> = slices
            .chain(pending.map(|minute| (FINEST.seconds, minute)))
            .collect();
        let mut answer = Vec::with_capacity(query.contexts.len());
        for context in contexts {
            let id = RecordId::new(context.kind, &context.name);
            let (mut of_tier, mut pending) = (Vec::new(), Vec::new());
            for ((seconds, start), record) in self
                .read_record_in((id, tier.seconds), &slices, &contents)
                .await?
            {
                match seconds == tier.seconds {
                    true => of_tier.push((start, record)),
                    false => pending.push((start, record)),
                }
            }
            let slices = combine(query.width, tier, of_tier, pending);
            answer.push(records(context, slices));
        }
        Ok(answer)
    }

    /// The records of a context in some slices. Slices without a record are left out.
    async fn read_record_in(
        &self,
        series: SeriesId,
        slices: &[TierSlice],
        contents: &Contents,
    ) -> Result<Vec<(TierSlice, Record)>, StoreError> {
        let Contents { created, revisions } = contents;
        // Without revisions nobody knows what has changed.
        let created = created.filter(|_| !revisions.is_empty());
        let mut held = match created {
            Some(created) => self.record_cache.take(series, created),
            None => HeldRecords::new(),
        };
        held.retain(|slice, record| record.revision == revisions.get(slice).copied());
        let unread: Vec<_> = (slices.iter())
            .filter(|slice| !held.contains_key(*slice))
            .collect();
        let mut pipeline = redis::Pipeline::with_capacity(unread.len());
        for slice in &unread {
            let command = pipeline.cmd("HGET").arg(self.keys.records(**slice));
            command.arg(&series.0.to_bytes());
        }
        let replies = match unread.is_empty() {
            true => Vec::new(),
            false => self.read(&mut pipeline).await?,
        };
        for (slice, reply) in unread.into_iter().zip(&replies) {
            // A key that cannot be read is tried again.
            if let Ok(reply) = reply {
                let record = HeldRecord {
                    revision: revisions.get(slice).copied(),
                    packed: bytes(reply).map(Box::from),
                };
                held.insert(*slice, record);
            }
        }
        let record = |slice: &TierSlice| pack::read_record(held.get(slice)?.packed.as_ref()?);
        let records = slices
            .iter()
            .filter_map(|slice| Some((*slice, record(slice)?)));
        let records = records.collect();
        if let Some(created) = created {
            held.retain(|slice, _| slices.contains(slice));
            self.record_cache.put(series, created, held);
        }
        Ok(records)
    }

    pub(in crate::store::redis) async fn read_slowest(
        &self,
        limit: usize,
    ) -> Result<Vec<RankedContext>, StoreError> {
        let limit = limit.min(slowest::RANKING_LEN);
        if !self.book_keys {
            let clock = self.clock.clone().unwrap_or_else(Clock::system);
            let contexts = self.read_snapshot(clock.now_seconds()).await?.contexts;
            let mut ranking: Vec<_> = (contexts.into_iter())
                .filter_map(|context| {
                    let hour = context.hour.or(context.last_hour)?;
                    Some(RankedContext::new(context.context, hour.times.mean()?))
                })
                .collect();
            slowest::sort(&mut ranking);
            ranking.truncate(limit);
            return Ok(ranking);
        }
        let mut command = cmd("ZREVRANGE");
        command.arg(self.keys.slowest()).arg(0);
        command.arg(slowest::RANKING_LEN - 1).arg("WITHSCORES");
        let mut pipeline = pipe();
        pipeline.add_command(command);
        let replies = self.read(&mut pipeline).await?;
        // A key of another type reads as empty.
        let ranking = replies.into_iter().flatten().next().unwrap_or(Value::Nil);
        let ranking = pairs(&ranking)
            .filter_map(|(name, mean)| Some(RankedContext::new(text(name)?, float(mean)?)))
            .filter(|ranked| ranked.mean.is_finite());
        Ok(ranking.take(limit).collect())
    }
}

/// The slices of a counter's hash with their counts. Fields that are not slices are left out.
pub(super) fn slices_of(hash: &Value) -> Vec<SliceCount> {
    let mut slices: Vec<_> = pairs(hash)
        .filter_map(|(slice, n)| Some(SliceCount::new(int(slice)?, int(n)?)))
        .collect();
    slices.sort_unstable();
    slices
}
