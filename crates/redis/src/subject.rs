//! The subject of a call to the server: its command, pipeline or script. An error names the keys of its subject.

use std::fmt;

use redis::{Arg, Cmd, Pipeline};

use super::script::Invocation;
use super::value::shown;

/// The most keys that an error names.
const MAX_NAMED: usize = 10;

/// The command, pipeline or script of a call, or the one key that caused its error.
pub(super) enum Subject<'a> {
    Command(&'a Cmd),
    Pipeline(&'a Pipeline),
    Script(&'a Invocation),
    /// The key that caused the error.
    Key(Vec<u8>),
}

impl Subject<'_> {
    /// The distinct keys of the call, in order.
    pub(super) fn keys(&self) -> Vec<&[u8]> {
        let mut keys = Vec::new();
        let mut add = |key| {
            if !keys.contains(&key) {
                keys.push(key);
            }
        };
        match self {
            Self::Command(command) => key_of(command).into_iter().for_each(add),
            Self::Pipeline(pipeline) => pipeline.cmd_iter().filter_map(key_of).for_each(add),
            Self::Script(invocation) => invocation.keys().for_each(add),
            Self::Key(key) => add(key),
        }
        keys
    }
}

/// The key of a command that this crate sends outside of scripts: the first argument, or the second of MEMORY USAGE.
pub(super) fn key_of(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter();
    let key = match words.next() {
        Some(Arg::Simple(b"MEMORY")) => words.nth(1),
        _ => words.next(),
    };
    match key {
        Some(Arg::Simple(key)) => Some(key),
        _ => None,
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        for (at, key) in keys.iter().take(MAX_NAMED).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}", shown(key))?;
        }
        if keys.len() > MAX_NAMED {
            write!(f, " and {} more keys", keys.len() - MAX_NAMED)?;
        }
        Ok(())
    }
}
