//! The settings of connections to Redis, which may be set before or after the store.

use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::store::Store;
use tower_pulse_redis::{RedisCredentials, RedisOptions, RedisStore};

/// A function that applies a setting to the options that the URL gives.
pub(super) type RedisChange =
    Arc<dyn Fn(RedisOptions) -> Result<RedisOptions, BuildError> + Send + Sync>;

impl<Of> Builder<Of> {
    /// Calls a function for user and password, instead of reading them from the URL. The function is called for each
    /// connection, and once more if the server refuses the credentials. Use this setting for passwords that are valid
    /// for minutes, such as those of a cloud's IAM. The function has 5 s for each answer. Neither the credentials nor
    /// the text of an error is logged or shown: log errors in the function.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use tower_pulse::store::RedisCredentials;
    ///
    /// async fn token() -> Result<RedisCredentials, std::io::Error> {
    ///     // A file that a sidecar renews, or a call of the cloud's library.
    ///     let token = tokio::fs::read_to_string("/run/secrets/redis-token").await?;
    ///     Ok(RedisCredentials::new("app", token.trim()))
    /// }
    ///
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .redis("redis://10.0.0.1/")
    ///     .redis_credentials(token)
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// Has no effect on a [`store`](Self::store) that was opened elsewhere.
    pub fn redis_credentials<F, A, C, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<RedisCredentials>,
    {
        let ask = Arc::new(ask);
        self.redis_changes
            .push(Arc::new(move |options: RedisOptions| {
                let ask = ask.clone();
                Ok(options.credentials(move || ask()))
            }));
        self
    }

    /// Replaces addresses that this process cannot reach, for example because of a port mapping: those that nodes of a
    /// cluster announce, or that Sentinel names. The function gets the announced `host:port`, and returns another
    /// address, or `None` to keep the announced one. Addresses in URLs are not replaced.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .redis_cluster(["redis://127.0.0.1:7000"])
    ///     // Containers whose ports are mapped to the same ports of this machine.
    ///     .redis_address_map(|announced| {
    ///         let (_, port) = announced.rsplit_once(':')?;
    ///         Some(format!("127.0.0.1:{port}"))
    ///     })
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn redis_address_map(
        mut self,
        map: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let map = Arc::new(map);
        self.redis_changes
            .push(Arc::new(move |options: RedisOptions| {
                let map = map.clone();
                Ok(options.address_map(move |announced| map(announced)))
            }));
        self
    }

    /// A certificate authority of your own, and a client certificate, for `rediss://` URLs. Both apply to each server:
    /// all nodes of a cluster, or the Sentinels and the primary.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .redis_cluster(["rediss://redis-1.internal:6379", "rediss://redis-2.internal:6379"])
    ///     .redis_certificates(redis::TlsCertificates {
    ///         root_cert: Some(std::fs::read("/etc/shop/redis-ca.pem")?),
    ///         client_tls: None,
    ///     })
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "redis-tls")]
    pub fn redis_certificates(mut self, certificates: redis::TlsCertificates) -> Self {
        let change = move |options: RedisOptions| options.certificates(certificates.clone());
        self.redis_changes.push(Arc::new(change));
        self
    }

    /// The timeout for connecting to Redis: 10 ms to 10 s, 1 s by default. Has no effect on a [`store`](Self::store)
    /// that was opened elsewhere.
    pub fn redis_connection_timeout(mut self, timeout: Duration) -> Self {
        self.redis_connection_timeout = Some(timeout);
        self
    }

    /// The time in which Redis must answer a call: 10 ms to 10 s, 500 ms by default. A call without an answer is sent
    /// again, and counted once. If the timeout is longer than [`shutdown_timeout`](Self::shutdown_timeout), one slow
    /// answer is enough to make a shutdown fail.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use std::time::Duration;
    ///
    /// // A server at the other end of a slow line.
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .redis("redis://far-away/")
    ///     .redis_connection_timeout(Duration::from_secs(5))
    ///     .redis_response_timeout(Duration::from_secs(2))
    ///     .shutdown_timeout(Duration::from_secs(5))
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn redis_response_timeout(mut self, timeout: Duration) -> Self {
        self.redis_response_timeout = Some(timeout);
        self
    }

    pub(super) fn open_redis(&self, options: RedisOptions) -> Result<Arc<dyn Store>, BuildError> {
        let prefix = self.key_prefix(options.is_cluster());
        let mut options = options
            .prefix(prefix)
            .precisions(self.all_precisions())
            .expire_idle_keys(self.expire_idle_keys)
            .book_keys(self.book_keys)
            .journal_bytes(self.journal_bytes)
            .connection_timeout(self.redis_connection_timeout)
            .response_timeout(self.redis_response_timeout);
        for change in &self.redis_changes {
            options = change(options)?;
        }
        let store = RedisStore::open(options)?;
        // With a manual clock, the store ignores the server's time, which may differ by hours.
        Ok(match self.options.clock.is_manual() {
            true => Arc::new(store.with_clock(self.options.clock.clone())),
            false => Arc::new(store),
        })
    }

    /// The prefix of all keys. In a cluster, braces put all keys into one slot.
    fn key_prefix(&self, is_cluster: bool) -> String {
        match (&self.prefix, &self.service, is_cluster) {
            (Some(prefix), ..) => prefix.clone(),
            (None, Some(service), false) => format!("pulse:{service}:"),
            (None, Some(service), true) => format!("{{pulse:{service}}}:"),
            (None, None, false) => "pulse:".to_owned(),
            (None, None, true) => "{pulse}:".to_owned(),
        }
    }
}
