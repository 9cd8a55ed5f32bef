//! Makes a connection: opens it, greets the server, and checks the permissions of its user.

use std::sync::{Arc, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};

use super::role::Role;
use super::{Connection, Connections, DeniedConnection, Driver};
use crate::permissions::{Refusal, server_info};
use crate::server::Server;
use crate::stream::{self, AnswerSize};
use tower_pulse_core::error::{StoreError, StoreErrorKind};

impl Connections {
    /// Makes a connection, or goes on with one that was denied a command, if it is permitted now.
    pub(super) async fn connect(
        &self,
        role: Role,
        denied: &mut Option<DeniedConnection>,
    ) -> Result<Connection, StoreError> {
        let mut connection = match self.admitted(denied.take()).await {
            Ok(Some(connection)) => connection,
            Ok(None) => self.connect_anew(role).await?,
            Err((still_denied, error)) => {
                *denied = Some(still_denied);
                return Err(error);
            }
        };
        if matches!(role, Role::Write) {
            let probed = self.probe(&mut connection.commands).await;
            if probed.is_err() && connection.answer.is_exceeded() {
                return Err(self.oversized(&connection.answer, "when the connection was made"));
            }
            if let Err((error, at)) = probed {
                *denied = at.map(|at| DeniedConnection {
                    connection,
                    at: Some(at),
                });
                return Err(error);
            }
        }
        connection.answer.reset();
        Ok(connection)
    }

    /// A connection that was denied a command, if the command is permitted now. `None` if there is no such
    /// connection, or if it is broken.
    async fn admitted(
        &self,
        denied: Option<DeniedConnection>,
    ) -> Result<Option<Connection>, (DeniedConnection, StoreError)> {
        let Some(mut denied) = denied else {
            return Ok(None);
        };
        let Some(at) = denied.at else {
            return Ok(Some(denied.connection));
        };
        let commands = &mut denied.connection.commands;
        match self.permissions.check_one(at, commands).await {
            Ok(()) => Ok(Some(denied.connection)),
            Err(Refusal::Failed(_)) => Ok(None),
            Err(Refusal::Denied(_, detail)) => {
                Err((denied, self.server_info.answered("NOPERM", &detail)))
            }
        }
    }

    async fn connect_anew(&self, role: Role) -> Result<Connection, StoreError> {
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
        let greeting = self.credentials.greet(commands).await;
        let greeted = greeting.map_err(|error| self.server_info.explain(&error));
        if greeted.is_err() && connection.answer.is_exceeded() {
            return Err(self.oversized(&connection.answer, "when the connection was made"));
        }
        greeted?;
        Ok(connection)
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
        #[cfg(feature = "tls")]
        crate::tls::choose_provider();
        let client = &self.client;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Connection {
            commands: connecting.await?,
            answer,
            _driver: None,
        })
    }

    /// Reads the kind and version of the server, and checks that the user may run all commands of this crate. The
    /// error has the place of a command that is denied.
    async fn probe(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), (StoreError, Option<usize>)> {
        let failed = |error: RedisError| (self.server_info.explain(&error), None);
        let info = server_info(connection).await.map_err(failed)?;
        let server = Server::parse(&info);
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Some(server);
        let checked = self.permissions.check(connection).await;
        checked.map_err(|refusal| match refusal {
            Refusal::Failed(error) => failed(error),
            Refusal::Denied(at, detail) => {
                let error = self.server_info.answered("NOPERM", &detail);
                (error, Some(at))
            }
        })
    }
}
