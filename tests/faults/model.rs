//! Random sequences of requests, time, faults and flushes against a plain model.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::FencedBatch;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::ALL;
use tower_pulse_model::measures::Measure;
use tower_pulse_model::slice::{HOUR, Precisions, hour_of};

use crate::faulty::Faulty;
use crate::hours::{now, with_clock};
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::service::{PAGES, Service, Stored, context};

/// Seeds of `cases` cases. All follow from one seed, and each is printed for a repetition.
fn seeds(cases: u64) -> impl Iterator<Item = u64> {
    let mut rng = fastrand::Rng::with_seed(seed());
    (0..cases).map(move |_| {
        let seed = rng.u64(..);
        eprintln!("case {seed}");
        seed
    })
}

fn on_faulty(rng: &mut fastrand::Rng) -> (Service, std::sync::Arc<Faulty>, Clock, ManualClock) {
    let (clock, hand) = Clock::manual(now());
    let store = Faulty::new(clock.clone(), Precisions::default(), rng.u64(..));
    let pulse = Pulse::builder().store(store.clone()).clock(clock.clone());
    let pulse = pulse.flush_interval(Duration::from_secs(60));
    (Service::new(pulse), store, clock, hand)
}

async fn sum(service: &Service, counter: &str) -> u64 {
    let slices = service.pulse.backend().counter(counter, 86_400).await;
    slices.unwrap().iter().map(|(_, n)| *n as u64).sum()
}

/// Sends requests to some pages between two flushes, so that they count for this second. (The first drain
/// after the turn of a second counts for the one that has ended.)
async fn some_requests(service: &Service, rng: &mut fastrand::Rng, mut served: impl FnMut(usize)) {
    let _ = service.pulse.flush().await;
    for _ in 0..rng.usize(0..12) {
        // Some pages are much busier than others.
        let most = rng.usize(..PAGES);
        let page = rng.usize(..=most);
        service.request(page).await;
        served(page);
    }
    let _ = service.pulse.flush().await;
}

async fn assert_counters(service: &Service, lost: u64) {
    let served = service.oracle.served();
    let mut all = 0;
    for page in 0..PAGES {
        let stored = sum(service, &format!("hits:{}", context(page))).await;
        assert!(
            lost > 0 || stored == service.oracle.page(page),
            "page {page}"
        );
        all += stored;
    }
    assert_eq!(all + lost, served);
    if lost == 0 {
        assert_eq!(sum(service, "hits").await, served);
        assert_eq!(sum(service, "sales").await, 3 * served);
    }
}

#[tokio::test]
async fn with_a_clock_that_goes_forward_counters_and_both_hours_are_exact() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, clock, hand) = on_faulty(rng);
        let mut hours = vec![BTreeMap::<i64, u64>::new(); PAGES];
        for _ in 0..60 {
            match rng.u32(..10) {
                0 => store.trouble(rng.f64() * 0.7),
                1 => store.away(rng.bool()),
                2 => hand.advance(Duration::from_millis(rng.u64(..5_000))),
                3 => hand.advance(Duration::from_secs(rng.u64(..2_400))),
                _ => {
                    let hour = hour_of(clock.now_seconds());
                    some_requests(&service, rng, |page| {
                        *hours[page].entry(hour).or_default() += 1;
                    })
                    .await;
                }
            }
        }
        store.away(false);
        store.trouble(0.0);
        service.settle().await;
        assert_counters(&service, 0).await;
        let health = service.health();
        assert_eq!(
            (
                health.flush.lost,
                health.flush.store_resets,
                health.recording.dropped
            ),
            (0, 0, 0)
        );

        // The newest two hours of each page are complete.
        for (page, hours) in hours.iter().enumerate() {
            let Some((newest, served)) = hours.last_key_value() else {
                continue;
            };
            let store = service.pulse.backend();
            let stored = store.context(&context(page), *newest).await.unwrap();
            let stored = stored.unwrap();
            let count = |hour: Option<tower_pulse_model::snapshot::HourSnapshot>| {
                hour.map_or(0, |hour| hour.times.count as u64)
            };
            assert_eq!(count(stored.hour), *served, "page {page}");
            let before = hours.get(&(newest - HOUR)).copied().unwrap_or(0);
            assert_eq!(count(stored.last_hour), before, "page {page}");
            // The hourly records have all requests.
            let now = clock.now_seconds();
            let records = store
                .records_of(&context(page), HOUR as u32, now)
                .await
                .unwrap();
            let all: u64 = records.iter().map(|(_, r)| r.histogram.count()).sum();
            assert_eq!(all, service.oracle.page(page), "page {page}");
        }
    }
}

