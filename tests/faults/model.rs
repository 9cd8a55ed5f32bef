//! Random sequences of requests, time, faults and flushes against a plain model.

use std::time::Duration;

use tower_pulse::Clock;
use tower_pulse_model::slice::HOUR;

use crate::faults::service::{PAGES, Service, Stored, now, with_clock};
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;

/// Sends requests to some pages between two flushes, so that they count for this second. (The first drain after the
/// turn of a second counts for the second that has ended.) Some requests come during the first flush.
async fn some_requests(service: &Service, rng: &mut fastrand::Rng) {
    let (_, ()) = tokio::join!(service.pulse.flush(), async {
        for _ in 0..rng.usize(..12) {
            // Some pages are much busier than others.
            let most = rng.usize(..PAGES);
            service.request(rng.usize(..=most)).await;
        }
    });
    let _ = service.pulse.flush().await;
}

#[tokio::test]
async fn random_network_faults_before_a_real_redis_are_exact() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let mut seeds = fastrand::Rng::with_seed(seed());
    for _ in 0..6 {
        let seed = seeds.u64(..);
        eprintln!("case {seed}");
        let rng = &mut fastrand::Rng::with_seed(seed);
        let () = server.run("FLUSHALL").await;
        let (clock, hand) = Clock::manual(now() - HOUR);
        let service = Service::new(with_clock(&proxy.url(), &clock));
        for hour in [-1, 0] {
            hand.set_wall(now() + hour * HOUR);
            service.requests(PAGES).await;
            service.settle().await;
        }
        for _ in 0..40 {
            match rng.u32(..15) {
                0 => proxy.swallow_replies(rng.f64() * 0.5, seed, Swallow::Cut),
                1 => proxy.truncate(rng.f64() * 0.5, seed),
                12 => proxy.swallow_replies(rng.f64() * 0.5, seed, Swallow::Hang),
                13 => {
                    proxy.black_hole(true);
                    some_requests(&service, rng).await;
                    proxy.black_hole(false);
                }
                14 => proxy.delay(Duration::from_millis(rng.u64(..120))),
                2 => proxy.cut(),
                3 => proxy.slice(rng.bool()),
                4 => proxy.refuse(rng.bool()),
                5 => proxy.heal(),
                6 => hand.set_wall(now() - HOUR * rng.i64(0..4)),
                7 => hand.advance(Duration::from_millis(rng.u64(..1_000))),
                _ => some_requests(&service, rng).await,
            }
        }
        proxy.heal();
        service.settle().await;
        let stored = Stored::read(&mut server.connection().await).await;
        let served = service.oracle.served();
        assert_eq!(stored.total() as u64, served);
        for page in 0..PAGES {
            assert_eq!(stored.pages[page] as u64, service.oracle.page(page));
        }
        let health = service.health();
        let excepted = health.fold.late + health.fold.skewed;
        assert_eq!(stored.statistics as u64 + excepted, served);
        service.pulse.shutdown().await.unwrap();
    }
}
