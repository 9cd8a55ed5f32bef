//! Credentials for Redis. This crate sends them itself, because the client would hide the server's reply.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult, cmd};
use tokio::task::JoinSet;

use super::error::real_code;
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
/// // A pair of user and password works, too.
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

    /// The user and the password of a URL; `None` without a password.
    pub(super) fn of(settings: &RedisConnectionInfo) -> Option<Self> {
        Some(Self {
            user: settings.username().map(str::to_owned),
            password: settings.password()?.to_owned(),
        })
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

/// Asks the application for credentials. An error of the application becomes `None`: its text is never read.
pub(super) type CredentialsCallback =
    Arc<dyn Fn() -> BoxFuture<'static, Option<RedisCredentials>> + Send + Sync>;

pub(super) async fn ask(callback: &CredentialsCallback) -> Result<RedisCredentials, &'static str> {
    let callback = callback.clone();
    // A separate task isolates a panic of the application, and is aborted at the deadline.
    let mut asked = JoinSet::new();
    asked.spawn(async move { callback().await });
    match tokio::time::timeout(CREDENTIALS_DEADLINE, asked.join_next()).await {
        Ok(Some(Ok(Some(credentials)))) => Ok(credentials),
        Ok(Some(Ok(None))) => {
            Err("the function given to `redis_credentials` has returned an error")
        }
        Ok(_) => Err("the function given to `redis_credentials` has panicked"),
        Err(_) => Err("the function given to `redis_credentials` has returned nothing within 5 s"),
    }
}

pub(super) async fn authenticate(
    connection: &mut MultiplexedConnection,
    credentials: &RedisCredentials,
) -> RedisResult<()> {
    let mut auth = cmd("AUTH");
    if let Some(user) = &credentials.user {
        auth.arg(user);
    }
    auth.arg(&credentials.password);
    let replied = auth.exec_async(connection).await;
    replied.map_err(|error| {
        let detail = error.detail().unwrap_or_default();
        match error.code().map(|code| real_code(code, detail)) {
            // The reply to an unknown command would repeat the password, so only the code of an error is kept.
            Some(code) => redis::make_extension_error(code.to_owned(), None),
            None => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisOptions;

    async fn asked<A>(
        callback: impl Fn() -> A + Send + Sync + 'static,
    ) -> Result<String, &'static str>
    where
        A: Future<Output = Result<(&'static str, &'static str), String>> + Send + 'static,
    {
        let options = RedisOptions::new("redis://a").expect("a URL");
        let callback = options.credentials(callback).credentials;
        let given = ask(&callback.expect("a function")).await?;
        Ok(format!("{:?} {}", given.user, given.password))
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_has_5_s_to_give_credentials() {
        let given = asked(|| async { Ok(("me", "hunter2")) }).await;
        assert_eq!(given.as_deref(), Ok("Some(\"me\") hunter2"));
        let silent = asked(std::future::pending).await;
        assert!(silent.is_err_and(|why| why.contains("within 5 s")));
    }

    #[tokio::test]
    async fn the_text_of_a_panic_is_not_shown() {
        let panicked = asked(|| async { panic!("hunter2") }).await;
        assert!(panicked.is_err_and(|why| why.contains("panicked") && !why.contains("hunter2")));
    }
}
