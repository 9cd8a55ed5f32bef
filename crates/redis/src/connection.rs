//! The connections of a store. Appending, folding and reading have separate connections, so that they do not delay each
//! other. A fourth connection exists while a large row is read or written.
//!
//! The client's `ConnectionManager` is not used. When it reconnects, it cannot check permissions or ask the application
//! for credentials. It also keeps a connection that does not answer.
//!
//! A call without a reply fails: the flusher and the fold decide whether to repeat the call. A broken connection is
//! dropped, and the next call connects again. `send` follows the redirects of a cluster; `topology` finds the server to
//! connect to.

mod dial;
#[cfg(feature = "row-cache")]
mod large;
mod send;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::{Duration, Instant};

use redis::{Pipeline, RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

pub(super) use self::dial::{Connection, Dialer, Role};
#[cfg(feature = "row-cache")]
pub(super) use self::large::LARGE_ROW;
use super::call_keys::{distinct_keys, is_script};
use super::error::{ServerInfo, is_of_another_type};
use super::keys::Keys;
use super::options::RedisOptions;
use super::permissions::{Permissions, is_denial, server_info};
use super::server::Server;
use super::topology::Topology;
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::task::lock;

/// The most successive timeouts that a connection survives. The next timeout drops the connection, even if TCP
/// considers the connection alive.
const TIMEOUTS_TOLERATED: u32 = 2;
/// All commands of [`Permissions`].
const ALL: Range<usize> = 0..usize::MAX;

pub(super) struct Connections {
    dialer: Arc<Dialer>,
    pub(super) topology: Arc<Topology>,
    /// The task that asks Sentinels while there are calls.
    sentinel_watch: SyncMutex<JoinSet<()>>,
    /// The longest time for connecting, including authentication and the check of permissions.
    connect_deadline: Duration,
    pub(super) server_info: ServerInfo,
    permissions: Permissions,
    keys: Keys,
    by_role: [RoleConnection; 4],
    #[cfg(feature = "row-cache")]
    large_mutex: Mutex<()>,
    server: SyncMutex<Option<Server>>,
}

#[derive(Default)]
struct RoleConnection {
    /// Locked while connecting, so that other calls wait for the same connection.
    state: Mutex<RoleState>,
    timeouts: AtomicU32,
}

impl RoleConnection {
    fn reset_timeouts(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct RoleState {
    connection: Option<Connection>,
    /// After a denial, the indexes of the commands that must be permitted before the connection is used again. The
    /// connection is kept for these checks.
    denied: Option<Range<usize>>,
    /// A connection to the node to which the cluster is moving the hash slot.
    asking: Option<Connection>,
    last_number: u64,
    /// The last failed attempt to connect. Calls that waited for this attempt report the same error.
    failure: Option<(Instant, StoreError)>,
}

impl Connections {
    pub(super) fn new(options: &RedisOptions, keys: &Keys) -> Self {
        let server_info = ServerInfo::new(options, keys);
        let dialer = Arc::new(Dialer::new(options.clone(), server_info.clone()));
        let topology = Topology::new(options, &dialer);
        Self {
            // Finding the server may take about as long as connecting to it.
            connect_deadline: dialer.deadline() + topology.deadline(),
            dialer,
            topology: Arc::new(topology),
            sentinel_watch: SyncMutex::default(),
            server_info,
            permissions: Permissions::new(keys, options.is_read_only),
            keys: keys.clone(),
            by_role: Default::default(),
            #[cfg(feature = "row-cache")]
            large_mutex: Mutex::default(),
            server: SyncMutex::default(),
        }
    }

    pub(super) fn address(&self) -> String {
        let address = &self.server_info.address;
        match self.topology.server() {
            Some(node) => format!("{address}, now {node}"),
            None => address.clone(),
        }
    }

    pub(super) fn server(&self) -> Option<Server> {
        lock(&self.server).clone()
    }

    /// Stores the reply to INFO, which is empty if the server refuses the command.
    pub(super) fn set_server(&self, info: &str) {
        *lock(&self.server) = Some(Server::parse(info, self.topology.is_cluster()));
    }

    /// Stores the state of the server's memory, as inspect.lua has written it to the journal's state.
    pub(super) fn set_memory(&self, memory: &str) {
        if let Some(server) = &mut *lock(&self.server) {
            server.set_memory(memory);
        }
    }

    pub(super) async fn ask_for_server(&self) -> Result<()> {
        let mut connection = self.connection(Role::Write).await?;
        match server_info(&mut connection.commands).await {
            Ok(info) => {
                self.set_server(&info);
                Ok(())
            }
            Err(error) => Err(self
                .fail(Role::Write, &connection, &Pipeline::new(), error)
                .await),
        }
    }

    fn refuse_write(&self, only_reads: impl FnOnce() -> bool) -> Result<()> {
        if self.dialer.options.is_read_only && !only_reads() {
            let message = "this process may only read the store, so the write was refused";
            return Err(self.server_info.error(StoreErrorKind::Refused, message));
        }
        Ok(())
    }

    fn of_role(&self, role: Role) -> &RoleConnection {
        &self.by_role[role as usize]
    }

    /// Connects if there is no connection.
    async fn connection(&self, role: Role) -> Result<Connection> {
        let called = Instant::now();
        if self.topology.note_call() {
            let mut watch = lock(&self.sentinel_watch);
            let _ = watch.try_join_next();
            if watch.is_empty() {
                watch.spawn(self.topology.clone().ask_while_called());
            }
        }
        let mut state = self.of_role(role).state.lock().await;
        let state = &mut *state;
        // A connection that was made before the last change of the server is dropped.
        let changes = self.topology.changes();
        (state.connection).take_if(|connection| connection.changes != changes);
        if let (Some(connection), None) = (&state.connection, &state.denied) {
            return Ok(connection.clone());
        }
        if let Some((at, error)) = &state.failure
            && *at >= called
        {
            return Err(error.clone());
        }
        let connecting = self.connect(role, state);
        let connected = tokio::time::timeout(self.connect_deadline, connecting).await;
        match connected.unwrap_or_else(|_| Err(self.too_late(&self.server_info))) {
            Ok(mut connection) => {
                state.last_number += 1;
                state.failure = None;
                connection.number = Some(state.last_number);
                state.connection = Some(connection.clone());
                self.of_role(role).reset_timeouts();
                Ok(connection)
            }
            Err(error) => {
                state.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn too_late(&self, server_info: &ServerInfo) -> StoreError {
        let message = format!("no connection within {:?}", self.connect_deadline);
        server_info.error(StoreErrorKind::Unreachable, &message)
    }

    /// Makes a connection, or returns the kept connection if its denied command is permitted now.
    async fn connect(&self, role: Role, state: &mut RoleState) -> Result<Connection> {
        let mut kept = state.connection.take().zip(state.denied.take());
        if let Some((connection, denied)) = &mut kept {
            let commands = &mut connection.commands;
            let checked = self.permissions.check(denied.clone(), commands).await;
            if let Ok(Some(denied)) = checked {
                let connection = kept.map(|(connection, _)| connection);
                return Err(self.deny(state, connection, denied));
            }
            kept = kept.filter(|_| checked.is_ok());
        }
        let mut connection = match kept {
            Some((connection, _)) => connection,
            None => self.topology.connect(&self.dialer, role).await?,
        };
        if let Role::Write = role {
            let probed = self.probe(&mut connection).await;
            if !matches!(probed, Ok(None)) {
                self.topology.doubt();
            }
            let denied = probed.map_err(|error| self.server_info.explain(&error))?;
            if let Some(denied) = denied {
                return Err(self.deny(state, Some(connection), denied));
            }
        }
        Ok(connection)
    }

    /// Keeps a connection whose user was denied a command. The next attempt begins with a check of that command.
    fn deny(
        &self,
        state: &mut RoleState,
        connection: Option<Connection>,
        (at, detail): (usize, String),
    ) -> StoreError {
        (state.connection, state.denied) = (connection, Some(at..at + 1));
        self.server_info.answered("NOPERM", &detail)
    }

    /// Reads the kind and version of the server, and returns the first command of this crate that the user may not run.
    async fn probe(&self, connection: &mut Connection) -> RedisResult<Option<(usize, String)>> {
        let info = server_info(&mut connection.commands).await?;
        self.set_server(&info);
        self.permissions.check(ALL, &mut connection.commands).await
    }

    /// Converts an error of the client or the server to a [`StoreError`], and drops an unusable connection. If a key of
    /// a script has a wrong type, finds out which key.
    async fn fail(
        &self,
        role: Role,
        connection: &Connection,
        sent: &Pipeline,
        error: RedisError,
    ) -> StoreError {
        let held = self.of_role(role);
        let (is_script, keys) = (is_script(sent), distinct_keys(sent));
        let foreign = match is_script && is_of_another_type(&error) {
            true => self.key_of_another_type(connection, &keys).await,
            false => None,
        };
        let mut explained = match foreign {
            Some(key) => self.server_info.explain_about(&error, &[key], false),
            None => self.server_info.explain_about(&error, &keys, is_script),
        };
        let detail = error.detail().unwrap_or_default();
        let is_denied = is_denial(&error);
        // The error of a script does not always name the denied command.
        let (mut denied, mut commands) = (None, connection.commands.clone());
        if is_script
            && is_denied
            && !detail.contains("permissions to run")
            && let Ok(Some((at, detail))) = self.permissions.check(ALL, &mut commands).await
        {
            explained = self.server_info.answered("NOPERM", &detail);
            denied = Some(at..at + 1);
        }
        let is_dead = match explained.kind() {
            StoreErrorKind::TimedOut => {
                self.topology.ask_soon();
                held.timeouts.fetch_add(1, Ordering::Relaxed) >= TIMEOUTS_TOLERATED
            }
            StoreErrorKind::Unreachable => true,
            // Reconnecting checks all permissions again, or only the missing one if it is known.
            StoreErrorKind::Forbidden => {
                !is_denied || matches!(role, Role::Write) || denied.is_some()
            }
            // After a failover the host name may resolve to another server. In a cluster, a node that refuses a command
            // may have lost the slot.
            StoreErrorKind::Refused => match error.code() {
                Some("READONLY" | "MASTERDOWN") => true,
                Some("CLUSTERDOWN" | "LOADING" | "MOVED" | "ASK") => self.topology.is_cluster(),
                _ => false,
            },
            // After an error of the client itself, replies cannot be matched to commands.
            _ => error.code().is_none(),
        };
        if !is_dead {
            return explained;
        }
        if !is_denied {
            self.topology.doubt();
        }
        let mut state = held.state.lock().await;
        let is_same = |current: &mut Connection| current.number == connection.number;
        if connection.number.is_none() {
            state.asking = None;
        } else if is_denied && state.connection.as_mut().is_some_and(is_same) {
            state.denied = Some(denied.unwrap_or(ALL));
        } else {
            state.connection.take_if(is_same);
        }
        explained
    }
}
