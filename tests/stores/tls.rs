//! A server behind TLS.

use std::path::Path;

use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisOptions;

use crate::rig::cluster::Tls;
use crate::rig::process::free_port;
use crate::rig::server::RedisServer;
use crate::stores::fixture::opened;

#[tokio::test]
async fn a_certificate_is_refused_unless_its_authority_is_trusted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/tls");
    let authority = std::fs::read(folder.join("ca.pem")).unwrap();
    let (mut server, port) = (RedisServer::builder(), free_port());
    for (name, value) in Tls(folder).settings(port) {
        server = server.arg(&format!("--{name}"), &value);
    }
    let _server = server.start().await;
    let url = format!("rediss://localhost:{port}/");
    let error = opened(RedisOptions::new(&url).unwrap()).hello().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("certificate"), "{error}");

    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(authority),
    };
    let client = redis::Client::build_with_tls(url, certificates).unwrap();
    let info = client.get_connection_info().clone();
    opened(RedisOptions::from(info)).hello().await.unwrap();
}
