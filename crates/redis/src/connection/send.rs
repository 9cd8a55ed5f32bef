//! Sends calls, and follows the redirects of a cluster.
//!
//! A redirect says that the node has not executed the command, and names the node that must. The command is sent there,
//! so nothing is executed twice. There are at most [`MAX_REDIRECTS`] per call. All other errors go to the caller, who
//! knows which calls may be repeated, and when.

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use super::{Connection, Connections, Role};
use crate::commands::{is_read, is_time};
use crate::error::{is_of_a_key, is_of_another_type};
use crate::script::{Invocation, Lua};
use crate::subject::Subject;
use crate::topology::{Address, Redirect};
use crate::value::shown;
use tower_pulse_core::error::{Result, StoreErrorKind};

/// The most redirects of a call.
const MAX_REDIRECTS: usize = 5;

/// A command, or a script whose source the server may lack.
pub(super) enum Call<'a> {
    Command(&'a Cmd),
    Script(&'a Lua, &'a Invocation),
}

impl<'a> Call<'a> {
    fn subject(&self) -> Subject<'a> {
        match self {
            Self::Command(command) => Subject::Command(command),
            Self::Script(_, invocation) => Subject::Script(invocation),
        }
    }

    async fn send(&self, route: &mut Route) -> RedisResult<Value> {
        let (is_asking, connection) = (route.is_asking(), &mut route.connection);
        match self {
            Self::Command(command) => exchange(connection, command, is_asking).await,
            Self::Script(lua, invocation) => {
                let by_hash = invocation.by_hash(lua);
                let result = exchange(connection, &by_hash, is_asking).await;
                match &result {
                    Err(error) if RedisError::code(error) == Some("NOSCRIPT") => {
                        // The script has not run yet, so it is not executed twice.
                        exchange(connection, &invocation.by_source(lua), is_asking).await
                    }
                    _ => result,
                }
            }
        }
    }
}

/// Sends one command. After ASKING, a node executes it even while the slot is still being moved to it.
async fn exchange(
    connection: &mut Connection,
    command: &Cmd,
    is_asking: bool,
) -> RedisResult<Value> {
    if !is_asking {
        return command.query_async(&mut connection.commands).await;
    }
    let mut pipeline = Pipeline::new();
    pipeline.cmd("ASKING").add_command(command.clone());
    let replies = connection
        .commands
        .send_packed_commands(&pipeline, 0, pipeline.len())
        .await?;
    match replies.into_iter().next_back() {
        Some(Value::ServerError(error)) => Err(error.into()),
        Some(reply) => Ok(reply),
        None => Err((ErrorKind::UnexpectedReturnType, "no reply").into()),
    }
}

/// The connection to send over, with its generation, or the node that a redirect has named.
struct Route {
    /// `None` if ASKING precedes each command.
    generation: Option<u64>,
    connection: Connection,
}

impl Connections {
    pub(super) async fn send(&self, role: Role, call: &Call<'_>) -> Result<Value> {
        let mut route = self.owner(role).await?;
        for _ in 0..MAX_REDIRECTS {
            let result = call.send(&mut route).await;
            let redirect = match &result {
                Err(error) => self.redirect(&route, error.code(), error.detail())?,
                Ok(_) => None,
            };
            let Some(redirect) = redirect else {
                return self.answer(role, route, call, result).await;
            };
            route = self.follow(role, &route, redirect).await?;
        }
        let result = call.send(&mut route).await;
        self.answer(role, route, call, result).await
    }

    async fn answer(
        &self,
        role: Role,
        mut route: Route,
        call: &Call<'_>,
        result: RedisResult<Value>,
    ) -> Result<Value> {
        let mut subject = call.subject();
        if let (Err(error), Call::Script(..)) = (&result, call)
            && is_of_another_type(error)
            && let commands = &mut route.connection.commands
            && let Some(key) = self.key_of_another_type(commands, &subject).await
        {
            subject = Subject::Key(key);
        }
        self.check_route(role, &route, &subject, result).await
    }

