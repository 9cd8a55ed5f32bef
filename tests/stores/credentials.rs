//! Credentials that an application gives for each connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower_pulse_core::store::Append;
use tower_pulse_redis::{RedisCredentials, RedisOptions, RedisStore};

use crate::rig::server::RedisServer;
use crate::stores::fixture::opened;

/// A store that gets these passwords one after another, and then always the last. Also returns how often the store has
/// asked for a password.
fn store(
    server: &RedisServer,
    passwords: &'static [&'static str],
) -> (RedisStore, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let options = RedisOptions::new(&server.url()).unwrap();
    let store = opened(options.credentials(move || {
        let at = count.fetch_add(1, Ordering::SeqCst);
        let password = passwords[at.min(passwords.len() - 1)];
        async move { Ok::<_, String>(RedisCredentials::new("app", password)) }
    }));
    (store, asked)
}

async fn server(password: &str) -> RedisServer {
    let server = RedisServer::start().await;
    set_password(&server, password).await;
    server
}

async fn set_password(server: &RedisServer, password: &str) {
    let user = format!("ACL SETUSER app reset on >{password} ~* +@all");
    let () = server.run(&user).await;
}

#[tokio::test]
async fn each_connection_uses_the_current_credentials() {
    let server = server("first").await;
    let (store, asked) = store(&server, &["first", "second"]);
    store.hello().await.unwrap();
    // A connection stays valid after its user's password is replaced.
    set_password(&server, "second").await;
    store.hello().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let () = server.run("CLIENT KILL USER app").await;
    while store.hello().await.is_err() {}
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn after_a_refused_password_the_store_asks_once_more() {
    let server = server("new").await;
    let (renewed, asked) = store(&server, &["old", "new"]);
    renewed.hello().await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
