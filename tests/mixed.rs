//! An instance without the feature `rankings` folds the rankings of other instances. `make check` builds this test
//! without the feature.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::read::RankedId;
use tower_pulse_core::store::{Appended, FencedBatch, RankingQuery};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};
use tower_pulse_model::slice::Precisions;
use tower_pulse_redis::{RedisOptions, RedisStore};

use pulse_rig::server::RedisServer;

const NOW: i64 = 1_700_000_000;
const HOUR: u32 = 3_600;
/// A window of three slices of an hour.
const SPEC: RankingSpec = RankingSpec {
    interval: HOUR,
    slices: 3,
    max_ids: 100,
};

/// Appends a call as an instance with the feature `rankings` does.
async fn append(store: &dyn Store, seq: u64, id: &str, second: i64, n: i64) {
    let mut delta = RankingDelta::new(SPEC);
    delta.add(&id.into(), second, n);
    let mut batch = Batch::new(Precisions::default());
    batch.rankings.insert("posts".into(), delta);
    let call = FencedBatch {
        generation: store.hello().await.unwrap().id,
        instance: "with-rankings".into(),
        seq,
        previous: seq - 1,
        batch,
    };
    let appended = store.append(&call).await.unwrap();
    assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
}

async fn top(store: &dyn Store, now: i64) -> Vec<(String, i64)> {
    let query = RankingQuery {
        name: "posts".to_owned(),
        now,
        offset: 0,
        limit: 10,
        ids: Vec::new(),
    };
    let page = store.query().ranking(&query).await.unwrap();
    let top = page.map(|page| page.top).unwrap_or_default();
    let row = |ranked: RankedId| (ranked.id.to_string(), ranked.score);
    top.into_iter().map(row).collect()
}

#[tokio::test]
async fn rankings_of_other_instances_are_folded_and_expire() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(NOW);
    let options = RedisOptions::new(&server.url()).unwrap();
    let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let builder = Pulse::builder().store(store.clone()).clock(clock);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    // `pulse` folds the whole journal, because no other instance folds.
    let fold = async |manual_clock: &ManualClock| {
        pulse.counter("sales").increment();
        pulse.flush().await.unwrap();
        manual_clock.advance(Duration::from_secs(1));
    };
    append(&*store, 1, "7", NOW, 3).await;
    append(&*store, 2, "9", NOW, 5).await;
    fold(&manual_clock).await;
    let both = [("9".to_owned(), 5), ("7".to_owned(), 3)];
    assert_eq!(top(&*store, NOW).await, both);

    // An hour later, 4 is added to id 7. After two more hours, these 4 are still in the window, and the earlier
    // additions are not.
    let later = NOW + i64::from(HOUR);
    manual_clock.set_wall(later);
    append(&*store, 3, "7", later, 4).await;
    fold(&manual_clock).await;
    let sums = [("7".to_owned(), 7), ("9".to_owned(), 5)];
    assert_eq!(top(&*store, later).await, sums);
    let last = later + 2 * i64::from(HOUR);
    manual_clock.set_wall(last);
    append(&*store, 4, "11", last, 1).await;
    fold(&manual_clock).await;
    let left = [("7".to_owned(), 4), ("11".to_owned(), 1)];
    assert_eq!(top(&*store, last).await, left);
    pulse.shutdown().await.unwrap();
}