    /// Sends many commands at once. An error about a key replaces its reply; an error of the server fails the whole
    /// call.
    pub(crate) async fn pipeline(
        &self,
        role: Role,
        pipeline: &mut Pipeline,
    ) -> Result<Vec<Result<Value, String>>> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        self.check(|| pipeline.cmd_iter().all(is_read))?;
        let subject = Subject::Pipeline(pipeline);
        let mut route = self.owner(role).await?;
        let replies = self.exchange(role, &route, pipeline, &subject).await;
        let mut replies = replies?;
        for _ in 0..MAX_REDIRECTS {
            let Some((places, redirect)) = self.redirected(&route, &replies)? else {
                break;
            };
            route = self.follow(role, &route, redirect).await?;
            let mut again = Pipeline::with_capacity(2 * places.len());
            let commands = pipeline.cmd_iter().enumerate();
            for (_, command) in commands.filter(|(at, _)| places.contains(at)) {
                if route.is_asking() {
                    again.cmd("ASKING");
                }
                again.add_command(command.clone());
            }
            let answers = self.exchange(role, &route, &again, &subject).await?;
            let every = if route.is_asking() { 2 } else { 1 };
            let answers = answers.into_iter().skip(every - 1).step_by(every);
            for (at, answer) in places.into_iter().zip(answers) {
                replies[at] = answer;
            }
            if route.is_asking() {
                // The other commands go to the owner.
                route = self.owner(role).await?;
            }
        }
        let mut results = Vec::with_capacity(replies.len());
        for (command, reply) in pipeline.cmd_iter().zip(replies) {
            results.push(match reply {
                Value::ServerError(error)
                    if is_of_a_key(&error) || self.is_read_only && is_time(command) =>
                {
                    let detail = error.details().unwrap_or_default();
                    let answer = format!("{} {detail}", error.code());
                    Err(shown(answer.as_bytes()))
                }
                Value::ServerError(error) => {
                    let error = Err(RedisError::from(error));
                    return self.check_route(role, &route, &subject, error).await;
                }
                value => Ok(value),
            });
        }
        Ok(results)
    }

    async fn exchange(
        &self,
        role: Role,
        route: &Route,
        pipeline: &Pipeline,
        subject: &Subject<'_>,
    ) -> Result<Vec<Value>> {
        let mut commands = route.connection.commands.clone();
        let replies: RedisResult<Vec<Value>> = commands
            .send_packed_commands(pipeline, 0, pipeline.len())
            .await;
        self.check_route(role, route, subject, replies).await
    }

    /// The first redirect among replies, and the indexes of all replies with the same one.
    fn redirected(
        &self,
        route: &Route,
        replies: &[Value],
    ) -> Result<Option<(Vec<usize>, Redirect)>> {
        let mut found: Option<(Vec<usize>, Redirect)> = None;
        for (at, reply) in replies.iter().enumerate() {
            let Value::ServerError(error) = reply else {
                continue;
            };
            let Some(redirect) = self.redirect(route, Some(error.code()), error.details())? else {
                continue;
            };
            match &mut found {
                None => found = Some((vec![at], redirect)),
                Some((places, first)) if *first == redirect => places.push(at),
                Some(_) => {}
            }
        }
        Ok(found)
    }

    fn redirect(
        &self,
        route: &Route,
        code: Option<&str>,
        detail: Option<&str>,
    ) -> Result<Option<Redirect>> {
        let error = (code.unwrap_or_default(), detail.unwrap_or_default());
        self.topology.redirect(error, &route.connection).transpose()
    }

    /// The connection to the server that has the keys.
    async fn owner(&self, role: Role) -> Result<Route> {
        let (generation, connection) = self.connection(role).await?;
        Ok(Route {
            generation: Some(generation),
            connection,
        })
    }

    async fn follow(&self, role: Role, route: &Route, redirect: Redirect) -> Result<Route> {
        match redirect {
            Redirect::Moved(owner) => {
                self.topology.moved(&route.connection, owner);
                self.owner(role).await
            }
            Redirect::Ask(node) => {
                let connection = self.asking(role, &node).await?;
                Ok(Route {
                    generation: None,
                    connection,
                })
            }
        }
    }

    /// The connection to a node to which the slot is being moved.
    async fn asking(&self, role: Role, node: &Address) -> Result<Connection> {
        let mut state = self.slot(role).state.lock().await;
        let changes = self.topology.changes();
        state.drop_outdated(changes);
        if let Some(connection) = &state.asking
            && connection.node.as_ref() == Some(node)
        {
            return Ok(connection.clone());
        }
        let dialling = self.dialer.dial_node(node, role);
        let dialled = tokio::time::timeout(self.connect_deadline, dialling).await;
        let dialled = dialled.unwrap_or_else(|_| {
            let message = format!("no connection within {:?}", self.connect_deadline);
            let server_info = self.server_info.of_node(node);
            Err(server_info.error(StoreErrorKind::Unreachable, &message))
        });
        let mut connection = dialled.map_err(|error| self.topology.unreachable(node, error))?;
        connection.changes = changes;
        state.asking = Some(connection.clone());
        Ok(connection)
    }

    async fn check_route<T>(
        &self,
        role: Role,
        route: &Route,
        subject: &Subject<'_>,
        result: RedisResult<T>,
    ) -> Result<T> {
        if route.is_asking() && matches!(&result, Err(error) if error.code().is_none()) {
            self.slot(role).state.lock().await.asking = None;
        }
        // No connection has this generation, so none is dropped.
        let generation = route.generation.unwrap_or(u64::MAX);
        self.check_reply(role, generation, &route.connection, subject, result)
            .await
    }
}

impl Route {
    fn is_asking(&self) -> bool {
        self.generation.is_none()
    }
}
