//! Nodes that send wrong redirects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};

use tower_pulse_core::store::Append;
use tower_pulse_redis::RedisOptions;

use crate::rig::peer::Peer;
use crate::rig::process::free_port;
use crate::rig::shared;
use crate::topologies::place::{TAGGED, store};

/// Starts a node that claims to own all slots, and answers each script that has a key with `error(port)`. Also returns
/// the number of errors so far.
async fn liar(error: impl Fn(u16) -> String + Send + Sync + 'static) -> (Peer, Arc<AtomicU64>) {
    let (port, errors) = (Arc::new(AtomicU16::new(0)), Arc::new(AtomicU64::new(0)));
    let (own, counted) = (port.clone(), errors.clone());
    let peer = Peer::start(move |words| {
        let own = own.load(SeqCst);
        let word = words[0].to_ascii_uppercase();
        match &*word {
            b"CLUSTER" => {
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{own}\r\n")
            }
            b"INFO" => "$20\r\nredis_version:7.0.15\r\n".to_owned(),
            // The script that checks the permissions of a new connection has no key, and gets no error.
            b"EVAL" | b"EVALSHA" if words[2] != b"0" => {
                counted.fetch_add(1, SeqCst);
                format!("-{}\r\n", error(own))
            }
            _ => "+OK\r\n".to_owned(),
        }
    })
    .await;
    port.store(peer.port(), SeqCst);
    (peer, errors)
}

#[tokio::test]
async fn redirects_to_nowhere_and_in_a_circle_are_errors() {
    let slot = shared::cluster().await.slot(TAGGED).await;
    let dead = free_port();
    let lies = [
        // The node redirects to itself. The store follows at most five redirects.
        format!("MOVED {slot} 127.0.0.1:OWN"),
        format!("ASK {slot} 127.0.0.1:OWN"),
        "MOVED".to_owned(),
        "MOVED x y".to_owned(),
        "ASK -1".to_owned(),
        format!("MOVED {slot}"),
        format!("MOVED {slot} ?:0"),
        format!("MOVED {slot} :70000"),
        format!("MOVED {slot} 127.0.0.1:{dead}"),
        format!("ASK {slot} 127.0.0.1:{dead}"),
        format!("MOVED {} 127.0.0.1:1", slot ^ 1),
        format!("ASK {slot} {}:1", "a".repeat(5_000)),
        "TRYAGAIN not now".to_owned(),
        "CLUSTERDOWN The cluster is down".to_owned(),
    ];
    for lie in lies {
        let text = lie.clone();
        let (peer, errors) = liar(move |own| text.replace(":OWN", &format!(":{own}"))).await;
        let store = store(RedisOptions::cluster([peer.url()]).unwrap(), TAGGED);
        for _ in 0..2 {
            let error = store.hello().await.unwrap_err().to_string();
            assert!(error.len() < 1_000, "{error}");
            let code = lie.split(' ').next().unwrap();
            assert!(error.contains(code) || !lie.contains(":OWN"), "{error}");
        }
        let answered = errors.load(SeqCst);
        assert!(answered <= 12, "{answered} of {lie}");
    }
}
