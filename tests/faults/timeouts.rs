//! The timeouts of Redis that the builder sets.

use crate::rig::reads::StoreOf;
use std::time::{Duration, Instant};

use tower_pulse::{Builder, Pulse, StoreError, StoreErrorKind};

use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

const SLOW: Duration = Duration::from_millis(700);

/// Asks a server that answers slowly from the second question on.
async fn ask_slow_server(configure: fn(Builder) -> Builder) -> Result<(), StoreError> {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = configure(Pulse::builder().redis(proxy.url()));
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    // On a busy machine an answer may take longer than the default timeout.
    until("the server answers", async || {
        pulse.backend().hello().await.is_ok()
    })
    .await;
    proxy.delay(SLOW);
    let answer = pulse.backend().hello().await;
    assert_eq!(proxy.connections(), 1);
    answer.map(drop)
}

#[tokio::test]
async fn an_answer_may_take_as_long_as_configured() {
    let patient = |builder: Builder| builder.redis_response_timeout(Duration::from_secs(10));
    ask_slow_server(patient).await.unwrap();

    let default = ask_slow_server(|builder| builder).await.unwrap_err();
    assert_eq!(default.kind(), StoreErrorKind::TimedOut);
}

#[tokio::test]
async fn a_shorter_timeout_ends_sooner() {
    let server = RedisServer::start().await;
    let pulse = |timeout: Duration| {
        let builder = Pulse::builder().redis(server.url());
        let builder = builder.redis_response_timeout(timeout);
        builder.build_with_tasks().unwrap()
    };
    let (short, _tasks) = pulse(Duration::from_millis(60));
    let (long, _tasks) = pulse(Duration::from_secs(10));
    for pulse in [&short, &long] {
        // On a busy machine an answer may take longer than the short timeout.
        until("the server answers", async || {
            pulse.backend().hello().await.is_ok()
        })
        .await;
    }
    server.freeze();
    let (long_store, short_store) = (long.backend(), short.backend());
    let ended = tokio::select! {
        answer = long_store.hello() => panic!("it is frozen: {answer:?}"),
        ended = short_store.hello() => ended,
    };
    server.thaw();
    assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::TimedOut);
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
        let error = pulse.backend().hello().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        took.push(start.elapsed());
    }
    assert!(took[0] < took[1], "{took:?}");
    assert!(took[1] >= Duration::from_millis(1_500), "{took:?}");
}
