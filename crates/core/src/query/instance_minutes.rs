//! The requests of each instance by minute, from the minute reports, which are read and cached here. `comparison` and
//! `beside_others` compare the instances with each other.
//!
//! Reports arrive after the end of a minute, and may be late. A minute is read when it has ended, and again each time
//! the time since its end has doubled: often while reports arrive, and rarely later.

pub(super) mod beside_others;
mod comparison;
mod pace;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{Mutex, MutexGuard};

use self::beside_others::BesideOthers;
use self::comparison::Comparison;
pub(super) use self::comparison::{InstanceSums, MachineSums};
pub(super) use self::pace::MIN_REQUESTS;
use self::pace::Times;
use super::coop_budget::CoopBudget;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::{InstanceReports, Store};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::{InstanceMinute, REPORTED_MINUTES};
use tower_pulse_model::pack;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::sorted;

/// The length of a minute, in seconds.
const MINUTE: i64 = REPORTED_MINUTES.seconds as i64;

/// Number of minutes that are read at once.
const MINUTES_AT_ONCE: usize = 4;

/// Approximate bytes of a context or an instance, without its packed sums.
const PER_CONTEXT: usize = 96;

/// Reads the minute reports.
pub(super) struct InstanceMinutes {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The maximum size of the cached minutes, in bytes.
    most_bytes: usize,
    state: Mutex<State>,
    /// The size of the cached minutes at the last question, in bytes.
    pub(super) held_bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The size of the cached minutes, in bytes.
    bytes: usize,
    /// The start of the store's generation. A reset begins another generation, with other data.
    created: i64,
    minutes: HashMap<i64, CachedMinute>,
}

/// A minute that was read.
struct CachedMinute {
    /// The time of the read, in Unix seconds.
    read_at: i64,
    instances: Vec<CachedInstance>,
    bytes: usize,
}

impl State {
    /// Whether a minute must be read from the store.
    fn is_due(&self, minute: i64, now: i64) -> bool {
        let cached = self.minutes.get(&minute);
        cached.is_none_or(|cached| is_due(minute, cached.read_at, now))
    }

    /// Drops the minutes for which `is_retained` returns `false`.
    fn retain(&mut self, is_retained: impl Fn(i64) -> bool) {
        self.minutes.retain(|minute, _| is_retained(*minute));
        self.bytes = self.minutes.values().map(|cached| cached.bytes).sum();
    }

    /// Caches a minute if there is room for it. Otherwise returns it.
    fn cache(&mut self, at: i64, minute: CachedMinute, most_bytes: usize) -> Option<CachedMinute> {
        if let Some(before) = self.minutes.remove(&at) {
            self.bytes -= before.bytes;
        }
        if self.bytes + minute.bytes > most_bytes {
            return Some(minute);
        }
        self.bytes += minute.bytes;
        self.minutes.insert(at, minute);
        None
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

/// The requests of an instance on a context in a minute.
struct CachedContext {
    times: Times,
    /// The sums, packed.
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

    /// The sums of each instance over the minutes that begin within `minutes`, on a context or on all reported
    /// contexts, by name. `created` is the start of the store's generation.
    ///
    /// Cancel safe: minutes that were read are kept.
    pub(super) async fn sums(
        &self,
        minutes: Range<i64>,
        context: Option<RecordId>,
        created: i64,
    ) -> Result<Vec<(Arc<str>, InstanceSums)>, StoreError> {
        Ok(self.comparison(minutes, context, created).await?.0.0)
    }

    /// Compares the instances with each other, then again without the slow ones, which are returned too.
    async fn comparison(
        &self,
        minutes: Range<i64>,
        context: Option<RecordId>,
        created: i64,
    ) -> Result<(Comparison, Vec<Arc<str>>), StoreError> {
        let mut budget = CoopBudget::new(&self.clock);
        let mut slow = Vec::new();
        loop {
            let mut comparison = Comparison::default();
            let mut reading = self.reading(minutes.clone(), created).await;
            while let Some((minute, cached)) = reading.next().await? {
                comparison.add(minute, cached, context, &slow);
                budget.yield_if_spent().await;
            }
            let found = comparison.slow();
            if found.is_empty() || !slow.is_empty() {
                return Ok((comparison, slow));
            }
            slow = found;
        }
    }

    /// The machines of all instances over these minutes, by name. `created` is the start of the store's generation.
    ///
    /// Cancel safe: minutes that were read are kept.
    pub(super) async fn machines(
        &self,
        minutes: Range<i64>,
        created: i64,
    ) -> Result<Vec<(Arc<str>, MachineSums)>, StoreError> {
        let mut reading = self.reading(minutes, created).await;
        let mut machines = Vec::new();
        while let Some((_, cached)) = reading.next().await? {
            for of in cached {
                if let Some(minute) = &of.machine {
                    let sums = sorted::entry(&mut machines, of.instance.clone(), Default::default);
                    MachineSums::add(sums, minute);
                }
            }
        }
        Ok(machines)
    }

    /// Compares one instance with the others in these minutes. `created` is the start of the store's generation.
    ///
    /// Cancel safe: minutes that were read are kept.
    pub(super) async fn beside_others(
        &self,
        minutes: Range<i64>,
        instance: &str,
        created: i64,
    ) -> Result<BesideOthers, StoreError> {
        let (_, slow) = self.comparison(minutes.clone(), None, created).await?;
        let mut reading = self.reading(minutes, created).await;
        let mut budget = CoopBudget::new(&self.clock);
        let mut beside = BesideOthers::default();
        while let Some((minute, cached)) = reading.next().await? {
            let Some(own) = cached.iter().find(|of| *of.instance == *instance) else {
                continue;
            };
            beside.machine.extend(own.machine.map(|of| (minute, of)));
            if own.contexts.is_empty() {
                continue;
            }
            let others = || {
                let others = cached.iter().filter(|of| *of.instance != *instance);
                others.filter(|of| !of.contexts.is_empty() && !slow.contains(&of.instance))
            };
            beside.add_minute(minute, own, others());
            for (id, context) in &own.contexts {
                beside.add_context(minute, (*id, context), others());
                budget.yield_if_spent().await;
            }
        }
        Ok(beside)
    }

    /// Starts to read minutes. Reads from the store only minutes that are due or are not cached.
    async fn reading(&self, minutes: Range<i64>, created: i64) -> Reading<'_> {
        let now = self.clock.now_seconds();
        let mut state = self.state.lock().await;
        if state.created != created {
            *state = State {
                created,
                ..State::default()
            };
        }
        let cutoff = REPORTED_MINUTES.cutoff(now);
        state.retain(|minute| minute > cutoff);
        self.held_bytes.store(state.bytes, Relaxed);
        let minutes: VecDeque<i64> = minutes.step_by(MINUTE as usize).collect();
        let due = minutes.iter().copied().filter(|of| state.is_due(*of, now));
        Reading {
            due: due.collect(),
            minutes,
            read: VecDeque::new(),
            uncached: None,
            of: self,
            state,
            now,
        }
    }
}

/// Minutes that are being read, oldest first.
struct Reading<'a> {
    of: &'a InstanceMinutes,
    state: MutexGuard<'a, State>,
    now: i64,
    minutes: VecDeque<i64>,
    /// Minutes that must still be read from the store.
    due: VecDeque<i64>,
    /// Minutes that were read and are not processed yet.
    read: VecDeque<(i64, InstanceReports)>,
    /// The last minute, if there was no room to cache it.
    uncached: Option<CachedMinute>,
}

