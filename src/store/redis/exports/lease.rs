//! The lease of cleaning: one instance of the fleet cleans at a time, and each pass is run once.

use std::time::Instant;

use redis::{Value, cmd, pipe};

use super::super::RedisStore;
use super::super::connection::Role;
use super::super::stream::Oversized;
use super::super::value::{bytes, int, items, shown, text};
use super::pass::{LEASE_TTL, PassRun};
use super::problem_log::{self, ProblemRecord};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::interrupted::Interrupted;
use crate::store::{CleanReport, Pass, PassRecord};

/// The longest token of a lease. A token is the number of a pass and the name of an instance.
const MAX_TOKEN_BYTES: usize = 300;

/// The fields of the record of a pass.
const FIELDS: [&str; 11] = [
    "number",
    "at",
    "instance",
    "millis",
    "examined",
    "slices",
    "counters",
    "contexts",
    "ranks",
    "instances",
    "problems",
];

impl RedisStore {
    pub(in crate::store::redis) async fn clean_once(
        &self,
        pass: &Pass,
    ) -> Result<Option<CleanReport>, StoreError> {
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
        let released = self.release(&token).await;
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

    /// Gives up the lease, unless another instance holds it by now.
    async fn release(&self, token: &str) -> Result<(), StoreError> {
        let mut held = cmd("GET");
        held.arg(self.keys.lease());
        let held = self.connections.call(Role::Write, &held).await?;
        if text(&held) == Some(token) {
            let mut free = cmd("DEL");
            free.arg(self.keys.lease());
            self.connections.call(Role::Write, &free).await?;
        }
        Ok(())
    }

    async fn write_pass_record(
        &self,
        pass: &Pass,
        cleaned: &CleanReport,
        problems: &[ProblemRecord],
        millis: u64,
    ) -> Result<(), StoreError> {
        let mut set = cmd("HSET");
        set.arg(self.keys.last_pass());
        set.arg("number").arg(pass.number());
        set.arg("at").arg(pass.now);
        set.arg("instance").arg(&pass.instance);
        set.arg("millis").arg(millis);
        set.arg("examined").arg(cleaned.examined);
        set.arg("slices").arg(cleaned.slices);
        set.arg("counters").arg(cleaned.counters);
        set.arg("contexts").arg(cleaned.contexts);
        set.arg("ranks").arg(cleaned.ranks);
        set.arg("instances").arg(cleaned.instances);
        set.arg("problems").arg(problem_log::encode(problems));
        self.connections.call(Role::Write, &set).await.map(drop)
    }

    pub(in crate::store::redis) async fn read_last_pass(
        &self,
        role: Role,
    ) -> Result<Option<PassRecord>, StoreError> {
        Ok(self.read_pass_record(role).await?.0)
    }

    async fn read_pass_record(
        &self,
        role: Role,
    ) -> Result<(Option<PassRecord>, Vec<ProblemRecord>), StoreError> {
        let key = self.keys.last_pass();
        let mut pipeline = pipe();
        pipeline.cmd("HMGET").arg(&key).arg(&FIELDS[..]);
        let hash = match self.connections.pipeline(role, &mut pipeline).await {
            Ok(replies) => replies.into_iter().next().unwrap_or(Ok(Value::Nil)),
            Err(error) if Oversized::caused(&error) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let hash = match (hash, role) {
            (Ok(hash), _) => hash,
            // The next pass writes the record again.
            (Err(reason), Role::Write) => {
                self.delete_own(role, &key, &reason).await?;
                Value::Nil
            }
            (Err(_), _) => Value::Nil,
        };
        let field = |name: &str| {
            let at = FIELDS.iter().position(|field| *field == name)?;
            items(&hash).get(at)
        };
        let number = |name: &str| field(name).and_then(int);
        let count = |name: &str| {
            number(name)
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(0)
        };
        let records = field("problems").and_then(text);
        let records = records.map(problem_log::decode).unwrap_or_default();
        let problems = (records.iter())
            .map(|record| record.problem.clone())
            .collect();
        let pass = number("number").map(|pass| PassRecord {
            number: pass,
            at: number("at").unwrap_or(0),
            instance: field("instance")
                .and_then(bytes)
                .map_or_else(String::new, shown),
            millis: count("millis"),
            cleaned: CleanReport {
                examined: count("examined"),
                slices: count("slices"),
                counters: count("counters"),
                contexts: count("contexts"),
                ranks: count("ranks"),
                instances: count("instances"),
                problems,
            },
        });
        Ok((pass, records))
    }
}

/// Runs the whole pass.
async fn clean_all(run: &mut PassRun<'_>) -> Result<(), Interrupted> {
    run.counters().await?;
    run.contexts().await?;
    run.ranking().await?;
    run.instances().await
}
