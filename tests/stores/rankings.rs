//! Rankings within a moving window: both stores against a plain model, and what only Redis has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::store::RankedId;
use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::MemoryStore;
use tower_pulse_core::store::{FencedBatch, RankingPage, RankingPlace, RankingQuery};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};
use tower_pulse_model::slice::Precisions;

use crate::fixture::{ApplyOutcome, MERGED, NOW, Writer, call, posts, redis_store, spec};
use crate::rig::seed::seed;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;

const IDS: u32 = 12;

/// Ids whose order by bytes is another one than by number or letter.
fn id_of(number: u32) -> String {
    [
        "7", "70", "a", "b", "é", "<x>", "six", "B", "9", "10", "zz", "z",
    ][number as usize]
        .to_owned()
}

/// The counts of each slice, and what had no room.
#[derive(Clone, Debug)]
struct Model {
    spec: RankingSpec,
    slices: BTreeMap<i64, BTreeMap<String, i64>>,
    dropped: u64,
}

impl Model {
    fn new(spec: RankingSpec) -> Self {
        Self {
            spec,
            slices: BTreeMap::new(),
            dropped: 0,
        }
    }

    fn add(&mut self, id: &str, second: i64, n: i64) {
        let slice =
            second.div_euclid(i64::from(self.spec.interval)) * i64::from(self.spec.interval);
        let slice = self.slices.entry(slice).or_default();
        *slice.entry(id.to_owned()).or_default() += n;
    }

    fn remove(&mut self, id: &str) {
        for slice in self.slices.values_mut() {
            slice.remove(id);
        }
    }

    fn expire(&mut self, now: i64) {
        let oldest = self.spec.oldest(now);
        self.slices.retain(|start, _| *start >= oldest);
        for slice in self.slices.values_mut() {
            slice.retain(|_, n| *n != 0);
        }
    }

    fn totals(&self, now: i64) -> BTreeMap<&str, i64> {
        let mut totals = BTreeMap::new();
        for (_, slice) in self.slices.range(self.spec.oldest(now)..) {
            for (id, n) in slice {
                *totals.entry(&**id).or_default() += n;
            }
        }
        totals.retain(|_, n| *n != 0);
        totals
    }

    /// Drops the smallest counts of the oldest slice, one by one.
    fn limit(&mut self, now: i64) {
        self.expire(now);
        while self.totals(now).len() > self.spec.max_ids as usize {
            let Some(mut oldest) = self.slices.first_entry() else {
                return;
            };
            let smallest = oldest.get().iter().map(|(id, n)| (*n, id.clone())).min();
            match smallest {
                Some((n, id)) => {
                    oldest.get_mut().remove(&id);
                    self.dropped += n.unsigned_abs();
                }
                None => drop(oldest.remove()),
            }
        }
    }

    fn page(&self, query: &RankingQuery) -> (usize, Vec<(String, i64)>, Vec<Option<RankingPlace>>) {
        let totals = self.totals(query.now);
        let mut all: Vec<(i64, &str)> = totals.iter().map(|(id, n)| (*n, *id)).collect();
        all.sort_by(|a, b| b.cmp(a));
        let place = |id: &String| {
            let rank = all.iter().position(|(_, other)| other == id)?;
            let score = all[rank].0;
            Some(RankingPlace { score, rank })
        };
        let top = all.iter().skip(query.offset).take(query.limit);
        (
            all.len(),
            top.map(|(n, id)| (String::from(*id), *n)).collect(),
            query.ids.iter().map(place).collect(),
        )
    }
}

struct Pair {
    stores: [Arc<dyn Store>; 2],
    writers: [Writer; 2],
    clock: Clock,
    hand: ManualClock,
    seq: u64,
}

impl Pair {
    fn new(server: &RedisServer, prefix: &str) -> Self {
        let (clock, hand) = Clock::manual(NOW);
        let memory = MemoryStore::new(Precisions::default(), clock.clone());
        let redis = redis_store(&server.url(), prefix).with_clock(clock.clone());
        let stores: [Arc<dyn Store>; 2] = [Arc::new(memory), Arc::new(redis)];
        Self {
            writers: (stores.each_ref()).map(|store| Writer::new(store.clone(), clock.clone())),
            stores,
            clock,
            hand,
            seq: 0,
        }
    }

    fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    fn call(&mut self, delta: RankingDelta) -> FencedBatch {
        self.seq += 1;
        let mut batch = Batch::new(Precisions::default());
        batch.rankings.insert("posts".into(), delta);
        call("a", self.seq, batch)
    }

