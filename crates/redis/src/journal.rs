//! The journal in Redis: the steps of folding. Each step is one script, which takes effect completely or not at all.

use redis::{ToRedisArgs, Value, cmd};

use super::RedisStore;
use super::connection::Role;
use super::encode::LEASE_MILLIS;
use super::script::{ACQUIRE, AMEND, FOLD, Invocation, Lua, READ, or_empty};
use super::value::{
    bytes, int, into_bytes, into_items, into_pairs, items, number, pairs, shown, text,
};
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::store::journal::{
    Acquired, Amendment, Entries, Entry, FieldValues, FoldStep, Journal, NEWER_GRACE, Progress,
    VersionedResult,
};
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::{Position, StoreFuture};
use tower_pulse_core::task::lock;
use tower_pulse_model::entry::{ENTRY_VERSION, MAX_ENTRY_BYTES};
use tower_pulse_model::pack;

/// The most entries in `{prefix}pulse:aside`.
const MAX_ASIDE: usize = 100;
/// The most bytes of an entry in `{prefix}pulse:aside`.
const ASIDE_BYTES: usize = 256 * 1024;
/// The seconds for which `{prefix}pulse:aside` outlives its newest entry.
const ASIDE_TTL: i64 = 7 * 86_400;
/// The most bytes of an entry, with all its fields, that is read whole.
const READ_ENTRY_BYTES: usize = MAX_ENTRY_BYTES + 1024;
/// The seconds for which a fence outlives the last append of its instance.
const FENCE_TTL: i64 = 86_400;
const FENCES_AT_ONCE: usize = 200;

impl RedisStore {
    pub(super) fn not_understood(&self, command: &str) -> StoreError {
        let message = format!(
            "{command} gave an answer that cannot be understood: delete {} if another program wrote it, else report a bug",
            self.keys.state()
        );
        self.unexpected(&message)
    }

    pub(super) fn unexpected(&self, message: &str) -> StoreError {
        let server_info = &self.connections.server_info;
        server_info.error(StoreErrorKind::Unexpected, message)
    }

    /// The server's time in Unix seconds; `None` if the reply cannot be read.
    pub(super) async fn server_seconds(&self, role: Role) -> Result<Option<i64>> {
        let time = self.connections.call(role, &cmd("TIME")).await?;
        Ok(items(&time).first().and_then(int))
    }

    /// Runs a script that requires a version of the state. Returns the reply, or the reason why the script did nothing.
    pub(super) async fn run_versioned(
        &self,
        lua: &Lua,
        script: &Invocation,
    ) -> Result<VersionedResult<Value>> {
        let reply = self.connections.run(Role::Fold, lua, script).await?;
        match items(&reply).first().and_then(text) {
            Some("DONE" | "READ" | "MINE") => Ok(VersionedResult::Done(reply)),
            Some("STALE") => {
                let version = items(&reply).get(1).and_then(text).unwrap_or_default();
                Ok(VersionedResult::Stale(version.to_owned()))
            }
            Some("ABSENT") => Ok(VersionedResult::Absent),
            _ => Err(self.not_understood("a script of the fold")),
        }
    }

    /// A call of `read.lua`. `entries` has the most bytes of entries to read, and the position after which to begin.
    /// Without `entries`, the script reads fields.
    pub(super) fn read_script(
        &self,
        instance: &str,
        version: &str,
        entries: Option<(u64, Position)>,
    ) -> Invocation {
        let mut script = self.lease_script((version, instance, LEASE_MILLIS));
        let (bytes, from) = entries.unzip();
        script.arg((or_empty(bytes), or_empty(from), self.now_arg()));
        script.arg(READ_ENTRY_BYTES);
        script
    }

    pub(super) fn lease_script(&self, args: impl ToRedisArgs) -> Invocation {
        let keys = &self.keys;
        Invocation::new((keys.state(), keys.journal(), keys.fold_lease()), args)
    }

    fn amend_script(&self, version: &str, next: &str) -> Invocation {
        let keys = &self.keys;
        let at = (keys.state(), keys.journal(), keys.aside());
        Invocation::new(at, (version, next))
    }
}

