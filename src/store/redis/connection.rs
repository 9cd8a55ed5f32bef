//! Three connections, to append, to fold and to read, so that none holds up another.
//! What a peer may send over one is bounded by `stream`.
//!
//! Nothing is tried twice here: a command without an answer may have been executed, and only the
//! flusher knows how to ask again. A broken connection is dropped and made anew by the next call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::asked::Asked;
use super::error::{COMMANDS, ServerInfo, is_of_a_key, is_of_another_type, is_permission};
use super::keys::Keys;
use super::options::RedisOptions;
use super::script::{Invocation, Lua};
use super::server::Server;
use super::stream::{self, AnswerSize};
use super::value::shown;
use crate::error::{StoreError, StoreErrorKind};

/// So many timeouts in a row mean that the connection is dead, whatever TCP says.
const TIMEOUTS_TOLERATED: u32 = 2;

/// What a connection is used for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Write,
    Fold,
    Read,
}

impl Role {
    /// The most memory that one answer may take. The largest that are of use are 500 records or an entry
    /// of the journal, and a counter whose slices of a day nobody has cleaned; everything else is small.
    fn max_answer_bytes(self) -> usize {
        match self {
            Self::Write => 4 * MIB,
            Self::Fold => 24 * MIB,
            Self::Read => 28 * MIB,
        }
    }
}

const MIB: usize = 1024 * 1024;

/// An answer was larger than its connection takes in, or than comes in time: the source of the error that
/// says so.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too large")]
pub(super) struct Oversized;

impl Oversized {
    /// Whether that is why a call failed.
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
    /// `None` where the client drives it.
    _driver: Option<Arc<Driver>>,
}

/// The task that drives a connection, until the last clone of that is dropped.
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
    /// How long connecting may take, greetings included.
    connect_deadline: Duration,
    about: ServerInfo,
    probe: Pipeline,
    /// Keys of one type each, with a command that fails on any other.
    typed_keys: Vec<(String, &'static [&'static str])>,
    write: ConnectionSlot,
    fold: ConnectionSlot,
    read: ConnectionSlot,
    server: RwLock<Option<Server>>,
}

/// Sent by ourselves, because the client hides what the server answers to them.
struct Credentials {
    user: Option<String>,
    password: Option<String>,
    db: i64,
}

