//! The contexts of a snapshot, with their statistics.

use std::collections::{HashMap, HashSet};

use redis::{Value, pipe};

use super::super::RedisStore;
use super::super::value::{ISO_HOUR_LEN, MAX_STATISTICS, access_time, bytes, items, shown, text};
use super::{MAX_NAMES, ROLLED, Replies, rolled_up};
use crate::error::StoreError;
use crate::model::access_time::AccessTimeStats;
use crate::model::batch::Aggregate;
use crate::model::context::{ALL, ContextId, Kind, method_and_path};
use crate::model::pack;
use crate::model::records::{Record, RecordId, combine};
use crate::model::slice::{HOUR, Precision, hour_from_iso, hour_of};
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Problem, Snapshot};
use crate::model::tier::{FINEST, RolledUp, TierSlice, tier_for};
use crate::store::{BookStatistics, ContextQuery, MAX_BOOK_CONTEXTS};

/// Contexts per pipeline: many enough for few pipelines, few enough not to block the server.
const CHUNK: usize = 100;
/// Commands per context.
const PER_CONTEXT: usize = 4;
/// The longest name of a context, also of one that another program has written.
const MAX_NAME_BYTES: usize = 1_024;
/// Bytes that are shown of a name that cannot be used.
const SHOWN_BYTES: usize = 100;

/// The contexts of the store.
#[derive(Default)]
struct Listing {
    /// The kinds of contexts by their name.
    kinds: HashMap<String, Vec<Kind>>,
    /// The names of contexts that only the book's functions have recorded.
    foreign: HashSet<String>,
}

/// A context to read.
struct Listed {
    id: ContextId,
    /// Whether a context of another kind has the same name, so that they share the book's keys.
    is_shared: bool,
}

impl Listed {
    /// The sum of all HTTP contexts, which is in no list.
    fn all() -> Self {
        Self {
            id: ContextId::all(),
            is_shared: false,
        }
    }
}

impl Listing {
    /// Adds a context. `None`, after all others, for the kind of one that the book's functions have recorded.
    fn add(&mut self, name: &str, kind: Option<Kind>) {
        let kinds = self.kinds.entry(name.to_owned()).or_default();
        match kind {
            Some(kind) if !kinds.contains(&kind) => kinds.push(kind),
            None if kinds.is_empty() => {
                kinds.push(kind_of(name));
                self.foreign.insert(name.to_owned());
            }
            Some(_) | None => {}
        }
    }

    /// The contexts by name, and those of one name by kind.
    fn into_contexts(self) -> Vec<Listed> {
        let names = self.kinds.into_iter();
        let contexts = names.flat_map(|(name, kinds)| {
            let (is_shared, name) = (kinds.len() > 1, std::sync::Arc::<str>::from(name));
            kinds.into_iter().map(move |kind| Listed {
                id: ContextId::new(kind, name.clone()),
                is_shared,
            })
        });
        let mut contexts: Vec<Listed> = contexts.collect();
        contexts.sort_unstable_by(|a, b| (&a.id.name, a.id.kind).cmp(&(&b.id.name, b.id.kind)));
        contexts
    }
}

/// The kind of a context that only the book's functions have recorded.
fn kind_of(context: &str) -> Kind {
    match method_and_path(context) {
        _ if context == ALL => Kind::All,
        (_, Some(_)) => Kind::Http,
        _ => Kind::Timer,
    }
}

impl RedisStore {
    pub(in crate::store::redis) async fn read_snapshot(
        &self,
        now: i64,
    ) -> Result<Snapshot, StoreError> {
        let mut problems = Vec::new();
        let listing = self.read_listing(&mut problems).await?;
        let fleet = self.read_fleet(now).await?;
        problems.extend(fleet.problems);
        let listed = listing.into_contexts();
        let mut contexts = Vec::with_capacity(listed.len());
        for chunk in listed.chunks(CHUNK) {
            let read = self.read_contexts(chunk, now, &mut problems);
            contexts.extend(read.await?);
        }
        let all = [Listed::all()];
        let all = self.read_contexts(&all, now, &mut problems);
        let all = all.await?;
        Ok(Snapshot {
            taken_at: now,
            contexts,
            all: all.into_iter().next().unwrap_or_else(|| ContextSnapshot {
                context: ALL.to_owned(),
                kind: Kind::All,
                hour: None,
                last_hour: None,
            }),
            recent: fleet.recent,
            instances: fleet.instances,
            in_flight: fleet.in_flight,
            problems,
        })
    }

