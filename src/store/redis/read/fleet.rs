//! What the fleet does now.

use redis::{Value, pipe};

use super::super::RedisStore;
use super::super::value::{int, items, problem, text};
use super::series::slices_of;
use super::{MAX_NAMES, Replies};
use crate::error::StoreError;
use crate::model::context::Metric;
use crate::model::snapshot::{FleetSnapshot, Problem};
use crate::store::{INSTANCE_TTL, RECENT_SLICES};

/// Instances per pipeline.
const CHUNK: usize = 100;

impl RedisStore {
    pub(in crate::store::redis) async fn read_fleet(
        &self,
        now: i64,
    ) -> Result<FleetSnapshot, StoreError> {
        let mut problems = Vec::new();
        let keys = &self.keys;
        let mut pipeline = pipe();
        let since = now.saturating_sub(INSTANCE_TTL);
        let instances = pipeline.cmd("ZRANGEBYSCORE").arg(keys.instances());
        instances.arg(since).arg("+inf");
        instances.arg("LIMIT").arg(0).arg(MAX_NAMES);
        for key in [keys.contexts(), keys.timers()] {
            pipeline.cmd("ZCARD").arg(key);
        }
        let finest = self.precisions.counters.first();
        let hits = finest.map(|finest| keys.count(finest.seconds, Metric::Hits.as_str()));
        if let Some(hits) = &hits {
            pipeline.cmd("HGETALL").arg(hits);
        }
        let replies = self.read(&mut pipeline).await?;
        let mut replies = Replies {
            replies: replies.into_iter(),
            problems: &mut problems,
        };
        let alive: Vec<String> = replies
            .next(&keys.instances())
            .iter()
            .flat_map(items)
            .filter_map(|id| text(id).map(str::to_owned))
            .collect();
        let mut contexts = 0;
        for number in replies.replies.by_ref().take(2) {
            // A key of another type is a problem of those who list it.
            let number = number.ok().as_ref().and_then(int).unwrap_or(0);
            contexts += usize::try_from(number).unwrap_or(0);
        }
        let mut recent = Vec::new();
        if let (Some(finest), Some(hits)) = (finest, &hits) {
            let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
            recent = replies.next(hits).map_or_else(Vec::new, |v| slices_of(&v));
            recent.retain(|slice| slice.start > since);
        }
        Ok(FleetSnapshot {
            taken_at: now,
            contexts,
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
                    // The instance has ended meanwhile.
                    Ok(Value::Nil) => continue,
                    Ok(value) => match int(value) {
                        Some(number) => {
                            sum = sum.saturating_add(number);
                            continue;
                        }
                        None => "`in_flight` is not a number",
                    },
                    Err(reason) => reason,
                };
                problems.push(problem(self.keys.instance(id).as_bytes(), reason));
            }
        }
        Ok(sum)
    }
}
