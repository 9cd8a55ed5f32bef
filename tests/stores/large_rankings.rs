//! Rankings at the largest settings of the builder: no table is read whole, and entries are folded between the steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{RankingPage, RankingQuery};
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::pack::{pack, unpack};
use tower_pulse_model::ranking::{RankingDelta, RankingSpec, RankingState};
use tower_pulse_model::slice::Precisions;

use crate::fixture::{Writer, call, posts, redis_store, spec};
use crate::rig::reads::StoreReads;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;

/// The beginning of a minute, an hour and a day.
const START: i64 = 1_699_920_000;
const MAX_IDS: u32 = 100_000;
/// The most ids by default, of which each of eight instances has as many, in calls as large as calls can be.
const IDS: u32 = 10_000;
const CALLS: u32 = 20;
/// The longest period by the shortest interval.
const LONGEST: RankingSpec = spec(60, 1_500, MAX_IDS);
/// Rounds after which upkeep must be done: it must not be more than a few seconds behind.
const MOST_ROUNDS: u32 = 100;

/// Fills a ranking: every id in the first slice, every other one in the second slice as well.
const FILL: &str = "
local slots, first, second, ids = {KEYS[2], KEYS[3]}, {}, {}, tonumber(ARGV[1])
for n = 1, ids do
  local id = string.rep('0', ARGV[2] - 6) .. string.format('%06d', n)
  redis.call('HSET', slots[1], id, n % 7 + 1)
  if n % 2 == 0 then redis.call('HSET', slots[2], id, 3) end
  redis.call('ZADD', KEYS[1], n % 7 + 1 + (n % 2 == 0 and 3 or 0), id)
end";

/// How many ids the totals have that are not those of the second slice alone.
const WRONG: &str = "
local wrong, seen = 0, 0
for _, key in ipairs(redis.call('KEYS', 'stats_posts')) do
  local members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    seen = seen + 1
    if tonumber(members[i]) % 2 ~= 0 or members[i + 1] ~= '3' then wrong = wrong + 1 end
  end
end
return {seen, wrong}";

struct Fleet {
    server: RedisServer,
    store: Arc<dyn Store>,
    clock: Clock,
    hand: ManualClock,
    sent: u64,
}

impl Fleet {
    async fn start() -> Self {
        let (clock, hand) = Clock::manual(START);
        let server = RedisServer::start().await;
        let store = redis_store(&server.url(), "").with_clock(clock.clone());
        let store: Arc<dyn Store> = Arc::new(store);
        Self {
            server,
            store,
            clock,
            hand,
            sent: 0,
        }
    }

    fn folder(&self, instance: &str) -> TestFolder {
        TestFolder::new(self.store.clone(), self.clock.clone(), instance, 1_000)
    }

    async fn command(&self, words: &[&str]) -> redis::Value {
        let mut conn = self.server.connection().await;
        issue(&mut conn, words[0], &words[1..]).await
    }

    async fn number(&self, words: &[&str]) -> i64 {
        redis::from_redis_value(self.command(words).await).unwrap()
    }

    /// Fills the first two slices of `spec` with ids of this length.
    async fn fill(&self, spec: RankingSpec, ids: u32, length: usize) {
        let slots = [START, START + i64::from(spec.interval)];
        let keys = slots.map(|start| format!("slot_posts_{start}"));
        let (ids, length) = (ids.to_string(), length.to_string());
        self.command(&[
            "EVAL",
            FILL,
            "3",
            "stats_posts",
            &keys[0],
            &keys[1],
            &ids,
            &length,
        ])
        .await;
        let state = RankingState {
            spec,
            slices: slots.into_iter().collect(),
        };
        let mut command = redis::cmd("HSET");
        command.arg("pulse:rankings").arg("posts").arg(pack(&state));
        let mut conn = self.server.connection().await;
        command.exec_async(&mut conn).await.unwrap();
    }

    /// Appends an addition to a counter.
    async fn append(&mut self, batch: Batch) {
        self.sent += 1;
        let mut call = call("a", self.sent, batch);
        call.generation = self.store.hello().await.unwrap().id;
        self.store.append(&call).await.unwrap();
    }

