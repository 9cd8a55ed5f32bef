//! Parses the URLs of options. No error shows a password.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::topology::Address;
use crate::value::shown;
use tower_pulse_core::error::BuildError;

const MAX_URLS: usize = 64;

pub(super) fn parse(field: &'static str, url: &str) -> Result<ConnectionInfo, BuildError> {
    if is_tls(url) && !cfg!(feature = "tls") {
        let allowed = "TLS needs the feature `redis-tls` of tower-pulse: \
                       tower-pulse = { features = [\"redis-tls\"] }";
        return Err(BuildError::new(field, without_password(url), allowed));
    }
    let parsed = url.into_connection_info().map_err(|error| {
        // The error has no source, because the client's text could contain parts of the URL.
        let allowed = format!(
            "must be redis://[user:password@]host[:port][/database], rediss://… or \
             unix:///path, with special characters in the password percent-encoded ({})",
            error.category()
        );
        BuildError::new(field, without_password(url), allowed)
    })?;
    if matches!(parsed.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
        let allowed = "TLS without a check of the certificate is not allowed: leave out #insecure, and set your own \
                       authority by `redis_certificates`";
        return Err(BuildError::new(field, without_password(url), allowed));
    }
    Ok(parsed)
}

/// Parses URLs that differ only in host and port. Returns the information that they share, and the addresses.
pub(super) fn parse_all<U: AsRef<str>>(
    field: &'static str,
    urls: impl IntoIterator<Item = U>,
) -> Result<(ConnectionInfo, Vec<Address>), BuildError> {
    let (mut shared, mut addresses) = (None::<ConnectionInfo>, Vec::new());
    for url in urls.into_iter().take(MAX_URLS + 1) {
        let url = url.as_ref();
        let info = parse(field, url)?;
        let Some(address) = Address::of(info.addr()) else {
            let allowed = "the nodes are reached by TCP: redis://host:port or rediss://host:port";
            return Err(BuildError::new(field, without_password(url), allowed));
        };
        let shared = shared.get_or_insert_with(|| info.clone());
        if !differ_in_address_only(shared, &info) {
            let allowed = "all URLs must have the same user, password, database and transport: only host and port differ";
            return Err(BuildError::new(field, without_password(url), allowed));
        }
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match shared {
        Some(shared) if addresses.len() <= MAX_URLS => Ok((shared, addresses)),
        Some(_) => {
            let value = format!("more than {MAX_URLS} URLs");
            let allowed =
                format!("at most {MAX_URLS} are allowed, and a few of the nodes are enough");
            Err(BuildError::new(field, value, allowed))
        }
        None => {
            let allowed = "give at least one URL, redis://host:port or rediss://host:port";
            Err(BuildError::new(field, "without a URL", allowed))
        }
    }
}

fn differ_in_address_only(one: &ConnectionInfo, other: &ConnectionInfo) -> bool {
    let [a, b] = [one, other].map(ConnectionInfo::redis_settings);
    let is_tls = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    (a.username(), a.password(), a.db()) == (b.username(), b.password(), b.db())
        && is_tls(one) == is_tls(other)
}

/// Parses the name of a service in Sentinel, or a URL with this name as its host. If Sentinels are reached by TLS, the
/// primary must be too.
pub(super) fn parse_service(
    field: &'static str,
    service: &str,
    sentinel: &ConnectionAddr,
) -> Result<(ConnectionInfo, String), BuildError> {
    let is_sentinel_tls = matches!(sentinel, ConnectionAddr::TcpTls { .. });
    let refuse = |allowed: &str| Err(BuildError::new(field, without_password(service), allowed));
    if !service.contains("://") {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !(1..=253).contains(&service.len()) || !service.chars().all(is_name) {
            return refuse(
                "the service is the name after `sentinel monitor`: letters, digits, dots, hyphens and underscores",
            );
        }
        let scheme = if is_sentinel_tls { "rediss" } else { "redis" };
        let info = parse(field, &format!("{scheme}://name"))?;
        return Ok((info, service.to_owned()));
    }
    let info = parse(field, service)?;
    if is_sentinel_tls && !is_tls(service) {
        return refuse("the Sentinels are reached by TLS, and so must the primary: rediss://name");
    }
    // The client parses the name as a host; the port has no meaning here.
    match Address::of(info.addr()) {
        Some(address) => Ok((info, address.host)),
        None => refuse("redis://[user:password@]name[/database] or rediss://…"),
    }
}

fn is_tls(url: &str) -> bool {
    url.starts_with("rediss://") || url.starts_with("valkeys://")
}

/// A URL without the text between the scheme and the last `@`, and without query and fragment: each could contain a
/// password.
fn without_password(url: &str) -> String {
    let (scheme, address) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let (user, host) = match address.rsplit_once('@') {
        Some((_, host)) => ("***@", host),
        None => ("", address),
    };
    let (host, query) = match host.split_once(['?', '#']) {
        Some((host, _)) => (host, "?***"),
        None => (host, ""),
    };
    let [scheme, host] = [scheme, host].map(|part| shown(part.as_bytes()));
    format!("`{scheme}{user}{host}{query}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisOptions;

    #[test]
    fn the_urls_of_a_cluster_differ_in_host_and_port_only() {
        let cluster = |urls: &[&str]| RedisOptions::cluster(urls).map(drop);
        assert!(cluster(&["redis://me:hunter2@a:1", "redis://me:hunter2@b:2"]).is_ok());
        let many: Vec<_> = (1..=65).map(|port| format!("redis://a:{port}")).collect();
        assert!(RedisOptions::cluster(&many[..64]).is_ok());
        assert!(RedisOptions::cluster(&many).is_err());
        for urls in [
            &[][..],
            &["redis://me:hunter2@a:1", "redis://a:2"],
            &["redis://me:hunter2@a:1/1"],
            &["redis://me:hunter2@a:1", "unix:///run/redis.sock"],
            &["redis://me:hunter2@a:x"],
            &["http://a:1"],
        ] {
            let error = cluster(urls).expect_err("refused");
            assert_eq!(error.field(), "redis_cluster");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_service_is_a_name_or_a_url() {
        let seeds = ["redis://:pw@s:26379"];
        let address =
            |service| RedisOptions::sentinel(service, seeds).map(|options| options.address());
        let named = address("my-master.1_a").expect("a name");
        assert_eq!(named, "my-master.1_a/0 of the Sentinels s:26379");
        let options = RedisOptions::sentinel("redis://me:hunter2@MyMaster/3", seeds);
        let options = options.expect("a URL");
        assert_eq!(options.address(), "MyMaster/3 of the Sentinels s:26379");
        let settings = options.info.redis_settings();
        assert_eq!(settings.username(), Some("me"));
        assert_eq!(settings.password(), Some("hunter2"));
        for bad in [
            "",
            "a b",
            "a/b",
            "redis://",
            "http://name",
            "me:hunter2@name",
            "unix:///hunter2",
        ] {
            let error = address(bad).expect_err("refused");
            assert_eq!(error.field(), "redis_sentinel");
            let is_shown = error.to_string().contains("hunter2");
            assert!(!is_shown || bad.starts_with("unix"), "{error}");
        }
        let error = RedisOptions::sentinel("name", ["redis://s/1"]).expect_err("a database");
        assert!(error.to_string().contains("no databases"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_primary_must_use_tls_if_the_sentinels_do() {
        let options = RedisOptions::sentinel("name", ["rediss://s"]).expect("TLS for both");
        assert!(matches!(options.info.addr(), ConnectionAddr::TcpTls { .. }));
        let error = RedisOptions::sentinel("redis://name", ["rediss://s"]).expect_err("no TLS");
        assert!(error.to_string().contains("rediss://name"), "{error}");
        assert!(RedisOptions::sentinel("rediss://name", ["redis://s"]).is_ok());
        assert!(RedisOptions::cluster(["rediss://a", "redis://b"]).is_err());
    }
}
