//! `as_of` and `complete` follow the oldest sample that is not in the store, whatever keeps it out.

use std::time::Duration;

use redis::cmd;
use tower_pulse::{Clock, Pulse};

use crate::hours::{now, with_clock};
use crate::losses::ask;
use crate::rig::proxy::Proxy;
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{PAGES, Service};

/// Up to when `api/overview` claims to be current, and which share of the last five minutes it claims to have.
async fn claimed(pulse: &Pulse) -> (i64, f64) {
    let overview = ask(pulse, "/api/overview?window=5m").await;
    let complete = overview["window"]["complete"].as_f64();
    let health = ask(pulse, "/api/health").await;
    assert_eq!(overview["as_of"], health["as_of"]);
    (overview["as_of"].as_i64().unwrap(), complete.unwrap())
}

const SECOND: Duration = Duration::from_secs(1);

async fn maxmemory(server: &RedisServer, bytes: &str) {
    let mut conn = server.connection().await;
    let mut config = cmd("CONFIG");
    config.arg("SET").arg("maxmemory").arg(bytes);
    config.exec_async(&mut conn).await.unwrap();
}

/// Something that is recorded.
type Record = fn(&Pulse);

#[tokio::test]
async fn nothing_is_current_while_appends_fail_and_reads_work() {
    let records: [(&str, Record); 4] = [
        ("requests", |pulse| {
            pulse.record("GET /page/0", SECOND, http::StatusCode::OK);
        }),
        ("timers", |pulse| pulse.timer("job").stop()),
        ("counters", |pulse| pulse.counter("sold").add(7)),
        ("rankings", |pulse| {
            pulse.ranking("posts").build().unwrap().add("7", 1);
        }),
    ];
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&server.url(), &clock));
    service.requests(PAGES).await;
    service.settle().await;
    hand.advance(Duration::from_secs(3_600));
    for (what, record) in records {
        service.requests(PAGES).await;
        service.settle().await;
        hand.advance(5 * SECOND);
        let (current, complete) = claimed(&service.pulse).await;
        assert_eq!((current, complete), (clock.now_seconds(), 1.0), "{what}");
        assert_eq!(service.health().flush.pending_age_seconds, None);

        maxmemory(&server, "1").await;
        let recorded_at = clock.now_seconds();
        record(&service.pulse);
        service.pulse.flush().await.unwrap_err();
        for _ in 0..2 {
            hand.advance(5 * SECOND);
            let (behind, complete) = claimed(&service.pulse).await;
            assert_eq!(behind, recorded_at, "{what}");
            assert!(complete < 1.0, "{complete} of {what}");
        }
        let age = service.health().flush.pending_age_seconds;
        assert!(
            age.is_some_and(|age| (10.0..=11.0).contains(&age)),
            "{age:?}"
        );

        maxmemory(&server, "0").await;
        service.settle().await;
        hand.advance(2 * SECOND);
        let (current, complete) = claimed(&service.pulse).await;
        assert_eq!((current, complete), (clock.now_seconds(), 1.0), "{what}");
    }
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn nothing_is_current_while_a_call_is_under_way() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&proxy.url(), &clock));
    service.requests(PAGES).await;
    service.settle().await;
    hand.advance(10 * SECOND);
    let recorded_at = clock.now_seconds();
    service.request(0).await;
    proxy.black_hole(true);
    let mut held = Box::pin(service.pulse.flush());
    tokio::select! {
        ended = &mut held => panic!("it has ended: {ended:?}"),
        () = until("a call is under way", async || {
            service.health().flush.in_doubt_age_seconds.is_some()
        }) => {}
    }
    proxy.heal();
    hand.advance(5 * SECOND);
    // What comes meanwhile is newer.
    service.request(0).await;
    service.pulse.drain();
    until("it can be read", async || {
        service.pulse.store().counter("hits", 1).await.is_ok()
    })
    .await;
    assert_eq!(claimed(&service.pulse).await.0, recorded_at);
    drop(held);
    service.settle().await;
    hand.advance(2 * SECOND);
    assert_eq!(claimed(&service.pulse).await.0, clock.now_seconds());
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn a_store_in_memory_is_not_current_before_a_flush() {
    let (clock, hand) = Clock::manual(now());
    let pulse = Pulse::builder().clock(clock.clone());
    let service = Service::new(pulse.flush_interval(60 * SECOND));
    service.requests(PAGES).await;
    service.settle().await;
    for _ in 0..10 {
        hand.advance(60 * SECOND);
        service.settle().await;
    }
    let recorded_at = clock.now_seconds();
    service.request(0).await;
    service.pulse.drain();
    hand.advance(30 * SECOND);
    let (behind, complete) = claimed(&service.pulse).await;
    assert_eq!(behind, recorded_at);
    assert!(complete < 1.0, "{complete}");
    service.settle().await;
    hand.advance(2 * SECOND);
    let current = claimed(&service.pulse).await;
    assert_eq!(current, (clock.now_seconds(), 1.0));
    service.pulse.shutdown().await.unwrap();
}