    /// Appends an addition to a counter, folds, and checks that the addition can be read.
    async fn check_round(&mut self, folder: &TestFolder) {
        let mut batch = Batch::new(Precisions::default());
        batch.count(&"sales".into(), self.clock.now_seconds(), 1);
        self.append(batch).await;
        assert!(folder.fold().await.unwrap(), "another instance folds");
        let sales = self.store.counter("sales", 86_400).await.unwrap();
        let sales: i64 = sales.iter().map(|(_, n)| n).sum();
        assert_eq!(sales, self.sent as i64);
    }

    async fn page(&self, limit: usize) -> RankingPage {
        let query = RankingQuery {
            name: "posts".into(),
            now: self.clock.now_seconds(),
            limit,
            ids: vec!["0".repeat(8)],
            ..RankingQuery::default()
        };
        self.store.query().ranking(&query).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_slice_of_100_000_long_ids_leaves_while_entries_are_folded_and_folders_change() {
    let mut fleet = Fleet::start().await;
    fleet.fill(LONGEST, MAX_IDS, 256).await;
    fleet.hand.advance(Duration::from_secs(1_500 * 60));
    let slot = format!("slot_posts_{START}");
    let (first, second) = (fleet.folder("first"), fleet.folder("second"));
    let mut rounds = 0;
    while fleet.number(&["EXISTS", &slot]).await > 0 {
        rounds += 1;
        assert!(rounds < MOST_ROUNDS);
        // The lease has ended, as if the folder hung or was killed.
        fleet.command(&["DEL", "pulse:lease:fold"]).await;
        let folder = [&first, &second][rounds as usize % 2];
        fleet.check_round(folder).await;
    }
    assert!(rounds > 1, "there is more than one round's work");
    fleet.check_round(&first).await;
    let counts: Vec<u32> =
        redis::from_redis_value(fleet.command(&["EVAL", WRONG, "0"]).await).unwrap();
    assert_eq!(counts, [MAX_IDS / 2, 0]);
    let state = fleet.command(&["HGET", "pulse:rankings", "posts"]).await;
    let state: Vec<u8> = redis::from_redis_value(state).unwrap();
    let second = RankingState {
        spec: LONGEST,
        slices: [START + 60].into_iter().collect(),
    };
    assert_eq!(unpack(&state), Some(second));
    let page = fleet.page(usize::MAX).await;
    assert_eq!(page.total, 50_000);
    let ids: BTreeSet<_> = page.top.iter().map(|id| (&id.id, id.score)).collect();
    assert!(ids.len() == 50_000 && ids.iter().all(|(_, score)| *score == 3));
}

#[tokio::test]
async fn a_large_ranking_is_read_while_a_slice_leaves() {
    let fleet = Fleet::start().await;
    fleet.fill(LONGEST, MAX_IDS, 256).await;
    let page = fleet.page(usize::MAX).await;
    assert_eq!((page.total, page.top.len()), (100_000, 100_000));
    let scores: Vec<i64> = page.top.iter().map(|id| id.score).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b));
    fleet.hand.advance(Duration::from_secs(1_500 * 60));
    for limit in [1, 10, 500] {
        let page = fleet.page(limit).await;
        assert_eq!(page.top.len(), limit);
        // The sums without those of the first slice: it has left.
        assert!(page.top.iter().all(|id| id.score == 3), "{:?}", page.top);
    }
    // The whole window is over.
    fleet.hand.advance(Duration::from_secs(60));
    assert_eq!(fleet.page(10).await.total, 0);
}

#[tokio::test]
async fn a_window_of_many_ids_that_is_over_goes_in_one_step() {
    let mut fleet = Fleet::start().await;
    fleet.fill(LONGEST, 40_000, 256).await;
    fleet.hand.advance(Duration::from_secs(9 * 86_400));
    let folder = fleet.folder("folder");
    let mut batch = Batch::new(Precisions::default());
    let mut delta = RankingDelta::new(LONGEST);
    let id = format!("{:0256}", 7);
    delta.add(&id.as_str().into(), fleet.clock.now_seconds(), 5);
    batch.rankings.insert("posts".into(), delta);
    batch.count(&"sales".into(), fleet.clock.now_seconds(), 1);
    fleet.append(batch).await;
    fleet.check_round(&folder).await;
    let page = fleet.page(10).await;
    let top: Vec<_> = page.top.iter().map(|id| (&id.id, id.score)).collect();
    assert_eq!((page.total, top), (1, vec![(&id, 5)]));
    assert_eq!(
        fleet
            .number(&["EXISTS", &format!("slot_posts_{START}")])
            .await,
        0
    );
}