#[tokio::test]
async fn with_a_clock_that_goes_back_missing_requests_are_counted_as_skewed() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, _, hand) = on_faulty(rng);
        // Both hours exist from the start, so that neither is dropped.
        for hour in [-1, 0] {
            hand.set_wall(now() + hour * HOUR);
            service.requests(PAGES).await;
            service.settle().await;
        }
        for _ in 0..40 {
            match rng.u32(..8) {
                0 => store.trouble(rng.f64() * 0.7),
                1 => hand.set_wall(now() - HOUR * rng.i64(0..4)),
                2 => hand.advance(Duration::from_millis(rng.u64(..1_000))),
                _ => some_requests(&service, rng, |_| {}).await,
            }
        }
        store.trouble(0.0);
        service.settle().await;
        assert_counters(&service, 0).await;
        let mut recorded = 0;
        for page in 0..PAGES {
            let store = service.pulse.backend();
            let records = store.records_of(&context(page), HOUR as u32, now()).await;
            let hours = records.unwrap().into_iter();
            recorded += hours.map(|(_, sums)| sums.times.count).sum::<u64>();
        }
        // The store's clock goes back too: an hour that it once had may be two hours ahead now.
        let skewed = service.health().fold.skewed;
        assert_eq!(recorded + skewed, service.oracle.served());
    }
}

#[tokio::test]
async fn after_failovers_only_lost_requests_are_missing() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, clock, hand) = on_faulty(rng);
        let mut was_old = false;
        for _ in 0..60 {
            match rng.u32(..12) {
                0 => store.trouble(rng.f64() * 0.5),
                1 => store.away(rng.bool()),
                2 => hand.advance(Duration::from_millis(rng.u64(..4_000))),
                3 if rng.u32(..4) == 0 => {
                    hand.advance(Duration::from_secs(61));
                    was_old = true;
                }
                // The replica may have nothing but the generation.
                4 => _ = store.fall_back(rng.usize(..6)),
                _ => some_requests(&service, rng, |_| {}).await,
            }
        }
        store.away(false);
        store.trouble(0.0);
        service.requests(1).await;
        service.settle().await;
        let health = service.health();
        assert_eq!(health.flush.store_resets, 0);
        assert!(was_old || health.flush.lost == 0, "{health:?}");
        assert_counters(&service, health.flush.lost).await;
        assert_eq!(
            health.recording.recorded + health.flush.lost,
            service.oracle.served()
        );
        // The last flush may have found a loss, which the next one tells.
        service.settle().await;
        let (store, now) = (service.pulse.backend(), clock.now_seconds());
        let all = store.records_of(ALL, 86_400, now).await.unwrap();
        let missing = |sums: &Aggregate| sums.measures.get(Measure::Missing);
        let (count, missing) = all.iter().fold((0, 0), |(count, lost), (_, sums)| {
            (count + sums.times.count, lost + missing(sums))
        });
        assert_eq!(
            (count + missing, missing),
            (service.oracle.served(), health.flush.lost)
        );
    }
}

/// Age up to which a generation is young, in seconds.
const YOUNG: u64 = 60;

/// Ends all faults, waits for `seconds`, and flushes all samples.
async fn recover(service: &Service, store: &Faulty, hand: &ManualClock, seconds: u64) {
    store.away(false);
    store.trouble(0.0);
    hand.advance(Duration::from_secs(seconds));
    service.requests(1).await;
    service.settle().await;
}

#[tokio::test]
async fn after_a_reset_only_acknowledged_requests_are_missing() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, _, hand) = on_faulty(rng);
        let mut forgotten = 0;
        let mut resets = 0;
        for _ in 0..60 {
            match rng.u32(..12) {
                0 => store.trouble(rng.f64() * 0.5),
                1 => store.away(rng.bool()),
                2 => hand.advance(Duration::from_millis(rng.u64(..4_000))),
                3 => {
                    // A reset of a young generation would replay all calls.
                    recover(&service, &store, &hand, YOUNG + 1).await;
                    store.trouble(rng.f64() * 0.5);
                    some_requests(&service, rng, |_| {}).await;
                    // All samples are gone, except the call in doubt, which may or may not be there.
                    forgotten = store.acknowledged().iter().map(requests).sum();
                    store.forget();
                    resets += 1;
                }
                _ => some_requests(&service, rng, |_| {}).await,
            }
        }
        recover(&service, &store, &hand, 0).await;
        let health = service.health();
        assert_eq!(health.flush.store_resets, resets, "{health:?}");
        assert_eq!((health.flush.lost, health.recording.dropped), (0, 0));
        assert_counters_but(&service, forgotten).await;
    }
}

