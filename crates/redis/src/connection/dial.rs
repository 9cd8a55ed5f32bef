//! Opens a connection to one server and greets it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo};

use crate::credentials::{Credentials, CredentialsCallback};
use crate::error::ServerInfo;
use crate::options::RedisOptions;
use crate::topology::Address;
use tower_pulse_core::error::{Result, StoreErrorKind};

/// The longest time for a large row: 64 MiB take about as long at 60 Mbit/s.
#[cfg(feature = "row-cache")]
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The purpose of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Write,
    Fold,
    Read,
    /// A single call with a large row.
    #[cfg(feature = "row-cache")]
    Large,
}

/// A connection to one server.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) commands: MultiplexedConnection,
    /// The node that it leads to, where nodes have addresses of their own.
    pub(crate) node: Option<Address>,
    /// The number of changes of the server when the connection was made.
    pub(crate) changes: u64,
    /// The number of the connection among those of its role. `None` if it leads to the node to which the slot is being
    /// moved, so that ASKING precedes each command.
    pub(crate) generation: Option<u64>,
}

/// Opens connections over one transport with the same credentials.
pub(crate) struct Dialer {
    /// The transport, without credentials.
    info: ConnectionInfo,
    credentials: Credentials,
    connection_timeout: Duration,
    response_timeout: Duration,
    server_info: ServerInfo,
}

impl Dialer {
    pub(crate) fn new(
        info: &ConnectionInfo,
        callback: Option<CredentialsCallback>,
        options: &RedisOptions,
        server_info: ServerInfo,
    ) -> Self {
        let settings = info.redis_settings();
        let bare = redis::RedisConnectionInfo::default()
            .set_protocol(settings.protocol())
            .set_skip_set_lib_name();
        Self {
            info: info.clone().set_redis_settings(bare),
            credentials: Credentials::of(settings, callback),
            connection_timeout: options.connection_timeout,
            response_timeout: options.response_timeout,
            server_info,
        }
    }

    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    /// The longest time for a command.
    pub(crate) fn response_timeout(&self, role: Role) -> Duration {
        match role {
            #[cfg(feature = "row-cache")]
            Role::Large => self.response_timeout.max(LARGE_TIMEOUT),
            Role::Write | Role::Fold | Role::Read => self.response_timeout,
        }
    }

    /// The longest time for connecting to one server.
    pub(crate) fn deadline(&self) -> Duration {
        self.connection_timeout + self.response_timeout + self.credentials.patience()
    }

    /// Connects to the configured server.
    pub(crate) async fn dial(&self, role: Role) -> Result<Connection> {
        self.open(self.info.clone(), &self.server_info, role).await
    }

    /// Connects to a node.
    pub(crate) async fn dial_node(&self, node: &Address, role: Role) -> Result<Connection> {
        let address = node.by_way_of(self.info.addr());
        let info = self.info.clone().set_addr(address);
        let opened = self.open(info, &self.server_info.of_node(node), role).await;
        opened.map(|connection| Connection {
            node: Some(node.clone()),
            ..connection
        })
    }

    async fn open(
        &self,
        info: ConnectionInfo,
        server_info: &ServerInfo,
        role: Role,
    ) -> Result<Connection> {
        let credentials = self.credentials.now(server_info).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connection_timeout))
            .set_response_timeout(Some(self.response_timeout(role)));
        #[cfg(feature = "tls")]
        crate::tls::choose_provider();
        let opened = match Client::open(info) {
            Ok(client) => {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
            }
            Err(error) => Err(error),
        };
        let mut commands = opened.map_err(|error| match server_info.explain(&error) {
            // No call has been sent yet, so no call is in doubt.
            error if error.kind() == StoreErrorKind::TimedOut => {
                let message = "cannot be reached (no connection within the connection timeout)";
                server_info.error(StoreErrorKind::Unreachable, message)
            }
            other => other,
        })?;
        let greeting = self
            .credentials
            .greet(&mut commands, credentials, server_info);
        greeting.await?;
        Ok(Connection {
            commands,
            node: None,
            changes: 0,
            generation: None,
        })
    }
}

/// The address of a server, for messages.
pub(crate) fn place_of(info: &ConnectionInfo) -> String {
    let db = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::Unix(path) => format!("{}/{db}", path.display()),
        address => format!("{address}/{db}"),
    }
}