    /// Sends to both stores. The journal is folded only if `fold`.
    async fn send(&mut self, delta: RankingDelta, fold: bool) {
        let call = self.call(delta);
        let merged = MERGED;
        assert_eq!(self.writers[0].apply(&call).await.unwrap(), merged);
        if fold {
            assert_eq!(self.writers[1].apply(&call).await.unwrap(), merged);
            return;
        }
        let mut call = call;
        call.generation = self.stores[1].hello().await.unwrap().id;
        self.stores[1].append(&call).await.unwrap();
    }

    async fn page(&self, store: usize, query: &RankingQuery) -> Option<RankingPage> {
        self.stores[store].query().ranking(query).await.unwrap()
    }

    async fn check(&self, model: &Model, rng: &mut fastrand::Rng, stores: &[usize], about: &str) {
        let query = RankingQuery {
            name: "posts".into(),
            now: self.now(),
            offset: [rng.usize(..6), 0, usize::MAX][rng.usize(..3)],
            limit: [rng.usize(..9), usize::MAX][rng.usize(..2)],
            ids: (0..IDS).map(id_of).collect(),
        };
        let (total, top, places) = model.page(&query);
        for store in stores {
            let page = self.page(*store, &query).await;
            let Some(page) = page else {
                assert_eq!(total, 0, "store {store}, {about}");
                continue;
            };
            let shown: Vec<_> = (page.top.iter())
                .map(|RankedId { id, score, .. }| (id.clone(), *score))
                .collect();
            assert_eq!(
                (page.total, shown, page.places, page.dropped),
                (total, top.clone(), places.clone(), model.dropped),
                "store {store}, {about}, at {}: {model:?}",
                query.now
            );
        }
    }
}

fn cases(n: u64) -> impl Iterator<Item = (u64, fastrand::Rng)> {
    let mut rng = fastrand::Rng::with_seed(seed());
    (0..n).map(move |_| {
        let seed = rng.u64(..);
        (seed, fastrand::Rng::with_seed(seed))
    })
}

fn some_spec(rng: &mut fastrand::Rng, max_ids: u32) -> RankingSpec {
    RankingSpec {
        interval: [60, 600, 3_600, 86_400][rng.usize(..4)],
        slices: rng.u32(1..5),
        max_ids,
    }
}

/// A random step back in time, mostly none.
fn lateness(rng: &mut fastrand::Rng, spec: RankingSpec) -> i64 {
    match rng.u32(..4) {
        0 => rng.i64(0..2 * spec.period()),
        _ => 0,
    }
}

fn advance(rng: &mut fastrand::Rng, spec: RankingSpec) -> Duration {
    let interval = u64::from(spec.interval);
    let period = spec.period() as u64;
    Duration::from_secs(match rng.u32(..8) {
        0 => 3 * period + 30 * 86_400,
        1 => rng.u64(..3 * period),
        2 => 0,
        _ => rng.u64(..2 * interval),
    })
}

#[tokio::test]
async fn both_stores_are_exact_in_any_order_of_additions_removals_and_time() {
    let server = RedisServer::start().await;
    for (case, (seed, mut rng)) in cases(60).enumerate() {
        let rng = &mut rng;
        let mut pair = Pair::new(&server, &format!("{case}:"));
        let spec = some_spec(rng, 1_000);
        let mut model = Model::new(spec);
        let (mut is_folding, mut is_folded) = (true, true);
        for step in 0..60 {
            let about = format!("case {seed}, step {step}, {spec:?}");
            let mut is_sent = false;
            match rng.u32(..10) {
                0..3 => pair.hand.advance(advance(rng, spec)),
                3 => is_folding = !is_folding,
                _ => {
                    let (mut delta, now) = (RankingDelta::new(spec), pair.now());
                    for _ in 0..rng.u32(1..8) {
                        let id = id_of(rng.u32(..IDS));
                        if rng.u32(..8) == 0 {
                            delta.remove(&(&*id).into());
                            model.remove(&id);
                            continue;
                        }
                        let second = now - lateness(rng, spec);
                        let n = rng.i64(-3..5);
                        // An instance that drops the slice has no room for it.
                        delta.add(&(&*id).into(), second, n);
                        if second >= spec.oldest(now) {
                            model.add(&id, second, n);
                        }
                    }
                    pair.send(delta, is_folding).await;
                    is_sent = true;
                }
            }
            model.expire(pair.now());
            pair.check(&model, rng, &[0], &about).await;
            is_folded |= is_folding && is_sent;
            if is_folding && (!is_folded || rng.bool()) {
                pair.writers[1].folder.fold().await.unwrap();
                is_folded = true;
            }
            is_folded &= is_folding || !is_sent;
            if is_folded {
                pair.check(&model, rng, &[1], &about).await;
            }
        }
    }
}

