//! Servers behind TLS, and behind a Unix socket.

use std::sync::Arc;

use tower_pulse_core::store::Store;
use tower_pulse_model::context::Kind;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::fixture::{Fixture, MERGED, MS, NOW, apply, call};
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::rig::wait::PATIENCE;

fn store(options: RedisOptions) -> Arc<dyn Store> {
    let options = options.response_timeout(PATIENCE);
    Arc::new(RedisStore::open(options.connection_timeout(PATIENCE)).unwrap())
}

/// Checks that a call is appended, folded and read.
async fn assert_works(store: &Arc<dyn Store>) {
    let batch = Fixture::memory().batch(&[("GET /", Kind::Http, NOW, &[MS])]);
    let applied = apply(store, &call("x", 1, batch)).await.unwrap();
    assert_eq!(applied, MERGED);
    let hits = store.counter("hits:GET /", 1).await.unwrap();
    assert_eq!(hits, [(NOW, 1)]);
}

#[tokio::test]
async fn a_store_works_over_a_unix_socket() {
    let directory = crate::rig::process::TempDir::new("socket");
    let path = directory.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let _server = RedisServer::builder()
        .arg("--unixsocket", path)
        .start()
        .await;
    let store = store(RedisOptions::new(&format!("unix://{path}")).unwrap());
    assert_works(&store).await;
}

/// A file of the authority that no client knows.
#[cfg(feature = "redis-tls")]
fn file(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/tls");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Certificates by which a client knows it.
#[cfg(feature = "redis-tls")]
fn certificates() -> redis::TlsCertificates {
    redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(std::fs::read(file("ca.pem")).unwrap()),
    }
}

/// A server that also listens with TLS, with a certificate for `localhost`.
#[cfg(feature = "redis-tls")]
fn behind_tls(port: u16) -> crate::rig::server::Builder {
    RedisServer::builder()
        .arg("--tls-port", &port.to_string())
        .arg("--tls-cert-file", &file("server.pem"))
        .arg("--tls-key-file", &file("server.key"))
        .arg("--tls-ca-cert-file", &file("ca.pem"))
        .arg("--tls-auth-clients", "no")
}

/// A certificate that no public authority has signed is refused, unless the user passes its authority.
#[cfg(feature = "redis-tls")]
#[tokio::test]
async fn a_certificate_is_refused_unless_its_authority_is_trusted() {
    let port = crate::rig::process::free_port();
    let _server = behind_tls(port).start().await;
    let url = format!("rediss://localhost:{port}/");

    let strict = store(RedisOptions::new(&url).unwrap());
    let error = strict.hello().await.unwrap_err();
    assert_eq!(error.kind(), tower_pulse::StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("certificate"), "{error}");

    let client = redis::Client::build_with_tls(url, certificates()).unwrap();
    let info = client.get_connection_info().clone();
    assert_works(&store(RedisOptions::from(info))).await;
}
