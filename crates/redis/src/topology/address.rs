//! Addresses of nodes, as configured, announced and mapped.

use std::fmt;
use std::sync::Arc;

use redis::ConnectionAddr;

/// The longest host name in DNS, in bytes.
const MAX_HOST_BYTES: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// An address that a server has announced. `None` if the host or the port is invalid.
    pub(crate) fn announced(host: &str, port: u16) -> Option<Self> {
        let is_host = (1..=MAX_HOST_BYTES).contains(&host.len())
            && host.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'%')
            });
        (is_host && port > 0).then(|| Self {
            host: host.to_owned(),
            port,
        })
    }

    /// Parses `host:port`. An IPv6 host may be in brackets; redirects give it without brackets. An empty host means
    /// `same_host`.
    pub(crate) fn parse(text: &str, same_host: Option<&str>) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bare.unwrap_or(host) {
            "" => same_host?,
            host => host,
        };
        Self::announced(host, port.parse().ok()?)
    }

    /// The address of a server, unless it is a Unix socket.
    pub(crate) fn of(address: &ConnectionAddr) -> Option<Self> {
        match address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self {
                    host: host.clone(),
                    port: *port,
                })
            }
            _ => None,
        }
    }

    /// Combines this address with the transport of `other`, which is not a Unix socket. TLS stays TLS with the same
    /// certificates, and checks the server's certificate against this host.
    pub(crate) fn with_transport_of(&self, other: &ConnectionAddr) -> ConnectionAddr {
        let mut combined = other.clone();
        if let ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } =
            &mut combined
        {
            (*host, *port) = (self.host.clone(), self.port);
        }
        combined
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Maps the addresses that nodes announce to reachable ones.
pub(crate) type AddressMap = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_servers_write_them() {
        let parse = |text| Address::parse(text, Some("seed")).map(|a| (a.host, a.port));
        assert_eq!(parse("10.0.0.1:7000"), Some(("10.0.0.1".into(), 7000)));
        assert_eq!(parse(":7001"), Some(("seed".into(), 7001)));
        assert_eq!(parse("fe80::1:7002"), Some(("fe80::1".into(), 7002)));
        assert_eq!(parse("[fe80::1]:7002"), Some(("fe80::1".into(), 7002)));
        assert_eq!(parse("node-1.a:6379"), Some(("node-1.a".into(), 6379)));
        for nonsense in [
            "", ":", "host", "host:", "host:0", "h:65536", "host:-1", "a b:1", "a\r\n:1", "?:1",
            "a/b:1", "a@b:1",
        ] {
            assert_eq!(parse(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(Address::parse(":7001", None), None);
        assert_eq!(parse(&format!("{}:1", "x".repeat(300))), None);
    }
}
