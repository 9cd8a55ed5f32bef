//! Additions to rankings within a moving window: each thread adds to a shard, and a drain moves the additions to the
//! batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::RecordingState;
use super::shards::thread_number;
use crate::error::BuildError;
use crate::task::lock;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::clean_name;
use tower_pulse_model::ranking::{MIN_SHARD_IDS, RankingDelta, RankingSpec};
use tower_pulse_model::sorted::Map;

const MAX_RANKINGS: usize = 100;
/// An id without additions keeps its memory for this number of drains.
const IDLE_DRAINS: u8 = 8;

/// The rankings of this process, by name.
#[derive(Default)]
pub struct Rankings(Mutex<Map<Arc<str>, Arc<RankingEntry>>>);

/// A ranking, and the additions to it since the last drain.
#[derive(Debug)]
pub struct RankingEntry {
    /// The name of the ranking.
    pub name: Arc<str>,
    /// The window, and the maximum number of ids.
    pub spec: RankingSpec,
    recording: Arc<RecordingState>,
    shards: Box<[Shard]>,
    /// The maximum number of ids in a shard.
    shard_ids: usize,
    /// Removals, and the additions that full shards have passed on. This mutex is locked before the mutex of a shard.
    collected: Mutex<Collected>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashMap<Arc<str>, Pending>>);

/// The sum of the additions to an id.
#[derive(Debug, Default)]
struct Pending {
    n: i64,
    /// The sum of the absolute values that were added.
    amount: u64,
    /// Successive drains without an addition.
    idle: u8,
}

#[derive(Debug)]
struct Collected {
    delta: RankingDelta,
    /// The sum of the absolute values that were added. A removal counts as 1.
    amount: u64,
}

impl Rankings {
    /// The ranking of this name, created if it does not exist.
    pub fn get_or_insert(
        &self,
        name: &str,
        spec: RankingSpec,
        recording: &Arc<RecordingState>,
        shards: usize,
    ) -> Result<Arc<RankingEntry>, BuildError> {
        let mut rankings = lock(&self.0);
        if let Some(entry) = rankings.get(name) {
            if entry.spec == spec {
                return Ok(entry.clone());
            }
            let value = format!("{name:?} again, with {spec}");
            let allowed = format!(
                "the same configuration as before is allowed: {}",
                entry.spec
            );
            return Err(BuildError::new("ranking", value, allowed));
        }
        if rankings.len() >= MAX_RANKINGS {
            let allowed = format!("a process may have at most {MAX_RANKINGS} rankings");
            return Err(BuildError::new("ranking", format!("{name:?}"), allowed));
        }
        let name: Arc<str> = name.into();
        let entry = Arc::new(RankingEntry {
            name: name.clone(),
            spec,
            recording: recording.clone(),
            shard_ids: (spec.max_ids as usize / shards).max(MIN_SHARD_IDS),
            shards: (0..shards).map(|_| Shard::default()).collect(),
            collected: Mutex::new(Collected::new(spec)),
        });
        rankings.insert(name, entry.clone());
        Ok(entry)
    }

    /// The names and configurations, sorted by name.
    #[cfg(feature = "query")]
    pub fn list(&self) -> Vec<(Arc<str>, RankingSpec)> {
        let rankings = lock(&self.0);
        let rankings = rankings.values();
        rankings.map(|e| (e.name.clone(), e.spec)).collect()
    }

    /// Moves the additions into a batch, or drops them if the recorder is closed. Additions that are still in shards
    /// belong to `second`. Returns the sum of their absolute values.
    pub(super) fn drain(&self, batch: &mut Batch, second: i64) -> u64 {
        let rankings = lock(&self.0);
        let mut amount: u64 = 0;
        for entry in rankings.values() {
            let collected = entry.take(second);
            amount = amount.saturating_add(collected.amount);
            if !entry.recording.is_closed() && !collected.delta.is_empty() {
                batch.add_ranking(entry.name.clone(), collected.delta);
            }
        }
        amount
    }
}

impl RankingEntry {
    /// Adds `n` to an id. Allocates nothing if this thread has added to the id recently.
    pub fn add(&self, id: &str, n: i64) {
        let id = clean_name(id);
        // The number of shards is a power of two.
        let shard = &self.shards[thread_number() & (self.shards.len() - 1)];
        let mut ids = lock(&shard.0);
        if let Some(pending) = ids.get_mut(&*id) {
            pending.add(n);
            return;
        }
        if ids.len() >= self.shard_ids {
            drop(ids);
            let mut collected = lock(&self.collected);
            ids = lock(&shard.0);
            collected.take(&mut ids, self.now());
            ids.clear();
            collected.delta.limit();
        }
        ids.entry((&*id).into()).or_default().add(n);
    }

    /// Removes an id, and the earlier additions to it.
    pub fn remove(&self, id: &str) {
        let id = clean_name(id);
        let mut collected = lock(&self.collected);
        for shard in &self.shards {
            lock(&shard.0).remove(&*id);
        }
        collected.delta.remove(&(&*id).into());
        collected.amount = collected.amount.saturating_add(1);
        collected.delta.limit();
    }

    /// Whether the `Pulse` is shut down. Additions are then dropped.
    pub fn is_closed(&self) -> bool {
        self.recording.is_closed()
    }

    /// The time of the clock, in Unix seconds.
    pub fn now(&self) -> i64 {
        self.recording.clock().now_seconds()
    }

