//! Bounded reads of keys that may be too large. Before a read of a key to which other programs write, the size of the
//! key is requested. After a large reply or a timeout, the size of every key is requested before it is read. Data that
//! is too large is not read, and a warning names its key until the data is gone.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::{Arg, Cmd, Pipeline, Value, cmd};

use super::RedisStore;
use super::call_keys::words;
use super::connection::Role;
use super::value::{bytes, count, into_items, items, shown};
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::{Result, StoreErrorKind};
use tower_pulse_core::store::table_reads::MAX_NAMES;
use tower_pulse_core::task::lock;
use tower_pulse_model::order::InOrder;

/// The most bytes of a key that is read.
const MAX_KEY_BYTES: usize = 16 << 20;
/// The most bytes of a field of a hash that is read. Records are far smaller.
const MAX_FIELD_BYTES: usize = 1 << 20;
/// The most bytes of several keys that one pipeline reads.
const MAX_BYTES: usize = 24 << 20;
const MAX_NAMED: usize = 20;
/// The time after a timeout during which the size of every key is requested before it is read.
const ASKED_FOR: Duration = Duration::from_secs(60);

/// The reply about a key, or the problem of the key.
pub(super) type Reply = Result<Value, String>;

#[derive(Debug, Default)]
pub(super) struct LargeKeys {
    /// The keys that warnings name, by the packed command that asks for their size.
    named: Mutex<BTreeMap<Vec<u8>, LargeKey>>,
    timed_out_at: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct LargeKey {
    warning: Warning,
    question: Cmd,
    most: usize,
}

impl LargeKeys {
    /// Begins the warning about a key that is too large, or ends the warning. Returns `is_large`.
    pub(super) fn note(
        &self,
        question: &Cmd,
        most: usize,
        is_large: bool,
        warning: impl FnOnce() -> Warning,
    ) -> bool {
        let mut named = lock(&self.named);
        if !is_large {
            named.remove(&question.get_packed_command());
        } else if named.len() < MAX_NAMED {
            let key = LargeKey {
                warning: warning(),
                question: question.clone(),
                most,
            };
            named.insert(question.get_packed_command(), key);
        }
        is_large
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.named).is_empty()
    }

    fn are_suspected(&self) -> bool {
        let has_timed_out = lock(&self.timed_out_at).is_some_and(|at| at.elapsed() < ASKED_FOR);
        let is_unread = |key: &LargeKey| key.warning.condition == Condition::UnreadableKey;
        has_timed_out || lock(&self.named).values().any(is_unread)
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let named = lock(&self.named);
        let mut warnings: Vec<_> = named.values().map(|key| key.warning.clone()).collect();
        warnings.order_by(|a, b| a.text.cmp(&b.text));
        warnings.dedup();
        warnings
    }
}

/// Whether a reply shows that data is larger than `most` bytes: the reply is the size, or the bytes beyond `most`.
fn exceeds(reply: &Value, most: usize) -> bool {
    match reply {
        Value::Int(_) => count(reply).is_some_and(|size| size > most),
        Value::BulkString(beyond) => !beyond.is_empty(),
        _ => false,
    }
}

/// The commands that ask how much data a command would read: the size of each field, or the size of the key and, of a
/// sorted set, the number of its members. Empty if the command itself bounds the reply.
fn questions(command: &Cmd) -> Vec<Cmd> {
    let words = words(command);
    let [name, key, fields @ ..] = &words[..] else {
        return Vec::new();
    };
    let question = |words: &[&[u8]]| Cmd::new().arg(words).take();
    let usage = || question(&[b"MEMORY", b"USAGE", key, b"SAMPLES", b"0"]);
    match *name {
        b"HMGET" => (fields.iter())
            .map(|field| question(&[b"HSTRLEN", key, field]))
            .collect(),
        b"HGETALL" | b"HKEYS" | b"HSCAN" => vec![usage()],
        b"ZRANGE" | b"ZREVRANGE" | b"ZRANGEBYSCORE" | b"ZRANGEBYLEX" => {
            vec![usage(), question(&[b"ZCARD", key])]
        }
        _ => Vec::new(),
    }
}

/// Whether a reply, or a field in it, is above the size limit.
fn is_large(command: &Cmd, reply: &Value) -> bool {
    let bytes = |value| bytes(value).map_or(0, <[u8]>::len);
    let mut sizes = items(reply).iter().map(bytes);
    match command.args_iter().next() {
        Some(Arg::Simple(b"HMGET")) => sizes.any(|size| size > MAX_FIELD_BYTES),
        _ => sizes.sum::<usize>() > MAX_KEY_BYTES,
    }
}

/// The part of a command that is sent.
struct Part {
    command: Option<Cmd>,
    bytes: usize,
    /// For HMGET, whether each field is left out.
    left_out: Vec<bool>,
}

impl Part {
    /// Makes the reply to the whole command from the reply to this part.
    fn whole(self, replies: &mut impl Iterator<Item = Reply>) -> Reply {
        let reply = match self.command {
            Some(_) => replies.next().unwrap_or(Ok(Value::Nil))?,
            None if self.left_out.is_empty() => return Err("it is too large to be read".to_owned()),
            None => Value::Nil,
        };
        if !self.left_out.contains(&true) {
            return Ok(reply);
        }
        let mut values = into_items(reply).into_iter();
        let value = |is_left_out| match is_left_out {
            true => Value::BulkString(Vec::new()),
            false => values.next().unwrap_or(Value::Nil),
        };
        Ok(Value::Array(self.left_out.into_iter().map(value).collect()))
    }
}

