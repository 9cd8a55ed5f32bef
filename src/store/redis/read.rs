//! Reading: snapshots, counters, histograms and the ranking.

use std::collections::BTreeMap;

use redis::{Value, cmd, pipe};

use super::RedisStore;
use super::connection::Side;
use super::packed;
use super::value::{access_time, bytes, float, int, items, pairs, shown, text};
use crate::error::StoreError;
use crate::model::access_time::AccessTime;
use crate::model::batch::Spread;
use crate::model::context::{ALL, Kind, Metric, method_and_path};
use crate::model::slice::{HOUR, hour_from_iso, hour_of};
use crate::model::slowest;
use crate::model::snapshot::{ContextSnapshot, HourSnapshot, Problem, Snapshot};
use crate::store::{ALIVE_FOR, RECENT_SLICES};

/// Contexts per pipeline: large enough to be few, small enough not to hold up the server.
const CHUNK: usize = 100;
/// Commands per context.
const PER_CONTEXT: usize = 5;

type Reply = Result<Value, String>;

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
        self.problems.push(Problem {
            key: key.to_owned(),
            reason: reason.into(),
        });
    }
}

impl RedisStore {
    pub(super) async fn read_snapshot(&self, now: i64) -> Result<Snapshot, StoreError> {
        let keys = &self.keys;
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        let mut pipeline = pipe();
        pipeline.cmd("ZRANGE").arg(keys.contexts()).arg(0).arg(-1);
        pipeline.cmd("ZRANGE").arg(keys.timers()).arg(0).arg(-1);
        pipeline.cmd("ZRANGE").arg(keys.slowest()).arg(0).arg(-1);
        let since = now.saturating_sub(ALIVE_FOR);
        let instances = pipeline.cmd("ZRANGEBYSCORE").arg(keys.instances());
        instances.arg(since).arg("+inf");
        let finest = self.precisions.counters.first();
        let hits = finest.map(|finest| keys.count(finest.seconds, Metric::Hits.name()));
        if let Some(hits) = &hits {
            pipeline.cmd("HGETALL").arg(hits);
        }
        let replies = self.connections.pipeline(Side::Read, &mut pipeline).await?;
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
            for member in replies.next(&key).iter().flat_map(items) {
                let Some(name) = text(member) else {
                    let member = shown(bytes(member).unwrap_or_default());
                    replies.problem(&key, format!("member `{member}` is not UTF-8"));
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

        names.remove(ALL);
        let names: Vec<(String, Kind)> = names.into_iter().collect();
        let mut contexts = Vec::with_capacity(names.len());
        for chunk in names.chunks(CHUNK) {
            contexts.extend(self.read_contexts(chunk, now, &mut problems).await?);
        }
        let all = [(ALL.to_owned(), Kind::All)];
        let all = self.read_contexts(&all, now, &mut problems).await?;
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
            let replies = self.connections.pipeline(Side::Read, &mut pipeline).await?;
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
                problems.push(Problem {
                    key: self.keys.instance(id),
                    reason: reason.to_owned(),
                });
            }
        }
        Ok(sum)
    }

