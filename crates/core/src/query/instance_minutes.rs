//! Reads and caches the minute reports: the requests of each instance by minute. `comparison` and `beside_others`
//! compare the instances with each other.
//!
//! Reports arrive after the end of a minute, and may be late. A minute is read when it has ended, and again whenever
//! the time since its end has doubled. So reads are frequent while reports arrive, and rare later.

pub(super) mod beside_others;
mod comparison;
mod pace;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::Mutex;

pub(super) use self::comparison::{Comparison, InstanceSums};
pub(super) use self::pace::MIN_REQUESTS;
use self::pace::Times;
use super::coop_budget::CoopBudget;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::Store;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::{InstanceMinute, REPORTED_MINUTES};
use tower_pulse_model::pack;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;

const MINUTE: i64 = REPORTED_MINUTES.seconds as i64;

const MINUTES_AT_ONCE: usize = 4;

/// Approximate bytes of a context or an instance, without its packed sums.
const PER_CONTEXT: usize = 96;

pub(super) struct InstanceMinutes {
    store: Arc<dyn Store>,
    clock: Clock,
    most_bytes: usize,
    state: Mutex<State>,
    /// The size of the cached minutes after the last question, in bytes.
    pub(super) held_bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The start of the store's generation. A reset begins another generation, with other data.
    created: i64,
    minutes: HashMap<i64, Arc<CachedMinute>>,
}

struct CachedMinute {
    /// The time of the read, in Unix seconds.
    read_at: i64,
    instances: Vec<CachedInstance>,
    bytes: usize,
}

impl State {
    /// A cached minute that need not be read again.
    fn fresh(&self, minute: i64, now: i64) -> Option<&Arc<CachedMinute>> {
        let cached = self.minutes.get(&minute);
        cached.filter(|cached| !is_due(minute, cached.read_at, now))
    }

    fn bytes(&self) -> usize {
        self.minutes.values().map(|cached| cached.bytes).sum()
    }
}

/// The requests of an instance in a minute.
struct CachedInstance {
    instance: Arc<str>,
    version: Option<Arc<str>>,
    /// The sums of all contexts, packed.
    all: Box<[u8]>,
    contexts: HashMap<RecordId, CachedContext>,
    machine: Option<MachineMinute>,
}

struct CachedContext {
    times: Times,
    packed: Box<[u8]>,
}

impl InstanceMinutes {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock, most_bytes: usize) -> Self {
        Self {
            store,
            clock,
            most_bytes,
            state: Mutex::default(),
            held_bytes: AtomicUsize::new(0),
        }
    }

    /// Compares the instances with each other in the minutes that begin within `minutes`, on a context or on all
    /// reported contexts. Compares `instance` in detail. Reads from the store only minutes that are due or not cached.
    /// `created` is the start of the store's generation.
    ///
    /// Cancel safe: minutes that were read are kept.
    pub(super) async fn compare(
        &self,
        minutes: Range<i64>,
        context: Option<RecordId>,
        instance: Option<&str>,
        created: i64,
    ) -> Result<Comparison, StoreError> {
        let now = self.clock.now_seconds();
        let mut state = self.state.lock().await;
        if state.created != created {
            *state = State::default();
            state.created = created;
        }
        let cutoff = REPORTED_MINUTES.cutoff(now);
        state.minutes.retain(|minute, _| *minute > cutoff);
        let minutes: Vec<i64> = minutes.step_by(MINUTE as usize).collect();
        let mut budget = CoopBudget::new(&self.clock);
        let mut comparison = Comparison::default();
        let mut read = Vec::new().into_iter();
        for (at, minute) in minutes.iter().copied().enumerate() {
            let fresh = state.fresh(minute, now).cloned();
            let cached = match fresh {
                Some(cached) => cached,
                None => {
                    if read.as_slice().is_empty() {
                        let due = minutes[at..].iter().copied();
                        let due = due.filter(|minute| state.fresh(*minute, now).is_none());
                        let due: Vec<i64> = due.take(MINUTES_AT_ONCE).collect();
                        read = self.store.query().minute_reports(&due).await?.into_iter();
                    }
                    let mut cached = CachedMinute {
                        read_at: now,
                        instances: Vec::new(),
                        bytes: PER_CONTEXT,
                    };
                    for (instance, minute) in read.next().unwrap_or_default() {
                        let instance = CachedInstance::new(instance, minute);
                        cached.bytes += instance.bytes();
                        cached.instances.push(instance);
                        budget.yield_if_spent().await;
                    }
                    state.minutes.remove(&minute);
                    let cached = Arc::new(cached);
                    if state.bytes() + cached.bytes <= self.most_bytes {
                        state.minutes.insert(minute, cached.clone());
                    }
                    cached
                }
            };
            let in_line = comparison.add(minute, &cached.instances, context);
            budget.yield_if_spent().await;
            let mut own = cached.instances.iter();
            if let Some(own) = own.find(|cached| instance == Some(&*cached.instance)) {
                let beside = &mut comparison.beside;
                beside.add(minute, own, &in_line, &mut budget).await;
            }
        }
        self.held_bytes.store(state.bytes(), Relaxed);
        Ok(comparison)
    }
}

/// Whether a minute that was read at `read_at` must be read again.
fn is_due(minute: i64, read_at: i64, now: i64) -> bool {
    let was_over_for = read_at.saturating_sub(minute.saturating_add(MINUTE));
    // If the clock was set back, the time since the read is negative, and the minute is read again.
    !(0..was_over_for.max(1)).contains(&now.saturating_sub(read_at))
}

impl CachedInstance {
    fn new(instance: Arc<str>, minute: InstanceMinute) -> Self {
        let mut all = Aggregate::default();
        let mut contexts = HashMap::with_capacity(minute.contexts.len());
        for (id, sums) in &minute.contexts {
            all.merge(sums);
            let context = CachedContext {
                times: Times::of(sums),
                packed: pack::aggregate(sums).into(),
            };
            contexts.insert(*id, context);
        }
        Self {
            instance,
            version: minute.version,
            all: pack::aggregate(&all).into(),
            contexts,
            machine: minute.machine,
        }
    }

    fn bytes(&self) -> usize {
        let contexts = self.contexts.values();
        let packed = contexts.map(|context| context.packed.len() + PER_CONTEXT);
        let beside = PER_CONTEXT + size_of::<Option<MachineMinute>>();
        packed.sum::<usize>() + self.all.len() + beside
    }

    /// The sums of a context, or of all contexts.
    fn sums(&self, context: Option<RecordId>) -> Option<Aggregate> {
        let packed = match context {
            Some(id) => &self.contexts.get(&id)?.packed,
            None => &self.all,
        };
        pack::read_aggregate(packed).filter(|sums| sums.times.count > 0)
    }

    fn times(&self, context: Option<RecordId>) -> impl Iterator<Item = (RecordId, Times)> {
        let contexts = self.contexts.iter();
        contexts
            .filter(move |(id, _)| context.is_none_or(|context| context == **id))
            .map(|(id, cached)| (*id, cached.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_read_again_when_the_time_since_its_end_has_doubled() {
        let mut read_at = 60;
        let reads = (0..=7_800).filter(|over| {
            let is_read = *over == 0 || is_due(0, read_at, 60 + over);
            if is_read {
                read_at = 60 + over;
            }
            is_read
        });
        let doubled = [0].into_iter().chain((0..=12).map(|power| 1 << power));
        assert_eq!(reads.collect::<Vec<_>>(), doubled.collect::<Vec<_>>());
        assert!(is_due(0, 100, 99), "the clock went back");
    }
}