#[tokio::test]
async fn after_a_reset_of_a_young_generation_no_request_is_missing() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, _, hand) = on_faulty(rng);
        let mut resets = 0;
        // The generation stays young, so that no call is too old to be replayed.
        let mut left = YOUNG * 1_000 - 1;
        for _ in 0..8 {
            recover(&service, &store, &hand, 0).await;
            for _ in 0..8 {
                match rng.u32(..6) {
                    0 => store.trouble(rng.f64() * 0.5),
                    1 => store.away(rng.bool()),
                    2 => {
                        let millis = rng.u64(..=left / 4);
                        hand.advance(Duration::from_millis(millis));
                        left -= millis;
                    }
                    _ => some_requests(&service, rng, |_| {}).await,
                }
            }
            store.forget();
            resets += 1;
        }
        recover(&service, &store, &hand, 0).await;
        let health = service.health();
        assert_eq!(health.flush.store_resets, resets, "{health:?}");
        assert_eq!((health.flush.lost, health.recording.dropped), (0, 0));
        assert_counters(&service, 0).await;
    }
}

#[tokio::test]
async fn resets_and_failovers_never_count_a_request_twice() {
    for seed in seeds(60) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let (service, store, _, hand) = on_faulty(rng);
        for _ in 0..80 {
            match rng.u32(..12) {
                0 => store.trouble(rng.f64() * 0.5),
                1 => store.away(rng.bool()),
                2 => hand.advance(Duration::from_secs(rng.u64(..50))),
                3 => store.forget(),
                4 => _ = store.fall_back(rng.usize(..6)),
                _ => some_requests(&service, rng, |_| {}).await,
            }
            for page in 0..PAGES {
                let stored = sum(&service, &format!("hits:{}", context(page))).await;
                assert!(stored <= service.oracle.page(page), "page {page}");
            }
        }
        recover(&service, &store, &hand, 0).await;
        let served = service.oracle.served();
        let (hits, health) = (sum(&service, "hits").await, service.health());
        assert!(
            hits + health.flush.lost <= served,
            "{hits} of {served}: {health:?}"
        );
        // Nor is anything missing that it never said to have, unless it is told.
        let acknowledged: u64 = store.acknowledged().iter().map(requests).sum();
        assert!(
            acknowledged + health.flush.lost >= served,
            "{acknowledged} of {served}: {health:?}"
        );
        // And from there on it is exact.
        service.requests(PAGES).await;
        service.settle().await;
        assert_eq!(sum(&service, "hits").await, hits + PAGES as u64);
    }
}

/// Checks that only `forgotten` acknowledged samples are missing.
async fn assert_counters_but(service: &Service, forgotten: u64) {
    let mut all = 0;
    for page in 0..PAGES {
        all += sum(service, &format!("hits:{}", context(page))).await;
    }
    assert_eq!(all + forgotten, service.oracle.served());
}

fn requests(call: &FencedBatch) -> u64 {
    call.batch.requests()
}

#[tokio::test]
async fn random_network_faults_before_a_real_redis_are_exact() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    for seed in seeds(6) {
        let rng = &mut fastrand::Rng::with_seed(seed);
        redis::cmd("FLUSHALL")
            .exec_async(&mut server.connection().await)
            .await
            .unwrap();
        let (clock, hand) = Clock::manual(now() - HOUR);
        let service = Service::new(with_clock(&proxy.url(), &clock));
        let mut pages = HashSet::new();
        for hour in [-1, 0] {
            hand.set_wall(now() + hour * HOUR);
            service.requests(PAGES).await;
            service.settle().await;
        }
        for _ in 0..40 {
            match rng.u32(..12) {
                0 => proxy.swallow_replies(rng.f64() * 0.5, seed, Swallow::Cut),
                1 => proxy.truncate(rng.f64() * 0.5, seed),
                2 => proxy.cut(),
                3 => proxy.slice(rng.bool()),
                4 => proxy.refuse(rng.bool()),
                5 => proxy.heal(),
                6 => hand.set_wall(now() - HOUR * rng.i64(0..4)),
                7 => hand.advance(Duration::from_millis(rng.u64(..1_000))),
                _ => some_requests(&service, rng, |page| _ = pages.insert(page)).await,
            }
        }
        proxy.heal();
        service.settle().await;
        let stored = Stored::read(&mut server.connection().await).await;
        let served = service.oracle.served();
        assert_eq!(stored.total() as u64, served);
        for page in pages {
            assert_eq!(stored.pages[page] as u64, service.oracle.page(page));
        }
        let health = service.health();
        let excepted = health.fold.late + health.fold.skewed;
        assert_eq!(stored.statistics as u64 + excepted, served);
        service.pulse.shutdown().await.unwrap();
    }
}