    /// Additions that are still in shards belong to `second`.
    fn take(&self, second: i64) -> Collected {
        let mut collected = lock(&self.collected);
        for shard in &self.shards {
            collected.take(&mut lock(&shard.0), second);
        }
        collected.delta.limit();
        std::mem::replace(&mut *collected, Collected::new(self.spec))
    }
}

impl Pending {
    fn add(&mut self, n: i64) {
        self.n = self.n.saturating_add(n);
        self.amount = self.amount.saturating_add(n.unsigned_abs());
    }
}

impl Collected {
    fn new(spec: RankingSpec) -> Self {
        Self {
            delta: RankingDelta::new(spec),
            amount: 0,
        }
    }

    /// Takes the additions of a shard. The shard keeps the memory of its ids for some drains.
    fn take(&mut self, ids: &mut HashMap<Arc<str>, Pending>, second: i64) {
        ids.retain(|id, pending| {
            if pending.amount == 0 {
                pending.idle += 1;
                return pending.idle < IDLE_DRAINS;
            }
            let taken = std::mem::take(pending);
            self.amount = self.amount.saturating_add(taken.amount);
            self.delta.add(id, second, taken.n);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{TestRecorder, spec};
    use tower_pulse_model::amounts::Amounts;

    /// A recorder with the ranking "posts" of at most this many ids.
    fn posts(max_ids: u32) -> (TestRecorder, Arc<RankingEntry>) {
        let recorder = TestRecorder::new(9);
        let posts = recorder.ranking("posts", spec(max_ids));
        (recorder, posts.expect("it is the first"))
    }

    /// Each id, whether the id was removed, and its sums by slice. Then how much was dropped.
    fn taken(recorder: &TestRecorder) -> (Vec<(String, bool, Vec<i64>)>, u64) {
        let Some(delta) = recorder.drained().rankings.remove("posts") else {
            return (Vec::new(), 0);
        };
        let ids = delta.ids.iter().map(|(id, delta)| {
            let sums = delta.slices.iter().map(|(_, n)| *n).collect();
            (id.to_string(), delta.is_removed, sums)
        });
        (ids.collect(), delta.dropped)
    }

    fn held(entry: &RankingEntry) -> usize {
        entry.shards.iter().map(|shard| lock(&shard.0).len()).sum()
    }

    #[test]
    fn a_removal_removes_earlier_additions_drained_or_not() {
        let (recorder, entry) = posts(9);
        entry.add("a", 5);
        recorder.drain();
        recorder.advance(60_000);
        entry.add("a", 7);
        std::thread::scope(|scope| drop(scope.spawn(|| entry.add("a", 9))));
        entry.remove("a");
        entry.add("a", 1);
        assert_eq!(taken(&recorder).0, [("a".into(), true, vec![1])]);
    }

    #[test]
    fn pending_ids_are_bounded_by_the_maximum_of_the_ranking() {
        let (recorder, entry) = posts(40);
        for n in 1..=1_000 {
            entry.add(&format!("{n:04}"), n);
            let held = held(&entry) + lock(&entry.collected).delta.ids.len();
            assert!(held <= 40 + entry.shard_ids * entry.shards.len(), "{held}");
        }
        let (ids, dropped) = taken(&recorder);
        assert_eq!((ids.len(), &*ids[0].0), (40, "0961"));
        assert_eq!(dropped, (1..=960).sum::<u64>());
    }

    #[test]
    fn an_id_without_additions_is_forgotten() {
        let (recorder, entry) = posts(9);
        entry.add("a", 1);
        for _ in 0..IDLE_DRAINS {
            recorder.drain();
            assert_eq!(held(&entry), 1);
        }
        recorder.drain();
        assert_eq!(held(&entry), 0);
    }

    #[test]
    fn ids_are_cleaned_as_contexts_are() {
        let (recorder, entry) = posts(9);
        for id in ["", "a\n", &"x".repeat(300)] {
            entry.add(id, 1);
        }
        let ids: Vec<_> = taken(&recorder).0.into_iter().map(|(id, ..)| id).collect();
        assert_eq!(ids[..2], ["<empty>", "a\\n"]);
        assert!(ids[2].len() <= 256);
    }

    #[test]
    fn additions_after_the_shutdown_count_as_dropped() {
        let (recorder, entry) = posts(9);
        recorder.recording.close();
        (0..3).for_each(|_| entry.add("a", 5));
        assert_eq!(taken(&recorder), (vec![], 0));
        entry.remove("a");
        entry.add("b", -2);
        recorder.drain();
        let dropped = recorder.drain.counters(|counters| counters.dropped);
        assert_eq!(dropped, Amounts::of_additions(3 * 5 + 1 + 2));
    }

    #[test]
    fn a_ranking_has_one_configuration_and_a_process_at_most_a_hundred_rankings() {
        let (recorder, first) = posts(9);
        let again = recorder.ranking("posts", spec(9)).expect("it is the same");
        assert!(Arc::ptr_eq(&first, &again));
        let refused = |name, max_ids| {
            let refused = recorder.ranking(name, spec(max_ids));
            refused.expect_err("it is refused").to_string()
        };
        assert!(refused("posts", 8).contains("180 s, an interval of 60 s and 9 ids"));
        for n in 1..MAX_RANKINGS {
            assert!(recorder.ranking(&n.to_string(), spec(9)).is_ok());
        }
        let error = refused("more", 9);
        assert!(error.contains("\"more\"") && error.contains("100"));
        assert!(recorder.ranking("posts", spec(9)).is_ok());
    }
}