#[derive(Default)]
struct ConnectionSlot {
    /// Held while connecting: whoever comes meanwhile waits for the same connection.
    state: Mutex<State>,
    timeouts: AtomicU32,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// Counts connections, so that nobody drops one that is newer than the one that failed.
    generation: u64,
    /// The last attempt that failed, for those who have waited for it.
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
        let about = ServerInfo::new(options.place(), credentials.user.as_deref(), keys);
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
                .set_connection_timeout(Some(options.connection_timeout))
                .set_response_timeout(Some(options.response_timeout)),
            connection_timeout: options.connection_timeout,
            connect_deadline: options.connection_timeout + options.response_timeout,
            about,
            probe,
            typed_keys: keys.typed(),
            write: ConnectionSlot::default(),
            fold: ConnectionSlot::default(),
            read: ConnectionSlot::default(),
            server: RwLock::new(None),
        })
    }

    pub(super) fn about(&self) -> &ServerInfo {
        &self.about
    }

    /// What the server said of itself when it was last connected to.
    pub(super) fn server(&self) -> Option<Server> {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.clone()
    }

    /// Sends a command.
    pub(super) async fn call(&self, side: Role, command: &Cmd) -> Result<Value, StoreError> {
        let (generation, mut connection) = self.connection(side).await?;
        let result = command.query_async(&mut connection.commands).await;
        let asked = Asked::Command(command);
        self.check_reply(side, generation, &connection, &asked, result)
            .await
    }

    /// Calls a script, which the server may have forgotten.
    pub(super) async fn run(
        &self,
        side: Role,
        lua: &Lua,
        invocation: &Invocation,
    ) -> Result<Value, StoreError> {
        let (generation, mut connection) = self.connection(side).await?;
        let commands = &mut connection.commands;
        let mut result = invocation.by_hash(lua).query_async(commands).await;
        if let Err(error) = &result
            && RedisError::code(error) == Some("NOSCRIPT")
        {
            // Nothing has run: this is no second try.
            result = invocation.by_source(lua).query_async(commands).await;
        }
        let mut asked = Asked::Script(invocation);
        if let Err(error) = &result
            && is_of_another_type(error)
            && let Some(key) = self.key_of_another_type(commands, &asked).await
        {
            asked = Asked::Key(key);
        }
        self.check_reply(side, generation, &connection, &asked, result)
            .await
    }

    /// Which key of a script holds another type than this crate gives it, as the script's error does not
    /// name it.
    async fn key_of_another_type(
        &self,
        commands: &mut MultiplexedConnection,
        asked: &Asked<'_>,
    ) -> Option<Vec<u8>> {
        let typed = self.typed_keys.iter();
        let typed = typed.filter(|(key, _)| asked.keys().contains(&key.as_bytes()));
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

    /// Sends many commands at once. What is wrong with one key is told in its place; what is wrong
    /// with the server fails all.
    pub(super) async fn pipeline(
        &self,
        side: Role,
        pipeline: &mut Pipeline,
    ) -> Result<Vec<Result<Value, String>>, StoreError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let (generation, mut connection) = self.connection(side).await?;
        let replies: RedisResult<Vec<Value>> = connection
            .commands
            .send_packed_commands(pipeline, 0, pipeline.len())
            .await;
        let asked = Asked::Pipeline(pipeline);
        let replies = self
            .check_reply(side, generation, &connection, &asked, replies)
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
                        .check_reply(side, generation, &connection, &asked, error)
                        .await;
                }
                value => Ok(value),
            });
        }
        Ok(results)
    }

    fn lane(&self, side: Role) -> &ConnectionSlot {
        match side {
            Role::Write => &self.write,
            Role::Fold => &self.fold,
            Role::Read => &self.read,
        }
    }

    /// The connection of a side, made if there is none.
    async fn connection(&self, side: Role) -> Result<(u64, Connection), StoreError> {
        let asked = Instant::now();
        let mut state = self.lane(side).state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok((state.generation, connection.clone()));
        }
        if let Some((at, kind, message)) = &state.failure
            && *at >= asked
        {
            return Err(StoreError::new(*kind, message.clone()));
        }
        let connected = tokio::time::timeout(self.connect_deadline, self.connect(side)).await;
        let connected = connected.unwrap_or_else(|_| {
            let what = format!("no connection within {:?}", self.connect_deadline);
            Err(self.about.error(StoreErrorKind::Unreachable, &what))
        });
        match connected {
            Ok(connection) => {
                state.generation += 1;
                state.failure = None;
                state.connection = Some(connection.clone());
                self.lane(side).timeouts.store(0, Ordering::Relaxed);
                Ok((state.generation, connection))
            }
            Err(error) => {
                state.failure = Some((Instant::now(), error.kind(), error.to_string()));
                Err(error)
            }
        }
    }

    async fn connect(&self, side: Role) -> Result<Connection, StoreError> {
        let opening = tokio::time::timeout(self.connection_timeout, self.open(side)).await;
        let opened = opening.unwrap_or_else(|_| {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Err(RedisError::from(late))
        });
        let mut connection = opened.map_err(|error| match self.about.explain(&error) {
            // Nothing has been asked yet, so nothing is in doubt.
            late if late.kind() == StoreErrorKind::TimedOut => {
                let what = "cannot be reached (no connection within the connection timeout)";
                self.about.error(StoreErrorKind::Unreachable, what)
            }
            other => other,
        })?;
        let commands = &mut connection.commands;
        let greeting = self.greet(commands).await;
        let mut greeted = greeting.map_err(|error| self.about.explain(&error));
        if matches!((side, &greeted), (Role::Write, Ok(()))) {
            greeted = self.probe(commands).await;
        }
        if greeted.is_err() && connection.answer.is_exceeded() {
            return Err(self.oversized(&connection.answer, "when the connection was made"));
        }
        greeted?;
        connection.answer.reset();
        Ok(connection)
    }

    /// An answer was larger than the connection takes in.
    fn oversized(&self, answer: &AnswerSize, asked: &str) -> StoreError {
        let most = answer.max_bytes() / MIB;
        let what = format!("an answer of more than {most} MiB was given up; it came {asked}");
        let error = self.about.error(StoreErrorKind::Unexpected, &what);
        error.with_source(Oversized)
    }

    async fn open(&self, side: Role) -> RedisResult<Connection> {
        let info = self.client.get_connection_info();
        let answer = AnswerSize::new(side.max_answer_bytes());
        if let Some(stream) = stream::open(info, &answer).await? {
            let (settings, config) = (info.redis_settings(), self.config.clone());
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
        let connecting = client.get_multiplexed_async_connection_with_config(&self.config);
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

    /// Learns what the server is, and finds out whether our user may do all that is needed.
    async fn probe(&self, connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
        let explain = |error: RedisError| self.about.explain(&error);
        let mut info = String::new();
        for section in ["server", "memory"] {
            match cmd("INFO").arg(section).query_async(connection).await {
                Ok(Value::BulkString(text)) => info += &String::from_utf8_lossy(&text),
                Ok(_) => {}
                // What it is is good to know, but can be done without.
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
                    return Err(self.about.answered("NOPERM", detail));
                }
            }
        }
        Ok(())
    }

    /// Turns an error into ours, and drops a connection that is of no use any more.
    async fn check_reply<T>(
        &self,
        side: Role,
        generation: u64,
        connection: &Connection,
        asked: &Asked<'_>,
        result: RedisResult<T>,
    ) -> Result<T, StoreError> {
        let (lane, answer) = (self.lane(side), &connection.answer);
        let error = match result {
            Ok(value) => {
                lane.timeouts.store(0, Ordering::Relaxed);
                answer.reset();
                return Ok(value);
            }
            Err(error) => error,
        };
        let explained = match error.code() {
            None if answer.is_exceeded() => {
                self.oversized(answer, &format!("when asked for {asked}"))
            }
            _ => self.about.explain_about(&error, asked),
        };
        let explained = match explained.kind() {
            StoreErrorKind::TimedOut if answer.is_large() => explained.with_source(Oversized),
            _ => explained,
        };
        let is_dead = match explained.kind() {
            // A part of an answer must not stay, and more of it must not come.
            StoreErrorKind::TimedOut => {
                let timeouts = lane.timeouts.fetch_add(1, Ordering::Relaxed);
                timeouts >= TIMEOUTS_TOLERATED || answer.is_under_way()
            }
            StoreErrorKind::Unreachable => true,
            // The next one asks for permissions again.
            StoreErrorKind::Forbidden => true,
            // After a failover the name may stand for another server.
            StoreErrorKind::Refused => matches!(error.code(), Some("READONLY" | "MASTERDOWN")),
            // The client has lost track of the answers.
            StoreErrorKind::Unexpected => error.code().is_none(),
        };
        if is_dead {
            let mut state = lane.state.lock().await;
            if state.generation == generation {
                state.connection = None;
            }
        }
        Err(explained)
    }
}
