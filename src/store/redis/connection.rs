//! Three connections, one to append, one to fold and one to read, so that none delays another, and a fourth one for as
//! long as a large row is read or written. `stream` bounds the size of answers.
//!
//! This module sends nothing twice: a command without an answer may have been executed, and only the flusher
//! knows how to repeat a call. A broken connection is dropped, and the next call makes a new one.

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
pub(super) use self::large::LargeCall;
use self::role::MIB;
pub(super) use self::role::Role;
use super::error::{COMMANDS, ServerInfo, is_of_a_key, is_of_another_type, is_permission};
use super::keys::Keys;
use super::options::RedisOptions;
use super::script::{Invocation, Lua};
use super::server::Server;
use super::stream::{self, AnswerSize};
use super::subject::Subject;
use super::value::shown;
use crate::error::{StoreError, StoreErrorKind};

/// After this many timeouts in a row the next one drops the connection, even if TCP considers it alive.
const TIMEOUTS_TOLERATED: u32 = 2;

/// The source of an error whose cause is an answer that was larger than its connection accepts, or too large
/// to arrive in time.
#[derive(Debug)]
pub(super) struct Oversized;

impl std::fmt::Display for Oversized {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is too large")
    }
}

impl std::error::Error for Oversized {}

impl Oversized {
    /// Whether an oversized answer caused the error.
    pub(super) fn caused(error: &StoreError) -> bool {
        let source = std::error::Error::source(error);
        source.is_some_and(|source| source.is::<Self>())
    }
}

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
    probe: Pipeline,
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

/// The credentials. This crate sends them itself, because the client hides the server's answer to them.
struct Credentials {
    user: Option<String>,
    password: Option<String>,
    db: i64,
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
    /// Counts connections, so that a failed call does not drop a connection that is newer than its own.
    generation: u64,
    /// The last failed attempt, which calls that waited for it report too.
    failure: Option<(Instant, StoreErrorKind, String)>,
}

