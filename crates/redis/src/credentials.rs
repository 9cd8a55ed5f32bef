//! The credentials. This crate sends them itself, because the client hides the server's answer to them.

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult, cmd};

/// The user, the password and the database of a connection.
pub(super) struct Credentials {
    user: Option<String>,
    password: Option<String>,
    db: i64,
}

impl Credentials {
    pub(super) fn of(settings: &RedisConnectionInfo) -> Self {
        Self {
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        }
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Authenticates a new connection, and selects the database.
    pub(super) async fn greet(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        if let Some(password) = &self.password {
            let mut auth = cmd("AUTH");
            if let Some(user) = &self.user {
                auth.arg(user);
            }
            auth.arg(password).exec_async(connection).await?;
        }
        if self.db != 0 {
            cmd("SELECT").arg(self.db).exec_async(connection).await?;
        }
        Ok(())
    }
}
