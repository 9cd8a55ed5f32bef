//! The timeouts of Redis that the builder sets.

use std::time::{Duration, Instant};

use tower_pulse::{Builder, Pulse, StoreError, StoreErrorKind};

use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;

const SLOW: Duration = Duration::from_millis(700);

/// Asks a server that answers slowly from the second question on.
async fn ask_slow_server(configure: fn(Builder) -> Builder) -> Result<(), StoreError> {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = configure(Pulse::builder().redis(proxy.url()));
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    pulse.store().hello().await.unwrap();
    proxy.delay(SLOW);
    let answer = pulse.store().hello().await;
    assert_eq!(proxy.connections(), 1);
    answer.map(drop)
}

#[tokio::test]
async fn an_answer_may_take_as_long_as_configured() {
    let patient = |builder: Builder| builder.redis_response_timeout(Duration::from_secs(5));
    ask_slow_server(patient).await.unwrap();

    let default = ask_slow_server(|builder| builder).await.unwrap_err();
    assert_eq!(default.kind(), StoreErrorKind::TimedOut);
}

#[tokio::test]
async fn a_shorter_timeout_ends_sooner() {
    let start = Instant::now();
    let server = RedisServer::start().await;
    let builder = Pulse::builder().redis(server.url());
    let builder = builder.redis_response_timeout(Duration::from_millis(60));
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    pulse.store().hello().await.unwrap();
    let started = start.elapsed();
    server.freeze();
    let error = pulse.store().hello().await.unwrap_err();
    server.thaw();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    let took = start.elapsed() - started;
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// A port whose queue of connections is full, so that no further one is made.
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
    let mut took = Vec::new();
    for timeout in [50, 1_500].map(Duration::from_millis) {
        let builder = Pulse::builder().redis(&url);
        let builder = builder.redis_connection_timeout(timeout);
        let (pulse, _tasks) = builder.build_with_tasks().unwrap();
        let start = Instant::now();
        let error = pulse.store().hello().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        took.push(start.elapsed());
    }
    // The default is a second.
    assert!(took[0] < Duration::from_secs(1), "{took:?}");
    assert!(took[1] >= Duration::from_millis(1_500), "{took:?}");
}
