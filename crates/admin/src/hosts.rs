//! The hosts that requests to an open admin router may name. Another site may point its own name at this service (DNS
//! rebinding). Browsers then treat the service as part of that site, so the site's script can read everything that
//! needs no login. The script's requests carry the site's host, which no script can change.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::request::Parts;
use http::{StatusCode, header};

use super::response::ApiError;
use tower_pulse_core::error::BuildError;

/// The longest name of a host, in bytes.
const MAX_HOST: usize = 253;

/// The longest part of a name between two dots, in bytes.
const MAX_LABEL: usize = 63;

/// The allowed hosts, besides addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    /// The hosts as they were configured.
    pub(super) named: Vec<String>,
    pub(super) any: bool,
}

/// A host that a request names, in its `Host` header or its URL.
#[derive(Debug, PartialEq)]
enum Host {
    Address,
    /// In lower case, without a trailing dot.
    Name(String),
}

impl Host {
    /// Parses a host such as `pulse.internal:3000` or `[::1]:3000`, without the port. `None` if it is invalid.
    fn parse(authority: &str) -> Option<Self> {
        if let Some(rest) = authority.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            let has_port = port.strip_prefix(':').is_some_and(is_port);
            // A link-local address may have a zone, such as `%eth0`.
            let address = address.split('%').next()?;
            let is_address = (port.is_empty() || has_port) && address.parse::<Ipv6Addr>().is_ok();
            return is_address.then_some(Self::Address);
        }
        let (name, port) = authority.split_once(':').unwrap_or((authority, ""));
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.parse::<Ipv4Addr>().is_ok() && is_port(port) {
            return Some(Self::Address);
        }
        let is_label = |label: &str| {
            let mut bytes = label.bytes();
            (1..=MAX_LABEL).contains(&label.len())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        // A name whose last part is a number would be another form of an address. Such a name is refused, because
        // browsers send addresses only in the forms that are parsed above.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_name = name.len() <= MAX_HOST
            && name.split('.').all(is_label)
            && !last.bytes().all(|byte| byte.is_ascii_digit());
        (is_name && is_port(port)).then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

fn is_port(port: &str) -> bool {
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

impl Hosts {
    /// Refuses names that are not hosts: no request could match them.
    pub(super) fn validate(&self) -> Result<(), BuildError> {
        let is_host =
            |named: &&String| Host::parse(named).is_some() || named.parse::<Ipv6Addr>().is_ok();
        match self.named.iter().find(|named| !is_host(named)) {
            None => Ok(()),
            Some(named) => {
                let allowed = "must be the name of a host in ASCII, such as \"pulse.internal\", without a scheme, a \
                               path or a wildcard";
                Err(BuildError::new("allow_host", format!("{named:?}"), allowed))
            }
        }
    }

    /// Refuses a request whose host is not an address, `localhost` or one of the named hosts. A browser always sends
    /// the host that it requests; other headers are not trusted.
    pub(super) fn check(&self, parts: &Parts) -> Result<(), ApiError> {
        if self.any {
            return Ok(());
        }
        let headers = parts.headers.get_all(header::HOST).iter();
        let headers = headers.map(|host| host.to_str().unwrap_or_default());
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        for asked in headers.chain(authority) {
            let asked = Host::parse(asked);
            let is_allowed = asked.as_ref().is_some_and(|asked| self.allows(asked));
            if !is_allowed {
                return Err(refused(asked));
            }
        }
        Ok(())
    }

    fn allows(&self, asked: &Host) -> bool {
        let Host::Name(name) = asked else {
            return true;
        };
        let is_own = name == "localhost" || name.ends_with(".localhost");
        is_own || (self.named.iter()).any(|named| Host::parse(named).as_ref() == Some(asked))
    }
}

/// A 403 answer, which shows the requested host only if it is valid.
fn refused(asked: Option<Host>) -> ApiError {
    let message = match asked {
        Some(Host::Name(name)) => format!(
            "the request's host {name:?} is not allowed: the dashboard has no login, so its API answers only requests \
             to an IP address, localhost or an allowed host. Allow this host by Access::open().allow_host({name:?}). \
             If your own authentication protects the dashboard, allow all hosts by allow_any_host()"
        ),
        // Addresses are always allowed.
        Some(Host::Address) | None => "the Host is not a valid host: use an IP address".to_owned(),
    };
    ApiError::new(StatusCode::FORBIDDEN, message)
}
