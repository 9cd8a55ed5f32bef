//! A pass of cleaning under way (*cleaning counters* in [`guide::recipes`](https://docs.rs/tower-pulse/latest/tower_pulse/guide/recipes/index.html)).
//!
//! Data is removed by scripts, each of which first checks that this instance still holds the lease. The lease may
//! therefore be lost, or the connection break, between any two scripts. `sweep` cleans the counters, `clean` all
//! other data, and `lease` runs both under the lease.

use std::time::{Duration, Instant};

use redis::{Cmd, Value, pipe};

use crate::RedisStore;
use crate::connection::Role;
use crate::script::{CLEAN, Invocation, Lua};
use crate::value::{int, items, problem, text};
use tower_pulse_core::error::StoreErrorKind;
use tower_pulse_core::store::interrupted::Interrupted;
use tower_pulse_core::store::{CleanReport, Pass};

/// Seconds after which a lease expires unless it is prolonged.
pub(super) const LEASE_TTL: i64 = 15;
/// The lease is prolonged after this time if no script has prolonged it.
const PROLONGED_AFTER: Duration = Duration::from_secs(4);
/// The most problems that a pass reports.
pub(super) const MAX_PROBLEMS: usize = 100;

/// A pass under way.
pub(super) struct PassRun<'a> {
    pub(super) store: &'a RedisStore,
    pub(super) pass: &'a Pass,
    /// The value of this instance's lease.
    pub(super) token: String,
    /// Whether the slices of all counters are listed, also of those that seem to be in order.
    pub(super) thorough: bool,
    /// When the lease was last prolonged.
    pub(super) prolonged: Instant,
    pub(super) cleaned: CleanReport,
}

impl PassRun<'_> {
    pub(super) fn problem(&mut self, key: &[u8], reason: &str) {
        if self.cleaned.problems.len() < MAX_PROBLEMS {
            self.cleaned.problems.push(problem(key, reason));
        }
    }

    /// Sends a command about a key. `None` if the key is of another type or too large, which is reported as a
    /// problem.
    pub(super) async fn query_key(
        &mut self,
        key: &str,
        command: &Cmd,
    ) -> Result<Option<Value>, Interrupted> {
        let mut pipeline = pipe();
        pipeline.add_command(command.clone());
        let replies = self.store.read_sized(Role::Write, &pipeline).await?;
        match replies.into_iter().next() {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(reason)) => {
                self.problem(key.as_bytes(), &reason);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// A script with its first keys and arguments: the lease, its token, its time to live, and keys of the script.
    pub(super) fn script(&self, keys: impl IntoIterator<Item = String>) -> Invocation {
        let mut script = Invocation::default();
        script.key(self.store.keys.lease());
        keys.into_iter().for_each(|key| script.key(key));
        script.arg(self.token.as_str());
        script.arg(LEASE_TTL.to_string());
        script
    }

    /// Prolongs the lease if no script has done so for a while.
    pub(super) async fn keep_lease(&mut self) -> Result<(), Interrupted> {
        if self.prolonged.elapsed() >= PROLONGED_AFTER {
            let script = self.script([self.store.keys.known()]);
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
                let message = "a script of cleaning gave an answer that cannot be understood; is it a Redis or Valkey?";
                let error = connections
                    .server_info()
                    .error(StoreErrorKind::Unexpected, message);
                Err(Interrupted::Failed(error))
            }
        }
    }
}

/// How many a script has removed, at a place of its reply.
pub(super) fn count(reply: &Value, at: usize) -> u64 {
    items(reply).get(at).and_then(int).unwrap_or(0).max(0) as u64
}