impl Reading<'_> {
    /// The next minute with reports.
    async fn next(&mut self) -> Result<Option<(i64, &[CachedInstance])>, StoreError> {
        let Self { of, now, .. } = *self;
        let mut budget = CoopBudget::new(&of.clock);
        while let Some(minute) = self.minutes.pop_front() {
            if self.due.front() == Some(&minute) {
                let most = self.due.len().min(MINUTES_AT_ONCE);
                let part: Vec<i64> = self.due.drain(..most).collect();
                let reports = of.store.query().minute_reports(&part).await?;
                self.read.extend(part.into_iter().zip(reports));
            }
            self.uncached = None;
            if self.read.front().is_some_and(|(of, _)| *of == minute)
                && let Some((_, reports)) = self.read.pop_front()
            {
                let mut cached = CachedMinute {
                    read_at: now,
                    instances: Vec::with_capacity(reports.len()),
                    bytes: PER_CONTEXT,
                };
                for (instance, minute) in reports {
                    let instance = CachedInstance::new(instance, minute);
                    cached.bytes += instance.bytes();
                    cached.instances.push(instance);
                    budget.yield_if_spent().await;
                }
                self.uncached = self.state.cache(minute, cached, of.most_bytes);
            }
            let is_known = self.uncached.is_some() || self.state.minutes.contains_key(&minute);
            if is_known {
                let cached = self.uncached.as_ref();
                let cached = cached.or_else(|| self.state.minutes.get(&minute));
                return Ok(cached.map(|cached| (minute, &cached.instances[..])));
            }
            budget.yield_if_spent().await;
        }
        Ok(None)
    }
}

/// Whether a minute that was read at `read_at` must be read again.
fn is_due(minute: i64, read_at: i64, now: i64) -> bool {
    let was_over_for = read_at.saturating_sub(minute.saturating_add(MINUTE));
    // If the clock was set back, the difference is negative, and the minute is read again.
    !(0..was_over_for.max(1)).contains(&now.saturating_sub(read_at))
}

impl CachedInstance {
    fn new(instance: Arc<str>, minute: InstanceMinute) -> Self {
        let mut all = Aggregate::default();
        let mut contexts = HashMap::with_capacity(minute.contexts.len());
        for (id, sums) in &minute.contexts {
            all.merge(sums);
            let context = CachedContext {
                times: Times {
                    count: sums.times.count,
                    sum: sums.times.sum,
                },
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

    /// Approximate bytes in memory.
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

    /// The times of a context, or of all contexts.
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
    fn a_minute_is_read_again_when_it_is_over_for_twice_as_long() {
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
