//! Reading: snapshots, counters, histograms and the ranking.

use std::collections::BTreeMap;

use redis::{Value, cmd, pipe};

use super::RedisStore;
use super::oversized::Reply;
use super::value::{
    ISO_HOUR_LEN, MAX_STATISTICS, access_time, bytes, float, int, items, pairs, problem, shown,
    text,
};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::model::access_time::AccessTimeStats;
use crate::model::batch::Aggregate;
use crate::model::context::{ALL, Kind, Metric, method_and_path};
use crate::model::pack;
use crate::model::records::{Record, RecordId, combine};
use crate::model::round::SKEW_ALLOWED;
use crate::model::slice::{HOUR, Precision, hour_from_iso, hour_of};
use crate::model::slowest;
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Problem, Snapshot};
use crate::model::tier::{FINEST, RolledUp, TierSlice, tier_for};
use crate::store::{INSTANCE_TTL, RECENT_SLICES};

/// Contexts per pipeline: large enough to be few, small enough not to hold up the server.
const CHUNK: usize = 100;
/// Commands per context.
const PER_CONTEXT: usize = 4;
/// The state's field that says which slices are part of the coarser tiers.
const ROLLED: &str = "rolled";

/// Names of contexts, and of instances, that are read from one key.
const MAX_NAMES: usize = 20_000;
/// The longest name of a context, whoever wrote it.
const MAX_NAME_BYTES: usize = 1_024;
/// Bytes that are shown of a name that cannot be used.
const SHOWN_BYTES: usize = 100;

/// Replies whose errors become problems of the key.
struct Replies<'a> {
    replies: std::vec::IntoIter<Reply>,
    problems: &'a mut Vec<Problem>,
}

impl Replies<'_> {
    /// The next reply; nothing when the key is of another type.
    fn next(&mut self, key: &str) -> Option<Value> {
        match self.replies.next()? {
            Ok(value) => Some(value),
            Err(reason) => {
                self.problem(key, reason);
                None
            }
        }
    }

    fn problem(&mut self, key: &str, reason: impl Into<String>) {
        self.problems.push(problem(key.as_bytes(), &reason.into()));
    }
}