#[tokio::test]
async fn beyond_the_maximum_the_smallest_of_the_oldest_slice_go_in_both_stores() {
    let server = RedisServer::start().await;
    for (case, (seed, mut rng)) in cases(40).enumerate() {
        let rng = &mut rng;
        let mut pair = Pair::new(&server, &format!("{case}:"));
        let max_ids = rng.u32(1..8);
        let spec = some_spec(rng, max_ids);
        let mut model = Model::new(spec);
        for step in 0..40 {
            let about = format!("case {seed}, step {step}, {spec:?}");
            if rng.u32(..3) == 0 {
                pair.hand.advance(advance(rng, spec));
                model.expire(pair.now());
            } else {
                let (mut delta, now) = (RankingDelta::new(spec), pair.now());
                for _ in 0..rng.u32(1..8) {
                    let id = id_of(rng.u32(..IDS));
                    let second = now - lateness(rng, spec);
                    let n = rng.i64(-1..9);
                    delta.add(&(&*id).into(), second, n);
                    if second >= spec.oldest(now) {
                        model.add(&id, second, n);
                    }
                }
                pair.send(delta, true).await;
                model.limit(now);
            }
            pair.check(&model, rng, &[0, 1], &about).await;
        }
    }
}

/// What is added last decides in the end, and nothing is left for ever.
#[tokio::test]
async fn instances_of_different_configurations_never_stop_the_fold() {
    let server = RedisServer::start().await;
    for (case, (seed, mut rng)) in cases(20).enumerate() {
        let mut pair = Pair::new(&server, &format!("{case}:"));
        let specs = [some_spec(&mut rng, 5), some_spec(&mut rng, 9)];
        for _ in 0..40 {
            let spec = specs[rng.usize(..2)];
            let mut delta = RankingDelta::new(spec);
            delta.add(&(&*id_of(rng.u32(..IDS))).into(), pair.now(), rng.i64(1..9));
            pair.send(delta, rng.bool()).await;
            pair.hand.advance(advance(&mut rng, spec));
        }
        pair.hand.advance(Duration::from_secs(800 * 86_400));
        let mut delta = RankingDelta::new(specs[0]);
        delta.add(&"last".into(), pair.now(), 1);
        pair.send(delta, true).await;
        let query = posts(pair.now(), 10);
        for store in [0, 1] {
            let page = pair.page(store, &query).await.unwrap();
            assert_eq!(page.spec, specs[0]);
            let top: Vec<_> = page.top.iter().map(|id| (&*id.id, id.score)).collect();
            assert_eq!(top, [("last", 1)], "store {store}, case {seed}");
        }
        let status = pair.stores[1].upkeep().status(pair.now()).await.unwrap();
        assert_eq!(status.exceptions.quarantined, 0, "case {seed}");
    }
}

#[tokio::test]
async fn rankings_are_listed_while_they_have_ids() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    let spec = spec(3_600, 24, 10);
    let mut delta = RankingDelta::new(spec);
    delta.add(&"a".into(), NOW, 1);
    pair.send(delta, true).await;
    for store in &pair.stores {
        assert_eq!(store.query().rankings().await.unwrap(), ["posts"]);
    }
    pair.hand.advance(Duration::from_secs(25 * 3_600));
    pair.send(RankingDelta::new(spec), true).await;
    let mut conn = server.connection().await;
    pair.writers[1].folder.fold().await.unwrap();
    for store in &pair.stores {
        assert_eq!(store.query().rankings().await.unwrap(), [""; 0]);
    }
    // Neither a slice nor a sum is left, once the server has freed them; the newest slice expires by itself.
    until("the memory is freed", async || {
        let keys: BTreeSet<String> = issue(&mut conn.clone(), "KEYS", "*_posts*").await;
        keys == BTreeSet::from(["last_slot_posts".to_owned()])
    })
    .await;
    let ttl: i64 = issue(&mut conn, "TTL", "last_slot_posts").await;
    assert!(ttl > 0);
}

const SPEC: RankingSpec = spec(3_600, 2, 10);

