//! Both stores answer reads of tables alike.

use std::sync::Arc;

use tower_pulse::Clock;
use tower_pulse_core::store::RankingPlace;
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{Answers, Purpose, RecordState, TableRead};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{Kind, RecordId};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};
use tower_pulse_model::slice::Precisions;

use crate::fixture::{NOW, Writer, aggregate_of, call, redis_store, spec};
use crate::rig::server::RedisServer;

const SPEC: RankingSpec = spec(3_600, 24, 100);

/// What each call adds: contexts, and ids of a ranking of which two have equal sums.
fn batch() -> Batch {
    let mut batch = Batch::new(Precisions::default());
    for name in ["GET /a", "GET /b"] {
        let aggregate = aggregate_of(&[1_000_000], Outcome::ALL[0]);
        batch.add(&name.into(), Kind::Http, NOW, &aggregate);
    }
    let mut delta = RankingDelta::new(SPEC);
    for (id, n) in [("7", 3), ("70", 3), ("é", 5), ("below", -1)] {
        delta.add(&id.into(), NOW, n);
    }
    batch.rankings.insert("posts".into(), delta);
    batch
}

async fn read(store: &dyn Store, purpose: Purpose, reads: &[TableRead]) -> Answers {
    let tables = store.query().tables();
    tables.read_tables(purpose, reads).await.unwrap()
}

async fn check(store: &dyn Store, purpose: Purpose, records: [i64; 2]) {
    let [records, missing] = records.map(|start| Table::records((60, start)));
    let totals = |ranking: &str| Table::RankingTotals {
        ranking: ranking.into(),
    };
    let ids = ["GET /a", "GET /none", "GET /b"].map(|name| RecordId::new(Kind::Http, name));
    let ids = ids.map(|id| id.to_bytes().to_vec());
    let places = ["70", "none", "é"].map(|id| id.as_bytes().to_vec());
    let reads = [
        TableRead::Values(records.clone(), ids.to_vec().into()),
        TableRead::Values(records.clone(), [].into()),
        TableRead::Values(missing.clone(), ids.to_vec().into()),
        TableRead::All(records.clone()),
        TableRead::Page(records.clone(), None),
        TableRead::All(missing.clone()),
        TableRead::Page(missing.clone(), None),
        TableRead::Count(records),
        TableRead::Count(missing),
        TableRead::Count(totals("posts")),
        TableRead::Ranks(totals("posts"), 0..usize::MAX),
        TableRead::Ranks(totals("posts"), 1..3),
        TableRead::Ranks(totals("posts"), 2..2),
        TableRead::Ranks(totals("posts"), 9..12),
        TableRead::Ranks(totals("none"), 0..9),
        TableRead::Places(totals("posts"), places.to_vec()),
        TableRead::Places(totals("posts"), Vec::new()),
        TableRead::Places(totals("none"), places.to_vec()),
    ];
    let mut answers = read(store, purpose, &reads).await;
    let values = answers.page().values;
    assert_eq!(
        values.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert!(answers.page().values.is_empty());
    assert_eq!(answers.page().values, vec![None; 3]);
    let [id, _, other] = ids;
    let [value, _, other_value] = <[_; 3]>::try_from(values).unwrap();
    let mut fields = vec![(id, value.unwrap()), (other, other_value.unwrap())];
    fields.sort_unstable();
    for _ in 0..2 {
        let mut page = answers.page();
        page.fields.sort_unstable();
        assert_eq!((page.fields, page.next), (fields.clone(), None));
    }
    for _ in 0..2 {
        assert_eq!(answers.page(), Default::default());
    }
    let counts = [(); 3].map(|()| answers.page().count);
    assert_eq!(counts, [2, 0, 4]);
    let all = [("é", 5), ("70", 3), ("7", 3), ("below", -1)];
    let all = all.map(|(id, sum)| (id.as_bytes().to_vec(), sum));
    let mut ranks = || answers.page().numbers().collect::<Vec<_>>();
    assert_eq!(ranks(), all);
    assert_eq!(ranks(), all[1..3]);
    for _ in 0..3 {
        assert_eq!(ranks(), []);
    }
    let mut places = || {
        let places = answers.page().values.into_iter();
        places
            .map(|place| unpack(&place?))
            .collect::<Vec<Option<RankingPlace>>>()
    };
    let place = |score, rank| Some(RankingPlace { score, rank });
    assert_eq!(places(), [place(3, 1), None, place(5, 0)]);
    assert_eq!(places(), [None; 0]);
    assert_eq!(places(), [None; 3]);
}

#[tokio::test]
async fn both_stores_answer_reads_alike_and_tell_a_step_by_its_version() {
    let server = RedisServer::start().await;
    let (clock, _hand) = Clock::manual(NOW);
    let redis = redis_store(&server.url(), "").with_clock(clock.clone());
    let memory = MemoryStore::new(Precisions::default(), clock.clone());
    let stores: [Arc<dyn Store>; 2] = [Arc::new(memory), Arc::new(redis)];
    for store in stores {
        let writer = Writer::new(store.clone(), clock.clone());
        writer.apply(&call("a", 1, batch())).await.unwrap();
        for purpose in [Purpose::Fold, Purpose::Query] {
            check(&*store, purpose, [NOW / 60 * 60, 60]).await;
        }
        let reads = [
            TableRead::State,
            TableRead::Count(Table::Rankings),
            TableRead::State,
        ];
        let mut answers = read(&*store, Purpose::Query, &reads).await;
        let version = |answers: &mut Answers| RecordState::new(answers.page()).version;
        let (before, count) = (version(&mut answers), answers.page().count);
        assert!(!before.is_empty() && count == 1);
        assert_eq!(version(&mut answers), before);
        writer.apply(&call("a", 2, batch())).await.unwrap();
        let mut answers = read(&*store, Purpose::Query, &reads).await;
        assert_ne!(version(&mut answers), before);
    }
}
