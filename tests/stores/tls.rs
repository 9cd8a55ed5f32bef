//! A server behind TLS.

use std::path::Path;

use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Append;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::process::free_port;
use crate::rig::server::RedisServer;
use crate::rig::wait::PATIENCE;

/// A certificate that no public authority has signed is refused, unless the user passes its authority.
#[tokio::test]
async fn a_certificate_is_refused_unless_its_authority_is_trusted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/tls");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let port = free_port();
    let server = RedisServer::builder()
        .arg("--tls-port", &port.to_string())
        .arg("--tls-cert-file", &file("server.pem"))
        .arg("--tls-key-file", &file("server.key"))
        .arg("--tls-ca-cert-file", &file("ca.pem"))
        .arg("--tls-auth-clients", "no");
    let _server = server.start().await;
    let url = format!("rediss://localhost:{port}/");
    let open = |options: RedisOptions| {
        let options = options.response_timeout(PATIENCE);
        RedisStore::open(options.connection_timeout(PATIENCE)).unwrap()
    };
    let error = open(RedisOptions::new(&url).unwrap()).hello().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("certificate"), "{error}");

    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(std::fs::read(file("ca.pem")).unwrap()),
    };
    let client = redis::Client::build_with_tls(url, certificates).unwrap();
    let info = client.get_connection_info().clone();
    open(RedisOptions::from(info)).hello().await.unwrap();
}
