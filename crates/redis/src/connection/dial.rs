//! Opens a connection to one server: connects, authenticates, and selects the database.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, RedisConnectionInfo, cmd};

use crate::credentials::{CREDENTIALS_DEADLINE, RedisCredentials, ask, authenticate};
use crate::error::ServerInfo;
use crate::options::RedisOptions;
use crate::topology::Address;
use tower_pulse_core::error::{Result, StoreErrorKind};

/// The least response timeout for a large row. At 60 Mbit/s, the largest row (64 MiB) takes about this long.
#[cfg(feature = "row-cache")]
const LARGE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Write,
    Fold,
    Read,
    /// A single call with a large row.
    #[cfg(feature = "row-cache")]
    Large,
}

#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) commands: MultiplexedConnection,
    /// The node of the connection; `None` for the configured server.
    pub(crate) node: Option<Address>,
    /// The number of times that the server had changed before the connection was made.
    pub(crate) changes: u64,
    /// The number of the connection among all connections of its role so far. `None` for a connection to the node to
    /// which the hash slot is being moved: ASKING precedes each of its commands.
    pub(crate) number: Option<u64>,
}

/// Opens connections with the transport and the credentials of the options.
pub(crate) struct Dialer {
    pub(crate) options: RedisOptions,
    pub(crate) server_info: ServerInfo,
}

impl Dialer {
    pub(crate) fn new(options: RedisOptions, server_info: ServerInfo) -> Self {
        Self {
            options,
            server_info,
        }
    }

    pub(crate) fn response_timeout(&self, role: Role) -> Duration {
        match role {
            #[cfg(feature = "row-cache")]
            Role::Large => self.options.response_timeout.max(LARGE_TIMEOUT),
            Role::Write | Role::Fold | Role::Read => self.options.response_timeout,
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        let options = &self.options;
        // The application is asked for credentials before connecting, and once more if the server refuses them.
        let asked = if options.credentials.is_some() { 2 } else { 0 };
        options.connection_timeout + options.response_timeout + asked * CREDENTIALS_DEADLINE
    }

    /// Without a node, connects to the configured server.
    pub(crate) async fn dial(&self, node: Option<&Address>, role: Role) -> Result<Connection> {
        let bare = RedisConnectionInfo::default()
            // The replies that this crate reads are the same in both versions of the protocol.
            .set_protocol(ProtocolVersion::RESP2)
            // Otherwise, the client sends CLIENT SETINFO, which fills the server's log of denied commands if the user
            // may not run it.
            .set_skip_set_lib_name();
        let mut info = self.options.info.clone().set_redis_settings(bare);
        let mut server_info = self.server_info.clone();
        if let Some(node) = node {
            let address = node.with_transport_of(info.addr());
            info = info.set_addr(address);
            server_info = server_info.of_node(node);
        }
        // The application is asked before the server is contacted, so that no connection waits for the application.
        let credentials = self.credentials(&server_info).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.connection_timeout))
            .set_response_timeout(Some(self.response_timeout(role)));
        #[cfg(feature = "tls")]
        crate::tls::choose_provider();
        let opening = async {
            let client = Client::open(info)?;
            (client.get_multiplexed_async_connection_with_config(&config)).await
        };
        let mut commands = opening
            .await
            .map_err(|error| match server_info.explain(&error) {
                // No call has been sent yet, so no call is in doubt.
                error if error.kind() == StoreErrorKind::TimedOut => {
                    let message = "cannot be reached within the `redis_connection_timeout`";
                    server_info.error(StoreErrorKind::Unreachable, message)
                }
                other => other,
            })?;
        (self.log_in(&mut commands, credentials, &server_info)).await?;
        Ok(Connection {
            commands,
            node: node.cloned(),
            changes: 0,
            number: None,
        })
    }

    async fn credentials(&self, server_info: &ServerInfo) -> Result<Option<RedisCredentials>> {
        let Some(callback) = &self.options.credentials else {
            return Ok(RedisCredentials::of(self.options.info.redis_settings()));
        };
        let given = ask(callback).await.map(Some);
        given.map_err(|why| server_info.error(StoreErrorKind::Forbidden, why))
    }

    /// Also selects the database.
    async fn log_in(
        &self,
        commands: &mut MultiplexedConnection,
        credentials: Option<RedisCredentials>,
        server_info: &ServerInfo,
    ) -> Result<()> {
        if let Some(credentials) = credentials {
            let mut reply = authenticate(commands, &credentials).await;
            if self.options.credentials.is_some()
                && matches!(&reply, Err(error) if error.code() == Some("WRONGPASS"))
                && let Some(newer) = self.credentials(server_info).await?
            {
                // The credentials were replaced after the application had returned them.
                reply = authenticate(commands, &newer).await;
            }
            reply.map_err(|error| server_info.explain(&error))?;
        }
        let db = self.options.info.redis_settings().db();
        if db != 0 {
            let selected = cmd("SELECT").arg(db).exec_async(commands).await;
            selected.map_err(|error| server_info.explain(&error))?;
        }
        Ok(())
    }
}
