//! Rankings within a moving window: stores compared with a plain model, and tests of Redis alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tower_pulse::Pulse;
use tower_pulse_core::store::{RankingPage, RankingPlace, RankingQuery};
use tower_pulse_model::ranking::{RankingDelta, RankingSpec};

use crate::rig::seed::seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::stores::fixture::{Fixture, NOW, calls, posts, ranked, spec};

const IDS: u32 = 12;

/// Ids whose order by bytes differs from their numerical and alphabetical order.
fn id_of(number: u32) -> String {
    let mut ids = "7 70 a b é <x> six B 9 10 zz z".split(' ');
    ids.nth(number as usize).unwrap().to_owned()
}

/// The counts of each slice, and the sum of the dropped counts.
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
        let width = i64::from(self.spec.interval);
        let slice = second.div_euclid(width) * width;
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

/// A store in memory and a store in Redis, whose clocks show the same time.
struct Pair([Fixture; 2]);

impl Pair {
    fn new(server: &RedisServer, prefix: &str) -> Self {
        Self([Fixture::memory(), Fixture::redis_in(server, prefix)])
    }

    fn now(&self) -> i64 {
        self.0[0].now()
    }

    fn advance(&self, seconds: i64) {
        self.0.iter().for_each(|fixture| fixture.advance(seconds));
    }

    /// Sends a delta to both stores. Redis folds the delta only if `is_folding`.
    async fn send(&mut self, delta: RankingDelta, is_folding: bool) {
        let [memory, redis] = &mut self.0;
        memory.merge_whole(ranked(delta.clone())).await;
        match is_folding {
            true => redis.merge_whole(ranked(delta)).await,
            false => redis.append(ranked(delta)).await,
        }
    }

    async fn check(&self, model: &Model, rng: &mut fastrand::Rng, stores: &[usize], case: &str) {
        let query = RankingQuery {
            offset: [rng.usize(..6), 0, usize::MAX][rng.usize(..3)],
            ids: (0..IDS).map(id_of).collect(),
            ..posts(self.now(), [rng.usize(..9), usize::MAX][rng.usize(..2)])
        };
        let (total, top, places) = model.page(&query);
        for store in stores {
            let Some(page) = page(&self.0[*store], &query).await else {
                assert_eq!(total, 0, "store {store}, {case}");
                continue;
            };
            let shown: Vec<_> = page.top.into_iter().map(|id| (id.id, id.score)).collect();
            assert_eq!(
                (page.total, &shown, &page.places, page.dropped),
                (total, &top, &places, model.dropped),
                "store {store}, {case}, at {}: {model:?}",
                query.now
            );
        }
    }
}

