//! Reading many keys of which some are too large: the oversized keys are named, and all others are read.
//!
//! Usually one pipeline reads all keys. When its answer is too large, the keys are read in small groups, and then
//! one by one. A key that is too large by itself is left out for a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Arg, Cmd, Pipeline, Value, cmd};

use super::RedisStore;
use super::connection::Role;
use super::stream::Oversized;
use super::subject::key_of;
use super::value::shown;
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::StoreError;
use tower_pulse_core::task::lock;

/// How long an oversized key is left out.
const LEFT_OUT_FOR: Duration = Duration::from_secs(60);
/// Keys per group after the answer about all keys was too large.
const KEYS_AT_ONCE: usize = 16;
/// The most answers of one read that may be too large, unless more keys than that are answered. Beyond it, the
/// server is the cause and not the keys.
const MAX_OVERSIZED: usize = 16;
/// The most bytes of one key, and of all keys of one read, when keys are read in groups.
const MAX_KEY_BYTES: usize = 12 * 1024 * 1024;
const MAX_BYTES: usize = 28 * 1024 * 1024;

pub(super) const TOO_LARGE: &str = "it is too large to be read: delete it";

/// The reply about a key, or the problem of the key.
pub(super) type Reply = Result<Value, String>;

/// The oversized keys.
#[derive(Debug, Default)]
pub(super) struct OversizedKeys(Mutex<LeftOut>);

#[derive(Debug, Default)]
struct LeftOut {
    /// The packed commands whose answers are too large, with their keys.
    commands: HashMap<Vec<u8>, (Instant, Vec<u8>)>,
    /// When a read was given up because nearly all answers were too large.
    given_up: Option<Instant>,
}

impl OversizedKeys {
    fn lock(&self) -> std::sync::MutexGuard<'_, LeftOut> {
        let mut left_out = lock(&self.0);
        let is_recent = |at: &Instant| at.elapsed() < LEFT_OUT_FOR;
        left_out.commands.retain(|_, (at, _)| is_recent(at));
        left_out.given_up = left_out.given_up.filter(is_recent);
        left_out
    }

    fn is_empty(&self) -> bool {
        self.lock().commands.is_empty()
    }

    fn add(&self, command: &Cmd) {
        // Only TIME has no key.
        let Some(key) = key_of(command) else { return };
        let at = (Instant::now(), key.to_vec());
        self.lock()
            .commands
            .insert(command.get_packed_command(), at);
    }

    fn contains(&self, command: &Cmd) -> bool {
        let packed = command.get_packed_command();
        self.lock().commands.contains_key(&packed)
    }

    /// Whether a field of the command's key is too large.
    fn contains_key_of(&self, command: &Cmd) -> bool {
        let key = key_of(command);
        let left_out = self.lock();
        let mut keys = left_out.commands.values();
        keys.any(|(_, other)| Some(&**other) == key)
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let left_out = self.lock();
        let mut keys: Vec<_> = left_out.commands.values().map(|(_, key)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        let warning = |key: &Vec<u8>| {
            Condition::UnreadableKey.warning(format!("{}: {TOO_LARGE}", shown(key)))
        };
        keys.into_iter().map(warning).collect()
    }
}

impl RedisStore {
    /// Sends reading commands, each about one key. A command whose answer is too large is answered by an error.
    /// Of HMGET, only the oversized fields are replaced, by empty values.
    pub(super) async fn read(&self, pipeline: &mut Pipeline) -> Result<Vec<Reply>, StoreError> {
        let mut is_divided = false;
        if self.oversized.is_empty() {
            match self.connections.pipeline(Role::Read, pipeline).await {
                Err(error) if self.should_divide(&error) => is_divided = true,
                result => return result,
            }
        }
        let divided: Vec<Option<Vec<Cmd>>> = (pipeline.cmd_iter())
            .map(|command| {
                let is_divided = is_divided || self.oversized.contains_key_of(command);
                fields_of(command).filter(|_| is_divided)
            })
            .collect();
        let parts: Vec<Cmd> = (pipeline.cmd_iter().zip(&divided))
            .flat_map(|(command, parts)| match parts {
                Some(parts) => parts.clone(),
                None => vec![command.clone()],
            })
            .collect();
        let size = if is_divided {
            KEYS_AT_ONCE
        } else {
            parts.len()
        };
        let mut replies = self.read_in_groups(&parts, size).await?.into_iter();
        let whole_reply = |parts: &Option<Vec<Cmd>>| match parts {
            Some(parts) => joined(replies.by_ref().take(parts.len())),
            None => replies.next().unwrap_or(Ok(Value::Nil)),
        };
        Ok(divided.iter().map(whole_reply).collect())
    }

