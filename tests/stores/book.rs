//! The book's own functions beside this crate, with an empty prefix.

use tower_pulse_model::context::Kind;
use tower_pulse_model::slice::{HOUR, iso_hour};

use crate::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR};
use crate::rig::book;
use crate::rig::reads::{StoreReads, pairs_of};
use crate::rig::server::{RedisServer, issue};

async fn fixture_without_prefix() -> Fixture {
    Fixture::redis_with(RedisServer::start().await, "")
}

#[tokio::test]
async fn the_book_reads_data_of_this_crate() {
    let mut fixture = fixture_without_prefix().await;
    let batch = fixture.batch(&[
        ("/profile", Kind::Http, LAST_HOUR, &[5 * MS]),
        ("/profile", Kind::Http, NOW, &[MS, 3 * MS]),
        ("/slow", Kind::Http, NOW, &[70 * MS]),
    ]);
    fixture.merge_clean(batch).await;
    let connection = &mut fixture.server().connection().await;
    let hits = book::get_counter(connection, "", "hits:/profile", 5).await;
    assert_eq!(hits, [(LAST_HOUR, 1), (NOW, 2)]);
    let stats = book::get_stats(connection, "", "/profile", "AccessTime").await;
    assert_eq!((stats.count, stats.min, stats.max), (2.0, 0.001, 0.003));
    assert_eq!((stats.sum, stats.average), (0.004, 0.002));
    let last = book::get_stats(connection, "", "/profile", "AccessTime:last").await;
    assert_eq!((last.count, last.sum), (1.0, 0.005));
    let slowest = book::slowest(connection, "").await;
    assert_eq!(
        slowest,
        [("/slow".into(), 0.07), ("/profile".into(), 0.002)]
    );
    // The book's cleaner cleans the counters of this crate.
    let cleaned = book::clean_counters_pass(connection, "", 0, 120, NOW + 10_000).await;
    assert!(cleaned.counters > 0);
}

#[tokio::test]
async fn this_crate_reads_and_extends_data_of_the_book() {
    let mut fixture = fixture_without_prefix().await;
    let connection = &mut fixture.server().connection().await;
    for (value, hour) in [(5.0, LAST_HOUR), (2.0, THIS_HOUR), (4.0, THIS_HOUR)] {
        let hour = iso_hour(hour);
        book::access_time_at(connection, "", "/profile", value, &hour).await;
    }
    book::access_time_at(connection, "", "query", 1.0, &iso_hour(THIS_HOUR)).await;
    book::update_counter(connection, "", "hits", 7, NOW, &book::PRECISIONS).await;

    let snapshot = fixture.snapshot().await;
    assert_eq!(snapshot.problems, []);
    let names: Vec<_> = snapshot
        .contexts
        .iter()
        .map(|c| (&*c.context, c.kind))
        .collect();
    assert_eq!(names, [("/profile", Kind::Http), ("query", Kind::Timer)]);
    assert_eq!(pairs_of(&snapshot.fleet.recent), [(NOW, 7)]);
    assert_eq!(fixture.hours("/profile").await, (Some(2.0), Some(1.0)));
    assert_eq!(fixture.slowest_means().await[0], ("/profile".into(), 3.0));

    let batch = fixture.batch(&[
        ("/profile", Kind::Http, NOW, &[9_000 * MS]),
        ("/profile", Kind::Http, LAST_HOUR, &[1_000 * MS]),
    ]);
    fixture.merge_clean(batch).await;
    let stats = book::get_stats(connection, "", "/profile", "AccessTime").await;
    assert_eq!(
        (stats.count, stats.sum, stats.max, stats.min),
        (3.0, 15.0, 9.0, 2.0)
    );
    let last = book::get_stats(connection, "", "/profile", "AccessTime:last").await;
    assert_eq!((last.count, last.sum, last.min), (2.0, 6.0, 1.0));
    assert_eq!(
        book::slowest(connection, "").await[0],
        ("/profile".into(), 5.0)
    );
    // The book's functions also move on from an hour that this crate wrote.
    let next = iso_hour(THIS_HOUR + HOUR);
    book::access_time_at(connection, "", "/profile", 1.0, &next).await;
    fixture.advance(HOUR);
    assert_eq!(fixture.hours("/profile").await, (Some(1.0), Some(3.0)));
}