impl RedisStore {
    pub(super) async fn read_snapshot(&self, now: i64) -> Result<Snapshot, StoreError> {
        let keys = &self.keys;
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        let mut pipeline = pipe();
        for key in [keys.contexts(), keys.timers(), keys.slowest()] {
            pipeline.cmd("ZREVRANGE").arg(key).arg(0).arg(MAX_NAMES);
        }
        let since = now.saturating_sub(INSTANCE_TTL);
        let instances = pipeline.cmd("ZRANGEBYSCORE").arg(keys.instances());
        instances.arg(since).arg("+inf");
        instances.arg("LIMIT").arg(0).arg(MAX_NAMES);
        let finest = self.precisions.counters.first();
        let hits = finest.map(|finest| keys.count(finest.seconds, Metric::Hits.as_str()));
        if let Some(hits) = &hits {
            pipeline.cmd("HGETALL").arg(hits);
        }
        // Before any record is read: what is rolled up meanwhile says so itself.
        pipeline.cmd("HGET").arg(keys.state()).arg(ROLLED);
        let replies = self.read(&mut pipeline).await?;
        let mut replies = Replies {
            replies: replies.into_iter(),
            problems: &mut problems,
        };
        let sources = [
            (keys.contexts(), Some(Kind::Http)),
            (keys.timers(), Some(Kind::Timer)),
            (keys.slowest(), None),
        ];
        for (key, kind) in sources {
            let members = replies.next(&key);
            let members = members.as_ref().map_or(&[][..], items);
            if members.len() > MAX_NAMES {
                let reason = format!("of more than {MAX_NAMES} members only those are shown");
                replies.problem(&key, reason);
            }
            for member in members.iter().take(MAX_NAMES) {
                let name = text(member).filter(|name| name.len() <= MAX_NAME_BYTES);
                let Some(name) = name else {
                    let member = bytes(member).unwrap_or_default();
                    let reason = match member.len() {
                        length @ ..=MAX_NAME_BYTES if length > 0 => "is not UTF-8".to_owned(),
                        length => format!("has {length} bytes"),
                    };
                    let start = &member[..member.len().min(SHOWN_BYTES)];
                    let start = shown(start);
                    replies.problem(&key, format!("member `{start}` {reason}"));
                    continue;
                };
                let known = names.entry(name.to_owned());
                match kind {
                    Some(kind) => {
                        let known = known.or_insert(kind);
                        *known = kind.max(*known);
                    }
                    // One that only the book's writer knows.
                    None => {
                        known.or_insert_with(|| kind_of(name));
                    }
                }
            }
        }
        let alive: Vec<String> = replies
            .next(&keys.instances())
            .iter()
            .flat_map(items)
            .filter_map(|id| text(id).map(str::to_owned))
            .collect();
        let mut recent = Vec::new();
        if let (Some(finest), Some(hits)) = (finest, &hits) {
            let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
            recent = replies.next(hits).map_or_else(Vec::new, |v| samples(&v));
            recent.retain(|(start, _)| *start > since);
        }
        let rolled = rolled_up(replies.next(&keys.state()).as_ref(), now);

        names.remove(ALL);
        let names: Vec<(String, Kind)> = names.into_iter().collect();
        let mut contexts = Vec::with_capacity(names.len());
        for chunk in names.chunks(CHUNK) {
            let read = self.read_contexts(chunk, now, &rolled, &mut problems);
            contexts.extend(read.await?);
        }
        let all = [(ALL.to_owned(), Kind::All)];
        let all = self
            .read_contexts(&all, now, &rolled, &mut problems)
            .await?;
        Ok(Snapshot {
            taken_at: now,
            contexts,
            all: all.into_iter().next().unwrap_or_else(|| ContextSnapshot {
                context: ALL.to_owned(),
                kind: Kind::All,
                hour: None,
                last_hour: None,
            }),
            recent,
            instances: alive.len() as u64,
            in_flight: self.in_flight(&alive, &mut problems).await?,
            problems,
        })
    }

    async fn in_flight(
        &self,
        instances: &[String],
        problems: &mut Vec<Problem>,
    ) -> Result<i64, StoreError> {
        let mut sum = 0i64;
        for chunk in instances.chunks(CHUNK) {
            let mut pipeline = pipe();
            for id in chunk {
                let instance = self.keys.instance(id);
                pipeline.cmd("HGET").arg(instance).arg("in_flight");
            }
            let replies = self.read(&mut pipeline).await?;
            for (id, reply) in chunk.iter().zip(replies) {
                let reason = match &reply {
                    // It has ended meanwhile.
                    Ok(Value::Nil) => continue,
                    Ok(value) => match int(value) {
                        Some(number) => {
                            sum = sum.saturating_add(number);
                            continue;
                        }
                        None => "`in_flight` is no number",
                    },
                    Err(reason) => reason,
                };
                problems.push(problem(self.keys.instance(id).as_bytes(), reason));
            }
        }
        Ok(sum)
    }

