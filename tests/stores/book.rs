//! The book's own functions and this crate read and write the same keys, with an empty prefix.

use std::sync::Arc;

use tower_pulse_core::store::Store;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::slice::{HOUR, iso_hour};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::book;
use crate::rig::reads::{StoreReads, pairs_of};
use crate::stores::fixture::{Fixture, LAST_HOUR, MS, NOW, THIS_HOUR, apply, call};

#[tokio::test]
async fn the_book_reads_data_of_this_crate() {
    let mut fixture = Fixture::without_prefix().await;
    let batch = fixture.batch(&[
        ("/profile", Kind::Http, LAST_HOUR, &[5 * MS]),
        ("/profile", Kind::Http, NOW, &[MS, 3 * MS]),
        ("/slow", Kind::Http, NOW, &[70 * MS]),
    ]);
    fixture.merge_whole(batch).await;
    let keys: Vec<String> = fixture.run("KEYS *").await;
    let starts = ["pulse:", "known:", "count:", "stats:", "slowest:"];
    for key in keys {
        assert!(starts.iter().any(|start| key.starts_with(start)), "{key}");
    }
    let connection = &mut fixture.server().connection().await;
    let hits = book::get_counter(connection, "", "hits:/profile", 5).await;
    assert_eq!(hits, [(LAST_HOUR, 1), (NOW, 2)]);
    let stats = book::get_stats(connection, "", "/profile", "AccessTime").await;
    assert_eq!((stats.count, stats.min, stats.max), (2.0, 0.001, 0.003));
    assert_eq!((stats.sum, stats.average), (0.004, 0.002));
    let last = book::get_stats(connection, "", "/profile", "AccessTime:last").await;
    assert_eq!((last.count, last.sum), (1.0, 0.005));
    let slowest = book::slowest(connection, "").await;
    let expected = [("/slow".into(), 0.07), ("/profile".into(), 0.002)];
    assert_eq!(slowest, expected);
    // The book's cleaner cleans the counters of this crate.
    let cleaned = book::clean_counters_pass(connection, "", 0, 120, NOW + 10_000).await;
    assert!(cleaned > 0);
}

#[tokio::test]
async fn this_crate_reads_and_extends_data_of_the_book() {
    let mut fixture = Fixture::without_prefix().await;
    let connection = &mut fixture.server().connection().await;
    for (name, value, hour) in [
        ("/profile", 5.0, LAST_HOUR),
        ("/profile", 2.0, THIS_HOUR),
        ("/profile", 4.0, THIS_HOUR),
        ("query", 1.0, THIS_HOUR),
    ] {
        book::access_time(connection, "", name, value, &iso_hour(hour)).await;
    }
    book::update_counter(connection, "", "hits", 7, NOW, &book::PRECISIONS).await;

    let snapshot = fixture.snapshot().await;
    assert_eq!(snapshot.problems, []);
    let contexts = snapshot.contexts.iter();
    let names: Vec<_> = contexts.map(|c| (&*c.context, c.kind)).collect();
    assert_eq!(names, [("/profile", Kind::Http), ("query", Kind::Timer)]);
    assert_eq!(pairs_of(&snapshot.fleet.recent), [(NOW, 7)]);
    assert_eq!(fixture.hours("/profile").await, (Some(2.0), Some(1.0)));
    assert_eq!(fixture.slowest_means().await[0], ("/profile".into(), 3.0));

    let batch = fixture.batch(&[
        ("/profile", Kind::Http, NOW, &[9_000 * MS]),
        ("/profile", Kind::Http, LAST_HOUR, &[1_000 * MS]),
    ]);
    fixture.merge_whole(batch).await;
    let stats = book::get_stats(connection, "", "/profile", "AccessTime").await;
    let found = (stats.count, stats.sum, stats.max, stats.min);
    assert_eq!(found, (3.0, 15.0, 9.0, 2.0));
    let last = book::get_stats(connection, "", "/profile", "AccessTime:last").await;
    assert_eq!((last.count, last.sum, last.min), (2.0, 6.0, 1.0));
    let slowest = book::slowest(connection, "").await;
    assert_eq!(slowest[0], ("/profile".into(), 5.0));
    // The book's functions also begin a new hour in statistics that this crate wrote.
    let next = iso_hour(THIS_HOUR + HOUR);
    book::access_time(connection, "", "/profile", 1.0, &next).await;
    fixture.advance(HOUR);
    assert_eq!(fixture.hours("/profile").await, (Some(1.0), Some(3.0)));
}

#[tokio::test]
async fn without_the_books_keys_the_records_answer_queries() {
    let fixture = Fixture::without_prefix().await;
    let options = RedisOptions::new(&fixture.server().url()).unwrap();
    let store = RedisStore::open(options.book_keys(false)).unwrap();
    let store: Arc<dyn Store> = Arc::new(store.with_clock(fixture.clock.clone()));
    let mut batch = fixture.batch(&[
        ("GET /a", Kind::Http, NOW, &[MS, 3 * MS]),
        ("GET /b", Kind::Http, LAST_HOUR, &[9 * MS]),
        (ALL, Kind::All, NOW, &[MS, 3 * MS]),
    ]);
    batch.count(&"sales".into(), NOW, 4);
    apply(&store, &call("a", 1, batch)).await.unwrap();

    let keys: Vec<String> = fixture.run("KEYS *").await;
    let is_of_book =
        |key: &str| key.starts_with("stats:") || key.starts_with("slowest:") || key.contains("GET");
    assert!(!keys.iter().any(|key| is_of_book(key)), "{keys:?}");
    let snapshot = store.snapshot(NOW).await.unwrap();
    assert_eq!(snapshot.problems, []);
    let hour = snapshot.contexts[0].hour.as_ref().unwrap();
    assert_eq!((hour.times.count, hour.times.mean()), (2.0, Some(0.002)));
    let last_hour = snapshot.contexts[1].last_hour.as_ref().unwrap();
    assert_eq!(last_hour.times.max, 0.009);
    assert_eq!(snapshot.all.hour.unwrap().times.count, 2.0);
    assert_eq!(pairs_of(&snapshot.fleet.recent), [(NOW, 2)]);
    let slowest = store.slowest_means().await.unwrap();
    let expected = [("GET /b".to_owned(), 0.009), ("GET /a".to_owned(), 0.002)];
    assert_eq!(slowest, expected);
    let counter = async |name: &str, seconds| store.counter(name, seconds).await.unwrap();
    assert_eq!(counter("hits:GET /a", 60).await, [(NOW, 2)]);
    let micros = counter("micros:GET /a", 3_600).await;
    assert_eq!(micros, [(THIS_HOUR, 4_000)]);
    assert_eq!(counter("sales", 5).await, [(NOW, 4)]);
    assert!(store.context("GET /a", NOW).await.unwrap().is_some());
}