impl RedisStore {
    /// Sends read commands, each for one key. A command whose data is too large gets an error as its reply; HMGET gets
    /// empty values for the fields that are too large.
    pub(super) async fn read(&self, pipeline: &mut Pipeline) -> Result<Vec<Reply>> {
        if self.large_keys.are_suspected() {
            return self.read_sized(Role::Read, pipeline).await;
        }
        let replies = self.connections.pipeline(Role::Read, pipeline).await;
        if matches!(&replies, Err(error) if error.kind() == StoreErrorKind::TimedOut) {
            *lock(&self.large_keys.timed_out_at) = Some(Instant::now());
        }
        let replies = replies?;
        let mut read = pipeline.cmd_iter().zip(&replies);
        let has_large =
            read.any(|(command, reply)| matches!(reply, Ok(reply) if is_large(command, reply)));
        match has_large {
            true => self.read_sized(Role::Read, pipeline).await,
            false => Ok(replies),
        }
    }

    /// Like [`Self::read`], but always asks for the sizes first.
    pub(super) async fn read_sized(&self, role: Role, pipeline: &Pipeline) -> Result<Vec<Reply>> {
        let asked: Vec<_> = pipeline.cmd_iter().map(questions).collect();
        let mut all = Pipeline::new();
        for question in asked.iter().flatten() {
            all.add_command(question.clone());
        }
        let replies = self.connections.pipeline(role, &all).await?;
        // For a key of another type, the command itself returns the error.
        let size = |reply: &Reply| reply.as_ref().ok().and_then(count).unwrap_or(0);
        let mut sizes = replies.iter().map(size);
        let commands = pipeline.cmd_iter().zip(&asked);
        let parts = commands.map(|(command, questions)| {
            let sizes: Vec<usize> = sizes.by_ref().take(questions.len()).collect();
            self.part(command, questions, &sizes)
        });
        let parts: Vec<_> = parts.collect();
        let (mut replies, mut group, mut bytes) = (Vec::new(), Pipeline::new(), 0);
        for part in &parts {
            let Some(command) = &part.command else {
                continue;
            };
            if bytes + part.bytes > MAX_BYTES && !group.is_empty() {
                replies.append(&mut self.connections.pipeline(role, &group).await?);
                (group, bytes) = (Pipeline::new(), 0);
            }
            group.add_command(command.clone());
            bytes += part.bytes;
        }
        replies.append(&mut self.connections.pipeline(role, &group).await?);
        let mut replies = replies.into_iter();
        let parts = parts.into_iter();
        Ok(parts.map(|part| part.whole(&mut replies)).collect())
    }

    /// The part of a command to send, from the sizes that its [`questions`] asked for.
    fn part(&self, command: &Cmd, questions: &[Cmd], sizes: &[usize]) -> Part {
        let words = words(command);
        let note = |question: &Cmd, most, size| {
            self.large_keys.note(question, most, size > most, || {
                let key = shown(words.get(1).copied().unwrap_or_default());
                Condition::UnreadableKey.warning(format!("a key is too large: {key}; delete it"))
            })
        };
        let mut part = Part {
            command: Some(command.clone()),
            bytes: 0,
            left_out: Vec::new(),
        };
        match (&words[..], sizes) {
            ([b"HMGET", key, fields @ ..], _) => {
                let mut shortened = cmd("HMGET");
                shortened.arg(*key);
                for ((field, question), size) in fields.iter().zip(questions).zip(sizes) {
                    let is_large = note(question, MAX_FIELD_BYTES, *size);
                    part.left_out.push(is_large);
                    if !is_large {
                        shortened.arg(*field);
                        part.bytes += size;
                    }
                }
                part.command = part.left_out.contains(&false).then_some(shortened);
            }
            (_, [usage, members @ ..]) => {
                part.bytes = match members {
                    // No command reads many more members of a sorted set than `MAX_NAMES`.
                    [members] if *members > MAX_NAMES => usage / members * MAX_NAMES,
                    _ => *usage,
                };
                if note(&questions[0], MAX_KEY_BYTES, part.bytes) {
                    part.command = None;
                }
            }
            _ => {}
        }
        part
    }

    /// Asks for the sizes of the named keys again, and ends the warnings about keys that are no longer too large.
    pub(super) async fn ask_large_keys(&self) {
        let mut questions = Pipeline::new();
        for key in lock(&self.large_keys.named).values() {
            questions.add_command(key.question.clone());
        }
        // If the server fails, the next call fails too, and reports the error.
        let replies = self.connections.pipeline(Role::Write, &questions).await;
        let mut named = lock(&self.large_keys.named);
        for (question, reply) in questions.cmd_iter().zip(replies.unwrap_or_default()) {
            let packed = question.get_packed_command();
            let is_large = |key: &LargeKey| reply.is_ok_and(|reply| exceeds(&reply, key.most));
            if !named.get(&packed).is_some_and(is_large) {
                named.remove(&packed);
            }
        }
    }
}
