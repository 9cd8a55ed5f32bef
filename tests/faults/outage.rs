//! A store that is away for a long time, with a manual clock.

use std::time::Duration;

use tower_pulse::Clock;
use tower_pulse_model::minute_report::MAX_PENDING_REPORTS;
use tower_pulse_model::slice::HOUR;

use crate::faults::service::{PAGES, PREFIX, Service, Stored, now, statistics, with_clock};
use crate::rig::proxy::Proxy;
use crate::rig::reads::{StoreOf, StoreReads};
use crate::rig::server::RedisServer;

const INTERVAL: i64 = 10;

#[tokio::test]
async fn pending_slices_are_bounded_by_the_retention() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, manual_clock) = Clock::manual(now());
    let service = Service::new(with_clock(&proxy.url(), &clock));
    service.requests(PAGES).await;
    service.settle().await;
    proxy.refuse(true);
    proxy.cut();
    for _ in 0..5 * HOUR / INTERVAL {
        service.request(0).await;
        // Drains the request within its second.
        let _ = service.pulse.flush().await;
        manual_clock.advance(Duration::from_secs(INTERVAL as u64));
    }
    let health = service.health();
    // The call in doubt and the pending batch each have three names: the page, `<all>` and the counter `sales`. The
    // pending batch also has the minute reports of this instance.
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
    let interval = INTERVAL as u64;
    for (precision, retained) in [
        (1, 120 / interval),
        (60, 7_140 / interval),
        (3_600, served),
        (86_400, served),
    ] {
        let slices = service.pulse.backend().counter("hits", precision).await;
        let slices = slices.unwrap();
        let sum: i64 = slices.iter().map(|(_, n)| n).sum();
        // An old slice that no new slice has pushed out stays until the next cleaning.
        assert!(slices.len() <= 121, "{} at {precision}", slices.len());
        let least = retained.min(served - 60);
        assert!(sum as u64 >= least, "{sum} at {precision}");
    }
    let conn = &mut server.connection().await;
    let stored = Stored::read(conn).await;
    assert_eq!(stored.total() as u64, served);
    assert_eq!(stored.pages[0] as u64, service.oracle.page(0));
    // The statistics have the current hour, of which half is over, and the whole hour before.
    let complete = statistics(conn, PREFIX, "GET /page/0").await;
    let expected = (HOUR / 2 + HOUR) / INTERVAL;
    assert!((expected - complete).abs() <= 1, "{complete}");
    let health = service.health();
    assert_eq!((health.recording.recorded, health.flush.lost), (served, 0));
    // The outage lasts five hours. Statistics are kept for its last hour and a half, so the samples of the first three
    // and a half hours count as late.
    let late = health.fold.late;
    assert!(late >= 3 * HOUR as u64 / interval, "{late}");
    service.pulse.shutdown().await.unwrap();
}
