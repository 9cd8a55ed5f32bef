//! Sends calls, and follows the redirects of a cluster.
//!
//! A node that answers with a redirect has not executed the command. The redirect names another node, to which the
//! command is then sent, so no command is executed twice. A call follows at most [`MAX_REDIRECTS`] redirects. All other
//! errors go to the caller, who decides whether to repeat the call.

use redis::{Cmd, Pipeline, Value, cmd};

use super::{Connection, Connections, Role};
use crate::commands::{is_read, is_time};
use crate::error::is_of_another_type;
use crate::script::{Invocation, Lua};
use crate::topology::{Address, Redirect};
use crate::value::shown;
use tower_pulse_core::error::Result;

const MAX_REDIRECTS: usize = 5;

impl Connections {
    pub(crate) async fn call(&self, role: Role, command: &Cmd) -> Result<Value> {
        self.refuse_write(|| is_read(command))?;
        let pipeline = alone(command.clone());
        let replies = self.exchange(role, &pipeline).await?;
        self.only(role, &pipeline, replies).await
    }

    /// Calls a script, and sends the source if the server has not cached the script. The client's own method for
    /// scripts would need the permission for SCRIPT LOAD.
    pub(crate) async fn run(&self, role: Role, lua: &Lua, script: &Invocation) -> Result<Value> {
        self.refuse_write(|| false)?;
        let mut pipeline = alone(script.command("EVALSHA", &lua.hash));
        let mut replies = self.exchange(role, &pipeline).await?;
        if matches!(&replies.0[..], [Value::ServerError(error)] if error.code() == "NOSCRIPT") {
            // The script has not run yet, so it is not executed twice.
            pipeline = alone(script.command("EVAL", &lua.source));
            replies = self.exchange(role, &pipeline).await?;
        }
        self.only(role, &pipeline, replies).await
    }

    /// Sends many commands at once. A WRONGTYPE error replaces the reply of its command, and so does any error of TIME
    /// in a read-only store. All other errors fail the call.
    pub(crate) async fn pipeline(
        &self,
        role: Role,
        pipeline: &Pipeline,
    ) -> Result<Vec<Result<Value, String>>> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        self.refuse_write(|| pipeline.cmd_iter().all(is_read))?;
        let (replies, connection) = self.exchange(role, pipeline).await?;
        let is_read_only = self.dialer.options.is_read_only;
        let mut results = Vec::with_capacity(replies.len());
        for (command, reply) in pipeline.cmd_iter().zip(replies) {
            results.push(match reply {
                Value::ServerError(error)
                    if error.code() == "WRONGTYPE" || is_read_only && is_time(command) =>
                {
                    let detail = error.details().unwrap_or_default();
                    let text = format!("{} {detail}", error.code());
                    Err(shown(text.as_bytes()))
                }
                Value::ServerError(error) => {
                    return Err(self.fail(role, &connection, pipeline, error.into()).await);
                }
                value => Ok(value),
            });
        }
        Ok(results)
    }

    async fn only(
        &self,
        role: Role,
        pipeline: &Pipeline,
        (mut replies, connection): (Vec<Value>, Connection),
    ) -> Result<Value> {
        match replies.pop() {
            Some(Value::ServerError(error)) => {
                Err(self.fail(role, &connection, pipeline, error.into()).await)
            }
            reply => Ok(reply.unwrap_or(Value::Nil)),
        }
    }

    /// The key of a wrong type among the keys of a script. The script's error does not name this key.
    pub(super) async fn key_of_another_type<'a>(
        &self,
        connection: &Connection,
        keys: &[&'a [u8]],
    ) -> Option<&'a [u8]> {
        for key in keys {
            let Some(words) = self.keys.type_check(key) else {
                continue;
            };
            let mut command = cmd(words[0]);
            command.arg(*key).arg(&words[1..]);
            let reply = command.exec_async(&mut connection.commands.clone()).await;
            if reply.is_err_and(|error| is_of_another_type(&error)) {
                return Some(key);
            }
        }
        None
    }

    /// Sends commands, and follows redirects. Returns the replies, and the connection to the owner of the keys.
    async fn exchange(&self, role: Role, pipeline: &Pipeline) -> Result<(Vec<Value>, Connection)> {
        let mut connection = self.connection(role).await?;
        let mut replies = self.send(role, &connection, pipeline).await?;
        for _ in 0..MAX_REDIRECTS {
            let Some((indexes, redirect)) = self.redirected(&connection, &replies)? else {
                break;
            };
            let owner = connection.clone();
            if redirect.is_asking {
                connection = self.asking(role, &redirect.node).await?;
            } else {
                self.topology.moved(&connection, redirect.node);
                connection = self.connection(role).await?;
            }
            let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
            let mut again = Pipeline::with_capacity(2 * indexes.len());
            for at in &indexes {
                if redirect.is_asking {
                    again.cmd("ASKING");
                }
                again.add_command(commands[*at].clone());
            }
            let others = self.send(role, &connection, &again).await?;
            let every = if redirect.is_asking { 2 } else { 1 };
            let others = others.into_iter().skip(every - 1).step_by(every);
            for (at, reply) in indexes.into_iter().zip(others) {
                replies[at] = reply;
            }
            if redirect.is_asking {
                // Only these commands go to the other node. All other commands still go to the slot's owner.
                connection = owner;
            }
        }
        Ok((replies, connection))
    }

    async fn send(
        &self,
        role: Role,
        connection: &Connection,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>> {
        let mut commands = connection.commands.clone();
        let sent = commands.send_packed_commands(pipeline, 0, pipeline.len());
        match sent.await {
            Ok(replies) => {
                self.of_role(role).reset_timeouts();
                Ok(replies)
            }
            Err(error) => Err(self.fail(role, connection, pipeline, error).await),
        }
    }

    /// The first redirect among replies, and the indexes of all replies with this redirect.
    fn redirected(
        &self,
        connection: &Connection,
        replies: &[Value],
    ) -> Result<Option<(Vec<usize>, Redirect)>> {
        let mut found: Option<(Vec<usize>, Redirect)> = None;
        for (at, reply) in replies.iter().enumerate() {
            let Some(redirect) = self.topology.redirect(reply, connection)? else {
                continue;
            };
            match &mut found {
                None => found = Some((vec![at], redirect)),
                Some((indexes, first)) if *first == redirect => indexes.push(at),
                Some(_) => {}
            }
        }
        Ok(found)
    }

    /// The connection to the node to which the hash slot is being moved.
    async fn asking(&self, role: Role, node: &Address) -> Result<Connection> {
        let mut state = self.of_role(role).state.lock().await;
        let changes = self.topology.changes();
        if let Some(connection) = &state.asking
            && connection.node.as_ref() == Some(node)
            && connection.changes == changes
        {
            return Ok(connection.clone());
        }
        let dialling = self.topology.dial(&self.dialer, node, role);
        let dialled = tokio::time::timeout(self.connect_deadline, dialling).await;
        let dialled =
            dialled.unwrap_or_else(|_| Err(self.too_late(&self.server_info.of_node(node))));
        let mut connection = dialled?;
        connection.changes = changes;
        state.asking = Some(connection.clone());
        Ok(connection)
    }
}

fn alone(command: Cmd) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.add_command(command);
    pipeline
}