/// Additions to ids in the current hour.
fn some(ids: &[(&str, i64)]) -> RankingDelta {
    let mut delta = RankingDelta::new(SPEC);
    for (id, n) in ids {
        delta.add(&Arc::from(*id), NOW, *n);
    }
    delta
}

async fn top(pair: &Pair) -> Vec<(String, i64)> {
    let query = posts(pair.now(), 100);
    let page = pair.page(1, &query).await;
    let top = page.map(|page| page.top).unwrap_or_default();
    top.into_iter().map(|id| (id.id, id.score)).collect()
}

fn pairs(of: &[(&str, i64)]) -> Vec<(String, i64)> {
    of.iter().map(|(id, n)| (String::from(*id), *n)).collect()
}

/// Appends to Redis only, folds, and returns the quarantined keys.
async fn fold(pair: &mut Pair, delta: RankingDelta) -> BTreeSet<String> {
    let call = pair.call(delta);
    match pair.writers[1].apply(&call).await.unwrap() {
        ApplyOutcome::Merged(report) => report.quarantined.into_iter().map(|p| p.key).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn keys_of_another_type_are_quarantined_and_mended_by_deleting_them() {
    let server = RedisServer::start().await;
    let slot = format!("slot_posts_{}", NOW / 3_600 * 3_600);
    for key in [&*slot, "stats_posts", "last_slot_posts"] {
        let () = server.run("FLUSHALL").await;
        let mut pair = Pair::new(&server, "");
        // A string can replace the newest slice, so that one gets another type.
        let poison = match key {
            "last_slot_posts" => format!("SADD {key} x"),
            _ => format!("SET {key} x"),
        };
        let () = server.run(&poison).await;
        let quarantined = fold(&mut pair, some(&[("a", 1)])).await;
        let is_set = key == "last_slot_posts";
        // SET replaces a value of any type.
        let expected = if is_set { vec![] } else { vec![key.to_owned()] };
        assert_eq!(Vec::from_iter(quarantined), expected, "{key}");
        let _ = top(&pair).await;
        let () = server.run(&format!("DEL {key}")).await;
        assert_eq!(
            fold(&mut pair, some(&[("b", 2)])).await,
            BTreeSet::new(),
            "{key}"
        );
        assert_eq!(top(&pair).await[0], ("b".to_owned(), 2));
        // Nothing is left when the window is over.
        pair.hand.advance(Duration::from_secs(3 * 3_600));
        let mut later = RankingDelta::new(SPEC);
        later.add(&"c".into(), pair.now(), 3);
        assert_eq!(fold(&mut pair, later).await, BTreeSet::new(), "{key}");
        assert_eq!(top(&pair).await, pairs(&[("c", 3)]), "{key}");
    }
}

#[tokio::test]
async fn numbers_of_other_programs_that_are_no_integers_never_stop_the_fold() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    fold(&mut pair, some(&[("a", 1), ("b", 2)])).await;
    let slot = format!("slot_posts_{}", NOW / 3_600 * 3_600);
    let () = server
        .run(&format!("HSET {slot} a x b 1.5 foreign y"))
        .await;
    let () = server
        .run("ZADD stats_posts inf inf 0.25 half 1e300 huge")
        .await;
    fold(
        &mut pair,
        some(&[("a", 1), ("b", 1), ("inf", 1), ("half", 1), ("huge", 1)]),
    )
    .await;
    assert!(top(&pair).await.contains(&("a".to_owned(), 2)));
    let () = server
        .run("HSET pulse:rankings posts garbage other x")
        .await;
    let mut pair = Pair::new(&server, "");
    pair.seq = 2;
    fold(&mut pair, some(&[("a", 1)])).await;
    assert_eq!(
        pair.stores[1].query().rankings().await.unwrap(),
        ["other", "posts"]
    );
    assert!(top(&pair).await.contains(&("a".to_owned(), 3)));
}

/// All slices expire with their keys when no instance runs for long: none of their counts may stay.
#[tokio::test]
async fn sums_of_slices_that_are_gone_go_with_the_window() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    fold(&mut pair, some(&[("a", 1), ("b", 2)])).await;
    let () = server
        .run(&format!("DEL slot_posts_{}", NOW / 3_600 * 3_600))
        .await;
    pair.hand.advance(Duration::from_secs(90 * 86_400));
    assert_eq!(top(&pair).await, []);
    let mut later = RankingDelta::new(SPEC);
    later.add(&"b".into(), pair.now(), 3);
    fold(&mut pair, later).await;
    assert_eq!(top(&pair).await, pairs(&[("b", 3)]));
}

