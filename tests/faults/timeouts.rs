//! The timeouts of Redis that the builder sets.

use std::time::{Duration, Instant};

use tower_pulse::{Builder, Pulse, StoreErrorKind};

use crate::faults::service::without_tasks;
use crate::rig::proxy::Proxy;
use crate::rig::reads::StoreOf;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

#[tokio::test]
async fn an_answer_may_take_as_long_as_configured() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let pulse = |configure: fn(Builder) -> Builder| {
        without_tasks(configure(Pulse::builder().redis(proxy.url()))).backend()
    };
    let patient = pulse(|builder| builder.redis_response_timeout(Duration::from_secs(10)));
    let default = pulse(|builder| builder);
    for store in [&patient, &default] {
        // On a busy machine an answer may take longer than the default timeout.
        until("an answer", async || store.hello().await.is_ok()).await;
    }
    proxy.delay(Duration::from_millis(700));
    let (in_time, too_slow) = tokio::join!(patient.hello(), default.hello());
    in_time.unwrap();
    assert_eq!(too_slow.unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert_eq!(proxy.connections(), 2);
}

/// A port whose queue of connections is full: further connections wait.
async fn busy_port() -> (tokio::net::TcpListener, Vec<tokio::net::TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    loop {
        let connecting = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(200), connecting).await {
            Ok(connected) => queued.push(connected.unwrap()),
            Err(_) => return (listener, queued),
        }
    }
}

#[tokio::test]
async fn connecting_may_take_as_long_as_configured() {
    let (listener, _queued) = busy_port().await;
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let took = async |timeout: u64| {
        let builder = Pulse::builder().redis(&url);
        let builder = builder.redis_connection_timeout(Duration::from_millis(timeout));
        let store = without_tasks(builder).backend();
        let start = Instant::now();
        let error = store.hello().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        start.elapsed().as_millis()
    };
    let (short, long) = tokio::join!(took(50), took(1_500));
    assert!(short < long && long >= 1_500, "{short}, {long}");
}
