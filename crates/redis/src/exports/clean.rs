//! Cleaning: a pass is a series of bounded steps. Each step acquires or renews the lease. The pass ends if another
//! instance holds the lease.

use crate::RedisStore;
use crate::connection::Role;
use crate::script::{CLEAN, Invocation, or_empty};
use crate::value::{bytes, int, items, number, problem};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::{Cleaned, INSTANCE_TTL, Pass};
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::{DEFAULT_RETAINED, HOUR, iso_hour};

/// The seconds by which the lease is longer than the time between two passes.
const LEASE_MARGIN: i64 = 15;

impl RedisStore {
    pub(crate) async fn clean_once(&self, pass: &Pass) -> Result<Option<Cleaned>> {
        // An instance whose clock is ahead must not remove data before its retention ends. In tests, a manual clock
        // replaces both the server's clock and the cleaner's.
        let now = match self.clock {
            Some(_) => None,
            None => self.server_seconds(Role::Write).await?,
        };
        let now = now.map_or(pass.now, |now| now.min(pass.now));
        let (mut cleaned, mut next) = (Cleaned::default(), ["1", "0", "0"].map(str::to_owned));
        while !next[0].is_empty() {
            let script = self.clean_step(pass, now, &next);
            let reply = self.connections.run(Role::Write, &CLEAN, &script).await?;
            let [_, at @ .., foreign, key, why, precision] = items(&reply) else {
                // Another instance has the lease.
                return Ok(None);
            };
            let [
                stage,
                position,
                cursor,
                examined,
                slices,
                counters,
                contexts,
            ] = at
            else {
                return Err(self.not_understood("clean.lua"));
            };
            next = [stage, position, cursor].map(|part| or_empty(int(part)));
            cleaned.examined += number(examined);
            cleaned.slices += number(slices);
            cleaned.counters += number(counters);
            cleaned.contexts += number(contexts);
            let key = bytes(key).filter(|key| !key.is_empty());
            if let (Some(key), None) = (key, &cleaned.skipped) {
                let why = bytes(why).unwrap_or_default();
                cleaned.skipped = Some(problem(key, &String::from_utf8_lossy(why)));
                cleaned.skipped_precision = int(precision).unwrap_or(0);
            }
            let foreign = bytes(foreign).unwrap_or_default();
            self.replaced_keys.add(&self.keys.clean_lease(), foreign);
        }
        Ok(Some(cleaned))
    }

    /// The step that begins at `from`, where the previous step ended.
    fn clean_step(&self, pass: &Pass, now: i64, from: &[String; 3]) -> Invocation {
        let keys = &self.keys;
        let ranked = now.saturating_sub(pass.ranking_retention);
        let lease_ttl = pass.interval.saturating_add(LEASE_MARGIN);
        let mut script = Invocation::new(keys.clean_lease(), (&pass.instance, lease_ttl));
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
}
