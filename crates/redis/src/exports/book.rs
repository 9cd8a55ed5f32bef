//! Reads the statistics of contexts and the ranking of the slowest, to which other programs add too.

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Value, pipe};
use tokio::task::yield_now;

use crate::RedisStore;
use crate::connection::Role;
use crate::read::Replies;
use crate::value::{
    ISO_HOUR_LEN, STATISTICS, access_time, bytes, float, has_scores, items, pairs, shown, text,
};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::StoreFuture;
use tower_pulse_core::store::exports::{
    ExportedHours, ExportedPage, Exports, MAX_EXPORTED_CONTEXTS, kind_of,
};
use tower_pulse_core::store::table_reads::MAX_NAMES;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{HOUR, hour_from_iso, hour_of};
use tower_pulse_model::slowest::{RANKING_LEN, RankedContext};
use tower_pulse_model::snapshot::Problem;

/// The number of commands that read the statistics of a name.
const PER_NAME: usize = 4;
/// The longest name of a context, in bytes. Longer names of other programs are skipped.
const MAX_NAME_BYTES: usize = 1_024;
/// The number of names that are processed before yielding to the runtime.
const NAMES_AT_ONCE: usize = 500;
const SHOWN_BYTES: usize = 100;

/// The kinds of the contexts of each name; empty for a name that only the book's functions have recorded.
type Kinds = HashMap<String, Vec<Kind>>;

struct Listed {
    id: ContextId,
    /// Whether a context of another kind has the same name, and so shares the book's keys.
    is_shared: bool,
    /// Whether only the book's functions have recorded the context.
    is_foreign: bool,
}

/// The contexts, ordered by name, then by kind. Contexts that only the book's functions have recorded come first.
fn listed(names: Kinds) -> Vec<Listed> {
    let contexts = names.into_iter().flat_map(|(name, mut kinds)| {
        let (is_shared, is_foreign) = (kinds.len() > 1, kinds.is_empty());
        if is_foreign {
            kinds.push(kind_of(&name));
        }
        let name = Arc::<str>::from(name);
        kinds.into_iter().map(move |kind| Listed {
            id: ContextId::new(kind, name.clone()),
            is_shared,
            is_foreign,
        })
    });
    let mut contexts: Vec<Listed> = contexts.collect();
    contexts.order_by(|a, b| {
        let order = b.is_foreign.cmp(&a.is_foreign);
        order.then_with(|| (&a.id.name, a.id.kind).cmp(&(&b.id.name, b.id.kind)))
    });
    contexts
}

impl RedisStore {
    async fn read_names(&self, problems: &mut Vec<Problem>) -> Result<Kinds> {
        let keys = &self.keys;
        // The ranking is read first: otherwise, a context that is recorded for the first time meanwhile would seem to
        // be recorded only by the book's functions.
        let sources = [
            (keys.slowest(), None),
            (keys.contexts(), Some(Kind::Http)),
            (keys.timers(), Some(Kind::Timer)),
        ];
        let (mut slowest, mut own) = (pipe(), pipe());
        slowest.zrevrange(&sources[0].0, 0, MAX_NAMES as isize);
        for (key, _) in &sources[1..] {
            own.zrevrange(key, 0, MAX_NAMES as isize);
        }
        let mut replies = self.read_sized(Role::Read, &slowest).await?;
        replies.append(&mut self.read(&mut own).await?);
        let mut replies = Replies::new(replies, problems);
        let members = sources.map(|(key, kind)| (replies.next(&key), key, kind));
        let mut names = Kinds::new();
        for (members, key, kind) in members.into_iter().rev() {
            let members = members.as_ref().map_or(&[][..], items);
            if members.len() > MAX_NAMES {
                let reason = format!(
                    "has more than {MAX_NAMES} members: only the {MAX_NAMES} highest are shown"
                );
                replies.problem(&key, reason);
            }
            for (at, member) in members.iter().take(MAX_NAMES).enumerate() {
                if at % NAMES_AT_ONCE == 0 {
                    yield_now().await;
                }
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
                let kinds = names.entry(name.to_owned()).or_default();
                kinds.extend(kind.filter(|kind| !kinds.contains(kind)));
            }
        }
        names.remove(ALL);
        Ok(names)
    }

    fn ask_for_statistics(&self, pipeline: &mut redis::Pipeline, name: &str) {
        let stats = self.keys.stats(name);
        for start in [&stats.start, &stats.pstart] {
            pipeline.getrange(start, 0, ISO_HOUR_LEN);
        }
        for set in [&stats.current, &stats.last] {
            pipeline.zscore_multiple(set, &STATISTICS);
        }
    }

