//! Appending calls to the journal in Redis.

use redis::{Value, cmd};

use super::RedisStore;
use super::connection::Role;
use super::journal::position_of;
use super::script::{APPEND, HELLO, Invocation};
use super::value::{bytes, int, items, number, text};
use tower_pulse_core::error::Result;
use tower_pulse_core::random::random_name;
use tower_pulse_core::store::{Appended, AppendedCall, FencedBatch, Generation, Readable, Receipt};
use tower_pulse_model::round::PARTITIONS;

/// Seconds after which an orphaned journal expires.
const ORPHANED_TTL: i64 = 7 * 86_400;
/// The most bytes of an orphaned journal that are kept.
const ORPHANED_BYTES: usize = 16 * 1024 * 1024;

impl RedisStore {
    pub(super) async fn say_hello(&self) -> Result<Generation> {
        let keys = &self.keys;
        let begin = (random_name(), PARTITIONS, self.now_arg());
        let mut script = Invocation::new((keys.state(), keys.journal(), keys.orphaned()), begin);
        script.key((keys.contexts(), keys.timers()));
        script.arg((ORPHANED_TTL, ORPHANED_BYTES));
        let reply = self.connections.run(Role::Write, &HELLO, &script).await?;
        let [id, age, is_fresh] = items(&reply) else {
            return Err(self.not_understood("hello.lua"));
        };
        let generation = Generation {
            id: text(id).unwrap_or_default().to_owned(),
            age: number(age),
            is_fresh: int(is_fresh) == Some(1),
        };
        match generation.id.is_empty() {
            true => Err(self.not_understood("hello.lua")),
            false => Ok(generation),
        }
    }

    pub(super) async fn append_call(&self, call: &FencedBatch) -> Result<Appended> {
        let script = self.encode_append(call);
        let reply = self.connections.run(Role::Write, &APPEND, &script).await?;
        if let Some(reason) = items(&reply).get(4).and_then(bytes) {
            let reason = [b"entries of another program, which were removed: ", reason].concat();
            self.replaced_keys.add(&self.keys.journal(), &reason);
        }
        let appended = appended(&reply).ok_or_else(|| self.not_understood("append.lua"))?;
        if appended == Appended::Garbled {
            let reason = format!("its field f:{} is no fence", call.instance);
            self.replaced_keys
                .add(&self.keys.state(), reason.as_bytes());
        }
        Ok(appended)
    }

    pub(super) async fn is_readable(&self, call: &AppendedCall) -> Result<Readable> {
        let mut command = cmd("HMGET");
        command.arg(self.keys.state()).arg("gen").arg("low");
        command.arg(format!("f:{}", call.instance));
        let reply = self.connections.call(Role::Write, &command).await?;
        let [current_generation, low, fence] = items(&reply) else {
            return Err(self.not_understood("HMGET"));
        };
        let fence = text(fence).and_then(|fence| fence.split(' ').next()?.parse::<u64>().ok());
        if text(current_generation) != Some(&*call.generation) || fence.unwrap_or(0) < call.seq {
            return Ok(Readable::Lost);
        }
        Ok(
            match position_of(low).is_some_and(|low| low.offset >= call.position.offset) {
                true => Readable::Yes,
                false => Readable::NotYet,
            },
        )
    }
}

/// Reads the reply of `append.lua`.
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
