//! The credentials. This crate sends them itself, because the client hides the server's answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult, cmd};
use tokio::task::JoinSet;

use super::error::{ServerInfo, real_code};
use tower_pulse_core::error::{Result, StoreErrorKind};
use tower_pulse_core::task::BoxFuture;

/// The longest time for the application to give credentials.
pub(super) const CREDENTIALS_DEADLINE: Duration = Duration::from_secs(5);

/// A user and a password for Redis. `Debug` shows neither.
///
/// ```
/// use tower_pulse_redis::RedisCredentials;
///
/// let credentials = RedisCredentials::new("app", "secret");
/// assert_eq!(format!("{credentials:?}"), "RedisCredentials(_)");
/// // A pair of both is one as well.
/// let _: RedisCredentials = ("app", "secret").into();
/// ```
#[derive(Clone)]
pub struct RedisCredentials {
    user: Option<String>,
    password: String,
}

impl RedisCredentials {
    /// A user with a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// A password without a user, as `requirepass` sets it.
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }
}

impl fmt::Debug for RedisCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisCredentials(_)")
    }
}

impl<U: Into<String>, P: Into<String>> From<(U, P)> for RedisCredentials {
    fn from((user, password): (U, P)) -> Self {
        Self::new(user, password)
    }
}

/// Asks the application for credentials. An error gives `None`, as its text is never read.
#[derive(Clone)]
pub(super) struct CredentialsCallback(Arc<Ask>);

type Ask = dyn Fn() -> BoxFuture<'static, Option<RedisCredentials>> + Send + Sync;

impl CredentialsCallback {
    pub(super) fn new<F, A, C, E>(callback: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<RedisCredentials>,
    {
        Self(Arc::new(move || {
            let asked = callback();
            Box::pin(async move { asked.await.ok().map(Into::into) })
        }))
    }

    /// The current credentials, or why there are none.
    async fn ask(&self) -> Result<RedisCredentials, &'static str> {
        let callback = self.clone();
        // A task of its own contains a panic of the application, and ends with the question.
        let mut asked = JoinSet::new();
        asked.spawn(async move { (callback.0)().await });
        match tokio::time::timeout(CREDENTIALS_DEADLINE, asked.join_next()).await {
            Ok(Some(Ok(Some(credentials)))) => Ok(credentials),
            Ok(Some(Ok(None))) => {
                Err("the function given to `redis_credentials` has returned an error")
            }
            Ok(_) => Err("the function given to `redis_credentials` has panicked"),
            Err(_) => Err("the function given to `redis_credentials` has given none within 5 s"),
        }
    }
}

impl fmt::Debug for CredentialsCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsCallback(_)")
    }
}

/// The user, the password and the database of connections.
#[derive(Clone)]
pub(super) struct Credentials {
    fixed: Option<RedisCredentials>,
    /// Asked instead of using fixed credentials.
    callback: Option<CredentialsCallback>,
    db: i64,
}

impl Credentials {
    pub(super) fn of(
        settings: &RedisConnectionInfo,
        callback: Option<CredentialsCallback>,
    ) -> Self {
        let fixed = settings.password().map(|password| RedisCredentials {
            user: settings.username().map(str::to_owned),
            password: password.to_owned(),
        });
        Self {
            fixed,
            callback,
            db: settings.db(),
        }
    }

    /// The longest time for the application while a connection is made.
    pub(super) fn patience(&self) -> Duration {
        match self.callback {
            // Before the greeting, and once more if the server refuses the credentials.
            Some(_) => 2 * CREDENTIALS_DEADLINE,
            None => Duration::ZERO,
        }
    }

    /// The current credentials. Asked for before connecting, so that the server does not wait for the application.
    pub(super) async fn now(&self, server_info: &ServerInfo) -> Result<Option<RedisCredentials>> {
        let Some(callback) = &self.callback else {
            return Ok(self.fixed.clone());
        };
        let asked = callback.ask().await;
        let asked = asked.map_err(|why| server_info.error(StoreErrorKind::Forbidden, why));
        asked.map(Some)
    }

    /// Authenticates a new connection, and selects the database.
    pub(super) async fn greet(
        &self,
        connection: &mut MultiplexedConnection,
        credentials: Option<RedisCredentials>,
        server_info: &ServerInfo,
    ) -> Result<()> {
        if let Some(credentials) = credentials {
            let mut greeted = authenticate(connection, &credentials).await;
            if self.callback.is_some()
                && matches!(&greeted, Err(error) if error.code() == Some("WRONGPASS"))
                && let Some(newer) = self.now(server_info).await?
            {
                // The credentials have been replaced since they were given.
                greeted = authenticate(connection, &newer).await;
            }
            greeted.map_err(|error| server_info.explain(&error))?;
        }
        if self.db != 0 {
            let selected = cmd("SELECT").arg(self.db).exec_async(connection).await;
            selected.map_err(|error| server_info.explain(&error))?;
        }
        Ok(())
    }
}

async fn authenticate(
    connection: &mut MultiplexedConnection,
    credentials: &RedisCredentials,
) -> RedisResult<()> {
    let mut auth = cmd("AUTH");
    if let Some(user) = &credentials.user {
        auth.arg(user);
    }
    auth.arg(&credentials.password);
    let answered = auth.exec_async(connection).await;
    answered.map_err(|error| {
        let detail = error.detail().unwrap_or_default();
        match error.code().map(|code| real_code(code, detail)) {
            // A server that does not know the command repeats its arguments, so only the code of its answer is kept.
            Some(code) => redis::make_extension_error(code.to_owned(), None),
            None => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callback<A>(ask: impl Fn() -> A + Send + Sync + 'static) -> CredentialsCallback
    where
        A: Future<Output = Result<(&'static str, &'static str), String>> + Send + 'static,
    {
        CredentialsCallback::new(ask)
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_has_5_s_to_give_credentials() {
        let given = callback(|| async { Ok(("me", "hunter2")) }).ask().await;
        let given = given.map(|given| (given.user, given.password));
        assert_eq!(given, Ok((Some("me".to_owned()), "hunter2".to_owned())));
        let silent = callback(std::future::pending).ask().await;
        assert!(silent.is_err_and(|why| why.contains("within 5 s")));
    }

    #[tokio::test]
    async fn neither_an_error_nor_a_panic_is_shown() {
        let failed = callback(|| async { Err("hunter2".to_owned()) }).ask().await;
        assert!(failed.is_err_and(|why| why.contains("an error") && !why.contains("hunter2")));
        let panicked = callback(|| async { panic!("hunter2") }).ask().await;
        assert!(panicked.is_err_and(|why| why.contains("panicked") && !why.contains("hunter2")));
        let shown = format!("{:?}", RedisCredentials::password("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