/// A call of an instance, which has that many ids. The counts of all calls differ.
fn ids_of_call(spec: RankingSpec, call: u32, ids: u32, now: i64) -> RankingDelta {
    let mut delta = RankingDelta::new(spec);
    for n in 0..ids {
        let count = i64::from(n * CALLS + call) + 1;
        delta.add(&format!("{count:036}").as_str().into(), now, count);
    }
    delta
}

#[tokio::test]
async fn eight_instances_with_distinct_ids_never_stall_the_fold() {
    let spec = spec(3_600, 24, IDS);
    let mut fleet = Fleet::start().await;
    let memory = MemoryStore::new(Precisions::default(), fleet.clock.clone());
    let memory = Writer::new(Arc::new(memory), fleet.clock.clone());
    for number in 0..CALLS {
        let mut batch = Batch::new(Precisions::default());
        let delta = ids_of_call(spec, number, 8 * IDS / CALLS, START);
        batch.rankings.insert("posts".into(), delta);
        batch.count(&"sales".into(), START, 1);
        memory
            .apply(&call("a", u64::from(number) + 1, batch.clone()))
            .await
            .unwrap();
        fleet.append(batch).await;
    }
    let folder = fleet.folder("folder");
    let mut rounds = 0;
    loop {
        fleet.check_round(&folder).await;
        let ids = fleet.number(&["ZCARD", "stats_posts"]).await;
        assert!(ids <= 2 * i64::from(IDS), "{ids} ids");
        rounds += 1;
        assert!(rounds < MOST_ROUNDS);
        if ids <= i64::from(IDS) {
            break;
        }
    }
    let all: u64 = (1..=8 * u64::from(IDS)).sum();
    for store in [&fleet.store, &memory.store] {
        let query = posts(START, usize::MAX);
        let page = store.query().ranking(&query).await.unwrap().unwrap();
        let scores: Vec<i64> = page.top.iter().map(|id| id.score).collect();
        // The smallest have gone, and all that has gone is counted.
        let largest: Vec<i64> = (70_001..=80_000).rev().collect();
        assert_eq!(scores, largest);
        assert_eq!(page.dropped + scores.iter().sum::<i64>() as u64, all);
    }
}

/// A field that another program has made large leaves with its slice.
#[tokio::test]
async fn a_slice_with_a_field_of_30_mib_leaves() {
    let mut fleet = Fleet::start().await;
    fleet.fill(LONGEST, 10, 36).await;
    let slot = format!("slot_posts_{START}");
    let fill = "return redis.call('HSET', KEYS[1], 'huge', string.rep('x', 30 * 1024 * 1024))";
    fleet.number(&["EVAL", fill, "1", &slot]).await;
    fleet.hand.advance(Duration::from_secs(1_500 * 60));
    let folder = fleet.folder("folder");
    fleet.check_round(&folder).await;
    assert_eq!(fleet.number(&["EXISTS", &slot]).await, 0);
    let page = fleet.page(10).await;
    assert_eq!((page.total, page.top[0].score), (5, 3));
}

/// What an instance adds to a ranking, from which the ids and the scores are read.
async fn add(store: &Writer, seq: u64, spec: RankingSpec, id: &str, now: i64, n: i64) {
    let mut delta = RankingDelta::new(spec);
    delta.add(&id.into(), now, n);
    let mut batch = Batch::new(Precisions::default());
    batch.rankings.insert("posts".into(), delta);
    store.apply(&call("a", seq, batch)).await.unwrap();
}

async fn scores(store: &Arc<dyn Store>, now: i64) -> Vec<(String, i64)> {
    let query = posts(now, 10);
    let page = store.query().ranking(&query).await.unwrap().unwrap();
    page.top.into_iter().map(|id| (id.id, id.score)).collect()
}

