//! The options of a Redis, checked before the store connects.

mod url;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use redis::ConnectionAddr;
use redis::ConnectionInfo;

use super::credentials::{CredentialsCallback, RedisCredentials};
use super::topology::{Address, AddressMap, Layout, hash_tag};
use tower_pulse_core::error::BuildError;
use tower_pulse_model::slice::Precisions;

/// The address of a Redis, and the options of the store in it. `Debug` shows no password.
#[derive(Clone)]
pub struct RedisOptions {
    /// The server, with user, password and database. For a cluster and behind Sentinel, host and port are unused.
    pub(super) info: ConnectionInfo,
    pub(super) layout: Layout,
    /// The servers that name the server with the keys: nodes of the cluster, or the Sentinels.
    pub(super) seeds: Vec<Address>,
    /// The transport and the credentials of the Sentinels.
    pub(super) sentinel_info: Option<ConnectionInfo>,
    pub(super) credentials: Option<CredentialsCallback>,
    pub(super) address_map: Option<AddressMap>,
    pub(super) prefix: String,
    pub(super) precisions: Precisions,
    pub(super) expire_idle_keys: bool,
    pub(super) book_keys: bool,
    pub(super) journal_bytes: u64,
    pub(super) is_read_only: bool,
    pub(super) response_timeout: Duration,
    pub(super) connection_timeout: Duration,
}

impl RedisOptions {
    /// The server at `url`: `redis://[user:password@]host[:port][/database]`, `rediss://…` (with the feature
    /// `redis-tls`), `unix:///path` or `redis+unix:///path`.
    ///
    /// # Errors
    /// Fails if the URL has none of these forms. The error's text does not contain the password.
    pub fn new(url: &str) -> Result<Self, BuildError> {
        Ok(Self::from(url::parse("redis", url)?))
    }

    /// The cluster of the nodes at these URLs; one URL is enough. The URLs are `redis://[user:password@]host[:port]` or
    /// `rediss://…`, all with the same user, password and transport. All keys must be in one slot, so the
    /// [`prefix`](Self::prefix) needs a hash tag, such as `{pulse:shop}:`. The store asks any node for the slot's
    /// owner, and asks again when the owner changes.
    ///
    /// # Errors
    /// Fails if there is no URL or more than 64, if a URL has another form, or if the URLs differ in more than host and
    /// port.
    ///
    /// ```
    /// use tower_pulse_redis::RedisOptions;
    ///
    /// let options = RedisOptions::cluster(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"])?;
    /// let options = options.prefix("{pulse:shop}:");
    /// # Ok::<(), tower_pulse_core::error::BuildError>(())
    /// ```
    pub fn cluster<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, BuildError> {
        let (info, seeds) = url::parse_all("redis_cluster", urls)?;
        if info.redis_settings().db() != 0 {
            let value = format!("a URL with the database {}", info.redis_settings().db());
            let allowed = "a cluster has only the database 0: leave it out";
            return Err(BuildError::new("redis_cluster", value, allowed));
        }
        let mut options = Self::from(info);
        (options.layout, options.seeds) = (Layout::Cluster, seeds);
        Ok(options)
    }