    async fn read_contexts(
        &self,
        contexts: &[(String, Kind)],
        now: i64,
        rolled: &RolledUp,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<ContextSnapshot>, StoreError> {
        let hour = hour_of(now);
        let mut pipeline = redis::Pipeline::with_capacity(PER_CONTEXT * contexts.len());
        for (context, _) in contexts {
            let stats = self.keys.stats(context);
            for start in [&stats.start, &stats.pstart] {
                let command = pipeline.cmd("GETRANGE").arg(start);
                command.arg(0).arg(ISO_HOUR_LEN);
            }
            for set in [&stats.current, &stats.last] {
                let command = pipeline.cmd("ZRANGE").arg(set);
                command.arg(0).arg(MAX_STATISTICS).arg("WITHSCORES");
            }
        }
        let slices = HourSlices::new(hour, rolled);
        for slice in slices.all() {
            let command = pipeline.cmd("HMGET").arg(self.keys.records(*slice));
            for (context, _) in contexts {
                command.arg(&RecordId::new(context).to_bytes());
            }
        }
        let mut main = self.read(&mut pipeline).await?;
        let records = main.split_off(PER_CONTEXT * contexts.len());
        let mut replies = Replies {
            replies: records.into_iter(),
            problems,
        };
        // By slice, then by context.
        let mut records = Vec::with_capacity(slices.all().len());
        for slice in slices.all() {
            let key = self.keys.records(*slice);
            let fields = replies.next(&key);
            let fields = fields.as_ref().map_or(&[][..], items);
            let read = |(at, (context, _)): (usize, &(String, Kind))| {
                let field = fields.get(at).and_then(bytes)?;
                let record = pack::read_record(field);
                if record.is_none() {
                    let field = shown(&RecordId::new(context).to_bytes());
                    replies.problem(&key, format!("field {field} ({context}) holds no record"));
                }
                record
            };
            let read: Vec<_> = contexts.iter().enumerate().map(read).collect();
            records.push(read);
        }
        replies.replies = main.into_iter();
        let snapshots = contexts.iter().enumerate();
        Ok(snapshots
            .map(|(at, (context, kind))| {
                let sums = slices.sums(|slice| records[slice][at].as_ref());
                self.read_context(&mut replies, context, *kind, hour, sums)
            })
            .collect())
    }

    /// One context of the replies to [`read_contexts`](Self::read_contexts).
    fn read_context(
        &self,
        replies: &mut Replies<'_>,
        context: &str,
        kind: Kind,
        hour: i64,
        sums: [Option<Aggregate>; 2],
    ) -> ContextSnapshot {
        let stats = self.keys.stats(context);
        let start = replies.next(&stats.start);
        let pstart = replies.next(&stats.pstart);
        let current = replies.next(&stats.current);
        let last = replies.next(&stats.last);
        let iso = |value: Value| text(&value).and_then(hour_from_iso);
        let mut sets = Vec::new();
        // A set that does not say its hour counts as this hour's.
        if let (Some(start), Some(set)) = (start.map(|v| iso(v).unwrap_or(hour)), current) {
            sets.push((start, stats.current, set));
        }
        if let (Some(pstart), Some(set)) = (pstart.and_then(iso), last) {
            sets.push((pstart, stats.last, set));
        }
        let mut hour_at = |start: i64, sums: Option<Aggregate>| {
            let set = sets.iter().find(|(of, ..)| *of == start);
            let times = match set.map(|(_, key, set)| (key, access_time(set))) {
                // Nothing of the book's is written, so the record is all there is.
                _ if !self.book_keys => AccessTimeStats::from(&sums.as_ref()?.times),
                Some((_, Ok(times))) => times?,
                Some((key, Err(reason))) => {
                    replies.problem(key, reason);
                    return None;
                }
                None => return None,
            };
            Some(HourSnapshot {
                start,
                times,
                spread: sums.unwrap_or_default(),
            })
        };
        let [current, last] = sums;
        ContextSnapshot {
            context: context.to_owned(),
            kind,
            hour: hour_at(hour, current),
            last_hour: hour_at(hour - HOUR, last),
        }
    }

    pub(super) async fn read_one(
        &self,
        context: &str,
        now: i64,
    ) -> Result<Option<ContextSnapshot>, StoreError> {
        let keys = &self.keys;
        let mut pipeline = pipe();
        for key in [keys.contexts(), keys.timers(), keys.slowest()] {
            pipeline.cmd("ZSCORE").arg(key).arg(context);
        }
        let stats = keys.stats(context);
        pipeline.cmd("EXISTS").arg(stats.current).arg(stats.last);
        pipeline.cmd("HGET").arg(keys.state()).arg(ROLLED);
        let replies = self.read(&mut pipeline).await?;
        let known = |at: usize| matches!(replies.get(at), Some(Ok(v)) if bytes(v).is_some());
        let kind = if context == ALL {
            Kind::All
        } else if known(0) {
            Kind::Http
        } else if known(1) {
            Kind::Timer
        } else {
            kind_of(context)
        };
        let exists = matches!(replies.get(3), Some(Ok(Value::Int(n))) if *n > 0);
        if !(exists || known(0) || known(1) || known(2)) {
            return Ok(None);
        }
        let one = [(context.to_owned(), kind)];
        let rolled = rolled_up(replies.get(4).and_then(|reply| reply.as_ref().ok()), now);
        let mut problems = Vec::new();
        let read = self
            .read_contexts(&one, now, &rolled, &mut problems)
            .await?;
        Ok(read.into_iter().next())
    }

    pub(super) async fn read_counter(
        &self,
        name: &str,
        precision: u32,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        // Of a context nothing but its records is written then.
        if let Some((metric, context)) = Metric::of_counter(name).filter(|_| !self.book_keys) {
            let records = self.read_records(context, precision, self.now()).await?;
            let samples = records.iter().map(|(start, record)| {
                let n = match metric {
                    Metric::Hits => record.times.count,
                    Metric::Errors => record.tally.errors,
                    Metric::Micros => record.times.sum / 1_000,
                };
                (*start, i64::try_from(n).unwrap_or(i64::MAX))
            });
            return Ok(samples.collect());
        }
        let hash = self.read_hash(&self.keys.count(precision, name)).await?;
        Ok(samples(&hash))
    }

    fn now(&self) -> i64 {
        let clock = self.clock.clone();
        clock.unwrap_or_else(Clock::system).now_seconds()
    }

    pub(super) async fn read_records(
        &self,
        context: &str,
        width: u32,
        now: i64,
    ) -> Result<Vec<(i64, Aggregate)>, StoreError> {
        let Some(tier) = tier_for(width) else {
            return Ok(Vec::new());
        };
        let id = RecordId::new(context);
        // One that begins within the next hour may be there: another instance's clock may be ahead.
        let ahead = tier.slice(now.saturating_add(SKEW_ALLOWED));
        let first = tier
            .slice(tier.cut_off(now))
            .saturating_add(i64::from(tier.seconds));
        let starts = (first..=ahead).step_by(tier.seconds as usize);
        // Before any record is read: what is rolled up meanwhile says so itself.
        let mut pipeline = pipe();
        pipeline.cmd("HGET").arg(self.keys.state()).arg(ROLLED);
        let replies = self.read(&mut pipeline).await?;
        let rolled = rolled_up(replies.first().and_then(|reply| reply.as_ref().ok()), now);
        let pending = rolled
            .pending()
            .filter(|minute| *minute >= first && tier != FINEST);
        let slices = starts.map(|start| (tier.seconds, start));
        let slices: Vec<TierSlice> = slices
            .chain(pending.map(|minute| (FINEST.seconds, minute)))
            .collect();
        let mut pipeline = redis::Pipeline::with_capacity(slices.len());
        for slice in &slices {
            let command = pipeline.cmd("HGET").arg(self.keys.records(*slice));
            command.arg(&id.to_bytes());
        }
        let replies = self.read(&mut pipeline).await?;
        let record = |reply: &Reply| pack::read_record(bytes(reply.as_ref().ok()?)?);
        let (mut records, mut pending) = (Vec::new(), Vec::new());
        for ((seconds, start), reply) in slices.into_iter().zip(&replies) {
            let Some(record) = record(reply) else {
                continue;
            };
            match seconds == tier.seconds {
                true => records.push((start, record)),
                false => pending.push((start, record)),
            }
        }
        Ok(combine(width, tier, records, pending))
    }

    pub(super) async fn read_slowest(&self) -> Result<Vec<(String, f64)>, StoreError> {
        if !self.book_keys {
            let contexts = self.read_snapshot(self.now()).await?.contexts;
            let mut ranking: Vec<_> = (contexts.into_iter())
                .filter_map(|context| {
                    let hour = context.hour.or(context.last_hour)?;
                    Some((context.context, hour.times.mean()?))
                })
                .collect();
            slowest::sort(&mut ranking);
            ranking.truncate(slowest::RANKING_LEN);
            return Ok(ranking);
        }
        let mut command = cmd("ZREVRANGE");
        command.arg(self.keys.slowest()).arg(0);
        command.arg(slowest::RANKING_LEN - 1).arg("WITHSCORES");
        let ranking = self.read_key(&command).await?;
        Ok(pairs(&ranking)
            .filter_map(|(name, mean)| Some((text(name)?.to_owned(), float(mean)?)))
            .filter(|(_, mean)| mean.is_finite())
            .collect())
    }

    async fn read_hash(&self, key: &str) -> Result<Value, StoreError> {
        let mut command = cmd("HGETALL");
        command.arg(key);
        self.read_key(&command).await
    }

    /// A key of another type reads as nothing.
    async fn read_key(&self, command: &redis::Cmd) -> Result<Value, StoreError> {
        let mut pipeline = pipe();
        pipeline.add_command(command.clone());
        let replies = self.read(&mut pipeline).await?;
        Ok(replies.into_iter().flatten().next().unwrap_or(Value::Nil))
    }
}

/// The slices of records that an hour and the one before are put together from.
struct HourSlices {
    hour: i64,
    tier: Precision,
    slices: Vec<TierSlice>,
}

impl HourSlices {
    fn new(hour: i64, rolled: &RolledUp) -> Self {
        let hours = hour - HOUR..hour + HOUR;
        let tier = tier_for(HOUR as u32).unwrap_or(FINEST);
        let starts = hours.clone().step_by(tier.seconds as usize);
        let pending = rolled
            .pending()
            .filter(|minute| hours.contains(minute) && tier != FINEST);
        let slices = starts.map(|start| (tier.seconds, start));
        Self {
            hour,
            tier,
            slices: slices
                .chain(pending.map(|minute| (FINEST.seconds, minute)))
                .collect(),
        }
    }

