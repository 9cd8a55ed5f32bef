//! Three connections, one to append, one to fold and one to read, so that none delays another, and a fourth one for as
//! long as a large row is read or written. `stream` bounds the size of answers.
//!
//! This module sends nothing twice: a command without an answer may have been executed, and only the flusher
//! knows how to repeat a call. A broken connection is dropped, and the next call makes a new one.

mod connect;
#[cfg(feature = "row-cache")]
mod large;
mod role;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

#[cfg(feature = "row-cache")]
pub(super) use self::large::{LARGE_ROW, LargeCall};
use self::role::MIB;
pub(super) use self::role::Role;
use super::commands::is_read;
use super::credentials::Credentials;
use super::error::{ServerInfo, is_of_a_key, is_of_another_type};
use super::keys::Keys;
use super::options::RedisOptions;
use super::permissions::{Permissions, is_denial};
use super::script::{Invocation, Lua};
use super::server::Server;
use super::stream::{AnswerSize, Oversized};
use super::subject::Subject;
use super::value::shown;
use tower_pulse_core::error::{StoreError, StoreErrorKind};

/// After this many timeouts in a row the next one drops the connection, even if TCP considers it alive.
const TIMEOUTS_TOLERATED: u32 = 2;

/// A connection whose answers are bounded.
#[derive(Clone)]
struct Connection {
    commands: MultiplexedConnection,
    answer: Arc<AnswerSize>,
    /// `None` if the client spawns the task itself.
    _driver: Option<Arc<Driver>>,
}

/// The task that drives a connection. It ends when the last clone of the connection is dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) struct Connections {
    client: Client,
    credentials: Credentials,
    config: AsyncConnectionConfig,
    connection_timeout: Duration,
    response_timeout: Duration,
    /// How long connecting may take, including authentication and the probe of permissions.
    connect_deadline: Duration,
    server_info: ServerInfo,
    permissions: Permissions,
    is_read_only: bool,
    /// Keys of one type each, with a command that fails on any other.
    typed_keys: Vec<(String, &'static [&'static str])>,
    write: ConnectionSlot,
    fold: ConnectionSlot,
    read: ConnectionSlot,
    #[cfg(feature = "row-cache")]
    large: ConnectionSlot,
    #[cfg(feature = "row-cache")]
    large_turn: Mutex<()>,
    server: RwLock<Option<Server>>,
}

#[derive(Default)]
struct ConnectionSlot {
    /// Locked while connecting, so that other calls wait for the same connection.
    state: Mutex<SlotState>,
    timeouts: AtomicU32,
}

#[derive(Default)]
struct SlotState {
    connection: Option<Connection>,
    /// A connection that is none as yet, as its user was denied a command.
    denied: Option<DeniedConnection>,
    /// Counts connections, so that a failed call does not drop a connection that is newer than its own.
    generation: u64,
    /// The last failed attempt, which calls that waited for it report too.
    failure: Option<(Instant, StoreErrorKind, String)>,
}

/// A connection whose user was denied a command. It is kept, so that trying again takes one command.
struct DeniedConnection {
    connection: Connection,
    /// The place of the command among the permissions, if that is known.
    at: Option<usize>,
}