    /// The primary that the Sentinels at these URLs monitor under the name `service`. The user and the password in
    /// these URLs are for the Sentinels. `service` is this name alone, or a URL with the name as its host:
    /// `redis://[user:password@]name[/database]` or `rediss://…`. User, password and database of this URL are for the
    /// primary.
    ///
    /// If the Sentinels use TLS, the primary must use TLS too.
    ///
    /// # Errors
    /// Fails if there is no name, no URL or more than 64, if the name or a URL has another form, or if the Sentinels'
    /// URLs differ in more than host and port.
    ///
    /// ```
    /// use tower_pulse_redis::RedisOptions;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let options = RedisOptions::sentinel("mymaster", sentinels)?;
    /// // With a password for the primary, and another for the Sentinels.
    /// let options = RedisOptions::sentinel("redis://app:secret@mymaster", ["redis://:other@10.0.0.1:26379"])?;
    /// # Ok::<(), tower_pulse_core::error::BuildError>(())
    /// ```
    pub fn sentinel<U: AsRef<str>>(
        service: &str,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Self, BuildError> {
        const FIELD: &str = "redis_sentinel";
        let (sentinel_info, sentinels) = url::parse_all(FIELD, urls)?;
        if sentinel_info.redis_settings().db() != 0 {
            let allowed = "Sentinels have no databases: put the primary's after the service's name, redis://name/1";
            return Err(BuildError::new(FIELD, "a URL with a database", allowed));
        }
        let (info, service) = url::parse_service(FIELD, service, sentinel_info.addr())?;
        let mut options = Self::from(info);
        (options.layout, options.seeds) = (Layout::Sentinel(service), sentinels);
        options.sentinel_info = Some(Self::from(sentinel_info).info);
        Ok(options)
    }

    /// Asks the application for user and password, and ignores those in the URL. The store calls `ask` for each
    /// connection, except to Sentinels, and once more if the server refuses the credentials. Each call may take 5 s.
    /// The credentials and the text of an error are never logged or shown.
    ///
    /// ```
    /// use tower_pulse_redis::{RedisCredentials, RedisOptions};
    ///
    /// async fn token() -> Result<RedisCredentials, std::io::Error> {
    ///     let token = std::fs::read_to_string("/run/secrets/redis")?;
    ///     Ok(RedisCredentials::new("app", token.trim()))
    /// }
    ///
    /// let options = RedisOptions::new("redis://10.0.0.1/")?.credentials(token);
    /// # Ok::<(), tower_pulse_core::error::BuildError>(())
    /// ```
    pub fn credentials<F, A, C, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<RedisCredentials>,
    {
        self.credentials = Some(Arc::new(move || {
            let asked = ask();
            Box::pin(async move { asked.await.ok().map(Into::into) })
        }));
        self
    }

    /// Maps the address that a node announces, `host:port`, to an address that this process can reach, for example
    /// behind a port mapping. `None` keeps the address. Addresses in URLs are not replaced. Has no effect with a
    /// standalone server.
    ///
    /// ```
    /// use tower_pulse_redis::RedisOptions;
    ///
    /// let options = RedisOptions::cluster(["redis://127.0.0.1:7000"])?;
    /// // Containers whose ports are mapped to those of this machine.
    /// let options = options.address_map(|announced| {
    ///     let (_, port) = announced.rsplit_once(':')?;
    ///     Some(format!("127.0.0.1:{port}"))
    /// });
    /// # Ok::<(), tower_pulse_core::error::BuildError>(())
    /// ```
    pub fn address_map(
        mut self,
        map: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.address_map = Some(Arc::new(map));
        self
    }

    /// Sets a custom certificate authority and a client certificate for `rediss://` URLs: of a server, of all nodes of
    /// a cluster, or of Sentinels and the primary.
    ///
    /// # Errors
    /// Fails if no URL begins with `rediss://`, or the certificates cannot be read.
    #[cfg(feature = "tls")]
    pub fn certificates(
        mut self,
        certificates: redis::TlsCertificates,
    ) -> Result<Self, BuildError> {
        const FIELD: &str = "redis_certificates";
        const ALLOWED: &str = "must be PEM: the authority's certificate and, if the server asks clients for a \
                               certificate, also a certificate with its key";
        // The client would ignore a file without a certificate.
        let authority = certificates.root_cert.as_deref();
        let has_certificate = |pem: &[u8]| {
            let begin = b"-----BEGIN CERTIFICATE-----";
            pem.windows(begin.len()).any(|part| part == begin)
        };
        if authority.is_some_and(|pem| !has_certificate(pem)) {
            return Err(BuildError::new(FIELD, "without a certificate", ALLOWED));
        }
        let mut is_used = false;
        let infos = std::iter::once(&mut self.info).chain(&mut self.sentinel_info);
        for info in infos.filter(|info| matches!(info.addr(), ConnectionAddr::TcpTls { .. })) {
            is_used = true;
            let client = redis::Client::build_with_tls(info.clone(), certificates.clone());
            let client = client.map_err(|error| {
                BuildError::new(FIELD, "not readable", ALLOWED).with_source(error)
            })?;
            *info = client.get_connection_info().clone();
        }
        if !is_used {
            let allowed = "certificates need a URL that begins with rediss://";
            return Err(BuildError::new(FIELD, "given without TLS", allowed));
        }
        Ok(self)
    }

    /// Puts `prefix` before every key. With an empty prefix, the default, the book's keys have their names in *Redis in
    /// Action*.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The precisions of counters; by default those of *Redis in Action*.
    pub fn precisions(mut self, precisions: Precisions) -> Self {
        self.precisions = precisions;
        self
    }

    /// Whether the keys of idle counters expire; `true` by default. Use `false` if other programs that set no expiry
    /// write the same keys.
    pub fn expire_idle_keys(mut self, expire: bool) -> Self {
        self.expire_idle_keys = expire;
        self
    }

    /// Whether the book's keys are written for other programs to read; `true` by default.
    pub fn book_keys(mut self, book_keys: bool) -> Self {
        self.book_keys = book_keys;
        self
    }

    /// The most bytes of entries that wait to be folded, 64 MiB by default. Beyond that, instances keep their samples
    /// in their own memory, as during an outage.
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = bytes;
        self
    }

