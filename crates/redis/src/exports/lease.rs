//! The lease of cleaning: one instance of the fleet cleans at a time, and each pass is run once.

use std::time::Instant;

use redis::{Value, cmd, pipe};

use super::pass::{LEASE_TTL, PassRun};
use super::problem_log;
use crate::RedisStore;
use crate::connection::Role;
use crate::value::{int, items, text};
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::store::interrupted::Interrupted;
use tower_pulse_core::store::{CleanReport, Pass};

/// The longest token of a lease. A token is the number of a pass and the name of an instance.
const MAX_TOKEN_BYTES: usize = 300;

impl RedisStore {
    pub(crate) async fn clean_once(&self, pass: &Pass) -> Result<Option<CleanReport>, StoreError> {
        let pass = &Pass {
            now: self.not_ahead(pass.now).await?,
            ..pass.clone()
        };
        let token = format!("{}:{}", pass.number(), pass.instance);
        if !self.take(&token, &pass.instance).await? {
            return Ok(None);
        }
        let result = self.clean_with(pass, &token).await;
        // A lease that could not be given up is taken again by this instance, or expires.
        let lease = self.keys.lease();
        let released = self.release_lease(Role::Write, lease, &token).await;
        let cleaned = result?;
        released.map(|()| cleaned)
    }

    /// Limits a time to the server's, as an instance whose clock is ahead must not remove data before its
    /// retention has passed.
    async fn not_ahead(&self, now: i64) -> Result<i64, StoreError> {
        // In tests, a manual clock replaces the server's clock as well as the cleaner's.
        if self.clock.is_some() {
            return Ok(now);
        }
        let time = self.connections.call(Role::Write, &cmd("TIME")).await?;
        let seconds = items(&time).first().and_then(int);
        seconds.map(|seconds| now.min(seconds)).ok_or_else(|| {
            let message = "TIME gave an answer that cannot be understood; is it a Redis or Valkey?";
            let server_info = self.connections.server_info();
            server_info.error(StoreErrorKind::Unexpected, message)
        })
    }

    /// Takes the lease if it is free, or if this instance still holds it from a failed pass. Also takes a key
    /// that never expires or is of another type, as it is not a lease of this crate.
    async fn take(&self, token: &str, instance: &str) -> Result<bool, StoreError> {
        let lease = self.keys.lease();
        let set = |condition: &[&str]| {
            let mut set = cmd("SET");
            set.arg(&lease).arg(token).arg("EX").arg(LEASE_TTL);
            set.arg(condition);
            set
        };
        let connections = &self.connections;
        if connections.call(Role::Write, &set(&["NX"])).await? != Value::Nil {
            return Ok(true);
        }
        let mut held = pipe();
        held.cmd("TTL").arg(&lease);
        held.cmd("GETRANGE").arg(&lease).arg(0).arg(MAX_TOKEN_BYTES);
        let held = connections.pipeline(Role::Write, &mut held).await?;
        let [Ok(left), holder] = &held[..] else {
            return Err(self.not_understood("TTL"));
        };
        let foreign_reason = match (int(left), holder) {
            (_, Err(reason)) => reason,
            (Some(-1), _) => "it did not end",
            (Some(left), _) if left > 4 * LEASE_TTL => "it did not end soon",
            _ => "",
        };
        let holder = holder.as_ref().ok().and_then(text);
        let holder = holder.and_then(|token| token.split_once(':'));
        if foreign_reason.is_empty() && holder.is_none_or(|(_, holder)| holder != instance) {
            return Ok(false);
        }
        connections.call(Role::Write, &set(&[])).await?;
        self.replaced_keys
            .add(lease.as_bytes(), foreign_reason.as_bytes());
        Ok(true)
    }

    /// Runs a pass under the lease.
    async fn clean_with(
        &self,
        pass: &Pass,
        token: &str,
    ) -> Result<Option<CleanReport>, StoreError> {
        let start = Instant::now();
        // Read under the lease: the previous holder has written its pass before it gave up the lease.
        let (last, known_problems) = self.read_pass_record(Role::Write).await?;
        let last = last.map(|last| last.number);
        if last.is_some_and(|last| pass.is_done_by(last)) {
            return Ok(None);
        }
        let mut run = PassRun {
            store: self,
            pass,
            token: token.to_owned(),
            thorough: last != Some(pass.number() - 1),
            prolonged: start,
            cleaned: CleanReport::default(),
        };
        match clean_all(&mut run).await {
            Ok(()) => {
                let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut cleaned = run.cleaned;
                let problems =
                    problem_log::carry_over(&cleaned.problems, known_problems, pass, &self.keys);
                self.write_pass_record(pass, &cleaned, &problems, millis)
                    .await?;
                cleaned.problems = problems.into_iter().map(|record| record.problem).collect();
                Ok(Some(cleaned))
            }
            Err(Interrupted::Lost) => Ok(None),
            Err(Interrupted::Failed(error)) => Err(error),
        }
    }
}

/// Runs the whole pass.
async fn clean_all(run: &mut PassRun<'_>) -> Result<(), Interrupted> {
    run.counters().await?;
    run.contexts().await?;
    run.ranking().await?;
    run.instances().await
}
