//! Cleaning by one instance of the fleet at a time, each pass once.

use std::time::Instant;

use redis::{Value, cmd, pipe};

use super::RedisStore;
use super::clean::{Interrupted, LEASE_TTL, PassRun};
use super::connection::{Oversized, Role};
use super::problem_log::{self, ProblemRecord};
use super::value::{bytes, int, items, shown, text};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{CleanReport, Pass, PassRecord};

/// The longest token of a lease, which is the number of a pass and the name of an instance.
const MAX_TOKEN_BYTES: usize = 300;

/// What is written down of a pass.
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
    pub(super) async fn clean_once(&self, pass: &Pass) -> Result<Option<CleanReport>, StoreError> {
        let pass = &Pass {
            now: self.not_ahead(pass.now).await?,
            ..pass.clone()
        };
        let token = format!("{}:{}", pass.number(), pass.instance);
        if !self.take(&token, &pass.instance).await? {
            return Ok(None);
        }
        let result = self.clean_with(pass, &token).await;
        // What could not be given up now is taken again by this instance, or expires.
        let released = self.release(&token).await;
        let cleaned = result?;
        released.map(|()| cleaned)
    }

    /// The server's time where ours is ahead of it: an instance with a wrong clock must not take what
    /// is alive for old.
    async fn not_ahead(&self, now: i64) -> Result<i64, StoreError> {
        // Where the server's clock is replaced, the pass's time comes from the same hand.
        if self.clock.is_some() {
            return Ok(now);
        }
        let time = self.connections.call(Role::Write, &cmd("TIME")).await?;
        let seconds = items(&time).first().and_then(int);
        seconds.map(|seconds| now.min(seconds)).ok_or_else(|| {
            let what = "TIME gave an answer that cannot be understood";
            let about = self.connections.about();
            about.error(StoreErrorKind::Unexpected, what)
        })
    }

    /// Takes the lease if it is free, if it is this instance's still, from a pass that failed, or if
    /// it never ends or is of another type: then it is no lease of this crate's.
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
        let strange = match (int(left), holder) {
            (_, Err(reason)) => reason,
            (Some(-1), _) => "it did not end",
            (Some(left), _) if left > 4 * LEASE_TTL => "it did not end soon",
            _ => "",
        };
        let holder = holder.as_ref().ok().and_then(text);
        let holder = holder.and_then(|token| token.split_once(':'));
        if strange.is_empty() && holder.is_none_or(|(_, holder)| holder != instance) {
            return Ok(false);
        }
        connections.call(Role::Write, &set(&[])).await?;
        self.healed.add(lease.as_bytes(), strange.as_bytes());
        Ok(true)
    }

    /// The pass, with the lease in hand.
    async fn clean_with(
        &self,
        pass: &Pass,
        token: &str,
    ) -> Result<Option<CleanReport>, StoreError> {
        let start = Instant::now();
        // Looked at under the lease: who had it before has noted its pass before giving it up.
        let (last, noted) = self.read_note(Role::Write).await?;
        let last = last.map(|last| last.number);
        if last.is_some_and(|last| pass.is_done_by(last)) {
            return Ok(None);
        }
        let mut sweep = PassRun {
            store: self,
            pass,
            token: token.to_owned(),
            thorough: last != Some(pass.number() - 1),
            prolonged: start,
            cleaned: CleanReport::default(),
        };
        match sweep.all().await {
            Ok(()) => {
                let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut cleaned = sweep.cleaned;
                let noted = problem_log::carry_over(&cleaned.problems, noted, pass, &self.keys);
                self.note_pass(pass, &cleaned, &noted, millis).await?;
                cleaned.problems = noted.into_iter().map(|noted| noted.problem).collect();
                Ok(Some(cleaned))
            }
            Err(Interrupted::Lost) => Ok(None),
            Err(Interrupted::Failed(error)) => Err(error),
        }
    }

    /// Gives the lease up, unless it is another's by now.
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

    async fn note_pass(
        &self,
        pass: &Pass,
        cleaned: &CleanReport,
        noted: &[ProblemRecord],
        millis: u64,
    ) -> Result<(), StoreError> {
        let mut note = cmd("HSET");
        note.arg(self.keys.last_pass());
        note.arg("number").arg(pass.number());
        note.arg("at").arg(pass.now);
        note.arg("instance").arg(&pass.instance);
        note.arg("millis").arg(millis);
        note.arg("examined").arg(cleaned.examined);
        note.arg("slices").arg(cleaned.slices);
        note.arg("counters").arg(cleaned.counters);
        note.arg("contexts").arg(cleaned.contexts);
        note.arg("ranks").arg(cleaned.ranks);
        note.arg("instances").arg(cleaned.instances);
        note.arg("problems").arg(problem_log::encode(noted));
        self.connections.call(Role::Write, &note).await.map(drop)
    }

    pub(super) async fn read_last_pass(
        &self,
        side: Role,
    ) -> Result<Option<PassRecord>, StoreError> {
        Ok(self.read_note(side).await?.0)
    }

    async fn read_note(
        &self,
        side: Role,
    ) -> Result<(Option<PassRecord>, Vec<ProblemRecord>), StoreError> {
        let key = self.keys.last_pass();
        let mut pipeline = pipe();
        pipeline.cmd("HMGET").arg(&key).arg(&FIELDS[..]);
        let hash = match self.connections.pipeline(side, &mut pipeline).await {
            Ok(replies) => replies.into_iter().next().unwrap_or(Ok(Value::Nil)),
            Err(error) if Oversized::caused(&error) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let hash = match (hash, side) {
            (Ok(hash), _) => hash,
            // The next pass writes it again.
            (Err(reason), Role::Write) => {
                self.delete_own(side, &key, &reason).await?;
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
        let noted = field("problems").and_then(text);
        let noted = noted.map(problem_log::decode).unwrap_or_default();
        let problems = noted.iter().map(|noted| noted.problem.clone()).collect();
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
        Ok((pass, noted))
    }
}
