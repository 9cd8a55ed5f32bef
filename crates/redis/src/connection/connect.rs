//! Makes a usable connection: connects to the server that has the keys, and checks the permissions of its user.

use std::sync::PoisonError;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, cmd};

use super::role::Role;
use super::{Connection, Connections, DeniedConnection};
use crate::permissions::{Refusal, server_info};
use crate::server::Server;
use crate::subject::Subject;
use tower_pulse_core::error::{Result, StoreError};

impl Connections {
    /// Asks again for the kind and version of the server, after it refused to tell them.
    pub(crate) async fn ask_for_server(&self) -> Result<()> {
        let (generation, connection) = self.connection(Role::Write).await?;
        let result = server_info(&mut connection.commands.clone()).await;
        let info = cmd("INFO");
        let subject = Subject::Command(&info);
        let info = self.check_reply(Role::Write, generation, &connection, &subject, result);
        self.set_server(&info.await?);
        Ok(())
    }

    /// Stores an answer to INFO, which is empty where the server refuses it.
    pub(crate) fn set_server(&self, info: &str) {
        let server = Server::parse(info, self.topology.is_cluster());
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    /// Stores the server's memory, as inspect.lua has noted it.
    pub(crate) fn set_memory(&self, memory: &str) {
        let server = &mut *self.server.write().unwrap_or_else(PoisonError::into_inner);
        server.iter_mut().for_each(|it| it.set_memory(memory));
    }

    /// Makes a connection, or reuses one that was denied a command, if the command is permitted now.
    pub(super) async fn connect(
        &self,
        role: Role,
        denied: &mut Option<DeniedConnection>,
    ) -> Result<Connection> {
        let mut connection = match self.admitted(denied.take()).await {
            Ok(Some(connection)) => connection,
            Ok(None) => self.topology.connect(&self.dialer, role).await?,
            Err((still_denied, error)) => {
                *denied = Some(still_denied);
                return Err(error);
            }
        };
        if matches!(role, Role::Write) {
            let probed = self.probe(&mut connection.commands).await;
            if let Err((error, at)) = probed {
                self.topology.doubt();
                *denied = at.map(|at| DeniedConnection {
                    connection,
                    at: Some(at),
                });
                return Err(error);
            }
        }
        Ok(connection)
    }

    /// Returns a connection that was denied a command, if the command is permitted now. `None` if there is no such
    /// connection, or it is broken.
    async fn admitted(
        &self,
        denied: Option<DeniedConnection>,
    ) -> Result<Option<Connection>, (DeniedConnection, StoreError)> {
        let changes = self.topology.changes();
        let Some(mut denied) = denied.filter(|denied| denied.connection.changes == changes) else {
            return Ok(None);
        };
        let Some(at) = denied.at else {
            return Ok(Some(denied.connection));
        };
        let commands = &mut denied.connection.commands;
        match self.permissions.check(at..at + 1, commands).await {
            Ok(()) => Ok(Some(denied.connection)),
            Err(Refusal::Failed(_)) => Ok(None),
            Err(Refusal::Denied(_, detail)) => {
                Err((denied, self.server_info.answered("NOPERM", &detail)))
            }
        }
    }

    /// Reads the kind and version of the server, and checks that the user may run all commands of this crate. The error
    /// has the index of a denied command.
    async fn probe(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), (StoreError, Option<usize>)> {
        let failed = |error: RedisError| (self.server_info.explain(&error), None);
        let info = server_info(connection).await.map_err(failed)?;
        self.set_server(&info);
        let checked = self.permissions.check(0..usize::MAX, connection).await;
        checked.map_err(|refusal| match refusal {
            Refusal::Failed(error) => failed(error),
            Refusal::Denied(at, detail) => {
                let error = self.server_info.answered("NOPERM", &detail);
                (error, Some(at))
            }
        })
    }
}
