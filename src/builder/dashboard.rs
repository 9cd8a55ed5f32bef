//! The configuration of a dashboard that is a process of its own.

use std::time::Duration;

use super::{Backend, Builder};
use crate::dashboard::Dashboard;
use crate::pulse::PageOptions;
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::BuildError;
use tower_pulse_redis::RedisCredentials;

/// Configures a [`Dashboard`]. It needs the Redis of the service, and its settings of what is stored: `service` or
/// `prefix`, `precisions`, `retained_slices` and `book_keys` are those of the instances. Targets may differ from theirs.
///
/// ```
/// # fn main() -> Result<(), tower_pulse::BuildError> {
/// use tower_pulse::Dashboard;
///
/// let dashboard = Dashboard::builder()
///     .redis("redis://127.0.0.1/")
///     .service("shop")
///     .build()?;
/// let error = Dashboard::builder().build().unwrap_err();
/// assert_eq!(error.field(), "redis");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct DashboardBuilder(Builder);

impl Dashboard {
    /// Begins a configuration.
    pub fn builder() -> DashboardBuilder {
        DashboardBuilder::default()
    }
}

impl DashboardBuilder {
    /// Reads the Redis at this URL, as [`Builder::redis`] takes it.
    pub fn redis(self, url: impl Into<String>) -> Self {
        Self(self.0.redis(url))
    }

    /// Reads the Redis server of a client that is configured elsewhere, as [`Builder::redis_client`] does.
    pub fn redis_client(self, client: redis::Client) -> Self {
        Self(self.0.redis_client(client))
    }

    /// Reads a Redis Cluster, as [`Builder::redis_cluster`].
    pub fn redis_cluster<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        Self(self.0.redis_cluster(urls))
    }

    /// Reads the primary that Sentinel names, as [`Builder::redis_sentinel`].
    pub fn redis_sentinel<U: AsRef<str>>(
        self,
        service: impl AsRef<str>,
        urls: impl IntoIterator<Item = U>,
    ) -> Self {
        Self(self.0.redis_sentinel(service, urls))
    }

    /// Asks for user and password, as [`Builder::redis_credentials`].
    pub fn redis_credentials<F, A, C, E>(self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<RedisCredentials>,
    {
        Self(self.0.redis_credentials(ask))
    }

    /// Where nodes are reached, as [`Builder::redis_address_map`].
    pub fn redis_address_map(
        self,
        map: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.redis_address_map(map))
    }

    /// Certificates, as [`Builder::redis_certificates`].
    #[cfg(feature = "redis-tls")]
    pub fn redis_certificates(self, certificates: redis::TlsCertificates) -> Self {
        Self(self.0.redis_certificates(certificates))
    }

    /// How long it may take to connect to Redis: 10 ms to 10 s, 1 s by default.
    pub fn redis_connection_timeout(self, timeout: Duration) -> Self {
        Self(self.0.redis_connection_timeout(timeout))
    }

    /// How long Redis may take to answer: 10 ms to 10 s, 500 ms by default.
    pub fn redis_response_timeout(self, timeout: Duration) -> Self {
        Self(self.0.redis_response_timeout(timeout))
    }

    /// What every key in Redis begins with, as [`Builder::prefix`].
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self(self.0.prefix(prefix))
    }

    /// The name of the service, as [`Builder::service`].
    pub fn service(self, service: impl Into<String>) -> Self {
        Self(self.0.service(service))
    }

    /// The precisions of the instances, as [`Builder::precisions`].
    pub fn precisions(self, seconds: impl IntoIterator<Item = u32>) -> Self {
        Self(self.0.precisions(seconds))
    }

    /// How many slices of each precision the instances retain, as [`Builder::retained_slices`].
    pub fn retained_slices(self, slices: u32) -> Self {
        Self(self.0.retained_slices(slices))
    }

    /// Whether the instances write the book's keys, as [`Builder::book_keys`].
    pub fn book_keys(self, on: bool) -> Self {
        Self(self.0.book_keys(on))
    }

    /// The time that requests should stay below, as [`Builder::target`]. Nothing is recorded for it, so that it may differ
    /// from that of the instances.
    pub fn target(self, target: Duration) -> Self {
        Self(self.0.target(target))
    }

    /// A target for the requests of one context, as [`Builder::target_for`]. The dashboard shows its own targets, whatever
    /// those of the instances are.
    pub fn target_for(self, context: impl Into<String>, duration: Duration, share: f64) -> Self {
        Self(self.0.target_for(context, duration, share))
    }

    /// Where a trace is shown, as [`Builder::trace_url`].
    pub fn trace_url(self, url: impl Into<String>) -> Self {
        Self(self.0.trace_url(url))
    }

    /// About how many bytes may be held of what is read, as [`Builder::query_bytes`].
    pub fn query_bytes(self, bytes: usize) -> Self {
        Self(self.0.query_bytes(bytes))
    }

    /// Takes the time from another clock, for tests.
    pub fn clock(self, clock: Clock) -> Self {
        Self(self.0.clock(clock))
    }

    /// Builds it. It connects when somebody looks, so that a Redis that is away is no error.
    ///
    /// # Errors
    /// A field that is out of range, or no Redis.
    pub fn build(self) -> Result<Dashboard, BuildError> {
        let Self(builder) = self;
        builder.validate()?;
        let Backend::Redis(options) = &builder.backend else {
            let allowed = "give the URL of the Redis that the instances of the service write to";
            return Err(BuildError::new("redis", "missing", allowed));
        };
        let store = builder.open_redis(options.clone()?.read_only())?;
        let Builder {
            clock,
            targets,
            service,
            trace_url,
            query_bytes,
            ..
        } = builder;
        let page = PageOptions { service, trace_url };
        Ok(Dashboard::new(store, clock, targets, page, query_bytes))
    }
}
