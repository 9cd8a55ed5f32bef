//! A pass examines the precisions that are due, and is run once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tower_pulse_core::store::Upkeep;
use tower_pulse_model::slice::DEFAULT_PRECISIONS;

use crate::fixture::{THIS_HOUR, pass_of, redis_store};
use crate::raw_redis::{PREFIX, write};
use crate::rig::server::RedisServer;

async fn assert_rhythm(interval: i64, passes: impl Iterator<Item = i64>) {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    for precision in DEFAULT_PRECISIONS {
        // A slice that stays alive during the whole test.
        let future = BTreeMap::from([(THIS_HOUR + 1_000 * 86_400, 1)]);
        write(conn, precision, "sales", &future).await;
    }
    let stores: Vec<_> = (0..3)
        .map(|_| Arc::new(redis_store(&server.url(), PREFIX)))
        .collect();
    for number in passes {
        let each = stores.iter().enumerate().map(|(n, store)| {
            let pass = pass_of(
                &n.to_string(),
                number * interval + n as i64 % interval,
                interval,
            );
            let store = store.clone();
            async move { store.clean(&pass).await.unwrap() }
        });
        let done = futures_util::future::join_all(each).await;
        let done: Vec<_> = done.into_iter().flatten().collect();
        assert_eq!(done.len(), 1, "pass {number}");
        let due = DEFAULT_PRECISIONS
            .iter()
            .filter(|p| number % (i64::from(**p) / interval).max(1) == 0);
        assert_eq!(done[0].examined, due.count() as u64, "pass {number}");
        assert_eq!((done[0].slices, done[0].counters), (0, 0));
    }
}

#[tokio::test]
async fn a_precision_is_examined_in_its_passes_only() {
    let first = THIS_HOUR / 60;
    assert_rhythm(60, first..first + 130).await;
}

#[tokio::test]
async fn the_rhythm_holds_for_short_and_long_intervals() {
    assert_rhythm(1, THIS_HOUR - 5..THIS_HOUR + 20).await;
    let first = THIS_HOUR / 3_600;
    assert_rhythm(3_600, first..first + 30).await;
}
