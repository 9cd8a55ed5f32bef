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
    // The index, the four half hours of two hours by two, the fleet, and the contexts without records.
    assert_eq!(bench.store.asked(), 5);
    bench.manual_clock.advance(Duration::from_millis(900));
    all().await;
    assert_eq!(bench.store.asked(), 5);
    bench.manual_clock.advance(Duration::from_millis(100));
    all().await;
    // The index and the fleet: no half hour has changed.
    assert_eq!(bench.store.asked(), 7);
    bench.manual_clock.set_wall(NOW + 3_600);
    all().await;
    let asked = bench.store.asked();
    assert!(asked > 7, "the hour has turned");

    let before = bench.store.asked();
    for _ in 0..3 {
        join_all(STORE_READERS.map(|uri| get(&bench.router, uri))).await;
    }
    // A context, its slowest requests of two hours and those of all, the slowest, the names of the rankings and each,
    // one of them, a counter, the names and the values of all counters, a metric, a histogram, the reports of sixty
    // minutes by four.
    assert_eq!(bench.store.asked() - before, 29);
}

#[tokio::test]
async fn a_second_mount_asks_the_store_for_nothing_more() {
    let (first, store, _clock) = source(Canned::default());
    let second = source_with(first.query.clone());
    let open = |source| router::<()>(source, Access::open()).expect("open");
    let (first, second) = (open(first), open(second));
    for (asked, router) in [(29 + 5, &first), (29 + 5, &second)] {
        for uri in STORE_READERS {
            assert_eq!(get(router, uri).await.status, 200, "{uri}");
        }
        assert_eq!(store.asked(), asked);
    }
}

#[tokio::test]
async fn the_series_of_rows_ask_the_store_for_nothing_more() {
    let (plain, with_series) = (bench(), bench());
    for uri in ["/api/paths?window=1h", "/api/paths?window=1h&series=hits"] {
        for _ in 0..3 {
            for bench in [&plain, &with_series] {
                bench.manual_clock.advance(Duration::from_secs(1));
            }
            assert_eq!(get(&plain.router, "/api/paths?window=1h").await.status, 200);
            assert_eq!(get(&with_series.router, uri).await.status, 200);
            assert_eq!(with_series.store.asked(), plain.store.asked());
        }
    }
}

#[tokio::test]
async fn minutes_of_instances_that_have_ended_are_read_once() {
    let bench = bench();
    let poll = async || {
        for uri in ["/api/instances", "/api/instances?context=GET+/ping"] {
            assert_eq!(get(&bench.router, uri).await.status, 200);
        }
    };
    poll().await;
    // Sixty minutes, four at a time, the fleet, and the requests that are missing.
    assert_eq!(bench.store.asked(), 17);
    for second in 1..=50 {
        bench.manual_clock.advance(Duration::from_secs(1));
        bench.manual_clock.set_wall(NOW + second);
        poll().await;
    }
    // The fleet and the missing requests once a second; the minute that ended ten seconds before, when it was over for
    // twenty and forty seconds, and the one that has ended meanwhile.
    assert_eq!(bench.store.asked() - 17, 2 * 50 + 3);
}

#[tokio::test]
async fn the_cache_of_answers_is_bounded() {
    let bench = bench();
    for i in 0..1_000 {
        let uri = format!("/api/series?context=c{i}");
        assert_eq!(get(&bench.router, &uri).await.status, 200);
    }
    assert_eq!(bench.store.asked(), 1_000);
    get(&bench.router, "/api/series?context=c0").await;
    assert_eq!(bench.store.asked(), 1_000, "the first ones are remembered");
    get(&bench.router, "/api/series?context=c999").await;
    assert_eq!(bench.store.asked(), 1_001, "the last ones are not");
    bench.manual_clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        get(&bench.router, "/api/series?context=c999").await;
    }
    assert_eq!(bench.store.asked(), 1_002, "there is room again");
}

#[tokio::test]
async fn a_failing_store_is_503_and_asked_again_after_a_second() {
    let bench = bench();
    bench.store.set(FaultMode::Failing);
    for uri in STORE_READERS {
        let answered = get(&bench.router, uri).await;
        assert_eq!(answered.status, 503, "{uri}");
        let answer = answered.json();
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
        let asking: Vec<_> = (0..5)
            .map(|_| {
                let router = bench.router.clone();
                tokio::spawn(async move { get(&router, uri).await })
            })
            .collect();
        let settle = async || {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        };
        settle().await;
        bench.manual_clock.advance(Duration::from_millis(1_999));
        settle().await;
        assert!(asking.iter().all(|one| !one.is_finished()), "{uri}");
        bench.manual_clock.advance(Duration::from_millis(1));
        settle().await;
        for one in asking {
            assert!(one.is_finished(), "{uri}");
            let status = one.await.expect("no panic").status;
            assert_eq!(
                status,
                if answered.contains(&uri) { 200 } else { 503 },
                "{uri}"
            );
        }
        assert!(bench.store.asked() <= 3, "{uri}: each question once");
    }
}

#[tokio::test]
async fn a_cancelled_request_leaves_the_question_to_the_next() {
    let bench = bench();
    bench.store.set(FaultMode::Hanging);
    let spawn = || {
        let router = bench.router.clone();
        tokio::spawn(async move { get(&router, "/api/paths").await })
    };
    let first = spawn();
    tokio::task::yield_now().await;
    let second = spawn();
    tokio::task::yield_now().await;
    bench.store.set(FaultMode::Fine);
    first.abort();
    assert_eq!(second.await.expect("no panic").status, 200);
}
