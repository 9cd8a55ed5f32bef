//! Checks that the user may run all commands of a store before any of them runs. Without this check, a script would
//! stop half-way at the first denied command. After a denial, only the denied command is checked until it is permitted.

use std::ops::Range;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, cmd};

use super::commands::commands;
use super::error::real_code;
use super::keys::Keys;

/// The [`commands`] of a store, for keys with a prefix.
pub(super) struct Permissions(Vec<Cmd>);

impl Permissions {
    pub(super) fn new(keys: &Keys, is_read_only: bool) -> Self {
        let commands = commands(is_read_only).map(|example| {
            let mut words = example.split(' ');
            let mut command = cmd(words.next().unwrap_or_default());
            for word in words {
                command.arg(match word {
                    "P" => keys.probe(),
                    "C" => keys.count(1, "hits"),
                    "K" => keys.known(),
                    "S" => keys.stats("/").current,
                    "W" => keys.slowest(),
                    _ => word.to_owned(),
                });
            }
            command
        });
        Self(commands.collect())
    }

    /// Checks the commands in a range of indexes at once. Returns the index of the first denied command, and the
    /// details of the reply.
    pub(super) async fn check(
        &self,
        indexes: Range<usize>,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Option<(usize, String)>> {
        let mut pipeline = Pipeline::new();
        for command in self.0.iter().take(indexes.end).skip(indexes.start) {
            pipeline.add_command(command.clone());
        }
        let sent = connection.send_packed_commands(&pipeline, 0, pipeline.len());
        let mut replies = (indexes.start..).zip(sent.await?);
        Ok(replies.find_map(|(at, reply)| {
            let error = reply.extract_error().err().filter(is_denial)?;
            Some((at, error.detail().unwrap_or_default().to_owned()))
        }))
    }
}

/// The reply to INFO; empty if the user may not run INFO.
pub(super) async fn server_info(connection: &mut MultiplexedConnection) -> RedisResult<String> {
    match cmd("INFO").query_async(connection).await {
        Ok(Value::BulkString(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Err(error) if !is_refusal(&error) => Err(error),
        _ => Ok(String::new()),
    }
}

/// Whether a server refuses to run a command: the user may not run it or, on some managed servers, no user may.
pub(super) fn is_refusal(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    is_denial(error) || error.code().is_some() && detail.contains("unknown")
}

/// Whether a user was denied a command. The connection remains usable.
pub(super) fn is_denial(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.code().map(|code| real_code(code, detail)) == Some("NOPERM")
}