async fn page(fixture: &Fixture, query: &RankingQuery) -> Option<RankingPage> {
    fixture.store.query().ranking(query).await.unwrap()
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

/// A random number of seconds back in time, usually zero.
fn some_age(rng: &mut fastrand::Rng, spec: RankingSpec) -> i64 {
    match rng.u32(..4) {
        0 => rng.i64(0..2 * spec.period()),
        _ => 0,
    }
}

/// A random number of seconds by which the clock advances.
fn some_time(rng: &mut fastrand::Rng, spec: RankingSpec) -> i64 {
    let (interval, period) = (i64::from(spec.interval), spec.period());
    match rng.u32(..8) {
        0 => 3 * period + 30 * 86_400,
        1 => rng.i64(0..3 * period),
        2 => 0,
        _ => rng.i64(0..2 * interval),
    }
}

#[tokio::test]
async fn both_stores_are_exact_in_any_order_of_additions_removals_and_time() {
    let server = RedisServer::start().await;
    for (case, (seed, mut rng)) in cases(16).enumerate() {
        let rng = &mut rng;
        let mut pair = Pair::new(&server, &format!("{case}:"));
        // Without room for all ids, each fold drops the ids with the smallest counts of the oldest slice.
        let has_room = case % 2 == 0;
        let max_ids = if has_room { 1_000 } else { rng.u32(1..8) };
        let spec = some_spec(rng, max_ids);
        let mut model = Model::new(spec);
        let (mut is_folding, mut is_folded) = (true, true);
        for step in 0..50 {
            let step = format!("case {seed}, step {step}, {spec:?}");
            let mut is_sent = false;
            match rng.u32(..10) {
                0..3 => pair.advance(some_time(rng, spec)),
                3 if has_room => is_folding = !is_folding,
                _ => {
                    let (mut delta, now) = (RankingDelta::new(spec), pair.now());
                    for _ in 0..rng.u32(1..8) {
                        let id = id_of(rng.u32(..IDS));
                        if has_room && rng.u32(..8) == 0 {
                            delta.remove(&(&*id).into());
                            model.remove(&id);
                            continue;
                        }
                        let (second, n) = (
                            now - some_age(rng, spec),
                            rng.i64(if has_room { -3..5 } else { -1..9 }),
                        );
                        // An addition to a slice that has left the window has no effect.
                        delta.add(&(&*id).into(), second, n);
                        if second >= spec.oldest(now) {
                            model.add(&id, second, n);
                        }
                    }
                    pair.send(delta, is_folding).await;
                    is_sent = true;
                    if !has_room {
                        model.limit(now);
                    }
                }
            }
            model.expire(pair.now());
            pair.check(&model, rng, &[0], &step).await;
            is_folded |= is_folding && is_sent;
            if is_folding && (!is_folded || rng.bool()) {
                pair.0[1].writer.folder.fold().await.unwrap();
                is_folded = true;
            }
            is_folded &= is_folding || !is_sent;
            if is_folded {
                pair.check(&model, rng, &[1], &step).await;
            }
        }
    }
}

const SPEC: RankingSpec = spec(3_600, 2, 10);
/// The key of the current slice.
const SLOT: &str = "slot_posts_1699999200";

fn additions_at(second: i64, ids: &[(&str, i64)]) -> RankingDelta {
    let mut delta = RankingDelta::new(SPEC);
    for (id, n) in ids {
        delta.add(&Arc::from(*id), second, *n);
    }
    delta
}

fn additions(ids: &[(&str, i64)]) -> RankingDelta {
    additions_at(NOW, ids)
}

/// The ids of the ranking with their scores, such as `a 3`.
async fn top(fixture: &Fixture) -> Vec<String> {
    let page = page(fixture, &posts(fixture.now(), 100)).await;
    let top = page.map(|page| page.top).unwrap_or_default().into_iter();
    top.map(|id| format!("{} {}", id.id, id.score)).collect()
}

/// Returns the quarantined keys.
async fn fold(fixture: &mut Fixture, delta: RankingDelta) -> Vec<String> {
    fixture.merge(ranked(delta)).await.quarantined_keys()
}

async fn rankings_are_listed_while_they_have_ids(mut fixture: Fixture) {
    fold(&mut fixture, additions(&[("a", 1)])).await;
    let listed = async |fixture: &Fixture| fixture.store.query().rankings().await.unwrap();
    assert_eq!(listed(&fixture).await, ["posts"]);
    fixture.advance(25 * 3_600);
    fold(&mut fixture, additions(&[])).await;
    fixture.writer.folder.fold().await.unwrap();
    assert_eq!(listed(&fixture).await, [""; 0]);
    if fixture.server.is_none() {
        return;
    }
    // No slices and no sums are left. The key that names the newest slice expires later.
    until("the memory is freed", async || {
        let keys: Vec<String> = fixture.run("KEYS *_posts*").await;
        keys == ["pulse:last_slot_posts"]
    })
    .await;
    assert!(fixture.run::<i64>("TTL pulse:last_slot_posts").await > 0);
}

#[tokio::test]
async fn keys_of_another_type_are_quarantined_until_they_are_deleted() {
    for key in [SLOT, "stats_posts", "last_slot_posts"] {
        let mut fixture = Fixture::without_prefix().await;
        // `last_slot_posts` is normally a string, so here it becomes a set.
        let is_newest = key == "last_slot_posts";
        let poison = if is_newest { "SADD" } else { "SET" };
        let () = fixture.run(&format!("{poison} {key} x")).await;
        // The fold writes `last_slot_posts` by SET, which replaces a value of any type.
        let expected = Vec::from_iter((!is_newest).then_some(key));
        assert_eq!(fold(&mut fixture, additions(&[("a", 1)])).await, expected);
        let _ = top(&fixture).await;
        let () = fixture.run(&format!("DEL {key}")).await;
        assert_eq!(fold(&mut fixture, additions(&[("b", 2)])).await, [""; 0]);
        assert_eq!(top(&fixture).await[0], "b 2");
        fixture.advance(3 * 3_600);
        let later = additions_at(fixture.now(), &[("c", 3)]);
        assert_eq!(fold(&mut fixture, later).await, [""; 0], "{key}");
        assert_eq!(top(&fixture).await, ["c 3"], "{key}");
    }
}

#[tokio::test]
async fn numbers_that_are_no_integers_never_stop_the_fold() {
    let mut fixture = Fixture::without_prefix().await;
    fold(&mut fixture, additions(&[("a", 1), ("b", 2)])).await;
    let () = fixture
        .run(&format!("HSET {SLOT} a x b 1.5 foreign y"))
        .await;
    let () = fixture
        .run("ZADD stats_posts inf inf 0.25 half 1e300 huge")
        .await;
    let all = ["a", "b", "inf", "half", "huge"].map(|id| (id, 1));
    fold(&mut fixture, additions(&all)).await;
    assert!(top(&fixture).await.contains(&"a 2".to_owned()));
    let () = fixture
        .run("HSET pulse:rankings posts garbage other x")
        .await;
    fixture.take_over("second", None).await;
    fold(&mut fixture, additions(&[("a", 1)])).await;
    let listed = fixture.store.query().rankings().await.unwrap();
    assert_eq!(listed, ["other", "posts"]);
    assert!(top(&fixture).await.contains(&"a 3".to_owned()));
}

/// If no instance runs for a long time, the keys of all slices expire. The counts of these slices must leave the sums.
#[tokio::test]
async fn slices_expire_after_the_sums_and_their_counts_leave_the_sums() {
    let mut fixture = Fixture::without_prefix().await;
    fold(&mut fixture, additions(&[("a", 1)])).await;
    // The removal empties the slice, and the addition creates the slice again.
    let mut delta = additions(&[]);
    delta.remove(&"a".into());
    delta.add(&"a".into(), NOW, 1);
    fold(&mut fixture, delta).await;
    let ttl = async |key: &str| fixture.issue::<i64>("TTL", key).await;
    let (slot, sums) = (ttl(SLOT).await, ttl("stats_posts").await);
    assert!(sums > 2 * SPEC.period(), "{slot} {sums}");
    assert!(slot > sums + SPEC.period(), "{slot} {sums}");
    assert!(ttl("last_slot_posts").await > 0);
    let () = fixture.run(&format!("DEL {SLOT}")).await;
    fixture.advance(90 * 86_400);
    assert_eq!(top(&fixture).await, [""; 0]);
    let later = additions_at(fixture.now(), &[("a", 3)]);
    fold(&mut fixture, later).await;
    assert_eq!(top(&fixture).await, ["a 3"]);
}

/// An earlier folder may have ended before it dropped these ids.
#[tokio::test]
async fn a_new_folder_drops_ids_for_which_there_is_no_room() {
    let mut fixture = Fixture::without_prefix().await;
    fold(&mut fixture, additions(&[("a", 50)])).await;
    for n in 1..=20 {
        let () = fixture.run(&format!("HSET {SLOT} {n} {n}")).await;
        let () = fixture.run(&format!("ZADD stats_posts {n} {n}")).await;
    }
    fixture.take_over("second", None).await;
    let (mut batch, delta) = (fixture.batch(&[]), additions(&[("a", 1)]));
    batch.rankings.insert("other".into(), delta);
    fixture.merge_whole(batch).await;
    let left = top(&fixture).await;
    assert_eq!((left.len(), &*left[0], &*left[9]), (10, "a 50", "12 12"));
}

#[tokio::test]
async fn a_flush_with_a_hundred_ids_costs_about_as_many_commands_as_one_with_one_id() {
    let mut fixture = Fixture::without_prefix().await;
    let delta = |ids: u32| {
        let mut delta = RankingDelta::new(spec(3_600, 2, 1_000));
        (0..ids).for_each(|id| delta.add(&id.to_string().into(), NOW, 1));
        delta
    };
    fold(&mut fixture, delta(100)).await;
    let mut costs = Vec::new();
    for ids in [1, 100] {
        let () = fixture.run("CONFIG RESETSTAT").await;
        fold(&mut fixture, delta(ids)).await;
        let calls = calls(fixture.server()).await;
        // HSCAN is allowed, because the store reads its few problems by this command.
        for command in ["keys", "scan", "zscan", "sscan"] {
            assert_eq!(calls.get(command), None, "{calls:?}");
        }
        costs.push(calls.values().sum::<u64>());
    }
    // A hundred ids take some more steps of a fold, because a step is short.
    assert!(costs[1] < costs[0] + 60, "{costs:?}");
}

/// The handle of an application waits until its additions and removals can be read.
async fn a_handle_adds_removes_and_reads_within_a_moving_window(fixture: Fixture) {
    let builder = Pulse::builder().store(fixture.store.clone());
    let builder = builder.clock(fixture.clock.clone());
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let posts = pulse.ranking("posts").build().unwrap();
    posts.add_now("7", 3).await.unwrap();
    posts.add_now("9", 5).await.unwrap();
    assert_eq!(posts.rank("7").await.unwrap(), Some(1));
    posts.remove("9").await.unwrap();
    assert_eq!(posts.rank("7").await.unwrap(), Some(0));
    assert_eq!(posts.score("7").await.unwrap(), Some(3));
    assert_eq!(posts.score("9").await.unwrap(), None);
    // From now on, no fold removes slices that have left the window.
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    fixture.advance(90 * 86_400);
    assert!(posts.top(0, 10).await.unwrap().is_empty());
    assert_eq!(posts.score("7").await.unwrap(), None);
}

in_both!(
    rankings_are_listed_while_they_have_ids,
    a_handle_adds_removes_and_reads_within_a_moving_window,
);