impl Connections {
    pub(super) fn new(options: &RedisOptions, keys: &Keys) -> RedisResult<Self> {
        let settings = options.info.redis_settings();
        let credentials = Credentials::of(settings);
        let bare = redis::RedisConnectionInfo::default()
            .set_protocol(settings.protocol())
            .set_skip_set_lib_name();
        let is_read_only = options.is_read_only;
        let (place, user) = (options.place(), credentials.user());
        let server_info = ServerInfo::new(place, user, keys, is_read_only);
        Ok(Self {
            client: Client::open(options.info.clone().set_redis_settings(bare))?,
            credentials,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(options.connection_timeout)),
            connection_timeout: options.connection_timeout,
            response_timeout: options.response_timeout,
            connect_deadline: options.connection_timeout + options.response_timeout,
            server_info,
            permissions: Permissions::new(keys, is_read_only),
            is_read_only,
            typed_keys: keys.typed(),
            write: ConnectionSlot::default(),
            fold: ConnectionSlot::default(),
            read: ConnectionSlot::default(),
            #[cfg(feature = "row-cache")]
            large: ConnectionSlot::default(),
            #[cfg(feature = "row-cache")]
            large_turn: Mutex::default(),
            server: RwLock::new(None),
        })
    }

    pub(super) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    /// The server's answer to INFO at the last connection.
    pub(super) fn server(&self) -> Option<Server> {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.clone()
    }

    /// Refuses what a store that only reads must not send.
    fn check(&self, only_reads: impl FnOnce() -> bool) -> Result<(), StoreError> {
        if self.is_read_only && !only_reads() {
            let message = "it is only read here, so nothing is written to it";
            return Err(self.server_info.error(StoreErrorKind::Refused, message));
        }
        Ok(())
    }

    /// Sends a command.
    pub(super) async fn call(&self, role: Role, command: &Cmd) -> Result<Value, StoreError> {
        self.check(|| is_read(command))?;
        let (generation, mut connection) = self.connection(role).await?;
        let result = command.query_async(&mut connection.commands).await;
        let subject = Subject::Command(command);
        self.check_reply(role, generation, &connection, &subject, result)
            .await
    }

    /// Calls a script, and sends its source if the server does not have it.
    pub(super) async fn run(
        &self,
        role: Role,
        lua: &Lua,
        invocation: &Invocation,
    ) -> Result<Value, StoreError> {
        self.check(|| false)?;
        let (generation, mut connection) = self.connection(role).await?;
        let commands = &mut connection.commands;
        let mut result = invocation.by_hash(lua).query_async(commands).await;
        if let Err(error) = &result
            && RedisError::code(error) == Some("NOSCRIPT")
        {
            // The script has not run, so it is not executed twice.
            result = invocation.by_source(lua).query_async(commands).await;
        }
        let mut subject = Subject::Script(invocation);
        if let Err(error) = &result
            && is_of_another_type(error)
            && let Some(key) = self.key_of_another_type(commands, &subject).await
        {
            subject = Subject::Key(key);
        }
        self.check_reply(role, generation, &connection, &subject, result)
            .await
    }

    /// Finds the key of a script that holds another type than this crate gives it. The script's error does not
    /// name the key.
    async fn key_of_another_type(
        &self,
        commands: &mut MultiplexedConnection,
        subject: &Subject<'_>,
    ) -> Option<Vec<u8>> {
        let typed = self.typed_keys.iter();
        let typed = typed.filter(|(key, _)| subject.keys().contains(&key.as_bytes()));
        for (key, words) in typed {
            let mut command = cmd(words[0]);
            command.arg(key).arg(&words[1..]);
            let reply: RedisResult<Value> = command.query_async(commands).await;
            if reply.is_err_and(|error| is_of_another_type(&error)) {
                return Some(key.clone().into_bytes());
            }
        }
        None
    }

    /// Sends many commands at once. An error about a key is returned in the place of its reply; an error of the
    /// server fails the whole call.
    pub(super) async fn pipeline(
        &self,
        role: Role,
        pipeline: &mut Pipeline,
    ) -> Result<Vec<Result<Value, String>>, StoreError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        self.check(|| pipeline.cmd_iter().all(is_read))?;
        let (generation, mut connection) = self.connection(role).await?;
        let replies: RedisResult<Vec<Value>> = connection
            .commands
            .send_packed_commands(pipeline, 0, pipeline.len())
            .await;
        let subject = Subject::Pipeline(pipeline);
        let replies = self
            .check_reply(role, generation, &connection, &subject, replies)
            .await?;
        let mut results = Vec::with_capacity(replies.len());
        for reply in replies {
            results.push(match reply {
                Value::ServerError(error) if is_of_a_key(&error) => {
                    let detail = error.details().unwrap_or_default();
                    let answer = format!("{} {detail}", error.code());
                    Err(shown(answer.as_bytes()))
                }
                Value::ServerError(error) => {
                    let error = Err(RedisError::from(error));
                    return self
                        .check_reply(role, generation, &connection, &subject, error)
                        .await;
                }
                value => Ok(value),
            });
        }
        Ok(results)
    }

    fn slot(&self, role: Role) -> &ConnectionSlot {
        match role {
            Role::Write => &self.write,
            Role::Fold => &self.fold,
            Role::Read => &self.read,
            #[cfg(feature = "row-cache")]
            Role::Large => &self.large,
        }
    }

    /// Returns the connection for a role, and makes one if there is none.
    async fn connection(&self, role: Role) -> Result<(u64, Connection), StoreError> {
        let called = Instant::now();
        let mut state = self.slot(role).state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok((state.generation, connection.clone()));
        }
        if let Some((at, kind, message)) = &state.failure
            && *at >= called
        {
            return Err(StoreError::new(*kind, message.clone()));
        }
        let denied = &mut state.denied;
        let connecting = self.connect(role, denied);
        let connected = tokio::time::timeout(self.connect_deadline, connecting).await;
        let connected = connected.unwrap_or_else(|_| {
            let message = format!("no connection within {:?}", self.connect_deadline);
            Err(self
                .server_info
                .error(StoreErrorKind::Unreachable, &message))
        });
        match connected {
            Ok(connection) => {
                state.generation += 1;
                state.failure = None;
                state.connection = Some(connection.clone());
                self.slot(role).timeouts.store(0, Ordering::Relaxed);
                Ok((state.generation, connection))
            }
            Err(error) => {
                state.failure = Some((Instant::now(), error.kind(), error.to_string()));
                Err(error)
            }
        }
    }

    /// The error about an answer that was larger than the connection accepts.
    fn oversized(&self, answer: &AnswerSize, moment: &str) -> StoreError {
        let most = answer.max_bytes() / MIB;
        let message = format!("an answer of more than {most} MiB was given up; it came {moment}");
        let error = self.server_info.error(StoreErrorKind::Unexpected, &message);
        error.with_source(Oversized)
    }

    /// Converts an error of the client to a [`StoreError`], and drops a connection that is unusable.
    async fn check_reply<T>(
        &self,
        role: Role,
        generation: u64,
        connection: &Connection,
        subject: &Subject<'_>,
        result: RedisResult<T>,
    ) -> Result<T, StoreError> {
        match result {
            Ok(value) => {
                self.slot(role).timeouts.store(0, Ordering::Relaxed);
                connection.answer.reset();
                Ok(value)
            }
            Err(error) => {
                let failed = self.explain_failure(role, generation, connection, subject, &error);
                Err(failed.await)
            }
        }
    }

    async fn explain_failure(
        &self,
        role: Role,
        generation: u64,
        connection: &Connection,
        subject: &Subject<'_>,
        error: &RedisError,
    ) -> StoreError {
        let (slot, answer) = (self.slot(role), &connection.answer);
        let explained = match error.code() {
            None if answer.is_exceeded() => {
                self.oversized(answer, &format!("when asked for {subject}"))
            }
            _ => self.server_info.explain_about(error, subject),
        };
        let explained = match explained.kind() {
            StoreErrorKind::TimedOut if answer.is_large() => explained.with_source(Oversized),
            _ => explained,
        };
        let is_denied = error
            .code()
            .is_some_and(|code| is_denial(code, error.detail().unwrap_or_default()));
        let is_dead = match explained.kind() {
            // The remainder of an answer must not be taken for the answer to the next command.
            StoreErrorKind::TimedOut => {
                let timeouts = slot.timeouts.fetch_add(1, Ordering::Relaxed);
                timeouts >= TIMEOUTS_TOLERATED || answer.is_under_way()
            }
            StoreErrorKind::Unreachable => true,
            // Before the next call, the permissions are checked again.
            StoreErrorKind::Forbidden => !is_denied || matches!(role, Role::Write),
            // After a failover the host name may resolve to another server.
            StoreErrorKind::Refused => matches!(error.code(), Some("READONLY" | "MASTERDOWN")),
            // The client cannot assign answers to commands any more.
            _ => error.code().is_none(),
        };
        if is_dead {
            let mut state = slot.state.lock().await;
            if state.generation == generation
                && let Some(connection) = state.connection.take()
                && is_denied
            {
                let at = None;
                state.denied = Some(DeniedConnection { connection, at });
            }
        }
        explained
    }
}