impl Connections {
    pub(super) fn new(options: &RedisOptions, keys: &Keys) -> RedisResult<Self> {
        let settings = options.info.redis_settings();
        let credentials = Credentials {
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        };
        let bare = redis::RedisConnectionInfo::default()
            .set_protocol(settings.protocol())
            .set_skip_set_lib_name();
        let server_info = ServerInfo::new(options.place(), credentials.user.as_deref(), keys);
        let mut probe = Pipeline::new();
        for example in COMMANDS {
            let mut words = example.split(' ');
            let command = probe.cmd(words.next().unwrap_or_default());
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
        }
        Ok(Self {
            client: Client::open(options.info.clone().set_redis_settings(bare))?,
            credentials,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(options.connection_timeout)),
            connection_timeout: options.connection_timeout,
            response_timeout: options.response_timeout,
            connect_deadline: options.connection_timeout + options.response_timeout,
            server_info,
            probe,
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

    /// Sends a command.
    pub(super) async fn call(&self, role: Role, command: &Cmd) -> Result<Value, StoreError> {
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
        let connected = tokio::time::timeout(self.connect_deadline, self.connect(role)).await;
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

    async fn connect(&self, role: Role) -> Result<Connection, StoreError> {
        let opening = tokio::time::timeout(self.connection_timeout, self.open(role)).await;
        let opened = opening.unwrap_or_else(|_| {
            let timeout = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Err(RedisError::from(timeout))
        });
        let mut connection = opened.map_err(|error| match self.server_info.explain(&error) {
            // No call has been sent yet, so no call is in doubt.
            error if error.kind() == StoreErrorKind::TimedOut => {
                let message = "cannot be reached (no connection within the connection timeout)";
                self.server_info.error(StoreErrorKind::Unreachable, message)
            }
            other => other,
        })?;
        let commands = &mut connection.commands;
        let greeting = self.greet(commands).await;
        let mut greeted = greeting.map_err(|error| self.server_info.explain(&error));
        if matches!((role, &greeted), (Role::Write, Ok(()))) {
            greeted = self.probe(commands).await;
        }
        if greeted.is_err() && connection.answer.is_exceeded() {
            return Err(self.oversized(&connection.answer, "when the connection was made"));
        }
        greeted?;
        connection.answer.reset();
        Ok(connection)
    }

    /// The error about an answer that was larger than the connection accepts.
    fn oversized(&self, answer: &AnswerSize, moment: &str) -> StoreError {
        let most = answer.max_bytes() / MIB;
        let message = format!("an answer of more than {most} MiB was given up; it came {moment}");
        let error = self.server_info.error(StoreErrorKind::Unexpected, &message);
        error.with_source(Oversized)
    }

    async fn open(&self, role: Role) -> RedisResult<Connection> {
        let info = self.client.get_connection_info();
        let config = role.config(&self.config, self.response_timeout);
        let answer = AnswerSize::new(role.max_answer_bytes());
        if let Some(stream) = stream::open(info, &answer).await? {
            let settings = info.redis_settings();
            let (commands, driving) =
                MultiplexedConnection::new_with_config(settings, stream, config).await?;
            let driver = Driver(tokio::spawn(driving).abort_handle());
            return Ok(Connection {
                commands,
                answer,
                _driver: Some(Arc::new(driver)),
            });
        }
        #[cfg(feature = "redis-tls")]
        super::tls::choose_provider();
        let client = &self.client;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Connection {
            commands: connecting.await?,
            answer,
            _driver: None,
        })
    }

    async fn greet(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let Credentials { user, password, db } = &self.credentials;
        if let Some(password) = password {
            let mut auth = cmd("AUTH");
            if let Some(user) = user {
                auth.arg(user);
            }
            auth.arg(password).exec_async(connection).await?;
        }
        if *db != 0 {
            cmd("SELECT").arg(db).exec_async(connection).await?;
        }
        Ok(())
    }

    /// Reads the kind and version of the server, and checks that the user may run all commands of this crate.
    async fn probe(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let explain = |error: RedisError| self.server_info.explain(&error);
        let mut info = String::new();
        for section in ["server", "memory"] {
            match cmd("INFO").arg(section).query_async(connection).await {
                Ok(Value::BulkString(text)) => info += &String::from_utf8_lossy(&text),
                Ok(_) => {}
                // Kind and version are for warnings only.
                Err(error) if error.code() == Some("NOPERM") => {}
                Err(error) => return Err(explain(error)),
            }
        }
        let server = Server::parse(&info);
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Some(server);

        let replies: RedisResult<Vec<Value>> = connection
            .send_packed_commands(&self.probe, 0, self.probe.len())
            .await;
        for reply in replies.map_err(explain)? {
            if let Value::ServerError(error) = reply {
                let detail = error.details().unwrap_or_default();
                if error.code() == "NOPERM" || is_permission(detail) {
                    return Err(self.server_info.answered("NOPERM", detail));
                }
            }
        }
        Ok(())
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
        let is_dead = match explained.kind() {
            // The remainder of an answer must not be taken for the answer to the next command.
            StoreErrorKind::TimedOut => {
                let timeouts = slot.timeouts.fetch_add(1, Ordering::Relaxed);
                timeouts >= TIMEOUTS_TOLERATED || answer.is_under_way()
            }
            StoreErrorKind::Unreachable => true,
            // The next connection checks the permissions again.
            StoreErrorKind::Forbidden => true,
            // After a failover the host name may resolve to another server.
            StoreErrorKind::Refused => matches!(error.code(), Some("READONLY" | "MASTERDOWN")),
            // The client cannot assign answers to commands any more.
            StoreErrorKind::Unexpected => error.code().is_none(),
        };
        if is_dead {
            let mut state = slot.state.lock().await;
            if state.generation == generation {
                state.connection = None;
            }
        }
        explained
    }
}
