//! Rankings at the largest settings of the builder. A large slice is removed in steps, and entries are folded between
//! these steps.

use std::collections::BTreeSet;

use tower_pulse_core::store::{RankingPage, Store};
use tower_pulse_model::pack::{pack, unpack};
use tower_pulse_model::ranking::{RankingDelta, RankingSpec, RankingState};
use tower_pulse_model::slice::HOUR;

use crate::stores::fixture::{Fixture, NOW, posts, ranked, redis_store, spec};

/// The most ids of a ranking to which a test adds eight times as many.
const IDS: u32 = 4_000;
const CALLS: u32 = 20;
/// A ranking with the longest period in slices of the shortest interval.
const LONGEST: RankingSpec = spec(60, 1_500, 100_000);
/// The most rounds until all surplus is removed.
const MOST_ROUNDS: u32 = 100;

/// Fills a ranking: every id is in the first slice, and every second id is also in the second slice.
const FILL: &str = "
local slots, first, second, ids = {KEYS[2], KEYS[3]}, {}, {}, tonumber(ARGV[1])
for n = 1, ids do
  local id = string.rep('0', ARGV[2] - 6) .. string.format('%06d', n)
  redis.call('HSET', slots[1], id, n % 7 + 1)
  if n % 2 == 0 then redis.call('HSET', slots[2], id, 3) end
  redis.call('ZADD', KEYS[1], n % 7 + 1 + (n % 2 == 0 and 3 or 0), id)
end";

/// Counts the ids of the totals, and the ids whose total differs from their count in the second slice.
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

/// A store whose ranking has ids of this length in its first two slices.
async fn filled(ids: u32, length: usize) -> Fixture {
    let fixture = Fixture::without_prefix().await;
    let slots = [NOW, NOW + 60];
    let keys = slots.map(|start| format!("slot_posts_{start}"));
    let fill = (FILL, 3, "stats_posts", &keys, ids, length);
    let () = fixture.issue("EVAL", fill).await;
    let state = ("pulse:rankings", "posts", pack(&state(slots)));
    let () = fixture.issue("HSET", state).await;
    fixture
}

fn state<const N: usize>(slots: [i64; N]) -> RankingState {
    let mut state = RankingState::new(LONGEST);
    state.slices.extend(slots);
    state
}

async fn has_slice(fixture: &Fixture, start: i64) -> bool {
    let exists = format!("EXISTS slot_posts_{start}");
    fixture.run(&exists).await
}

/// Appends an addition to a counter, folds, and checks that the addition can be read.
async fn check_round(fixture: &mut Fixture) {
    let sales = async |fixture: &Fixture| {
        let sales = fixture.counter("sales", 86_400).await;
        sales.iter().map(|(_, n)| n).sum::<i64>()
    };
    let before = sales(fixture).await;
    fixture.count(fixture.now(), &[("sales", 1)]).await;
    assert_eq!(sales(fixture).await, before + 1);
}

async fn page(fixture: &Fixture, limit: usize) -> RankingPage {
    let query = posts(fixture.now(), limit);
    let page = fixture.store.query().ranking(&query).await;
    page.unwrap().unwrap()
}

#[tokio::test]
async fn a_slice_of_100_000_long_ids_is_removed_while_entries_are_folded_and_folders_change() {
    let mut fixture = filled(100_000, 256).await;
    let all = page(&fixture, usize::MAX).await;
    assert_eq!((all.total, all.top.len()), (100_000, 100_000));
    assert!(all.top.is_sorted_by(|a, b| a.score >= b.score));
    fixture.advance(1_500 * 60);
    for limit in [1, 10, 500] {
        let page = page(&fixture, limit).await;
        assert_eq!(page.top.len(), limit);
        // The first slice has left the window, so each sum is the count in the second slice.
        assert!(page.top.iter().all(|id| id.score == 3), "{:?}", page.top);
    }
    let folders = ["first", "second"].map(|name| fixture.folder(name, None));
    let mut rounds = 0;
    while has_slice(&fixture, NOW).await {
        rounds += 1;
        assert!(rounds < MOST_ROUNDS);
        // Ends the lease, as if the folder hung or had been killed.
        let () = fixture.run("DEL pulse:lease:fold").await;
        fixture.writer.folder = folders[rounds as usize % 2].clone();
        check_round(&mut fixture).await;
    }
    assert!(rounds > 1, "one round did all the work");
    check_round(&mut fixture).await;
    let counts: Vec<u32> = fixture.issue("EVAL", (WRONG, 0)).await;
    assert_eq!(counts, [50_000, 0]);
    let stored: Vec<u8> = fixture.run("HGET pulse:rankings posts").await;
    assert_eq!(unpack(&stored), Some(state([NOW + 60])));
    let left = page(&fixture, usize::MAX).await;
    let ids: BTreeSet<_> = left.top.iter().map(|id| (&id.id, id.score)).collect();
    assert_eq!((left.total, ids.len()), (50_000, 50_000));
    assert!(ids.iter().all(|(_, score)| *score == 3));
    // All slices have left the window: one step removes them.
    fixture.advance(9 * 86_400);
    assert_eq!(page(&fixture, 10).await.total, 0);
    let id = format!("{:0256}", 7);
    let mut delta = RankingDelta::new(LONGEST);
    delta.add(&(&*id).into(), fixture.now(), 5);
    fixture.append(ranked(delta)).await;
    check_round(&mut fixture).await;
    let last = page(&fixture, 10).await;
    let top: Vec<_> = last.top.iter().map(|id| (&id.id, id.score)).collect();
    assert_eq!((last.total, top), (1, vec![(&id, 5)]));
    assert!(!has_slice(&fixture, NOW + 60).await);
}

