//! Faults of the store, and of the network between it and the service.

use std::time::{Duration, Instant};

use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;
use crate::service::{Load, PAGES, Service, Stored, builder, pause, without_flushes};
use crate::table::{Outcome, Size};

/// Bursts of ten requests from four tasks, a millisecond apart.
pub fn load(service: &Service, seed: u64) -> Load {
    service.load_of(seed, 10..11, 1..2)
}

/// Ends the service, and compares the counts.
async fn end(service: &Service, server: &RedisServer, done: String) -> Outcome {
    let stored = async || Stored::read(&mut server.connection().await).await;
    end_with(service, stored, done).await
}

/// Ends the service, and compares the counts with what is stored then.
pub async fn end_with(
    service: &Service,
    stored: impl AsyncFnOnce() -> Stored,
    done: String,
) -> Outcome {
    let drained = service.settle().await;
    let mut faults = Vec::new();
    if let Err(error) = service.pulse.shutdown().await {
        faults.push(error.to_string());
    }
    let stored = stored().await;
    // The finest precisions retain two and ten minutes. Only precisions that cover the whole run can be
    // compared.
    let differences = service.differences(&stored).into_iter();
    faults.extend(
        differences
            .filter(|line| !line.starts_with("hits at 1 s") && !line.starts_with("hits at 5 s")),
    );
    let health = service.health();
    if health.flush.lost + health.recording.dropped > 0 {
        faults.push(format!(
            "lost {}, dropped {}",
            health.flush.lost, health.recording.dropped
        ));
    }
    Outcome {
        done,
        expected: service.oracle.served() as i64,
        stored: stored.total(),
        faults,
        notes: vec![
            format!("{} calls failed", health.flush.errors),
            format!("drained in {:.1} s", drained.as_secs_f64()),
        ],
    }
}

pub async fn kills_and_freezes(size: Size) -> Outcome {
    let (kills, freezes, requests) = (size.of(1_000), size.of(200), size.of(1_000_000));
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(builder(&proxy.url()));
    let load = load(&service, size.seed);
    for kill in 0..kills {
        match rng.bool() {
            true => proxy.cut(),
            false => _ = server.kill_clients().await,
        }
        pause(rng.u64(5..40)).await;
        if kill * freezes / kills != (kill + 1) * freezes / kills {
            server.freeze();
            let millis = if rng.u32(..20) == 0 {
                700
            } else {
                rng.u64(5..200)
            };
            pause(millis).await;
            server.thaw();
        }
    }
    until("all requests are served", async || {
        service.oracle.served() >= requests
    })
    .await;
    load.stop().await;
    let done = format!("{kills} connection kills and {freezes} freezes");
    end(&service, &server, done).await
}

pub async fn swallowed_replies(size: Size) -> Outcome {
    let flushes = size.of(500);
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let service = Service::new(without_flushes(&proxy.url()));
    service.requests(PAGES).await;
    service.settle().await;
    for flush in 0..flushes {
        if flush % 20 == 0 {
            let then = if flush % 40 == 0 {
                Swallow::Cut
            } else {
                Swallow::Hang
            };
            proxy.swallow_replies(0.2, size.seed ^ flush, then);
        }
        service.requests(100).await;
        let _ = service.pulse.flush().await;
    }
    proxy.heal();
    let swallowed = proxy.swallowed();
    let done = format!("{flushes} flushes, each reply swallowed with 20 % ({swallowed})");
    let mut outcome = end(&service, &server, done).await;
    if swallowed == 0 {
        outcome.faults.push("nothing was swallowed".to_owned());
    }
    outcome
}

pub async fn killed_servers(size: Size) -> Outcome {
    let kills = size.of(100);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let server = RedisServer::start_durable().await;
    let service = Service::new(builder(&server.url()));
    let load = load(&service, size.seed);
    for _ in 0..kills {
        let flushed = service.health().flush.errors;
        pause(rng.u64(40..250)).await;
        server.kill_9();
        until("it is missed", async || {
            service.health().flush.errors > flushed
        })
        .await;
        server.restart().await;
    }
    pause(100).await;
    load.stop().await;
    let mut outcome = end(
        &service,
        &server,
        format!("{kills} x kill -9, appendfsync always"),
    )
    .await;
    let resets = service.health().flush.store_resets;
    if resets > 0 {
        outcome.faults.push(format!("{resets} resets"));
    }
    outcome
}

pub async fn failovers(size: Size) -> Outcome {
    let rounds = size.of(10);
    let mut all = Outcome::default();
    let mut replayed = 0;
    for round in 0..rounds {
        let primary = RedisServer::start().await;
        let replica = RedisServer::builder().replica_of(primary.port());
        let replica = replica.start().await;
        let mut conn = replica.connection().await;
        let proxy = Proxy::start(primary.port()).await;
        let service = Service::new(builder(&proxy.url()));
        let load = load(&service, size.seed ^ round);
        until("something is replicated", async || {
            Stored::read(&mut conn.clone()).await.total() > 0
        })
        .await;
        pause(200).await;
        let () = issue(&mut conn, "REPLICAOF", ("127.0.0.1", 1)).await;
        // Acknowledged by the primary, which alone has it.
        let cut = Instant::now();
        while cut.elapsed() < Duration::from_secs(1) {
            pause(50).await;
        }
        primary.kill_9();
        proxy.set_upstream(replica.port());
        pause(300).await;
        let () = issue(&mut conn, "REPLICAOF", ("NO", "ONE")).await;
        pause(300).await;
        load.stop().await;
        let outcome = end(&service, &replica, String::new()).await;
        all.expected += outcome.expected;
        all.stored += outcome.stored;
        all.faults.extend(outcome.faults);
        let health = service.health();
        replayed += health.flush.replayed;
        if health.flush.replayed == 0 {
            all.faults
                .push(format!("round {round}: nothing was replayed"));
        }
    }
    all.done = format!("{rounds} primaries lost, replication cut 1 s before, replica promoted");
    all.notes = vec![format!("{replayed} calls replayed")];
    all
}