    /// Makes the store refuse all writes before they are sent. The Redis user then needs no permission to write.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// The longest time for a reply, 500 ms by default. `None` changes nothing.
    pub fn response_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.response_timeout = timeout.into().unwrap_or(self.response_timeout);
        self
    }

    /// The longest time for connecting, 1 s by default. `None` changes nothing.
    pub fn connection_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.connection_timeout = timeout.into().unwrap_or(self.connection_timeout);
        self
    }

    /// Whether the server is a cluster, where all keys must be in one slot.
    pub fn is_cluster(&self) -> bool {
        self.layout == Layout::Cluster
    }

    /// Refuses a prefix whose keys could be in several slots of a cluster.
    pub(super) fn check_prefix(&self) -> Result<(), BuildError> {
        if !self.is_cluster() || hash_tag(&self.prefix).is_some() {
            return Ok(());
        }
        let bare = self.prefix.replace(['{', '}'], "");
        let bare = Some(bare.trim_end_matches(':')).filter(|bare| !bare.is_empty());
        let allowed = format!(
            "in a cluster all keys need to be in one slot, by a hash tag: use `{{{}}}:`",
            bare.unwrap_or("pulse")
        );
        let value = format!("{:?}", self.prefix);
        Err(BuildError::new("prefix", value, allowed))
    }

    /// The address of the server, without user and password, for messages.
    pub(super) fn address(&self) -> String {
        let nodes: Vec<_> = self.seeds.iter().take(3).map(Address::to_string).collect();
        let more = if self.seeds.len() > 3 { ", …" } else { "" };
        let (nodes, db) = (nodes.join(", ") + more, self.info.redis_settings().db());
        match &self.layout {
            Layout::Standalone => format!("{}/{db}", self.info.addr()),
            Layout::Cluster => format!("the cluster of {nodes}"),
            Layout::Sentinel(service) => format!("{service}/{db} of the Sentinels {nodes}"),
        }
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RedisOptions")
            .field(&self.address())
            .finish()
    }
}

impl From<ConnectionInfo> for RedisOptions {
    fn from(info: ConnectionInfo) -> Self {
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        Self {
            info: info.set_tcp_settings(tcp),
            layout: Layout::Standalone,
            seeds: Vec::new(),
            sentinel_info: None,
            credentials: None,
            address_map: None,
            prefix: String::new(),
            precisions: Precisions::default(),
            expire_idle_keys: true,
            book_keys: true,
            journal_bytes: 64 * 1024 * 1024,
            is_read_only: false,
            response_timeout: Duration::from_millis(500),
            connection_timeout: Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_shows_a_password() {
        for url in [
            "redis://:hunter2@localhost:x",
            "redis://me:hun/ter2@localhost",
            "redis://:hunter2@@@",
            ":hunter2@localhost",
            "redis://localhost?pass=hunter2",
            "http://me:hunter2@localhost",
            "redis://:a@b?hunter2@localhost:x",
        ] {
            let Err(error) = RedisOptions::new(url) else {
                continue;
            };
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hun"), "{text}");
            assert_eq!(error.field(), "redis");
        }
        let options = RedisOptions::new("redis://me:hunter2@localhost/3").expect("a fine URL");
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(options.address(), "localhost:6379/3");
        let socket = RedisOptions::new("redis+unix:///run/redis.sock").expect("a socket");
        assert_eq!(socket.address(), "/run/redis.sock/0");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn a_server_without_a_check_of_its_certificate_is_refused() {
        let error = RedisOptions::new("rediss://localhost/#insecure").expect_err("no check");
        assert!(error.to_string().contains("#insecure"), "{error}");
        let without = redis::TlsCertificates {
            client_tls: None,
            root_cert: Some(b"[package]".to_vec()),
        };
        let options = RedisOptions::new("rediss://localhost").expect("a fine URL");
        let error = options.certificates(without).expect_err("no certificate");
        assert_eq!(error.field(), "redis_certificates");
        assert!(error.to_string().contains("must be PEM"), "{error}");
    }
}