/// A field that another program has made large is removed with its slice.
#[tokio::test]
async fn a_slice_with_a_field_of_30_mib_is_removed() {
    let mut fixture = filled(10, 36).await;
    let fill = "return redis.call('HSET', KEYS[1], 'huge', string.rep('x', 30 * 1024 * 1024))";
    let fill = (fill, 1, format!("slot_posts_{NOW}"));
    let () = fixture.issue("EVAL", fill).await;
    fixture.advance(1_500 * 60);
    check_round(&mut fixture).await;
    assert!(!has_slice(&fixture, NOW).await);
    let page = page(&fixture, 10).await;
    assert_eq!((page.total, page.top[0].score), (5, 3));
}

async fn eight_times_too_many_ids_never_stall_the_fold(mut fixture: Fixture) {
    // Each id has another count.
    for call in 0..CALLS {
        let mut delta = RankingDelta::new(spec(3_600, 24, IDS));
        for n in 0..8 * IDS / CALLS {
            let count = i64::from(n * CALLS + call) + 1;
            delta.add(&format!("{count:036}").as_str().into(), NOW, count);
        }
        fixture.append(ranked(delta)).await;
    }
    let mut rounds = 0;
    let page = loop {
        check_round(&mut fixture).await;
        let page = page(&fixture, usize::MAX).await;
        assert!(page.total <= 2 * IDS as usize, "{} ids", page.total);
        rounds += 1;
        assert!(rounds < MOST_ROUNDS);
        if page.total <= IDS as usize {
            break page;
        }
    };
    let scores: Vec<i64> = page.top.iter().map(|id| id.score).collect();
    // The ids with the smallest counts are dropped, and `dropped` is the sum of their counts.
    let (most, all) = (i64::from(IDS), 8 * i64::from(IDS));
    assert!(scores.iter().copied().eq((all - most + 1..=all).rev()));
    let all: u64 = (1..=8 * u64::from(IDS)).sum();
    assert_eq!(page.dropped + scores.iter().sum::<i64>() as u64, all);
}

async fn an_instance_with_a_shorter_period_does_not_shorten_the_period_of_the_others(
    mut fixture: Fixture,
) {
    let (fleet, canary) = (spec(3_600, 24, 100), spec(300, 12, 1));
    let send = async |fixture: &mut Fixture, spec, id: &str, n| {
        let mut delta = RankingDelta::new(spec);
        delta.add(&id.into(), fixture.now(), n);
        fixture.merge_whole(ranked(delta)).await;
    };
    let check = async |fixture: &Fixture, expected: &[(&str, i64)], is_warned: bool| {
        fixture.writer.folder.fold().await.unwrap();
        // The store checks only every few seconds whether all instances agree.
        fixture.advance(10);
        let page = page(fixture, 10).await;
        let top: Vec<_> = page.top.iter().map(|id| (&*id.id, id.score)).collect();
        assert_eq!(top, expected);
        let warnings = fixture.status().await.ranking_warnings;
        assert_eq!(warnings.len(), usize::from(is_warned), "{warnings:?}");
        if let Some(server) = &fixture.server {
            let other = redis_store(&server.url(), "pulse:");
            let status = other.upkeep().status(fixture.now()).await.unwrap();
            assert_eq!(status.ranking_warnings, warnings);
        }
    };
    let fixture = &mut fixture;
    send(fixture, fleet, "a", 100).await;
    fixture.advance(5 * HOUR);
    send(fixture, fleet, "b", 1).await;
    check(fixture, &[("a", 100), ("b", 1)], false).await;
    send(fixture, canary, "c", 1).await;
    check(fixture, &[("a", 100), ("c", 1), ("b", 1)], true).await;
    // The canary has ended.
    fixture.advance(2 * HOUR);
    send(fixture, fleet, "b", 1).await;
    check(fixture, &[("a", 100), ("b", 2), ("c", 1)], false).await;
}

in_both!(
    eight_times_too_many_ids_never_stall_the_fold,
    an_instance_with_a_shorter_period_does_not_shorten_the_period_of_the_others,
);