    /// Whether the keys should be read in smaller groups after this error.
    fn should_divide(&self, error: &StoreError) -> bool {
        Oversized::caused(error) && self.oversized.lock().given_up.is_none()
    }

    /// Reads in groups of `size`, and divides groups whose answer is too large.
    async fn read_in_groups(&self, parts: &[Cmd], size: usize) -> Result<Vec<Reply>, StoreError> {
        let mut replies = vec![Err(TOO_LARGE.to_owned()); parts.len()];
        let unread: Vec<usize> = (0..parts.len())
            .filter(|at| !self.oversized.contains(&parts[*at]))
            .collect();
        let groups = unread.chunks(size.max(1)).map(<[_]>::to_vec);
        // Large groups are read first, as they show soonest whether most keys can be read.
        let mut groups: VecDeque<Vec<usize>> = groups.collect();
        let (mut bytes, mut answered, mut oversized) = (0, 0, 0);
        while let Some(group) = groups.pop_front() {
            let mut pipeline = Pipeline::with_capacity(group.len());
            for at in &group {
                pipeline.add_command(parts[*at].clone());
            }
            match self.connections.pipeline(Role::Read, &mut pipeline).await {
                Ok(group_replies) => {
                    answered += group_replies.len();
                    for (at, reply) in group.iter().zip(group_replies) {
                        let size = reply.as_ref().map_or(0, size_of_value);
                        let has_key = key_of(&parts[*at]).is_some();
                        if has_key && (size > MAX_KEY_BYTES || bytes + size > MAX_BYTES) {
                            self.oversized.add(&parts[*at]);
                        } else {
                            bytes += size;
                            replies[*at] = reply;
                        }
                    }
                }
                Err(error) if self.should_divide(&error) => {
                    oversized += 1;
                    if oversized > MAX_OVERSIZED && oversized > answered {
                        self.oversized.lock().given_up = Some(Instant::now());
                        return Err(error);
                    }
                    match group[..] {
                        [at] => self.oversized.add(&parts[at]),
                        [.., _] if group.len() > KEYS_AT_ONCE => {
                            groups.extend(group.chunks(KEYS_AT_ONCE).map(<[_]>::to_vec));
                        }
                        _ => groups.extend(group.chunks(1).map(<[_]>::to_vec)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(replies)
    }
}

/// Divides HMGET into one HGET for each field. `None` for every other command.
fn fields_of(command: &Cmd) -> Option<Vec<Cmd>> {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        // Only SCAN commands have cursors, and none of them is read here.
        _ => &b"0"[..],
    });
    if words.next() != Some(b"HMGET") {
        return None;
    }
    let key = words.next()?;
    let field = |field: &[u8]| cmd("HGET").arg(key).arg(field).clone();
    Some(words.map(field).collect())
}

/// Joins the replies about fields to the reply of HMGET.
fn joined(replies: impl Iterator<Item = Reply>) -> Reply {
    let values = replies.map(|reply| match reply {
        Err(reason) if reason == TOO_LARGE => Ok(Value::BulkString(Vec::new())),
        reply => reply,
    });
    values.collect::<Result<_, _>>().map(Value::Array)
}

/// The approximate size of a value in bytes.
fn size_of_value(value: &Value) -> usize {
    let bytes = match value {
        Value::BulkString(bytes) => bytes.len(),
        Value::SimpleString(text) => text.len(),
        Value::Array(values) => values.iter().map(size_of_value).sum(),
        _ => 0,
    };
    size_of::<Value>() + bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_key_is_never_left_out() {
        let oversized = OversizedKeys::default();
        oversized.add(&cmd("TIME"));
        assert!(oversized.is_empty());
        oversized.add(cmd("GET").arg("a"));
        let warnings = oversized.warnings();
        assert!(matches!(&warnings[..], [one] if one.text.starts_with("a: ")));
    }
}
