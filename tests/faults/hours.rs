//! The turn of the hour, and wrong clocks. Exact means: counters = served; statistics of this hour + of the
//! last + late = served.

use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Builder, Clock, ManualClock, Pulse};
use tower_pulse_model::slice::{HOUR, hour_of, iso_hour};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::{let_tasks_run, until};
use crate::service::{PREFIX, Service, Stored};

/// 2023-11-14 22:30 UTC: half past an hour.
pub fn now() -> i64 {
    1_700_001_000
}

/// A builder without flushes of its own, whose clock is also the server's.
pub fn with_clock(url: &str, clock: &Clock) -> Builder {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX).unwrap();
    let options = options.response_timeout(Duration::from_millis(100));
    let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let pulse = Pulse::builder().store(Arc::new(store)).clock(clock.clone());
    pulse.flush_interval(Duration::from_secs(60))
}

/// An instance with its own clock, beside the server's.
fn instance(server: &RedisServer, at: i64, servers: &Clock) -> (Service, ManualClock) {
    let options = RedisOptions::new(&server.url()).unwrap();
    let store = RedisStore::open(options.prefix(PREFIX).unwrap()).unwrap();
    let store = store.with_clock(servers.clone());
    let (clock, hand) = Clock::manual(at);
    let pulse = Pulse::builder().store(Arc::new(store)).clock(clock);
    let pulse = pulse.flush_interval(Duration::from_secs(60));
    (Service::new(pulse), hand)
}

/// The statistics of page 0, count and hour: those of the current hour and of the last.
async fn sets(server: &RedisServer) -> [(i64, String); 2] {
    let mut conn = server.connection().await;
    let mut sets = [const { (0, String::new()) }; 2];
    for (at, (set, start)) in [("", ":start"), (":last", ":pstart")].iter().enumerate() {
        let key = format!("{PREFIX}stats:GET /page/0:AccessTime");
        let count: Option<f64> = issue(&mut conn, "ZSCORE", (format!("{key}{set}"), "count")).await;
        let hour: Option<String> = issue(&mut conn, "GET", format!("{key}{start}")).await;
        sets[at] = (count.unwrap_or(0.0) as i64, hour.unwrap_or_default());
    }
    sets
}

#[tokio::test]
async fn an_hour_turns_within_a_batch() {
    let server = RedisServer::start().await;
    let turn = hour_of(now()) + HOUR;
    let (servers, hand) = Clock::manual(turn - 1);
    let (service, own) = instance(&server, turn - 1, &servers);
    // Let the tasks begin to wait for the turn.
    let_tasks_run().await;
    let advance = |seconds: u64| {
        own.advance(Duration::from_secs(seconds));
        hand.advance(Duration::from_secs(seconds));
    };
    for _ in 0..10 {
        service.request(0).await;
    }
    advance(1);
    until("they are drained", async || {
        service.health().recording.pending_series > 0
    })
    .await;
    for _ in 0..7 {
        service.request(0).await;
    }
    service.settle().await;
    assert_eq!(
        sets(&server).await,
        [(7, iso_hour(turn)), (10, iso_hour(turn - HOUR))]
    );
    service.assert_exact(&server).await;

    // A drain that comes too late still counts for the hour that has ended.
    advance(HOUR as u64 - 1);
    service.settle().await;
    for _ in 0..5 {
        service.request(0).await;
    }
    advance(1);
    service.settle().await;
    service.request(0).await;
    service.settle().await;
    assert_eq!(
        sets(&server).await,
        [(1, iso_hour(turn + HOUR)), (12, iso_hour(turn))]
    );
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_instances_an_hour_apart() {
    let server = RedisServer::start().await;
    let (servers, hand) = Clock::manual(now());
    let (slow, slow_hand) = instance(&server, now() - 1_700, &servers);
    let (fast, fast_hand) = instance(&server, now() + 1_900, &servers);
    for hour in 0..4 {
        for n in 0..10 {
            slow.request(0).await;
            fast.request(0).await;
            match n % 3 {
                0 => _ = slow.settle().await,
                1 => _ = fast.settle().await,
                _ => {}
            }
        }
        slow.settle().await;
        fast.settle().await;
        let stored = Stored::read(&mut server.connection().await).await;
        let served = slow.oracle.served() + fast.oracle.served();
        assert_eq!(stored.total() as u64, served);
        assert_eq!((slow.health().fold.late, fast.health().fold.late), (0, 0));
        // From the second hour on, the statistics have requests of both instances for both hours.
        let [(current, at), (last, before)] = sets(&server).await;
        assert_eq!((current, last), (10, if hour == 0 { 10 } else { 20 }));
        assert!(before < at);
        for hand in [&hand, &slow_hand, &fast_hand] {
            hand.advance(Duration::from_secs(HOUR as u64));
        }
    }
}

#[tokio::test]
async fn the_clock_goes_back_an_hour() {
    let server = RedisServer::start().await;
    let (servers, _hand) = Clock::manual(now());
    let (service, hand) = instance(&server, now(), &servers);
    let turns = [(0, 10), (-1, 7), (0, 5), (-1, 3), (-2, 4), (0, 1), (-3, 2)];
    for (hours, requests) in turns {
        hand.set_wall(now() + hours * HOUR);
        for _ in 0..requests {
            service.request(0).await;
        }
        service.settle().await;
    }
    assert_eq!(
        sets(&server).await,
        [(16, iso_hour(now())), (10, iso_hour(now() - HOUR))].map(|(n, at)| {
            let hour = at.split(':').next().unwrap().to_owned();
            (n, format!("{hour}:00:00"))
        })
    );
    assert_eq!(service.health().fold.late, 6);
    service.end_exactly(&server).await;
}

#[tokio::test]
async fn the_clock_goes_a_year_forward() {
    let server = RedisServer::start().await;
    let (servers, servers_hand) = Clock::manual(now());
    let (service, hand) = instance(&server, now(), &servers);
    service.requests(48).await;
    service.settle().await;
    hand.set_wall(now() + 365 * 24 * HOUR);
    service.requests(24).await;
    service.settle().await;
    let health = service.health();
    assert_eq!(health.fold.skewed, 24);
    assert_eq!(health.fold.late, 0);
    assert_eq!(health.flush.lost, 0);
    hand.set_wall(now());
    service.requests(24).await;
    service.settle().await;
    let stored = Stored::read(&mut server.connection().await).await;
    for (precision, hits) in &stored.hits {
        assert_eq!(*hits, 72, "{precision}");
    }
    assert_eq!((stored.statistics, stored.all), (72, 72));
    assert_eq!(service.health().fold.skewed, 24);

    // The same holds if the server was away meanwhile, and both are in one batch. More than a minute has
    // passed: calls that a server loses sooner are replayed.
    for hand in [&servers_hand, &hand] {
        hand.advance(Duration::from_secs(61));
    }
    service.settle().await;
    server.terminate();
    hand.set_wall(now() + 365 * 24 * HOUR);
    service.requests(24).await;
    service.pulse.flush().await.unwrap_err();
    hand.set_wall(now());
    service.requests(24).await;
    service.pulse.flush().await.unwrap_err();
    server.restart().await;
    // The restarted server was empty: its acknowledged calls are gone, with its counts of late samples.
    service.settle().await;
    let stored = Stored::read(&mut server.connection().await).await;
    assert_eq!((stored.total(), stored.statistics), (24, 24));
    let health = service.health();
    assert_eq!((health.fold.skewed, health.flush.store_resets), (24, 1));
    service.pulse.shutdown().await.unwrap();
}
