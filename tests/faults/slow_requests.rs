//! The slowest requests of a fleet are the true ones, whatever its store does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tower_pulse::model::context::{ContextId, Kind};
use tower_pulse::model::slice::{HOUR, Precisions, hour_of};
use tower_pulse::store::{Query, SlowRequestQuery};
use tower_pulse::{Clock, ManualClock, Pulse};

use crate::faulty::Faulty;
use crate::rig::seed::seed;

const INSTANCES: usize = 4;
const CONTEXTS: usize = 30;
/// Seconds of a run, half of them before the turn of an hour.
const SECONDS: usize = 120;
/// Requests of a run: a few more than a million.
const REQUESTS: usize = 1_000_000 + INSTANCES * SECONDS;

struct Instance {
    pulse: Pulse,
    clock: Clock,
    manual_clock: ManualClock,
}

impl Instance {
    fn new(store: &Arc<Faulty>, second: i64) -> Self {
        let (clock, manual_clock) = Clock::manual(second);
        let pulse = Pulse::builder().store(store.clone()).clock(clock.clone());
        let (pulse, _tasks) = pulse.build_with_tasks().unwrap();
        Self {
            pulse,
            clock,
            manual_clock,
        }
    }
}

/// A fleet, its store, and the durations of all requests by hour and context.
struct Fleet {
    instances: Vec<Instance>,
    store: Arc<Faulty>,
    store_clock: ManualClock,
    rng: fastrand::Rng,
    served: BTreeMap<(i64, usize), Vec<u64>>,
    requests: usize,
    /// There are failovers in this run, and otherwise restarts: a failover may lose what an instance had sent
    /// that lives no more.
    has_failovers: bool,
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let start = 1_700_002_800 - SECONDS as i64 / 2;
        assert_eq!(hour_of(start + HOUR), start + SECONDS as i64 / 2);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (clock, store_clock) = Clock::manual(start);
        let store = Faulty::new(clock, Precisions::default(), rng.u64(..));
        // The clock of one instance is a second ahead.
        let ahead = |at: usize| i64::from(at == 1);
        let instances = (0..INSTANCES).map(|at| Instance::new(&store, start + ahead(at)));
        Self {
            has_failovers: rng.bool(),
            instances: instances.collect(),
            store,
            store_clock,
            rng,
            served: BTreeMap::new(),
            requests: 0,
        }
    }

    /// Serves a request whose duration no other one has: heavy-tailed, about a millisecond or more.
    fn request(&mut self, at: usize, slowness: f64) {
        let instance = &self.instances[at];
        // Some contexts have many more requests than others, and some are much slower.
        let most = self.rng.usize(..CONTEXTS);
        let context = self.rng.usize(..=most);
        let millis = slowness * (1 + context % 5) as f64 / self.rng.f64().max(1e-9).powf(0.6);
        let nanos = ((millis.min(1e6) as u64) << 20) + self.requests as u64;
        self.requests += 1;
        let (name, duration) = (name(context), Duration::from_nanos(nanos));
        instance.pulse.record(&name, duration, StatusCode::OK);
        let hour = hour_of(instance.clock.now_seconds());
        self.served.entry((hour, context)).or_default().push(nanos);
    }

    async fn second(&mut self) {
        for clock in self.instances.iter().map(|one| &one.manual_clock) {
            clock.advance(Duration::from_secs(1));
        }
        self.store_clock.advance(Duration::from_secs(1));
        match self.rng.u32(..12) {
            0 => self.store.trouble(self.rng.f64() * 0.7),
            1 => self.store.away(true),
            2 | 3 => self.store.away(false),
            4 if self.has_failovers => _ = self.store.fall_back(self.rng.usize(..6)),
            4 => self.restart().await,
            _ => {}
        }
        let slowness = if self.rng.u32(..20) == 0 { 10.0 } else { 1.0 };
        for at in 0..INSTANCES {
            self.instances[at].pulse.drain();
            for _ in 0..REQUESTS / (INSTANCES * SECONDS) {
                self.request(at, slowness);
            }
            // Drained in any case, and sent again later if it fails.
            let _ = self.instances[at].pulse.flush().await;
        }
    }

    /// One instance ends, if it can flush what it has, and another one starts.
    async fn restart(&mut self) {
        let at = self.rng.usize(..INSTANCES);
        let instance = &self.instances[at];
        if instance.pulse.flush().await.is_ok() {
            let _ = instance.pulse.shutdown().await;
            assert_eq!(instance.pulse.health().flush.lost, 0);
            self.instances[at] = Instance::new(&self.store, instance.clock.now_seconds());
        }
    }

    async fn settle(&mut self) {
        self.store.away(false);
        self.store.trouble(0.0);
        for at in 0..INSTANCES {
            // What a failover has lost is sent again when the next call follows.
            self.request(at, 1.0);
            let pulse = &self.instances[at].pulse;
            let mut tries = 0;
            while pulse.flush().await.is_err() {
                tries += 1;
                assert!(tries < 100, "{:?}", pulse.health());
            }
            let health = pulse.health();
            assert_eq!((health.flush.lost, health.recording.dropped), (0, 0));
        }
    }

    async fn stored(&self, hour: i64, context: ContextId) -> Vec<u64> {
        let contexts = vec![context];
        let query = SlowRequestQuery { contexts, hour };
        let lists = self.store.slow_requests(&query).await.unwrap();
        let nanos: Vec<_> = lists[0].iter().map(|request| request.nanos).collect();
        let different: BTreeSet<_> = nanos.iter().collect();
        assert_eq!(different.len(), nanos.len(), "no request is listed twice");
        nanos
    }

    /// Whether all lists are the true ones.
    async fn is_true(&self) -> bool {
        let mut all: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        let mut is_true = true;
        for ((hour, context), served) in &self.served {
            let context = ContextId::new(Kind::Http, name(*context));
            is_true &= self.stored(*hour, context).await == slowest(served, 5);
            all.entry(*hour).or_default().extend(served);
        }
        assert_eq!(all.len(), 2);
        for (hour, served) in all {
            is_true &= self.stored(hour, ContextId::all()).await == slowest(&served, 100);
        }
        is_true
    }
}

fn name(context: usize) -> String {
    format!("GET /{context}")
}

fn slowest(served: &[u64], limit: usize) -> Vec<u64> {
    let mut slowest = served.to_vec();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    slowest.truncate(limit);
    slowest
}

/// Runs as often as `PULSE_RUNS` says, or twice.
#[tokio::test]
async fn the_slowest_of_a_million_requests_are_the_true_ones() {
    let runs = std::env::var("PULSE_RUNS").map_or(2, |runs| runs.parse().unwrap());
    let mut seeds = fastrand::Rng::with_seed(seed());
    let mut failed = Vec::new();
    for _ in 0..runs {
        let seed = seeds.u64(..);
        let mut fleet = Fleet::new(seed);
        for _ in 0..SECONDS {
            fleet.second().await;
        }
        fleet.settle().await;
        assert!(fleet.requests >= 1_000_000);
        if !fleet.is_true().await {
            failed.push(seed);
        }
    }
    let agreed = runs - failed.len();
    eprintln!("{agreed} of {runs} runs have the true lists; the others: {failed:?}");
    assert!(100 * agreed >= 99 * runs, "{failed:?}");
}
