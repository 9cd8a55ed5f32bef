//! Cleaning: a pass is a series of bounded steps. Each step takes the lease; the pass ends if another instance holds
//! it.

use redis::cmd;

use crate::RedisStore;
use crate::connection::Role;
use crate::script::{CLEAN, Invocation, or_empty};
use crate::value::{bytes, int, items, problem};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::{Cleaned, INSTANCE_TTL, Pass};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::{DEFAULT_RETAINED, HOUR, iso_hour};

/// The seconds by which the lease outlasts the time until the next pass.
const LEASE_MARGIN: i64 = 15;

impl RedisStore {
    pub(crate) async fn clean_once(&self, pass: &Pass) -> Result<Option<Cleaned>> {
        let now = self.not_ahead(pass.now).await?;
        let (mut cleaned, mut next) = (Cleaned::default(), ["1", "0", "0"].map(str::to_owned));
        while !next[0].is_empty() {
            let script = self.clean_step(pass, now, &next);
            let reply = self.connections.run(Role::Write, &CLEAN, &script).await?;
            let [_, at @ .., foreign, key, why, precision] = items(&reply) else {
                // Another instance has the lease.
                return Ok(None);
            };
            let [stage, position, cursor, counts @ ..] = at else {
                return Err(self.not_understood("clean.lua"));
            };
            next = [stage, position, cursor].map(|part| or_empty(int(part)));
            let sums = [
                &mut cleaned.examined,
                &mut cleaned.slices,
                &mut cleaned.counters,
                &mut cleaned.contexts,
            ];
            for (sum, count) in sums.into_iter().zip(counts) {
                *sum += int(count).unwrap_or(0).unsigned_abs();
            }
            let key = bytes(key).filter(|key| !key.is_empty());
            if let (Some(key), None) = (key, &cleaned.skipped) {
                let why = bytes(why).unwrap_or_default();
                cleaned.skipped = Some(problem(key, &String::from_utf8_lossy(why)));
                cleaned.skipped_precision = int(precision).unwrap_or(0);
            }
            let foreign = bytes(foreign).unwrap_or_default();
            self.replaced_keys.add(&self.keys.lease(), foreign);
        }
        Ok(Some(cleaned))
    }

    /// The script of a step of a pass at `now`, starting where the previous step ended.
    fn clean_step(&self, pass: &Pass, now: i64, from: &[String; 3]) -> Invocation {
        let keys = &self.keys;
        let ranked = now.saturating_sub(pass.ranking_retention);
        let lease_ttl = pass.interval.saturating_add(LEASE_MARGIN);
        let mut script = Invocation::new(keys.lease(), (&pass.instance, lease_ttl));
        script.key((keys.known(), keys.contexts(), keys.timers()));
        script.key((keys.slowest(), keys.instances()));
        script.arg((from, now, pass.interval));
        script.arg((now.saturating_sub(pass.context_retention), ranked));
        script.arg((now.saturating_sub(INSTANCE_TTL), DEFAULT_RETAINED));
        script.arg((iso_hour(ranked.saturating_sub(HOUR)), keys.count_prefix()));
        script.arg((
            &keys.around_stats(),
            or_empty(self.options.expire_idle_keys.then_some(1)),
        ));
        script.arg(&Metric::ALL.map(Metric::as_str));
        for precision in &self.options.precisions.counters {
            script.arg((precision.seconds, precision.retained));
        }
        script
    }

    /// Limits a time to the server's time: an instance whose clock is ahead must not remove data before its retention
    /// ends.
    async fn not_ahead(&self, now: i64) -> Result<i64> {
        // In tests, a manual clock replaces both the server's clock and the cleaner's.
        if self.clock.is_some() {
            return Ok(now);
        }
        let time = self.connections.call(Role::Write, &cmd("TIME")).await?;
        let seconds = items(&time).first().and_then(int);
        Ok(seconds.map_or(now, |seconds| now.min(seconds)))
    }
}