#[tokio::test]
async fn a_set_without_an_hour_counts_as_this_hours() {
    let mut fixture = fixture_without_prefix().await;
    let connection = &mut fixture.server().connection().await;
    let hour = iso_hour(THIS_HOUR);
    book::update_stats_as_printed(connection, "", "/p", "AccessTime", 2.0, &hour).await;
    assert_eq!(fixture.hours("/p").await, (Some(1.0), None));
    fixture.hit("/p", LAST_HOUR, MS).await;
    assert_eq!(fixture.hours("/p").await, (Some(1.0), Some(1.0)));
    fixture.hit("/p", NOW, MS).await;
    assert_eq!(fixture.hours("/p").await, (Some(2.0), Some(1.0)));
    // The set has an hour now, and becomes the last one in the next hour.
    fixture.advance(HOUR);
    fixture.hit("/p", NOW + HOUR, MS).await;
    assert_eq!(fixture.hours("/p").await, (Some(1.0), Some(2.0)));
}

#[tokio::test]
async fn keys_of_this_crate_do_not_collide_with_the_books() {
    let mut fixture = fixture_without_prefix().await;
    fixture.hit("/p", NOW, MS).await;
    let keys: Vec<String> = issue(&mut fixture.server().connection().await, "KEYS", "*").await;
    for key in keys {
        let books = ["known:", "count:", "stats:", "slowest:"];
        let own = key.starts_with("pulse:");
        assert!(
            own || books.iter().any(|start| key.starts_with(start)),
            "{key}"
        );
    }
}

#[tokio::test]
async fn without_the_books_keys_the_records_answer_queries() {
    let server = RedisServer::start().await;
    let (clock, _manual_clock) = tower_pulse::Clock::manual(NOW);
    let options = tower_pulse_redis::RedisOptions::new(&server.url())
        .unwrap()
        .book_keys(false);
    let store = tower_pulse_redis::RedisStore::open(options).unwrap();
    let store: std::sync::Arc<dyn tower_pulse_core::store::Store> =
        std::sync::Arc::new(store.with_clock(clock));
    let fixture = Fixture::memory();
    let mut batch = fixture.batch(&[
        ("GET /a", Kind::Http, NOW, &[MS, 3 * MS]),
        ("GET /b", Kind::Http, LAST_HOUR, &[9 * MS]),
        (
            tower_pulse_model::context::ALL,
            Kind::All,
            NOW,
            &[MS, 3 * MS],
        ),
    ]);
    batch.count(&"sales".into(), NOW, 4);
    crate::fixture::apply(&store, &crate::fixture::call("a", 1, batch))
        .await
        .unwrap();

    let keys: Vec<String> = issue(&mut server.connection().await, "KEYS", "*").await;
    let of_contexts = keys.iter().filter(|key| key.contains("GET /"));
    assert_eq!(of_contexts.count(), 0, "{keys:?}");
    assert!(
        !keys
            .iter()
            .any(|key| key.starts_with("stats:") || key.starts_with("slowest:"))
    );
    let snapshot = store.snapshot(NOW).await.unwrap();
    assert_eq!(snapshot.problems, []);
    let hour = snapshot.contexts[0].hour.as_ref().unwrap();
    assert_eq!((hour.times.count, hour.times.mean()), (2.0, Some(0.002)));
    assert_eq!(
        snapshot.contexts[1].last_hour.as_ref().unwrap().times.max,
        0.009
    );
    assert_eq!(snapshot.all.hour.unwrap().times.count, 2.0);
    assert_eq!(pairs_of(&snapshot.fleet.recent), [(NOW, 2)]);
    let slowest = store.slowest_means().await.unwrap();
    assert_eq!(
        slowest,
        [("GET /b".to_owned(), 0.009), ("GET /a".to_owned(), 0.002)]
    );
    assert_eq!(store.counter("hits:GET /a", 60).await.unwrap(), [(NOW, 2)]);
    assert_eq!(
        store.counter("micros:GET /a", 3_600).await.unwrap(),
        [(THIS_HOUR, 4_000)]
    );
    assert_eq!(store.counter("sales", 5).await.unwrap(), [(NOW, 4)]);
    // A context is also found by its name.
    assert!(store.context("GET /a", NOW).await.unwrap().is_some());
}
