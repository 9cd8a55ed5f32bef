//! Clusters and Sentinels behind TLS.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tower_pulse::{StoreError, StoreErrorKind};
use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisOptions;

use crate::faults::service::LIGHT;
use crate::rig::cluster::Tls;
use crate::rig::process::free_port_with_bus;
use crate::rig::seed::seed;
use crate::rig::sentinel::{SERVICE, Sentinels, Setup};
use crate::rig::server::RedisServer;
use crate::topologies::certificates::{certificates, trusting};
use crate::topologies::place::{TAGGED, mapped, own_slots, store};
use crate::topologies::trials;

#[tokio::test]
async fn connections_with_tls_that_are_cut_lose_nothing() {
    trials::tls_cut(10, LIGHT, seed()).await.assert_exact();
}

/// A cluster of one server, which owns all slots.
async fn only_node(tls: &Tls, port: u16, settings: &[(&str, &str)]) -> RedisServer {
    let mut node = tls.add_to(RedisServer::builder().node_of_a_cluster(), port);
    for (name, value) in settings {
        node = node.arg(name, value);
    }
    let node = node.start().await;
    own_slots(&node).await;
    node
}

async fn hello(options: RedisOptions) -> StoreError {
    store(options, TAGGED).hello().await.unwrap_err()
}

/// The certificate is for `localhost`, but the node announces 127.0.0.1.
#[tokio::test]
async fn the_certificate_of_a_node_is_checked_against_its_name() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stores/tls");
    let (tls, port) = (Tls(folder), free_port_with_bus());
    let settings = [
        ("--tls-cluster", "yes"),
        ("--cluster-announce-ip", "127.0.0.1"),
    ];
    let _node = only_node(&tls, port, &settings).await;
    let options = RedisOptions::cluster([format!("rediss://localhost:{port}")]).unwrap();
    let error = hello(trusting(options, &tls)).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

type FirstBytes = Arc<Mutex<Vec<Vec<u8>>>>;

/// Starts a server without TLS. Returns its address, and the first bytes of each connection.
async fn plain_server() -> (String, FirstBytes) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let first_bytes = FirstBytes::default();
    let received = first_bytes.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4_096];
            let n = stream.read(&mut bytes).await.unwrap_or(0);
            bytes.truncate(n);
            received.lock().unwrap().push(bytes);
        }
    });
    (address, first_bytes)
}

/// Panics unless each client began with a handshake of TLS.
fn assert_only_tls(first_bytes: &FirstBytes) {
    let first_bytes = first_bytes.lock().unwrap();
    assert!(!first_bytes.is_empty(), "no client has connected");
    assert!(first_bytes.iter().all(|bytes| bytes.first() == Some(&0x16)));
}

/// The cluster announces its ports without TLS to clients that connect with TLS.
#[tokio::test]
async fn a_cluster_leads_no_client_away_from_tls() {
    let (tls, port) = (certificates(), free_port_with_bus());
    let node = only_node(&tls, port, &[("--cluster-announce-ip", "127.0.0.1")]).await;
    let (plain_server, first_bytes) = plain_server().await;
    let announced = format!("127.0.0.1:{}", node.port());
    let options = RedisOptions::cluster([format!("rediss://127.0.0.1:{port}")]).unwrap();
    let addresses = HashMap::from([(announced, plain_server)]);
    let error = hello(mapped(trusting(options, &tls), addresses)).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert_only_tls(&first_bytes);
}

/// The Sentinels with TLS announce a primary without TLS.
#[tokio::test]
async fn a_sentinel_leads_no_client_away_from_tls() {
    let tls = certificates();
    let setup = Setup {
        tls: Some(tls.clone()),
        ..Setup::default()
    };
    let sentinels = Sentinels::start_with(setup).await;
    let (plain_server, first_bytes) = plain_server().await;
    let options = RedisOptions::sentinel(SERVICE, sentinels.tls_urls()).unwrap();
    let addresses = sentinels.address_map().into_keys();
    let addresses = addresses.map(|announced| (announced, plain_server.clone()));
    let error = hello(mapped(trusting(options, &tls), addresses.collect())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert_only_tls(&first_bytes);
    let plain = format!("redis://{SERVICE}");
    let refused = RedisOptions::sentinel(&plain, sentinels.tls_urls()).unwrap_err();
    assert!(refused.to_string().contains("rediss://"), "{refused}");
}