pub(super) fn position_of(value: &Value) -> Option<Position> {
    text(value)?.parse().ok()
}

fn positions(text: &str) -> Vec<Position> {
    text.split(' ').filter_map(|id| id.parse().ok()).collect()
}

/// Reads an entry with its fields. An entry without the field `p`, the packed batch, is set aside later.
fn entry(value: Value) -> Option<Entry> {
    let [id, fields] = <[Value; 2]>::try_from(into_items(value)).ok()?;
    let mut entry = Entry {
        position: position_of(&id)?,
        appended_at: 0,
        version: 0,
        requests: 0,
        payload: Vec::new(),
    };
    for (field, value) in into_pairs(fields) {
        let count = || text(&value).and_then(|n| n.parse().ok()).unwrap_or(0u64);
        match bytes(&field) {
            Some(b"t") => entry.appended_at = int(&value).unwrap_or(0),
            Some(b"v") => entry.version = count(),
            Some(b"n") => entry.requests = count(),
            Some(b"p") => entry.payload = into_bytes(value).unwrap_or_default(),
            _ => {}
        }
    }
    Some(entry)
}

impl Journal for RedisStore {
    fn acquire<'a>(&'a self, instance: &'a str, version: &'a str) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let mut script = self.lease_script((instance, LEASE_MILLIS, version));
            script.arg((ENTRY_VERSION, NEWER_GRACE, self.now_arg()));
            let reply = self.connections.run(Role::Fold, &ACQUIRE, &script).await?;
            let reply = items(&reply);
            let text_at = |at: usize| reply.get(at).and_then(text);
            match text_at(0) {
                Some("HELD" | "NONE") => Ok(Acquired::HeldByOther),
                Some("NEWER") => Ok(Acquired::Newer),
                Some("MINE") => {
                    if let Some(reason) = reply.get(6).and_then(bytes) {
                        self.replaced_keys.add(&self.keys.fold_lease(), reason);
                    }
                    let committed = reply.get(1).and_then(position_of);
                    Ok(Acquired::Mine(Progress {
                        version: version.to_owned(),
                        committed: committed.ok_or_else(|| self.not_understood("acquire.lua"))?,
                        round_end: reply.get(2).and_then(position_of),
                        done: text_at(3).and_then(pack::from_hex).unwrap_or_default(),
                        unreadable: positions(text_at(4).unwrap_or_default()),
                        rolled: text_at(5).and_then(pack::from_hex).unwrap_or_default(),
                        newest_at: text_at(8).and_then(|at| at.parse().ok()),
                        is_overdue: text_at(7) == Some("1"),
                    }))
                }
                _ => Err(self.not_understood("acquire.lua")),
            }
        })
    }

    fn release<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            // Between the two commands another instance may acquire the lease, which DEL then deletes. This is
            // harmless, because each script checks the version of the state.
            let (lease, connections) = (self.keys.fold_lease(), &self.connections);
            let holder = connections.call(Role::Fold, cmd("GET").arg(&lease)).await?;
            if text(&holder) == Some(instance) {
                connections.call(Role::Fold, cmd("DEL").arg(&lease)).await?;
            }
            Ok(())
        })
    }

    fn read<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        from: Position,
        bytes: u64,
    ) -> StoreFuture<'a, VersionedResult<Entries>> {
        Box::pin(async move {
            let script = self.read_script(instance, version, Some((bytes, from)));
            let reply = match self.run_versioned(&READ, &script).await? {
                VersionedResult::Done(reply) => reply,
                VersionedResult::Stale(version) => return Ok(VersionedResult::Stale(version)),
                VersionedResult::Absent => return Ok(VersionedResult::Absent),
            };
            let (head, now) = (items(&reply).get(1), items(&reply).get(2));
            let (Some(head), Some(now)) = (head.and_then(position_of), now.and_then(int)) else {
                return Err(self.not_understood("read.lua"));
            };
            self.inspect(now).await;
            let Some(Value::Array(entries)) = into_items(reply).pop() else {
                return Err(self.not_understood("read.lua"));
            };
            let entries: Option<Vec<Entry>> = entries.into_iter().map(entry).collect();
            let entries = entries.ok_or_else(|| {
                let message = "holds entries without a position: delete it";
                self.unexpected(&format!("{} {message}", self.keys.journal()))
            })?;
            Ok(VersionedResult::Done(Entries { head, now, entries }))
        })
    }

    fn load_fields<'a>(
        &'a self,
        instance: &'a str,
        version: &'a str,
        fields: &'a [(Table, Vec<Vec<u8>>)],
    ) -> StoreFuture<'a, VersionedResult<Vec<FieldValues>>> {
        Box::pin(self.load_values(instance, version, fields))
    }

    fn fold<'a>(&'a self, step: &'a FoldStep) -> StoreFuture<'a, VersionedResult<()>> {
        Box::pin(async move {
            let script = self.encode_step(step);
            let step = self.run_versioned(&FOLD, &script).await?;
            Ok(step.map(|reply| {
                if let Some(refusal) = items(&reply).get(1).and_then(text) {
                    *lock(&self.untrimmed) = shown(refusal.as_bytes());
                }
            }))
        })
    }

    fn has_trimmed(&self) -> bool {
        lock(&self.untrimmed).is_empty()
    }

    fn amend<'a>(
        &'a self,
        version: &'a str,
        next: &'a str,
        amendment: Amendment<'a>,
    ) -> StoreFuture<'a, VersionedResult<()>> {
        Box::pin(async move {
            let mut script = self.amend_script(version, next);
            match amendment {
                Amendment::CloseHole => script.arg("HOLE"),
                Amendment::WaitForNewer(entry) => {
                    script.arg(("NEWER", entry.position.to_string()));
                    script.arg((entry.version, self.now_arg()));
                }
                Amendment::SetAside(entry) => {
                    // Only entries of this crate have a version. They count as at least one request, and entries of
                    // another program as none.
                    let requests = entry.requests.clamp(u64::from(entry.version > 0), 1 << 50);
                    script.arg((entry.position.to_string(), requests));
                    script.arg((MAX_ASIDE, ASIDE_BYTES, ASIDE_TTL));
                }
            }
            Ok(self.run_versioned(&AMEND, &script).await?.map(|reply| {
                if let Some(reason) = items(&reply).get(2).and_then(bytes) {
                    self.replaced_keys.add(&self.keys.aside(), reason);
                }
                if matches!(amendment, Amendment::SetAside(entry) if entry.version == 0) {
                    let reason = b"an entry of another program, which was set aside";
                    self.replaced_keys.add(&self.keys.journal(), reason);
                }
            }))
        })
    }

    fn remove_fences<'a>(&'a self, version: &'a str) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let time = match &self.clock {
                Some(clock) => clock.now_seconds(),
                None => self.server_seconds(Role::Fold).await?.unwrap_or(0),
            };
            let (mut cursor, mut removed) = (b"0".to_vec(), 0);
            loop {
                let mut scan = cmd("HSCAN");
                scan.arg(self.keys.state()).arg(&cursor);
                scan.arg(("MATCH", "f:*", "COUNT", FENCES_AT_ONCE));
                let page = self.connections.call(Role::Fold, &scan).await?;
                let [next, fields] = items(&page) else {
                    return Err(self.not_understood("HSCAN"));
                };
                let old = pairs(fields).filter(|(_, value)| {
                    let at = text(value).and_then(|value| value.split(' ').nth(1)?.parse().ok());
                    at.is_none_or(|at: i64| at < time.saturating_sub(FENCE_TTL))
                });
                let old: Vec<_> = old.collect();
                if !old.is_empty() {
                    let mut script = self.amend_script(version, version);
                    script.arg("FENCES");
                    for (field, value) in old {
                        script.arg(&[field, value].map(|part| bytes(part).unwrap_or_default()));
                    }
                    let VersionedResult::Done(reply) = self.run_versioned(&AMEND, &script).await?
                    else {
                        return Ok(removed);
                    };
                    removed += items(&reply).get(1).map_or(0, number);
                }
                cursor = bytes(next).unwrap_or(b"0").to_vec();
                if cursor == b"0" {
                    return Ok(removed);
                }
            }
        })
    }
}
