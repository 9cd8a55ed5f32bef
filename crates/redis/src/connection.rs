//! Three connections, to append, to fold and to read, so that none delays another; a fourth exists while a large row is
//! read or written.
//!
//! This module sends nothing twice: a command without an answer may have been executed, and only the flusher knows how
//! to repeat a call. A broken connection is dropped, and the next call makes a new one. `send` follows the redirects of
//! a cluster, which say that a node has not executed a command; `topology` says where a connection leads.

mod connect;
mod dial;
#[cfg(feature = "row-cache")]
mod large;
mod role;
mod send;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value, cmd};
use tokio::sync::Mutex;

pub(super) use self::dial::{Connection, Dialer, place_of};
#[cfg(feature = "row-cache")]
pub(super) use self::large::LARGE_ROW;
pub(super) use self::role::Role;
use self::send::Call;
use super::commands::is_read;
use super::error::{ServerInfo, is_of_another_type};
use super::keys::Keys;
use super::options::RedisOptions;
use super::permissions::{Permissions, Refusal, is_denial};
use super::script::{Invocation, Lua};
use super::server::Server;
use super::subject::Subject;
use super::topology::{Layout, Topology};
use tower_pulse_core::condition::Warning;
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};

/// The timeouts in a row after which the next one drops the connection, even if TCP considers it alive.
const TIMEOUTS_TOLERATED: u32 = 2;

pub(super) struct Connections {
    dialer: Arc<Dialer>,
    topology: Topology,
    /// The longest time for connecting, including authentication and the check of permissions.
    connect_deadline: Duration,
    server_info: ServerInfo,
    permissions: Permissions,
    is_read_only: bool,
    keys: Keys,
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
    /// A connection to the node to which the slot is being moved.
    asking: Option<Connection>,
    /// A connection that is not in use yet, as its user was denied a command.
    denied: Option<DeniedConnection>,
    /// Counts connections, so that a failed call does not drop a connection that is newer than its own.
    generation: u64,
    /// The last failed attempt, which calls that waited for it also report.
    failure: Option<(Instant, StoreErrorKind, String)>,
}

impl SlotState {
    /// Drops connections that were made before another server was named.
    fn drop_outdated(&mut self, changes: u64) {
        let is_outdated = |it: &Connection| it.changes != changes;
        if self.connection.as_ref().is_some_and(is_outdated) {
            self.connection = None;
        }
        if self.asking.as_ref().is_some_and(is_outdated) {
            self.asking = None;
        }
    }
}

/// A connection whose user was denied a command. Keeping it lets the next attempt check that one command only.
struct DeniedConnection {
    connection: Connection,
    /// The index of the command among the permissions, if known.
    at: Option<usize>,
}

impl Connections {
    pub(super) fn new(options: &RedisOptions, keys: &Keys) -> Self {
        let is_read_only = options.is_read_only;
        let callback = options.credentials.clone();
        let user = options.info.redis_settings().username();
        let server_info = ServerInfo::new(options.place(), user, keys, is_read_only);
        let server_info = server_info.of_layout(&options.layout, callback.is_some());
        let timeouts = (options.connection_timeout, options.response_timeout);
        let dialer = Dialer::new(&options.info, callback, timeouts, server_info.clone());
        let map = options.address_map.clone();
        // Finding the server first may take as long again.
        let (topology, finding) = match options.layout.clone() {
            Layout::Standalone => (Topology::Standalone, Duration::ZERO),
            Layout::Cluster { seeds } => {
                let topology = Topology::cluster(keys.prefix(), seeds, map);
                (topology, dialer.deadline())
            }
            Layout::Sentinel {
                service,
                sentinels,
                info,
            } => {
                let server_info = ServerInfo::of_sentinel(info.redis_settings().username());
                let to_sentinel = Dialer::new(&info, None, timeouts, server_info);
                let finding = to_sentinel.deadline();
                let topology = Topology::sentinel(service, sentinels, to_sentinel, map);
                (topology, finding)
            }
        };
        Self {
            connect_deadline: dialer.deadline() + finding,
            dialer: Arc::new(dialer),
            topology,
            server_info,
            permissions: Permissions::new(keys, is_read_only),
            is_read_only,
            keys: keys.clone(),
            write: ConnectionSlot::default(),
            fold: ConnectionSlot::default(),
            read: ConnectionSlot::default(),
            #[cfg(feature = "row-cache")]
            large: ConnectionSlot::default(),
            #[cfg(feature = "row-cache")]
            large_turn: Mutex::default(),
            server: RwLock::new(None),
        }
    }

