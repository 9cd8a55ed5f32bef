//! Reads the current activity of the fleet.

use std::sync::Arc;

use redis::{Value, pipe};

use super::Replies;
use super::counters::slices_of;
use crate::RedisStore;
use crate::value::{bytes, count, float, int, items, pairs, problem, shown, text};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::table_reads::MAX_NAMES;
use tower_pulse_core::store::{INSTANCE_TTL, RECENT_SLICES};
use tower_pulse_model::context::Metric;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::snapshot::{
    AliveInstance, FleetSnapshot, MAX_PATHS_IN_FLIGHT, PathInFlight, Problem,
};

const CHUNK: usize = 100;

impl RedisStore {
    pub(crate) async fn read_fleet(&self, now: i64) -> Result<FleetSnapshot> {
        let mut problems = Vec::new();
        let keys = &self.keys;
        let mut pipeline = pipe();
        let since = now.saturating_sub(INSTANCE_TTL);
        let (instances, most) = (keys.instances(), MAX_NAMES as isize);
        pipeline.zrangebyscore_limit_withscores(&instances, since, "+inf", 0, most);
        pipeline.zcard(keys.contexts()).zcard(keys.timers());
        let finest = self.options.precisions.counters.first();
        let hits = finest.map(|finest| keys.count(finest.seconds, Metric::Hits.as_str()));
        if let Some(hits) = &hits {
            pipeline.cmd("HGETALL").arg(hits);
        }
        let replies = self.read(&mut pipeline).await?;
        let mut replies = Replies::new(replies, &mut problems);
        let instance = |(name, at): (&Value, &Value)| {
            Some(AliveInstance {
                instance: text(name)?.into(),
                last_seen: float(at)? as i64,
                version: None,
                in_flight: None,
                paths: Vec::new(),
                skew: None,
                cleaning: None,
            })
        };
        let alive = replies.next(&instances);
        let mut alive: Vec<_> = (alive.iter().flat_map(pairs))
            .filter_map(instance)
            .collect();
        // A key of another type counts as 0 here. The read of its names reports the problem.
        let mut number = || count(&replies.replies.next()?.ok()?);
        let [pages, timers] = [number(), number()].map(Option::unwrap_or_default);
        let mut recent = Vec::new();
        if let (Some(finest), Some(hits)) = (finest, &hits) {
            let since = finest.slice(now) - RECENT_SLICES * i64::from(finest.seconds);
            recent = replies.next(hits).map_or_else(Vec::new, |v| slices_of(&v));
            recent.retain(|slice| slice.start > since);
        }
        self.read_heartbeats(&mut alive, &mut problems).await?;
        let in_flight = alive.iter().filter_map(|instance| instance.in_flight);
        Ok(FleetSnapshot {
            taken_at: now,
            contexts: pages + timers,
            timers,
            recent,
            instances: alive.len() as u64,
            in_flight: in_flight.fold(0, i64::saturating_add),
            alive: AliveInstance::by_name(alive),
            problems,
        })
    }

    async fn read_heartbeats(
        &self,
        instances: &mut [AliveInstance],
        problems: &mut Vec<Problem>,
    ) -> Result<()> {
        for chunk in instances.chunks_mut(CHUNK) {
            let mut pipeline = pipe();
            for alive in &*chunk {
                let heartbeat = pipeline.cmd("HMGET");
                heartbeat.arg(self.keys.instance(&alive.instance));
                heartbeat.arg(&["in_flight", "app_version", "name"]);
                heartbeat.arg(&["skew", "cleaning", "paths"]);
            }
            let replies = self.read(&mut pipeline).await?;
            for (alive, reply) in chunk.iter_mut().zip(replies) {
                let key = self.keys.instance(&alive.instance);
                let reason = match &reply {
                    Ok(reply) => {
                        let [in_flight, version, name, skew, cleaning, paths] = items(reply) else {
                            continue;
                        };
                        alive.version = text(version).map(Arc::from);
                        alive.in_flight = int(in_flight);
                        alive.skew = int(skew);
                        let paths = bytes(paths).and_then(unpack::<Vec<PathInFlight>>);
                        alive.paths = paths.unwrap_or_default();
                        alive.paths.truncate(MAX_PATHS_IN_FLIGHT);
                        let cleaning = bytes(cleaning).filter(|text| !text.is_empty());
                        alive.cleaning = cleaning.map(shown);
                        if let Some(name) = text(name) {
                            alive.instance = name.into();
                        }
                        // The heartbeat of an instance is missing if the instance has ended meanwhile.
                        if alive.in_flight.is_some() || *in_flight == Value::Nil {
                            continue;
                        }
                        "`in_flight` is not a number"
                    }
                    Err(reason) => reason,
                };
                problems.push(problem(key.as_bytes(), reason));
            }
        }
        Ok(())
    }
}
