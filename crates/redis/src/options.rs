//! The options of a Redis, checked before the store connects.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use tower_pulse_core::error::BuildError;
use tower_pulse_model::slice::Precisions;

/// The longest prefix in bytes.
const MAX_PREFIX: usize = 128;
/// How long an answer may take unless configured otherwise.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long it may take to connect unless configured otherwise.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The address of a Redis, and the options of the store in it. `Debug` shows no password.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The server, with user, password and database.
    pub(super) info: ConnectionInfo,
    /// The prefix of every key.
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
    /// The server at `url`: `redis://[user:password@]host[:port][/database]`, `rediss://…` (with
    /// the feature `redis-tls`) or `unix:///path`.
    ///
    /// # Errors
    /// When the URL has none of these forms. The error's text does not contain the password.
    pub fn new(url: &str) -> Result<Self, BuildError> {
        let is_tls = url.starts_with("rediss://") || url.starts_with("valkeys://");
        if is_tls && !cfg!(feature = "tls") {
            return Err(BuildError::new(
                "redis",
                without_password(url),
                "TLS needs the feature `redis-tls` of tower-pulse: \
                 tower-pulse = { features = [\"redis-tls\"] }",
            ));
        }
        match url.into_connection_info() {
            Ok(info) => Ok(Self::from(info)),
            // No source: the client's text could contain parts of the URL.
            Err(error) => Err(BuildError::new(
                "redis",
                without_password(url),
                format!(
                    "must be redis://[user:password@]host[:port][/database], rediss://… or \
                     unix:///path, with special characters in the password percent-encoded ({})",
                    error.category()
                ),
            )),
        }
    }

    /// Puts `prefix` before every key. Empty (the default) is the book's bare layout.
    ///
    /// # Errors
    /// When it is longer than 128 bytes or has control characters.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Result<Self, BuildError> {
        let prefix = prefix.into();
        if prefix.len() > MAX_PREFIX || prefix.chars().any(char::is_control) {
            return Err(BuildError::new(
                "prefix",
                format!("{:?} ({} bytes)", cut(&prefix), prefix.len()),
                "must be at most 128 bytes without control characters, such as `pulse:shop:`",
            ));
        }
        self.prefix = prefix;
        Ok(self)
    }

    /// The precisions of counters; the book's by default.
    pub fn precisions(mut self, precisions: Precisions) -> Self {
        self.precisions = precisions;
        self
    }

    /// Whether the keys of counters expire some time after the last sample (the default). Use `false` if other
    /// programs that set no expiry write the same keys.
    pub fn expire_idle_keys(mut self, expire: bool) -> Self {
        self.expire_idle_keys = expire;
        self
    }

    /// Whether the book's keys are written (the default), for other programs to read.
    pub fn book_keys(mut self, book_keys: bool) -> Self {
        self.book_keys = book_keys;
        self
    }

    /// The most bytes of entries that wait to be folded, 64 MiB by default. At the bound, instances keep their
    /// samples in their own memory, as in an outage.
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = bytes;
        self
    }

    /// Lets the store refuse whatever would write to the server, before it is sent. Its user needs no permission for it.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// The longest time until an answer comes, 500 ms by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// The longest time until a connection is made, 1 s by default.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// The same timeouts, where they are set.
    pub fn timeouts(mut self, connection: Option<Duration>, response: Option<Duration>) -> Self {
        self.connection_timeout = connection.unwrap_or(self.connection_timeout);
        self.response_timeout = response.unwrap_or(self.response_timeout);
        self
    }

    /// The address of the server without user and password, for texts.
    pub(super) fn place(&self) -> String {
        let db = self.info.redis_settings().db();
        match self.info.addr() {
            ConnectionAddr::Unix(path) => format!("{}/{db}", path.display()),
            address => format!("{address}/{db}"),
        }
    }
}

impl From<ConnectionInfo> for RedisOptions {
    fn from(info: ConnectionInfo) -> Self {
        let protocol = info
            .redis_settings()
            .clone()
            // The replies that this crate reads are the same in both versions; one is enough.
            .set_protocol(ProtocolVersion::RESP2)
            // CLIENT would fail, and fill the log of denied commands, where the user may not run it.
            .set_skip_set_lib_name();
        let tcp: TcpSettings = info.tcp_settings().clone().set_nodelay(true);
        Self {
            info: info.set_redis_settings(protocol).set_tcp_settings(tcp),
            prefix: String::new(),
            precisions: Precisions::default(),
            expire_idle_keys: true,
            book_keys: true,
            journal_bytes: 64 * 1024 * 1024,
            is_read_only: false,
            response_timeout: RESPONSE_TIMEOUT,
            connection_timeout: CONNECTION_TIMEOUT,
        }
    }
}

/// A URL without the parts that could contain a password: the text between the scheme and the last `@`, and the
/// query.
fn without_password(url: &str) -> String {
    let (scheme, address) = match url.split_once("://") {
        Some((scheme, address)) => (format!("{scheme}://"), address),
        None => (String::new(), url),
    };
    let (user, host) = match address.rsplit_once('@') {
        Some((_, host)) => ("***@", host),
        None => ("", address),
    };
    let (host, query) = match host.split_once(['?', '#']) {
        Some((host, _)) => (host, "?***"),
        None => (host, ""),
    };
    format!("`{}{user}{}{query}`", cut(&scheme), cut(host))
}

/// At most 80 characters of a text, escaped.
fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        cut.push('…');
    }
    cut
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
        assert_eq!(options.place(), "localhost:6379/3");
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn a_tls_url_without_the_feature_names_the_feature() {
        let error = RedisOptions::new("rediss://:hunter2@localhost").expect_err("no feature");
        assert!(error.to_string().contains("redis-tls"), "{error}");
    }

    #[test]
    fn a_prefix_is_short_and_without_control_characters() {
        let options = || RedisOptions::new("redis://localhost").expect("a fine URL");
        assert!(options().prefix("pulse:{a}:").is_ok());
        assert!(options().prefix("").is_ok());
        for bad in ["a\nb".to_owned(), "x".repeat(129)] {
            let error = options().prefix(bad).expect_err("a bad prefix");
            assert_eq!(error.field(), "prefix");
        }
    }
}