    pub(in crate::store::redis) async fn read_book_statistics(
        &self,
        offset: usize,
        now: i64,
    ) -> Result<BookStatistics, StoreError> {
        let mut problems = Vec::new();
        let listing = self.read_listing(&mut problems).await?;
        let foreign = listing.foreign.clone();
        let listed = listing.into_contexts().into_iter();
        let (mut listed, others): (Vec<Listed>, Vec<Listed>) =
            listed.partition(|context| foreign.contains(&*context.id.name));
        listed.extend(others);
        listed.push(Listed::all());
        let end = listed.len().min(offset.saturating_add(MAX_BOOK_CONTEXTS));
        let page = listed.get(offset..end).unwrap_or_default();
        let contexts = self.read_contexts(page, now, &mut problems);
        Ok(BookStatistics {
            contexts: contexts.await?,
            total: listed.len(),
            foreign: foreign.len(),
            problems,
        })
    }

    /// Lists the contexts.
    async fn read_listing(&self, problems: &mut Vec<Problem>) -> Result<Listing, StoreError> {
        let keys = &self.keys;
        // In this order: a context that is recorded for the first time meanwhile is not taken for one that only the
        // book's functions have recorded.
        let sources = [
            (keys.slowest(), None),
            (keys.contexts(), Some(Kind::Http)),
            (keys.timers(), Some(Kind::Timer)),
        ];
        let mut pipeline = pipe();
        for (key, _) in &sources {
            pipeline.cmd("ZREVRANGE").arg(key).arg(0).arg(MAX_NAMES);
        }
        let replies = self.read(&mut pipeline).await?;
        let mut replies = Replies {
            replies: replies.into_iter(),
            problems,
        };
        let members = sources.map(|(key, kind)| (replies.next(&key), key, kind));
        let mut listing = Listing::default();
        for (members, key, kind) in members.into_iter().rev() {
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
                listing.add(name, kind);
            }
        }
        listing.kinds.remove(ALL);
        Ok(listing)
    }

    /// Reads the statistics before the records, so that every sample in the statistics is in the records too, unless
    /// another program has added it.
    async fn read_contexts(
        &self,
        contexts: &[Listed],
        now: i64,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<ContextSnapshot>, StoreError> {
        if contexts.is_empty() {
            return Ok(Vec::new());
        }
        let hour = hour_of(now);
        let mut pipeline = redis::Pipeline::with_capacity(PER_CONTEXT * contexts.len());
        for context in contexts {
            let stats = self.keys.stats(&context.id.name);
            for start in [&stats.start, &stats.pstart] {
                let command = pipeline.cmd("GETRANGE").arg(start);
                command.arg(0).arg(ISO_HOUR_LEN);
            }
            for set in [&stats.current, &stats.last] {
                let command = pipeline.cmd("ZRANGE").arg(set);
                command.arg(0).arg(MAX_STATISTICS).arg("WITHSCORES");
            }
        }
        pipeline.cmd("HGET").arg(self.keys.state()).arg(ROLLED);
        let mut main = self.read(&mut pipeline).await?;
        let rolled = main.pop().and_then(Result::ok);
        let slices = HourSlices::new(hour, &rolled_up(rolled.as_ref(), now));
        let mut pipeline = redis::Pipeline::with_capacity(slices.all().len());
        for slice in slices.all() {
            let command = pipeline.cmd("HMGET").arg(self.keys.records(*slice));
            for Listed { id, .. } in contexts {
                command.arg(&RecordId::new(id.kind, &id.name).to_bytes());
            }
        }
        let records = self.read(&mut pipeline).await?;
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
            let read = |(at, Listed { id, .. }): (usize, &Listed)| {
                let field = fields.get(at).and_then(bytes)?;
                let record = pack::read_record(field);
                if record.is_none() {
                    let (kind, name) = (id.kind, &id.name);
                    let field = shown(&RecordId::new(kind, name).to_bytes());
                    replies.problem(&key, format!("field {field} ({name}) holds no record"));
                }
                record
            };
            let read: Vec<_> = contexts.iter().enumerate().map(read).collect();
            records.push(read);
        }
        replies.replies = main.into_iter();
        let snapshots = contexts.iter().enumerate();
        Ok(snapshots
            .map(|(at, context)| {
                let sums = slices.sums(|slice| records[slice][at].as_ref());
                self.read_context(&mut replies, context, hour, sums)
            })
            .collect())
    }

    /// One context of the replies to [`read_contexts`](Self::read_contexts).
    fn read_context(
        &self,
        replies: &mut Replies<'_>,
        context: &Listed,
        hour: i64,
        sums: [Option<Aggregate>; 2],
    ) -> ContextSnapshot {
        let stats = self.keys.stats(&context.id.name);
        let start = replies.next(&stats.start);
        let pstart = replies.next(&stats.pstart);
        let current = replies.next(&stats.current);
        let last = replies.next(&stats.last);
        let iso = |value: Value| text(&value).and_then(hour_from_iso);
        let mut sets = Vec::new();
        // A set without an hour counts as this hour's.
        if let (Some(start), Some(set)) = (start.map(|v| iso(v).unwrap_or(hour)), current) {
            sets.push((start, stats.current, set));
        }
        if let (Some(pstart), Some(set)) = (pstart.and_then(iso), last) {
            sets.push((pstart, stats.last, set));
        }
        let mut hour_at = |start: i64, sums: Option<Aggregate>| {
            let set = sets.iter().find(|(of, ..)| *of == start);
            let times = match set.map(|(_, key, set)| (key, access_time(set))) {
                // Only the record has the statistics of this context.
                _ if !self.book_keys || context.is_shared => {
                    AccessTimeStats::from(&sums.as_ref()?.times)
                }
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
                aggregate: sums.unwrap_or_default(),
            })
        };
        let [current, last] = sums;
        ContextSnapshot {
            context: context.id.name.as_ref().to_owned(),
            kind: context.id.kind,
            hour: hour_at(hour, current),
            last_hour: hour_at(hour - HOUR, last),
        }
    }

    /// The contexts of some names.
    pub(in crate::store::redis) async fn read_named(
        &self,
        query: &ContextQuery,
    ) -> Result<Vec<ContextSnapshot>, StoreError> {
        const PER_NAME: usize = 4;
        let keys = &self.keys;
        let mut pipeline = pipe();
        for name in &query.names {
            for key in [keys.contexts(), keys.timers(), keys.slowest()] {
                pipeline.cmd("ZSCORE").arg(key).arg(name);
            }
            let stats = keys.stats(name);
            pipeline.cmd("EXISTS").arg(stats.current).arg(stats.last);
        }
        let replies = self.read(&mut pipeline).await?;
        let mut listing = Listing::default();
        for (name, replies) in query.names.iter().zip(replies.chunks(PER_NAME)) {
            let is_listed =
                |at: usize| matches!(replies.get(at), Some(Ok(v)) if bytes(v).is_some());
            let exists = matches!(replies.get(3), Some(Ok(Value::Int(n))) if *n > 0);
            let kinds = [(0, Kind::Http), (1, Kind::Timer)];
            for (_, kind) in kinds.iter().filter(|(at, _)| is_listed(*at)) {
                listing.add(name, Some(*kind));
            }
            if exists || is_listed(2) {
                listing.add(name, None);
            }
        }
        let (mut contexts, mut problems) = (Vec::new(), Vec::new());
        for chunk in listing.into_contexts().chunks(CHUNK) {
            let read = self.read_contexts(chunk, query.now, &mut problems);
            contexts.extend(read.await?);
        }
        Ok(contexts)
    }
}

/// The slices whose records make up an hour and the hour before.
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

    /// The sums of the hour and of the hour before. `record` returns the record of the slice at an index.
    fn sums<'a>(&self, record: impl Fn(usize) -> Option<&'a Record>) -> [Option<Aggregate>; 2] {
        [self.hour, self.hour - HOUR].map(|hour| {
            let records_of_tier = |seconds: u32| {
                let slices = self.slices.iter().enumerate();
                let slices = slices.filter(move |(_, slice)| {
                    slice.0 == seconds && (hour..hour + HOUR).contains(&slice.1)
                });
                slices.filter_map(|(at, slice)| Some((slice.1, record(at)?)))
            };
            let pending = records_of_tier(FINEST.seconds);
            combine(
                HOUR as u32,
                self.tier,
                records_of_tier(self.tier.seconds),
                pending,
            )
            .pop()
            .map(|slice| slice.sums)
        })
    }
}