    async fn read_contexts(
        &self,
        contexts: &[(String, Kind)],
        now: i64,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<ContextSnapshot>, StoreError> {
        let hour = hour_of(now);
        let mut pipeline = redis::Pipeline::with_capacity(PER_CONTEXT * contexts.len());
        for (context, _) in contexts {
            let stats = self.keys.stats(context);
            pipeline.cmd("GET").arg(&stats.start);
            pipeline.cmd("GET").arg(&stats.pstart);
            for set in [&stats.current, &stats.last] {
                let command = pipeline.cmd("ZRANGE").arg(set);
                command.arg(0).arg(-1).arg("WITHSCORES");
            }
            let histogram = self.keys.histogram(HOUR as u32, context);
            pipeline
                .cmd("HMGET")
                .arg(histogram)
                .arg(hour)
                .arg(hour - HOUR);
        }
        let replies = self.connections.pipeline(Side::Read, &mut pipeline).await?;
        let mut replies = Replies {
            replies: replies.into_iter(),
            problems,
        };
        let snapshots = contexts.iter();
        Ok(snapshots
            .map(|(context, kind)| self.read_context(&mut replies, context, *kind, hour))
            .collect())
    }

    /// One context of the replies to [`read_contexts`](Self::read_contexts).
    fn read_context(
        &self,
        replies: &mut Replies<'_>,
        context: &str,
        kind: Kind,
        hour: i64,
    ) -> ContextSnapshot {
        let stats = self.keys.stats(context);
        let start = replies.next(&stats.start);
        let pstart = replies.next(&stats.pstart);
        let current = replies.next(&stats.current);
        let last = replies.next(&stats.last);
        let histogram = self.keys.histogram(HOUR as u32, context);
        let histograms = replies.next(&histogram);

        let iso = |value: Value| text(&value).and_then(hour_from_iso);
        let mut sets = Vec::new();
        // A set that does not say its hour counts as this hour's.
        if let (Some(start), Some(set)) = (start.map(|v| iso(v).unwrap_or(hour)), current) {
            sets.push((start, stats.current, set));
        }
        if let (Some(pstart), Some(set)) = (pstart.and_then(iso), last) {
            sets.push((pstart, stats.last, set));
        }
        let fields = histograms.as_ref().map_or(&[][..], items);
        let mut hour_at = |at: i64, field: Option<&Value>| {
            let (_, key, set) = sets.iter().find(|(start, ..)| *start == at)?;
            let times: AccessTime = match access_time(set) {
                Ok(times) => times?,
                Err(reason) => {
                    replies.problem(key, reason);
                    return None;
                }
            };
            let spread = match field.and_then(bytes).map(packed::decode) {
                Some(Some(spread)) => spread,
                None => Spread::default(),
                Some(None) => {
                    replies.problem(&histogram, not_a_histogram(at));
                    Spread::default()
                }
            };
            Some(HourSnapshot {
                start: at,
                times,
                spread,
            })
        };
        ContextSnapshot {
            context: context.to_owned(),
            kind,
            hour: hour_at(hour, fields.first()),
            last_hour: hour_at(hour - HOUR, fields.get(1)),
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
        let replies = self.connections.pipeline(Side::Read, &mut pipeline).await?;
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
        let read = self.read_contexts(&one, now, &mut Vec::new()).await?;
        Ok(read.into_iter().next())
    }

    pub(super) async fn read_counter(
        &self,
        name: &str,
        precision: u32,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let hash = self.read_hash(&self.keys.count(precision, name)).await?;
        Ok(samples(&hash))
    }

    pub(super) async fn read_histograms(
        &self,
        context: &str,
        precision: u32,
    ) -> Result<Vec<(i64, Spread)>, StoreError> {
        let key = self.keys.histogram(precision, context);
        let hash = self.read_hash(&key).await?;
        let mut slices: Vec<_> = pairs(&hash)
            .filter_map(|(slice, field)| Some((int(slice)?, packed::decode(bytes(field)?)?)))
            .collect();
        slices.sort_unstable_by_key(|(slice, _)| *slice);
        Ok(slices)
    }

    pub(super) async fn read_slowest(&self) -> Result<Vec<(String, f64)>, StoreError> {
        let mut command = cmd("ZREVRANGE");
        command.arg(self.keys.slowest()).arg(0);
        command.arg(slowest::KEPT - 1).arg("WITHSCORES");
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
        let replies = self.connections.pipeline(Side::Read, &mut pipeline).await?;
        Ok(replies.into_iter().flatten().next().unwrap_or(Value::Nil))
    }
}

/// What a context is that only the book's writer knows.
fn kind_of(context: &str) -> Kind {
    match method_and_path(context) {
        (_, Some(_)) => Kind::Http,
        _ => Kind::Timer,
    }
}

fn not_a_histogram(slice: i64) -> String {
    format!("slice {slice} holds no histogram; delete the field")
}

/// Samples by slice, without the entries that are none.
fn samples(hash: &Value) -> Vec<(i64, i64)> {
    let mut samples: Vec<_> = pairs(hash)
        .filter_map(|(slice, n)| Some((int(slice)?, int(n)?)))
        .collect();
    samples.sort_unstable();
    samples
}