#[tokio::test]
async fn an_instance_with_a_shorter_period_takes_nothing_from_the_others() {
    const HOUR: i64 = 3_600;
    let (fleet, canary) = (spec(3_600, 24, 100), spec(300, 12, 1));
    let server = RedisServer::start().await;
    let (clock, hand) = Clock::manual(START);
    let redis = redis_store(&server.url(), "").with_clock(clock.clone());
    let memory = MemoryStore::new(Precisions::default(), clock.clone());
    let stores: [Arc<dyn Store>; 2] = [Arc::new(redis), Arc::new(memory)];
    let writers = stores.map(|store| Writer::new(store, clock.clone()));
    let forward = |hours: i64| hand.advance(Duration::from_secs((hours * HOUR) as u64));
    let mut seq = 0;
    let mut send = async |spec, id: &str, n| {
        seq += 1;
        for writer in &writers {
            add(writer, seq, spec, id, clock.now_seconds(), n).await;
        }
    };
    let check = async |expected: &[(&str, i64)], is_told: bool| {
        for (at, writer) in writers.iter().enumerate() {
            writer.folder.fold().await.unwrap();
            // Whether all agree is not asked again at once.
            hand.advance(Duration::from_secs(10));
            let now = clock.now_seconds();
            let expected: Vec<_> = expected
                .iter()
                .map(|(id, n)| (String::from(*id), *n))
                .collect();
            assert_eq!(scores(&writer.store, now).await, expected, "store {at}");
            let warnings = writer
                .store
                .upkeep()
                .status(now)
                .await
                .unwrap()
                .ranking_warnings;
            assert_eq!(
                warnings.len(),
                usize::from(is_told),
                "store {at}: {warnings:?}"
            );
            let parts = ["\"posts\"", "86400 s", "3600 s", "same configuration"];
            let has_all = |one: &String| parts.iter().all(|part| one.contains(part));
            assert!(warnings.iter().all(has_all), "{warnings:?}");
        }
    };
    send(fleet, "a", 100).await;
    forward(5);
    send(fleet, "b", 1).await;
    check(&[("a", 100), ("b", 1)], false).await;
    send(canary, "c", 1).await;
    check(&[("a", 100), ("c", 1), ("b", 1)], true).await;
    // The canary has ended, and the window moves on.
    forward(2);
    send(fleet, "b", 1).await;
    check(&[("a", 100), ("b", 2), ("c", 1)], false).await;
    forward(17);
    check(&[("b", 2), ("c", 1)], false).await;
    // All change to the shorter period. The longer one holds for a day more.
    send(canary, "d", 5).await;
    forward(4);
    send(canary, "e", 3).await;
    check(&[("d", 5), ("e", 3), ("b", 2), ("c", 1)], true).await;
    for _ in 0..20 {
        forward(1);
        send(canary, "e", 3).await;
    }
    forward(1);
    send(canary, "f", 1).await;
    check(&[("f", 1)], false).await;
}

#[tokio::test]
async fn the_health_of_every_instance_names_a_ranking_with_two_periods() {
    let server = RedisServer::start().await;
    let pulses = [24, 1].map(|hours| {
        let builder = Pulse::builder().redis(server.url());
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        tasks.into_iter().for_each(|task| drop(tokio::spawn(task)));
        let ranking = pulse.ranking("posts");
        let period = Duration::from_secs(hours * 3_600);
        (pulse, ranking.period(period).build().unwrap())
    });
    for (_, ranking) in &pulses {
        ranking.add_now("a", 1).await.unwrap();
    }
    for (pulse, _) in &pulses {
        let names_both = |one: &String| {
            let parts = ["\"posts\"", "86400 s", "3600 s"];
            parts.iter().all(|part| one.contains(part))
        };
        // Each flush asks how the store is, but not each time whether all agree on rankings.
        until("health names both periods once", async || {
            // On a busy machine the server may be too slow for one.
            let flushed = pulse.flush().await;
            let warnings = pulse.health().warnings;
            flushed.is_ok() && warnings.iter().filter(|one| names_both(one)).count() == 1
        })
        .await;
    }
}
