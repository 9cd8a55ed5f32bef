//! Opens a connection to one server and greets it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError, RedisResult,
};

use super::role::Role;
use crate::credentials::{Credentials, CredentialsCallback, NotGreeted};
use crate::error::ServerInfo;
use crate::topology::Address;
use tower_pulse_core::error::{Result, StoreErrorKind};

/// A connection to one server.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) commands: MultiplexedConnection,
    /// The node that it leads to, where nodes have addresses of their own.
    pub(crate) node: Option<Address>,
    /// The number of changes of the server when the connection was made.
    pub(crate) changes: u64,
}

/// Opens connections over one transport with the same credentials.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// The transport, without credentials.
    info: ConnectionInfo,
    credentials: Credentials,
    config: AsyncConnectionConfig,
    connection_timeout: Duration,
    response_timeout: Duration,
    server_info: ServerInfo,
}

impl Dialer {
    pub(crate) fn new(
        info: &ConnectionInfo,
        callback: Option<CredentialsCallback>,
        (connection_timeout, response_timeout): (Duration, Duration),
        server_info: ServerInfo,
    ) -> Self {
        let settings = info.redis_settings();
        let bare = redis::RedisConnectionInfo::default()
            .set_protocol(settings.protocol())
            .set_skip_set_lib_name();
        Self {
            info: info.clone().set_redis_settings(bare),
            credentials: Credentials::of(settings, callback),
            config: AsyncConnectionConfig::new().set_connection_timeout(Some(connection_timeout)),
            connection_timeout,
            response_timeout,
            server_info,
        }
    }

    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    #[cfg(feature = "row-cache")]
    pub(super) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// The longest time for connecting to one server.
    pub(super) fn deadline(&self) -> Duration {
        self.connection_timeout + self.response_timeout + self.credentials.patience()
    }

    /// Connects to the configured server.
    pub(crate) async fn dial(&self, role: Role) -> Result<Connection> {
        self.open(&self.info, &self.server_info, role).await
    }

    /// Connects to a node.
    pub(crate) async fn dial_node(&self, node: &Address, role: Role) -> Result<Connection> {
        let address = node.by_way_of(self.info.addr());
        let info = self.info.clone().set_addr(address);
        let server_info = self.server_info.of_node(node);
        let mut connection = self.open(&info, &server_info, role).await?;
        connection.node = Some(node.clone());
        Ok(connection)
    }

    async fn open(
        &self,
        info: &ConnectionInfo,
        server_info: &ServerInfo,
        role: Role,
    ) -> Result<Connection> {
        let not_greeted = |failure| match failure {
            NotGreeted::NoCredentials(why) => server_info.error(StoreErrorKind::Forbidden, why),
            NotGreeted::Failed(error) => server_info.explain(&error),
        };
        let credentials = self.credentials.now().await.map_err(not_greeted)?;
        let config = role.config(&self.config, self.response_timeout);
        let opening = connect(info, config);
        let opening = tokio::time::timeout(self.connection_timeout, opening).await;
        let opened = opening.unwrap_or_else(|_| {
            let timeout = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Err(RedisError::from(timeout))
        });
        let mut commands = opened.map_err(|error| match server_info.explain(&error) {
            // No call has been sent yet, so no call is in doubt.
            error if error.kind() == StoreErrorKind::TimedOut => {
                let message = "cannot be reached (no connection within the connection timeout)";
                server_info.error(StoreErrorKind::Unreachable, message)
            }
            other => other,
        })?;
        let greeted = self.credentials.greet(&mut commands, credentials).await;
        greeted.map_err(not_greeted)?;
        Ok(Connection {
            commands,
            node: None,
            changes: 0,
        })
    }
}

async fn connect(
    info: &ConnectionInfo,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    #[cfg(feature = "tls")]
    crate::tls::choose_provider();
    let client = Client::open(info.clone())?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// The address of a server, for messages.
pub(crate) fn place_of(info: &ConnectionInfo) -> String {
    let db = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::Unix(path) => format!("{}/{db}", path.display()),
        address => format!("{address}/{db}"),
    }
}
