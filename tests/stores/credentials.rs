//! Credentials that an application gives when it is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::cmd;
use tower_pulse::StoreErrorKind;
use tower_pulse_core::store::Store;
use tower_pulse_redis::{RedisCredentials, RedisOptions, RedisStore};

use crate::rig::server::RedisServer;
use crate::rig::wait::PATIENCE;

/// What the application answers, one after the other, and then the last one again and again.
struct Application {
    answers: Mutex<Vec<Option<&'static str>>>,
    asked: AtomicUsize,
}

impl Application {
    fn new(answers: &[Option<&'static str>]) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.to_vec()),
            asked: AtomicUsize::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn answer(&self) -> Result<RedisCredentials, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.len() {
            1 => answers[0],
            _ => answers.remove(0),
        };
        let password = answer.ok_or_else(|| "the vault says hunter2".to_owned())?;
        Ok(RedisCredentials::new("app", password))
    }

    fn store(self: &Arc<Self>, server: &RedisServer) -> Arc<dyn Store> {
        let application = self.clone();
        let options = RedisOptions::new(&server.url()).unwrap();
        let options = options.credentials(move || {
            let answer = application.answer();
            async move { answer }
        });
        let options = options.response_timeout(PATIENCE);
        Arc::new(RedisStore::open(options.connection_timeout(PATIENCE)).unwrap())
    }
}

async fn server(password: &str) -> RedisServer {
    let server = RedisServer::start().await;
    set_password(&server, password).await;
    server
}

async fn set_password(server: &RedisServer, password: &str) {
    let mut set = cmd("ACL");
    set.arg("SETUSER").arg("app").arg("reset").arg("on");
    set.arg(format!(">{password}")).arg("~*").arg("+@all");
    let mut connection = server.connection().await;
    set.exec_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn each_connection_asks_for_the_credentials_of_now() {
    let server = server("first").await;
    let application = Application::new(&[Some("first"), Some("second")]);
    let store = application.store(&server);
    store.hello().await.unwrap();
    assert_eq!(application.asked(), 1);
    // A connection outlives its password.
    set_password(&server, "second").await;
    store.hello().await.unwrap();
    assert_eq!(application.asked(), 1);
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("USER").arg("app");
    let mut connection = server.connection().await;
    kill.exec_async(&mut connection).await.unwrap();
    while store.hello().await.is_err() {}
    assert_eq!(application.asked(), 2);
}

#[tokio::test]
async fn a_password_that_is_refused_is_asked_for_once_more() {
    let server = server("new").await;
    let application = Application::new(&[Some("old"), Some("new")]);
    application.store(&server).hello().await.unwrap();
    assert_eq!(application.asked(), 2);

    let application = Application::new(&[Some("hunter2")]);
    let error = application.store(&server).hello().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Forbidden);
    assert!(error.to_string().contains("`redis_credentials`"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert_eq!(application.asked(), 2);
}
