//! A store that is away for a long time, with a manual clock.

use std::time::Duration;

use tower_pulse::{Clock, Pulse};
use tower_pulse_model::minute_report::MAX_PENDING_REPORTS;
use tower_pulse_model::slice::HOUR;

use crate::faults::service::{PAGES, PREFIX, Service, Stored, now, statistics, with_clock};
use crate::rig::proxy::Proxy;
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;

/// Sends a request per second to one page, for `seconds`. Each request is drained within its second.
async fn serve_for(service: &Service, hand: &tower_pulse::ManualClock, seconds: i64) {
    for _ in 0..seconds {
        service.request(0).await;
        let _ = service.pulse.flush().await;
        hand.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn pending_slices_are_bounded_by_the_retention() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(with_clock(&proxy.url(), &clock));
    service.requests(PAGES).await;
    service.settle().await;
    proxy.refuse(true);
    proxy.cut();
    serve_for(&service, &hand, 5 * HOUR).await;
    let health = service.health();
    // Three names (the page, `<all>` and the counter `sales`) in the call in doubt, the same names in the pending
    // batch, and the minute reports of this instance.
    let most = 6 + MAX_PENDING_REPORTS;
    assert!(health.recording.pending_series <= most, "{health:?}");
    assert_eq!(health.status.as_str(), "down");
    assert!(health.flush.in_doubt_age_seconds > Some(4.9 * 3_600.0));

    proxy.heal();
    service.settle().await;
    // The pending batch is sent in a few calls of bounded size.
    let calls = server.info("commandstats").await["cmdstat_xadd"].clone();
    let calls = calls.split(['=', ',']).nth(1).unwrap();
    assert!(calls.parse::<u32>().unwrap() < 40, "{calls}");
    let served = service.oracle.served();
    for (precision, retained) in [(1, 120), (60, 7_140), (3_600, served), (86_400, served)] {
        let slices = service.pulse.backend().counter("hits", precision).await;
        let slices = slices.unwrap();
        let sum: i64 = slices.iter().map(|(_, n)| n).sum();
        // An old slice that no new slice has pushed out stays until the next cleaning.
        assert!(slices.len() <= 121, "{} at {precision}", slices.len());
        assert!(
            sum as u64 >= retained.min(served - 60),
            "{sum} at {precision}"
        );
    }
    let conn = &mut server.connection().await;
    let stored = Stored::read(conn).await;
    assert_eq!(stored.total() as u64, served);
    assert_eq!(stored.pages[0] as u64, service.oracle.page(0));
    // The current hour, of which half is over, and the whole hour before.
    let complete = statistics(conn, PREFIX, "GET /page/0").await;
    assert!((HOUR / 2 + HOUR - complete).abs() <= 1, "{complete}");
    let health = service.health();
    assert_eq!((health.recording.recorded, health.flush.lost), (served, 0));
    // The outage lasts five hours, and statistics are kept for the last hour and a half of it, so the samples of the
    // first three and a half hours count as late.
    assert!(health.fold.late >= 3 * HOUR as u64, "{}", health.fold.late);
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn records_pending_for_hours_stay_within_pending_bytes_and_lose_no_request() {
    const NAMES: usize = 100;
    const MINUTES: u64 = 240;
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, hand) = Clock::manual(now() + 7);
    let pulse = Pulse::builder().redis(proxy.url()).clock(clock.clone());
    let pulse = pulse.pending_bytes(1 << 20);
    let service = Service::new(pulse.flush_interval(Duration::from_secs(60)));
    proxy.refuse(true);
    proxy.cut();
    for _ in 0..MINUTES {
        for name in 0..NAMES {
            service.pulse.timer(&format!("job:{name}")).stop();
        }
        let _ = service.pulse.flush().await;
        hand.advance(Duration::from_secs(60));
    }
    proxy.heal();
    service.settle().await;
    let store = service.pulse.backend();
    for name in [0, NAMES - 1] {
        let recorded = async |width: u32| {
            let (name, now) = (format!("job:{name}"), clock.now_seconds());
            let records = store.records_of(&name, width, now).await.unwrap();
            let counts = records.iter().map(|(_, sums)| {
                assert_eq!(sums.histogram.count(), sums.times.count);
                sums.times.count
            });
            counts.sum::<u64>()
        };
        assert_eq!(recorded(21_600).await, MINUTES);
        // A hundred contexts with a record per minute would have taken 3 MB.
        assert!(recorded(60).await < 60, "not compacted");
    }
    let health = service.health();
    assert_eq!(health.recording.recorded, MINUTES * NAMES as u64);
    assert_eq!(health.flush.lost, 0);
    service.pulse.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_suspend_of_ten_minutes_loses_nothing() {
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(now());
    let service = Service::new(Pulse::builder().redis(server.url()).clock(clock));
    for _ in 0..3 {
        service.requests(100).await;
        // A flush is in progress, and some requests are not drained yet.
        let (flushed, ()) = tokio::join!(service.pulse.flush(), async {
            service.requests(50).await;
            hand.advance(Duration::from_secs(600));
            service.requests(25).await;
        });
        flushed.unwrap();
        hand.advance(Duration::from_secs(1));
    }
    service.settle().await;
    let stored = Stored::read(&mut server.connection().await).await;
    let served = service.oracle.served() as i64;
    assert_eq!((stored.total(), stored.statistics), (served, served));
    // Only the finest precision has lost slices, and only those beyond its 120.
    for (precision, hits) in &stored.hits {
        assert!(*precision < 60 || *hits == served, "{precision}: {hits}");
    }
    service.pulse.shutdown().await.unwrap();
}
