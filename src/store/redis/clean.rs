//! What a pass of cleaning does (recipe 2).
//!
//! Everything is removed by scripts that first look whether the lease is still ours, so it may be
//! lost, or the connection break, between any two. How counters are cleaned is in `sweep`.

use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd, pipe};

use super::RedisStore;
use super::connection::{Oversized, Role};
use super::oversized::TOO_LARGE;
use super::script::{CLEAN, FORGET, Invocation, Lua};
use super::value::{ISO_HOUR_LEN, float, int, items, problem, text};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::context::{ALL, Metric};
use crate::model::slice::{HOUR, hour_from_iso};
use crate::store::{CleanReport, INSTANCE_TTL, Pass};

/// Seconds after which a lease that is not prolonged is free.
pub(super) const LEASE_TTL: i64 = 15;
/// A lease is prolonged after so long when there is nothing else to do with it.
const PROLONGED_AFTER: Duration = Duration::from_secs(4);
/// Contexts per script call: below a millisecond of the server's time.
const CONTEXTS_AT_ONCE: usize = 8;
/// Ranks that are looked at. There are no more than a hundred, unless somebody else has added some.
const MAX_RANKS: usize = 1_000;
/// Ranks per pipeline.
const RANKS_AT_ONCE: usize = 100;
/// Problems that are told of one pass.
pub(super) const PROBLEMS_TOLD: usize = 100;

/// How a pass ends early.
pub(super) enum Interrupted {
    /// Another instance has the lease by now.
    Lost,
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A pass under way.
pub(super) struct PassRun<'a> {
    pub(super) store: &'a RedisStore,
    pub(super) pass: &'a Pass,
    /// What our lease says.
    pub(super) token: String,
    /// Whether counters are looked through that seem to be in order.
    pub(super) thorough: bool,
    /// When the lease was last prolonged.
    pub(super) prolonged: Instant,
    pub(super) cleaned: CleanReport,
}

