//! Cleaning of contexts, of the ranking and of instances.

use redis::{cmd, pipe};

use super::pass::{PassRun, count};
use crate::connection::Role;
use crate::script::{FORGET, Invocation};
use crate::value::{ISO_HOUR_LEN, float, int, items, text};
use tower_pulse_core::store::INSTANCE_TTL;
use tower_pulse_core::store::interrupted::Interrupted;
use tower_pulse_model::context::{ALL, Metric};
use tower_pulse_model::slice::{HOUR, hour_from_iso};

/// Contexts per call of a script, which then takes less than a millisecond of the server's time.
const CONTEXTS_AT_ONCE: usize = 8;
/// The most ranks that are examined. There are no more than a hundred, unless another program has added some.
const MAX_RANKS: usize = 1_000;
/// Ranks per pipeline.
const RANKS_AT_ONCE: usize = 100;

impl PassRun<'_> {
    /// Forgets contexts that have had no sample for their retention, with all their data.
    pub(super) async fn contexts(&mut self) -> Result<(), Interrupted> {
        let keys = &self.store.keys;
        let cut_off = self.pass.now.saturating_sub(self.pass.context_retention);
        for index in [keys.contexts(), keys.timers()] {
            // Skips members that stay: contexts with samples of the other kind or since, and foreign members.
            let (mut staying, mut foreign) = (0, 0);
            loop {
                let mut old = cmd("ZRANGEBYSCORE");
                old.arg(&index).arg("-inf").arg(cut_off);
                old.arg("LIMIT").arg(staying).arg(CONTEXTS_AT_ONCE);
                let Some(old) = self.query_key(&index, &old).await? else {
                    break;
                };
                let listed = items(&old).len();
                let names = items(&old).iter().filter_map(text);
                // The counters of `<all>` are the global ones.
                let names: Vec<&str> = names.filter(|name| *name != ALL).collect();
                foreign += listed - names.len();
                let forgotten = self.forget(&names, cut_off).await?;
                self.cleaned.contexts += forgotten;
                staying += listed - usize::try_from(forgotten).unwrap_or(listed).min(listed);
                if listed < CONTEXTS_AT_ONCE {
                    break;
                }
            }
            if foreign > 0 {
                let reason = format!("{foreign} members are not contexts; remove them with ZREM");
                self.problem(index.as_bytes(), &reason);
            }
        }
        Ok(())
    }

    async fn forget(&mut self, names: &[&str], cut_off: i64) -> Result<u64, Interrupted> {
        if names.is_empty() {
            return Ok(0);
        }
        let (keys, precisions) = (&self.store.keys, &self.store.precisions);
        let mut script = self.forget_script(cut_off, "ALL");
        for name in names {
            let stats = keys.stats(name);
            let mut gone = vec![stats.current, stats.start, stats.last, stats.pstart];
            let mut members = Vec::new();
            for metric in Metric::ALL {
                let counter = metric.counter(name);
                for precision in &precisions.counters {
                    gone.push(keys.count(precision.seconds, &counter));
                    members.push(format!("{}:{counter}", precision.seconds));
                }
            }
            script.arg(*name);
            script.arg(gone.len().to_string());
            script.arg(members.len().to_string());
            gone.into_iter().for_each(|key| script.key(key));
            members.into_iter().for_each(|member| script.arg(member));
        }
        Ok(count(&self.run(&FORGET, &script).await?, 1))
    }

    /// The start of a script that forgets contexts, or only their ranks.
    fn forget_script(&self, cut_off: i64, what: &str) -> Invocation {
        let keys = &self.store.keys;
        let keys = [keys.contexts(), keys.timers(), keys.slowest(), keys.known()];
        let mut script = self.script(keys);
        script.arg(cut_off.to_string());
        script.arg(what);
        script
    }

    /// Removes contexts that have had no sample for the ranking's retention from the ranking.
    pub(super) async fn ranking(&mut self) -> Result<(), Interrupted> {
        let keys = &self.store.keys;
        let cut_off = self.pass.now.saturating_sub(self.pass.ranking_retention);
        let mut ranked = cmd("ZREVRANGE");
        ranked.arg(keys.slowest()).arg(0).arg(MAX_RANKS - 1);
        let Some(ranked) = self.query_key(&keys.slowest(), &ranked).await? else {
            return Ok(());
        };
        let connections = &self.store.connections;
        let names: Vec<&str> = items(&ranked).iter().filter_map(text).collect();
        for chunk in names.chunks(RANKS_AT_ONCE) {
            let mut pipeline = pipe();
            for name in chunk {
                pipeline.cmd("ZSCORE").arg(keys.contexts()).arg(name);
                pipeline.cmd("ZSCORE").arg(keys.timers()).arg(name);
                let start = pipeline.cmd("GETRANGE").arg(keys.stats(name).start);
                start.arg(0).arg(ISO_HOUR_LEN);
            }
            let seen = connections.pipeline(Role::Write, &mut pipeline).await?;
            // Contexts that only the book's functions have recorded: only the ranking names them.
            let mut unindexed = Vec::new();
            let old = chunk
                .iter()
                .zip(seen.chunks_exact(3))
                .filter(|(name, seen)| {
                    let number = |at: usize| seen[at].as_ref().ok().and_then(float);
                    let last_seen = match (number(0), number(1)) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        (a, b) => a.or(b),
                    };
                    // For a context that only the book's functions have recorded: the end of its last hour.
                    let hour = || seen[2].as_ref().ok().and_then(text).and_then(hour_from_iso);
                    let last = last_seen.or_else(|| hour().map(|start| (start + HOUR) as f64));
                    let old = last.filter(|last| *last <= cut_off as f64);
                    if let (None, Some(last)) = (last_seen, old) {
                        unindexed.push((last, **name));
                    }
                    old.is_some()
                });
            let old: Vec<&str> = old.map(|(name, _)| *name).collect();
            if !unindexed.is_empty() {
                // Lists them as contexts, so that a later pass forgets them.
                let mut listing = pipe();
                let command = listing.cmd("ZADD").arg(keys.contexts()).arg("NX");
                command.arg(&unindexed[..]);
                connections.pipeline(Role::Write, &mut listing).await?;
            }
            if !old.is_empty() {
                let mut script = self.forget_script(cut_off, "RANK");
                for name in old {
                    script.arg(name);
                    script.arg("0");
                    script.arg("0");
                }
                self.cleaned.ranks += count(&self.run(&FORGET, &script).await?, 1);
            }
        }
        Ok(())
    }

    /// Removes instances that send no heartbeats from the list. Their hashes expire by themselves.
    pub(super) async fn instances(&mut self) -> Result<(), Interrupted> {
        let dead = self.pass.now.saturating_sub(INSTANCE_TTL);
        let mut command = cmd("ZREMRANGEBYSCORE");
        let instances = self.store.keys.instances();
        command.arg(&instances);
        command.arg("-inf").arg(format!("({dead}"));
        let removed = self.query_key(&instances, &command).await?;
        self.cleaned.instances = removed.as_ref().and_then(int).unwrap_or(0).max(0) as u64;
        Ok(())
    }
}