#[tokio::test]
async fn the_window_of_whoever_asks_moves_on_without_additions() {
    let server = RedisServer::start().await;
    for store in [Pulse::builder(), Pulse::builder().redis(server.url())] {
        let (clock, manual_clock) = Clock::manual(NOW);
        let (pulse, tasks) = store.clock(clock).build_with_tasks().unwrap();
        let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        let posts = pulse.ranking("posts").build().unwrap();
        posts.add("7", 3);
        pulse.flush().await.unwrap();
        assert_eq!(posts.rank("7").await.unwrap(), Some(0));
        // From here on no fold takes out what has left the window.
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        manual_clock.advance(Duration::from_secs(90 * 86_400));
        assert!(posts.top(0, 10).await.unwrap().is_empty());
        assert_eq!(posts.score("7").await.unwrap(), None);
    }
}

#[tokio::test]
async fn slices_outlive_the_sums_that_they_are_taken_out_of() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    fold(&mut pair, some(&[("a", 1)])).await;
    // The slice is empty after the removal, so that it is made again.
    let mut delta = some(&[]);
    delta.remove(&"a".into());
    delta.add(&"a".into(), NOW, 1);
    fold(&mut pair, delta).await;
    let ttl = async |key: &str| -> i64 { server.run(&format!("TTL {key}")).await };
    let slot = ttl(&format!("slot_posts_{}", NOW / 3_600 * 3_600)).await;
    let (sums, newest) = (ttl("stats_posts").await, ttl("last_slot_posts").await);
    assert!(sums > 2 * SPEC.period(), "{slot} {sums}");
    assert!(slot > sums + SPEC.period(), "{slot} {sums}");
    assert!(newest > 0);
}

/// The folder before may have ended before it had dropped the ids.
#[tokio::test]
async fn a_folder_that_takes_over_drops_the_ids_for_which_there_is_no_room() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    fold(&mut pair, some(&[("a", 50)])).await;
    let slot = format!("slot_posts_{}", NOW / 3_600 * 3_600);
    for n in 1..=20 {
        let () = server.run(&format!("HSET {slot} {n} {n}")).await;
        let () = server.run(&format!("ZADD stats_posts {n} {n}")).await;
    }
    pair.writers[1].folder.release().await.unwrap();
    let mut batch = Batch::new(Precisions::default());
    batch.rankings.insert("other".into(), some(&[("a", 1)]));
    pair.writers[1].apply(&call("b", 1, batch)).await.unwrap();
    let left = top(&pair).await;
    assert_eq!(left.len(), 10);
    assert_eq!(left[0], ("a".to_owned(), 50));
    assert_eq!(left[9].1, 12);
}

/// The numbers of calls by command since the server's start.
async fn calls(server: &RedisServer) -> BTreeMap<String, u64> {
    let info = server.info("commandstats").await;
    let calls = info.iter().filter_map(|(name, text)| {
        let calls = text.split(['=', ',']).nth(1)?.parse().ok()?;
        Some((name.strip_prefix("cmdstat_")?.to_owned(), calls))
    });
    calls.collect()
}

#[tokio::test]
async fn a_flush_costs_as_many_commands_for_a_hundred_ids_as_for_one() {
    let server = RedisServer::start().await;
    let mut pair = Pair::new(&server, "");
    let spec = RankingSpec {
        max_ids: 1_000,
        ..SPEC
    };
    let delta = |ids: u32| {
        let mut delta = RankingDelta::new(spec);
        (0..ids).for_each(|id| delta.add(&id.to_string().into(), NOW, 1));
        delta
    };
    fold(&mut pair, delta(100)).await;
    let mut costs = Vec::new();
    for ids in [1, 100] {
        let before: u64 = calls(&server).await.values().sum();
        let call = pair.call(delta(ids));
        pair.writers[1].apply(&call).await.unwrap();
        let after: u64 = calls(&server).await.values().sum();
        costs.push(after - before);
    }
    // A hundred ids take some more steps of a fold, as a step is short.
    assert!(costs[1] < costs[0] + 60, "{costs:?}");
    let calls = calls(&server).await;
    // HSCAN reads the problems of the store, of which there are few.
    for command in ["keys", "scan", "zscan", "sscan"] {
        assert_eq!(calls.get(command), None, "{calls:?}");
    }
}