impl PassRun<'_> {
    /// Does the whole pass.
    pub(super) async fn all(&mut self) -> Result<(), Interrupted> {
        self.counters().await?;
        self.contexts().await?;
        self.ranking().await?;
        self.instances().await?;
        Ok(())
    }

    pub(super) fn problem(&mut self, key: &[u8], reason: &str) {
        if self.cleaned.problems.len() < PROBLEMS_TOLD {
            self.cleaned.problems.push(problem(key, reason));
        }
    }

    /// Forgets contexts that have not been seen for long, with all that is known of them.
    async fn contexts(&mut self) -> Result<(), Interrupted> {
        let keys = &self.store.keys;
        let cut_off = self.pass.now.saturating_sub(self.pass.context_retention);
        for index in [keys.contexts(), keys.timers()] {
            // Those that stay would come again: seen under the other kind, or meanwhile, or no name.
            let (mut stay, mut strange) = (0, 0);
            loop {
                let mut old = cmd("ZRANGEBYSCORE");
                old.arg(&index).arg("-inf").arg(cut_off);
                old.arg("LIMIT").arg(stay).arg(CONTEXTS_AT_ONCE);
                let Some(old) = self.of_key(&index, &old).await? else {
                    break;
                };
                let found = items(&old).len();
                let names = items(&old).iter().filter_map(text);
                // The counters of `<all>` are the global ones.
                let names: Vec<&str> = names.filter(|name| *name != ALL).collect();
                strange += found - names.len();
                let forgotten = self.forget(&names, cut_off).await?;
                self.cleaned.contexts += forgotten;
                stay += found - usize::try_from(forgotten).unwrap_or(found).min(found);
                if found < CONTEXTS_AT_ONCE {
                    break;
                }
            }
            if strange > 0 {
                let reason = format!("{strange} members are no context");
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
        let mut script = self.script();
        script.key(keys.contexts());
        script.key(keys.timers());
        script.key(keys.slowest());
        script.key(keys.known());
        script.arg(cut_off.to_string());
        script.arg("ALL");
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
        let reply = self.run(&FORGET, &script).await?;
        Ok(items(&reply).get(1).and_then(int).unwrap_or(0).max(0) as u64)
    }

    /// Takes those out of the ranking of the slowest that nobody visits any more.
    async fn ranking(&mut self) -> Result<(), Interrupted> {
        let keys = &self.store.keys;
        let cut_off = self.pass.now.saturating_sub(self.pass.ranking_retention);
        let mut ranked = cmd("ZREVRANGE");
        ranked.arg(keys.slowest()).arg(0).arg(MAX_RANKS - 1);
        let Some(ranked) = self.of_key(&keys.slowest(), &ranked).await? else {
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
            // Contexts that only the book's writer knows: the ranking is all that names them.
            let mut unknown = Vec::new();
            let old = chunk
                .iter()
                .zip(seen.chunks_exact(3))
                .filter(|(name, seen)| {
                    let number = |at: usize| seen[at].as_ref().ok().and_then(float);
                    let seen_here = match (number(0), number(1)) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        (a, b) => a.or(b),
                    };
                    // Of a context that only the book's writer knows: the end of its last hour.
                    let hour = || seen[2].as_ref().ok().and_then(text).and_then(hour_from_iso);
                    let last = seen_here.or_else(|| hour().map(|start| (start + HOUR) as f64));
                    let old = last.filter(|last| *last <= cut_off as f64);
                    if let (None, Some(last)) = (seen_here, old) {
                        unknown.push((last, **name));
                    }
                    old.is_some()
                });
            let old: Vec<&str> = old.map(|(name, _)| *name).collect();
            if !unknown.is_empty() {
                // So that they are forgotten in the end.
                let mut note = pipe();
                let command = note.cmd("ZADD").arg(keys.contexts()).arg("NX");
                command.arg(&unknown[..]);
                connections.pipeline(Role::Write, &mut note).await?;
            }
            if !old.is_empty() {
                let mut script = self.script();
                script.key(keys.contexts());
                script.key(keys.timers());
                script.key(keys.slowest());
                script.key(keys.known());
                script.arg(cut_off.to_string());
                script.arg("RANK");
                for name in old {
                    script.arg(name);
                    script.arg("0");
                    script.arg("0");
                }
                let reply = self.run(&FORGET, &script).await?;
                let ranks = items(&reply).get(1).and_then(int).unwrap_or(0);
                self.cleaned.ranks += ranks.max(0) as u64;
            }
        }
        Ok(())
    }

    /// Drops instances without a sign of life; their hashes expire by themselves.
    async fn instances(&mut self) -> Result<(), Interrupted> {
        let dead = self.pass.now.saturating_sub(INSTANCE_TTL);
        let mut command = cmd("ZREMRANGEBYSCORE");
        let instances = self.store.keys.instances();
        command.arg(&instances);
        command.arg("-inf").arg(format!("({dead}"));
        let removed = self.of_key(&instances, &command).await?;
        self.cleaned.instances = removed.as_ref().and_then(int).unwrap_or(0).max(0) as u64;
        Ok(())
    }

    /// Sends a command about a key; nothing comes back when the key is of another type, or too large, which
    /// becomes a problem.
    pub(super) async fn of_key(
        &mut self,
        key: &str,
        command: &Cmd,
    ) -> Result<Option<Value>, Interrupted> {
        let mut pipeline = pipe();
        pipeline.add_command(command.clone());
        let connections = &self.store.connections;
        let replies = match connections.pipeline(Role::Write, &mut pipeline).await {
            Err(error) if Oversized::caused(&error) => vec![Err(TOO_LARGE.to_owned())],
            replies => replies?,
        };
        match replies.into_iter().next() {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(reason)) => {
                self.problem(key.as_bytes(), &reason);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// The beginning of every script's call: the lease, and how it is prolonged.
    pub(super) fn script(&self) -> Invocation {
        let mut script = Invocation::default();
        script.key(self.store.keys.lease());
        script.arg(self.token.as_str());
        script.arg(LEASE_TTL.to_string());
        script
    }

    /// Prolongs the lease when nothing has done so for a while.
    pub(super) async fn keep_lease(&mut self) -> Result<(), Interrupted> {
        if self.prolonged.elapsed() >= PROLONGED_AFTER {
            let mut script = self.script();
            script.key(self.store.keys.known());
            self.run(&CLEAN, &script).await?;
        }
        Ok(())
    }

    pub(super) async fn run(
        &mut self,
        lua: &Lua,
        script: &Invocation,
    ) -> Result<Value, Interrupted> {
        let connections = &self.store.connections;
        self.prolonged = Instant::now();
        let reply = connections.run(Role::Write, lua, script).await?;
        match items(&reply).first().and_then(text) {
            Some("LOST") => Err(Interrupted::Lost),
            Some(_) => Ok(reply),
            None => {
                let what = "a script gave an answer that cannot be understood";
                let error = connections.about().error(StoreErrorKind::Unexpected, what);
                Err(Interrupted::Failed(error))
            }
        }
    }
}
