//! Appending calls to the journal in Redis.

use redis::{Cmd, Value};

use super::RedisStore;
use super::connection::Role;
use super::journal::position_of;
use super::script::{APPEND, HELLO, Invocation, or_empty};
use super::value::{bytes, int, items, number, text};
use tower_pulse_core::random::random_name;
use tower_pulse_core::store::{
    Append, Appended, AppendedCall, FencedBatch, Generation, Readable, Receipt, StoreFuture,
    check_precisions,
};
use tower_pulse_model::entry;
use tower_pulse_model::round::PARTITIONS;
use tower_pulse_model::tier::COARSEST;

/// Seconds after which an orphaned journal expires.
const ORPHANED_TTL: i64 = 7 * 86_400;
/// The most bytes of an orphaned journal that are kept.
const ORPHANED_BYTES: usize = 16 * 1024 * 1024;

impl Append for RedisStore {
    fn hello(&self) -> StoreFuture<'_, Generation> {
        Box::pin(async move {
            let keys = &self.keys;
            let begin = (random_name(), PARTITIONS, self.now_arg());
            let mut script = Invocation::new((keys.state(), keys.journal()), begin);
            script.key((keys.orphaned(), keys.contexts(), keys.timers()));
            script.arg((ORPHANED_TTL, ORPHANED_BYTES));
            let reply = self.connections.run(Role::Write, &HELLO, &script).await?;
            let [id, age, is_fresh] = items(&reply) else {
                return Err(self.not_understood("hello.lua"));
            };
            let id = text(id).filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| self.not_understood("hello.lua"))?;
            Ok(Generation {
                id: id.to_owned(),
                age: number(age),
                is_fresh: int(is_fresh) == Some(1),
            })
        })
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> StoreFuture<'a, Appended> {
        Box::pin(async move {
            check_precisions(&call.batch, &self.options.precisions)?;
            let keys = &self.keys;
            let fence = (&call.generation, &call.instance, call.seq, call.previous);
            let mut script = Invocation::new((keys.state(), keys.journal()), fence);
            script.key((keys.fold_lease(), keys.old_journal()));
            script.arg((self.options.journal_bytes, entry::ENTRY_VERSION));
            script.arg((call.batch.requests_and_late(), self.now_arg()));
            script.arg(entry::pack(&call.batch));
            script.arg((or_empty(call.batch.since), COARSEST.span()));
            let reply = self.connections.run(Role::Write, &APPEND, &script).await?;
            if let Some(reason) = items(&reply).get(4).and_then(bytes) {
                let reason = [b"entries of another program, which were removed: ", reason].concat();
                self.replaced_keys.add(&keys.journal(), &reason);
            }
            let appended = appended(&reply).ok_or_else(|| self.not_understood("append.lua"))?;
            if appended == Appended::Garbled {
                let reason = format!("its field f:{} has another form", call.instance);
                self.replaced_keys.add(&keys.state(), reason.as_bytes());
            }
            Ok(appended)
        })
    }

    fn readable<'a>(&'a self, call: &'a AppendedCall) -> StoreFuture<'a, Readable> {
        Box::pin(async move {
            let fence = format!("f:{}", call.instance);
            let command = Cmd::hmget(self.keys.state(), &["gen", "low", &*fence]);
            let reply = self.connections.call(Role::Write, &command).await?;
            let [current, low, fence] = items(&reply) else {
                return Err(self.not_understood("HMGET"));
            };
            let fence = text(fence).and_then(|fence| fence.split(' ').next()?.parse::<u64>().ok());
            let is_lost = text(current) != Some(&*call.generation) || fence.unwrap_or(0) < call.seq;
            Ok(match position_of(low) {
                _ if is_lost => Readable::Lost,
                Some(low) if low.offset >= call.position.offset => Readable::Yes,
                _ => Readable::NotYet,
            })
        })
    }
}

fn appended(reply: &Value) -> Option<Appended> {
    let reply = items(reply);
    let position = |at: usize| reply.get(at).and_then(position_of);
    let receipt = || {
        Some(Receipt {
            position: position(1)?,
            folded: position(2)?,
            has_leader: reply.get(3).and_then(int) == Some(1),
        })
    };
    match text(reply.first()?)? {
        "DONE" => receipt().map(Appended::Done),
        "DUPLICATE" => receipt().map(Appended::Duplicate),
        "GAP" => Some(Appended::Gap {
            fence: text(reply.get(1)?)?.parse().ok()?,
        }),
        "FULL" => Some(Appended::Full),
        "RESET" => Some(Appended::Reset),
        "GARBLED" => Some(Appended::Garbled),
        _ => None,
    }
}
