//! The number and the concurrency of reads of the store.

use std::time::Duration;

use futures_util::future::join_all;

use super::store::FaultMode;
use super::*;

const STORE_READERS: [&str; 12] = [
    "/api/instances",
    "/api/overview",
    "/api/paths",
    "/api/path?context=GET+/ping",
    "/api/slowest",
    "/api/rankings",
    "/api/rankings?name=posts",
    "/api/slowest_requests",
    "/api/counters?name=sales",
    "/api/counters",
    "/api/series",
    "/api/series?metric=p95",
];

#[tokio::test]
async fn many_dashboards_ask_once_a_second() {
    let bench = bench();
    let uris = ["/api/overview", "/api/paths", "/api/paths?kind=timer"];
    let all = || join_all((0..50).map(|i| get(&bench.router, uris[i % uris.len()])));
    for answered in all().await {
        assert_eq!(answered.status, 200);
    }
    // The reads: the index, the four half hours of two hours in two reads, the fleet, and the contexts without records.
    assert_eq!(bench.store.asked(), 5);
    bench.manual_clock.advance(Duration::from_millis(900));
    all().await;
    assert_eq!(bench.store.asked(), 5);
    bench.manual_clock.advance(Duration::from_millis(100));
    all().await;
    // Only the index and the fleet are read again, because no half hour has changed.
    assert_eq!(bench.store.asked(), 7);
    bench.manual_clock.set_wall(NOW + 3_600);
    all().await;
    let asked = bench.store.asked();
    assert!(asked > 7, "the hour has turned");

    let before = bench.store.asked();
    for _ in 0..3 {
        join_all(STORE_READERS.map(|uri| get(&bench.router, uri))).await;
    }
    // The reads: a context, its slowest requests in two hours, the slowest requests of all contexts, the slowest
    // contexts, the rankings' names and each ranking, one ranking alone, a counter, the names and the values of all
    // counters, a metric, a histogram, and the reports of sixty minutes, four minutes at a time.
    assert_eq!(bench.store.asked() - before, 29);
}

#[tokio::test]
async fn a_failing_store_is_503_and_asked_again_after_a_second() {
    let bench = bench();
    bench.store.set(FaultMode::Failing);
    for uri in STORE_READERS {
        let answer = error(&bench.router, uri, 503).await;
        let message = answer["error"].as_str().expect("a message");
        assert!(message.contains("connection refused"), "{message}");
    }
    assert_eq!(get(&bench.router, "/").await.status, 200);
    bench.store.set(FaultMode::Fine);
    assert_eq!(get(&bench.router, "/api/paths").await.status, 503);
    bench.manual_clock.advance(Duration::from_secs(1));
    assert_eq!(get(&bench.router, "/api/paths").await.status, 200);
}

#[tokio::test]
async fn a_hanging_store_is_503_after_two_seconds() {
    // The answers of a screen wait concurrently.
    let answered = ["/api/health", "/api/screen?ask=slowest&ask=rankings"];
    for uri in STORE_READERS.into_iter().chain(answered) {
        let bench = bench();
        bench.store.set(FaultMode::Hanging);
        let router = bench.router.clone();
        let asking = tokio::spawn(async move { get(&router, uri).await });
        let settle = async || {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        };
        settle().await;
        bench.manual_clock.advance(Duration::from_millis(1_999));
        settle().await;
        assert!(!asking.is_finished(), "{uri}");
        bench.manual_clock.advance(Duration::from_millis(1));
        settle().await;
        assert!(asking.is_finished(), "{uri}");
        let expected = if answered.contains(&uri) { 200 } else { 503 };
        assert_eq!(asking.await.expect("no panic").status, expected, "{uri}");
    }
}