    fn all(&self) -> &[TierSlice] {
        &self.slices
    }

    /// The sums of the hour and of the one before, of the records of these slices by number.
    fn sums<'a>(&self, record: impl Fn(usize) -> Option<&'a Record>) -> [Option<Aggregate>; 2] {
        [self.hour, self.hour - HOUR].map(|hour| {
            let of = |seconds: u32| {
                let slices = self.slices.iter().enumerate();
                let slices = slices.filter(move |(_, slice)| {
                    slice.0 == seconds && (hour..hour + HOUR).contains(&slice.1)
                });
                slices.filter_map(|(at, slice)| Some((slice.1, record(at)?)))
            };
            let pending = of(FINEST.seconds);
            combine(HOUR as u32, self.tier, of(self.tier.seconds), pending)
                .pop()
                .map(|(_, sums)| sums)
        })
    }
}

/// What `rolled` of the state says. A new state says nothing until something is folded: records of an earlier
/// one may be there. Where it cannot be read, slices that are not rolled up are left out.
fn rolled_up(field: Option<&Value>, now: i64) -> RolledUp {
    let mut rolled = RolledUp::from_text(field.and_then(text).unwrap_or_default());
    if field.is_some() && rolled.is_new() {
        rolled.advance(now);
    }
    rolled
}

/// What a context is that only the book's writer knows.
fn kind_of(context: &str) -> Kind {
    match method_and_path(context) {
        (_, Some(_)) => Kind::Http,
        _ => Kind::Timer,
    }
}

/// Samples by slice, without the entries that are none.
fn samples(hash: &Value) -> Vec<(i64, i64)> {
    let mut samples: Vec<_> = pairs(hash)
        .filter_map(|(slice, n)| Some((int(slice)?, int(n)?)))
        .collect();
    samples.sort_unstable();
    samples
}