    pub(super) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    /// The place of the server: as configured, and the node that was found.
    pub(super) fn place(&self) -> String {
        let place = &self.server_info.place;
        match self.topology.server() {
            Some(node) => format!("{place}, now {node}"),
            None => place.clone(),
        }
    }

    /// The warning about how the server is found, if any.
    pub(super) fn warning(&self) -> Option<Warning> {
        self.topology.warning()
    }

    /// The server's answer to INFO.
    pub(super) fn server(&self) -> Option<Server> {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.clone()
    }

    /// Refuses writes if the store is read-only.
    fn check(&self, only_reads: impl FnOnce() -> bool) -> Result<()> {
        if self.is_read_only && !only_reads() {
            let message = "it is only read here, so nothing is written to it";
            return Err(self.server_info.error(StoreErrorKind::Refused, message));
        }
        Ok(())
    }

    /// Sends a command.
    pub(super) async fn call(&self, role: Role, command: &Cmd) -> Result<Value> {
        self.check(|| is_read(command))?;
        self.send(role, &Call::Command(command)).await
    }

    /// Calls a script, and sends its source if the server has not cached it.
    pub(super) async fn run(
        &self,
        role: Role,
        lua: &Lua,
        invocation: &Invocation,
    ) -> Result<Value> {
        self.check(|| false)?;
        self.send(role, &Call::Script(lua, invocation)).await
    }

    /// Finds the key of a script that holds another type than this crate gives it, as the script's error does not name
    /// the key.
    async fn key_of_another_type(
        &self,
        commands: &mut MultiplexedConnection,
        subject: &Subject<'_>,
    ) -> Option<Vec<u8>> {
        for key in subject.keys() {
            let Some(words) = self.keys.type_check(key) else {
                continue;
            };
            let mut command = cmd(words[0]);
            command.arg(key).arg(&words[1..]);
            let reply: RedisResult<Value> = command.query_async(commands).await;
            if reply.is_err_and(|error| is_of_another_type(&error)) {
                return Some(key.to_vec());
            }
        }
        None
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
    async fn connection(&self, role: Role) -> Result<(u64, Connection)> {
        let called = Instant::now();
        self.topology.called();
        let mut state = self.slot(role).state.lock().await;
        state.drop_outdated(self.topology.changes());
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

    /// Converts an error of the client to a [`StoreError`], and drops an unusable connection.
    async fn check_reply<T>(
        &self,
        role: Role,
        generation: u64,
        connection: &Connection,
        subject: &Subject<'_>,
        result: RedisResult<T>,
    ) -> Result<T> {
        match result {
            Ok(value) => {
                self.slot(role).timeouts.store(0, Ordering::Relaxed);
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
        let slot = self.slot(role);
        let explained = self.server_info.explain_about(error, subject);
        let detail = error.detail().unwrap_or_default();
        let is_denied = error.code().is_some_and(|code| is_denial(code, detail));
        // The error of a script may not name the denied command.
        let (mut explained, mut at) = (explained, None);
        if let Subject::Script(_) = subject
            && is_denied
            && !detail.contains("permissions to run")
            && let commands = &mut connection.commands.clone()
            && let Err(Refusal::Denied(place, detail)) =
                self.permissions.check(0..usize::MAX, commands).await
        {
            (explained, at) = (self.server_info.answered("NOPERM", &detail), Some(place));
        }
        let is_dead = match explained.kind() {
            StoreErrorKind::TimedOut => {
                slot.timeouts.fetch_add(1, Ordering::Relaxed) >= TIMEOUTS_TOLERATED
            }
            StoreErrorKind::Unreachable => true,
            // Reconnecting checks the permissions again, or only the one that is known to be missing.
            StoreErrorKind::Forbidden => !is_denied || matches!(role, Role::Write) || at.is_some(),
            // After a failover the host name may resolve to another server. In a cluster, a node that serves nothing
            // may not be the owner any more.
            StoreErrorKind::Refused => match error.code() {
                Some("READONLY" | "MASTERDOWN") => true,
                Some("CLUSTERDOWN" | "LOADING" | "MOVED" | "ASK") => self.topology.is_cluster(),
                _ => false,
            },
            // The client can no longer assign answers to commands.
            _ => error.code().is_none(),
        };
        if explained.kind() == StoreErrorKind::TimedOut {
            self.topology.timed_out();
        }
        if is_dead {
            if !is_denied {
                self.topology.doubt();
            }
            let mut state = slot.state.lock().await;
            if state.generation == generation
                && let Some(connection) = state.connection.take()
                && is_denied
            {
                state.denied = Some(DeniedConnection { connection, at });
            }
        }
        explained
    }
}
