//! Certificates of a test authority, and clusters with TLS.

use std::collections::HashMap;
use std::path::Path;

use redis::TlsCertificates;
use tower_pulse_redis::RedisOptions;

use crate::rig::cluster::{RedisCluster, Tls};
use crate::rig::proxy::Proxy;
use crate::topologies::place::mapped;

/// Certificates for `localhost` and 127.0.0.1.
pub fn certificates() -> Tls {
    Tls(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies/tls"))
}

/// Options that trust the authority whose certificate is in a folder.
pub fn trusting(options: RedisOptions, Tls(folder): &Tls) -> RedisOptions {
    let root = std::fs::read(folder.join("ca.pem")).unwrap();
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    };
    options.certificates(certificates).unwrap()
}

/// Starts a proxy in front of each node's TLS port. Returns the proxies, and options that connect to the nodes through
/// the proxies.
pub async fn behind_proxies(cluster: &RedisCluster) -> (Vec<Proxy>, RedisOptions) {
    let (mut proxies, mut addresses) = (Vec::new(), HashMap::new());
    let address = |port: u16| format!("127.0.0.1:{port}");
    for port in cluster.tls_ports() {
        let proxy = Proxy::start(port).await;
        addresses.insert(address(port), address(proxy.port()));
        proxies.push(proxy);
    }
    let urls = addresses.values();
    let urls = urls.map(|address| format!("rediss://{address}"));
    let options = RedisOptions::cluster(urls.collect::<Vec<_>>()).unwrap();
    let options = trusting(options, &certificates());
    (proxies, mapped(options, addresses))
}