    /// Reads the statistics of a name from the next replies; `None` without samples in any hour.
    fn statistics_in(
        &self,
        replies: &mut Replies<'_>,
        name: &str,
        now: i64,
    ) -> Option<ExportedHours> {
        let stats = self.keys.stats(name);
        let hour = hour_of(now);
        let start = replies.next(&stats.start);
        let pstart = replies.next(&stats.pstart);
        let [current, last] = [&stats.current, &stats.last].map(|key| replies.next(key));
        let has_samples = |set: &Option<Value>| set.as_ref().is_some_and(has_scores);
        if !has_samples(&current) && !has_samples(&last) {
            return None;
        }
        let iso = |value: Value| text(&value).and_then(hour_from_iso);
        // A current set without a readable hour counts for this hour. A last set without a readable hour is skipped.
        let start = start.map(|start| iso(start).unwrap_or(hour));
        let sets = [
            (start, stats.current, current),
            (pstart.and_then(iso), stats.last, last),
        ];
        let mut hours = ExportedHours::new();
        for (start, key, set) in sets {
            let (Some(start), Some(set)) = (start, set) else {
                continue;
            };
            let is_new = hours.iter().all(|(hour, _)| *hour != start);
            if !is_new || start != hour && start != hour - HOUR {
                continue;
            }
            match access_time(&set) {
                Ok(times) => hours.extend(times.map(|times| (start, times))),
                Err(reason) => replies.problem(&key, reason),
            }
        }
        Some(hours)
    }
}

impl Exports for RedisStore {
    fn statistics<'a>(&'a self, name: &'a str, now: i64) -> StoreFuture<'a, Option<ExportedHours>> {
        Box::pin(async move {
            let slowest = self.keys.slowest();
            let mut pipeline = pipe();
            pipeline.cmd("ZSCORE").arg(&slowest).arg(name);
            self.ask_for_statistics(&mut pipeline, name);
            let replies = self.read(&mut pipeline).await?;
            let mut problems = Vec::new();
            let mut replies = Replies::new(replies, &mut problems);
            let score = replies.next(&slowest);
            let is_ranked = score.as_ref().is_some_and(|score| bytes(score).is_some());
            let hours = self.statistics_in(&mut replies, name, now);
            Ok(hours.or_else(|| is_ranked.then(ExportedHours::new)))
        })
    }

    fn statistics_page(&self, offset: usize, now: i64) -> StoreFuture<'_, ExportedPage> {
        Box::pin(async move {
            let mut problems = Vec::new();
            let names = self.read_names(&mut problems).await?;
            yield_now().await;
            let mut listed = listed(names);
            yield_now().await;
            let foreign = listed.iter().filter(|context| context.is_foreign).count();
            listed.push(Listed {
                id: ContextId::all(),
                is_shared: false,
                is_foreign: false,
            });
            let total = listed.len();
            let page = listed.into_iter().skip(offset).take(MAX_EXPORTED_CONTEXTS);
            let page: Vec<Listed> = page.collect();
            let mut pipeline = redis::Pipeline::with_capacity(PER_NAME * page.len());
            for context in &page {
                self.ask_for_statistics(&mut pipeline, &context.id.name);
            }
            let replies = match page.is_empty() {
                true => Vec::new(),
                false => self.read(&mut pipeline).await?,
            };
            let mut replies = Replies::new(replies, &mut problems);
            let contexts = page.into_iter().map(|context| {
                let hours = self.statistics_in(&mut replies, &context.id.name, now);
                let hours = hours.filter(|_| !context.is_shared);
                (context.id, hours.unwrap_or_default())
            });
            Ok(ExportedPage {
                contexts: contexts.collect(),
                total,
                foreign,
                problems,
            })
        })
    }

    fn slowest(&self, limit: usize) -> StoreFuture<'_, Vec<RankedContext>> {
        Box::pin(async move {
            let mut pipeline = pipe();
            pipeline.zrevrange_withscores(self.keys.slowest(), 0, RANKING_LEN as isize - 1);
            let replies = self.read_sized(Role::Read, &pipeline).await?;
            // A key of another type reads as empty.
            let ranking = replies.into_iter().flatten().next().unwrap_or(Value::Nil);
            let ranking = pairs(&ranking)
                .filter_map(|(name, mean)| Some(RankedContext::new(text(name)?, float(mean)?)))
                .filter(|ranked| ranked.mean.is_finite());
            Ok(ranking.take(limit).collect())
        })
    }
}
