//! The slowest and the newest failed requests of a fleet are the true ones, whatever its store does.

use crate::rig::reads::StoreOf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::SlowRequestQuery;
use tower_pulse_core::store::Store;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::hour_of;
use tower_pulse_model::slow_request::{FAILED_PER_CONTEXT, FAILED_PER_SECOND};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;

const INSTANCES: usize = 4;
const CONTEXTS: usize = 30;
/// The turn of an hour, in the middle of each run.
const TURN: i64 = 1_700_002_800;

struct Instance {
    pulse: Pulse,
    clock: Clock,
    manual_clock: ManualClock,
}

impl Instance {
    fn new(store: Arc<dyn Store>, second: i64) -> Self {
        let (clock, manual_clock) = Clock::manual(second);
        let pulse = Pulse::builder().store(store).clock(clock.clone());
        let (pulse, _tasks) = pulse.build_with_tasks().unwrap();
        Self {
            pulse,
            clock,
            manual_clock,
        }
    }
}

impl Instance {
    /// Drains, and appends what was drained, without waiting until it is folded. What cannot be appended now is
    /// appended later.
    async fn append(&self) {
        let _ = tokio::time::timeout(Duration::from_millis(60), self.pulse.flush()).await;
    }
}

/// The store of an instance.
fn store(proxy: &Proxy, clock: &Clock) -> Arc<dyn Store> {
    let options = RedisOptions::new(&proxy.url()).unwrap();
    let options = options.response_timeout(Duration::from_millis(100));
    let store = RedisStore::open(options).unwrap();
    Arc::new(store.with_clock(clock.clone()))
}

/// Draws the fault of the next second.
fn trouble(proxy: &Proxy, rng: &mut fastrand::Rng) {
    match rng.u32(..10) {
        0 => proxy.swallow_replies(rng.f64() * 0.5, rng.u64(..), Swallow::Cut),
        1 => proxy.truncate(rng.f64() * 0.5, rng.u64(..)),
        2 => proxy.cut(),
        3 => proxy.refuse(rng.bool()),
        4 => proxy.heal(),
        _ => {}
    }
}

/// A request that was served: when it ended, in Unix seconds, its duration in nanoseconds, and whether it failed.
type Served = (i64, u64, bool);

/// A fleet, its store, and all requests by hour and context.
struct Fleet {
    instances: Vec<Instance>,
    _server: RedisServer,
    proxy: Proxy,
    store_clock: (Clock, ManualClock),
    rng: fastrand::Rng,
    served: BTreeMap<(i64, usize), Vec<Served>>,
    /// How many requests of each context have failed since an instance drained last.
    failed: BTreeMap<usize, usize>,
    requests: usize,
}

impl Fleet {
    /// A fleet that begins so many seconds before the turn of the hour.
    async fn new(seconds: i64, seed: u64) -> Self {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        let store_clock = Clock::manual(TURN - seconds);
        // The clock of one instance is a second ahead.
        let start = |at: usize| TURN - seconds + i64::from(at == 1);
        let instance = |at| Instance::new(store(&proxy, &store_clock.0), start(at));
        Self {
            instances: (0..INSTANCES).map(instance).collect(),
            _server: server,
            proxy,
            store_clock,
            rng: fastrand::Rng::with_seed(seed),
            served: BTreeMap::new(),
            failed: BTreeMap::new(),
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
        // One in fifty fails, but no more in a second than are listed however fast they are.
        let failed = self.failed.entry(context).or_default();
        let has_failed = *failed < FAILED_PER_SECOND && self.rng.u32(..50) == 0;
        *failed += usize::from(has_failed);
        let status = match has_failed {
            true => StatusCode::BAD_GATEWAY,
            false => StatusCode::OK,
        };
        instance.pulse.record(&name, duration, status);
        let second = instance.clock.now_seconds();
        let served = self.served.entry((hour_of(second), context)).or_default();
        served.push((second, nanos, has_failed));
    }

    /// Serves so many requests in each of so many seconds, and in each instance.
    async fn run(&mut self, seconds: i64, requests: usize) {
        for _ in 0..seconds {
            let clocks = self.instances.iter().map(|one| &one.manual_clock);
            for clock in clocks.chain([&self.store_clock.1]) {
                clock.advance(Duration::from_secs(1));
            }
            trouble(&self.proxy, &mut self.rng);
            if self.rng.u32(..12) == 0 {
                self.restart().await;
            }
            let slowness = if self.rng.u32(..20) == 0 { 10.0 } else { 1.0 };
            for at in 0..INSTANCES {
                self.instances[at].pulse.simulation().drain();
                self.failed.clear();
                for _ in 0..requests {
                    self.request(at, slowness);
                }
                self.instances[at].append().await;
            }
        }
        self.settle().await;
    }

    /// One instance ends, if it can flush what it has, and another one starts.
    async fn restart(&mut self) {
        let at = self.rng.usize(..INSTANCES);
        let instance = &self.instances[at];
        if instance.pulse.flush().await.is_ok() {
            let _ = instance.pulse.shutdown().await;
            assert_eq!(instance.pulse.health().flush.lost, 0);
            let store = store(&self.proxy, &self.store_clock.0);
            self.instances[at] = Instance::new(store, instance.clock.now_seconds());
        }
    }

    async fn settle(&mut self) {
        self.proxy.heal();
        for at in 0..INSTANCES {
            self.failed.clear();
            self.request(at, 1.0);
            self.instances[at].append().await;
        }
        for one in &self.instances {
            let pulse = &one.pulse;
            let mut tries = 0;
            while let Err(error) = pulse.flush().await {
                tries += 1;
                assert!(tries < 100, "{error}: {:?}", pulse.health());
            }
            let health = pulse.health();
            assert_eq!((health.flush.lost, health.recording.dropped), (0, 0));
        }
    }

    /// The durations of the slowest requests of a context, and those of the newest failed ones.
    async fn stored(&self, hour: i64, context: ContextId) -> (Vec<u64>, Vec<u64>) {
        let contexts = vec![context];
        let query = SlowRequestQuery { contexts, hour };
        let store = self.instances[0].pulse.backend();
        let lists = store.query().slow_requests(&query).await.unwrap();
        let different: BTreeSet<_> = lists[0].iter().map(|request| request.nanos).collect();
        assert_eq!(
            different.len(),
            lists[0].len(),
            "no request is listed twice"
        );
        let slowest = lists[0].slowest().map(|request| request.nanos);
        let failed = lists[0].failed().map(|request| request.nanos);
        (slowest.collect(), failed.collect())
    }

    /// Whether all lists are the true ones.
    async fn is_true(&self) -> bool {
        let mut all: BTreeMap<i64, Vec<Served>> = BTreeMap::new();
        let mut is_true = true;
        for ((hour, context), served) in &self.served {
            let context = ContextId::new(Kind::Http, name(*context));
            let expected = (slowest(served, 5), newest_failed(served));
            is_true &= self.stored(*hour, context).await == expected;
            all.entry(*hour).or_default().extend(served);
        }
        assert_eq!(all.len(), 2);
        for (hour, served) in all {
            let expected = (slowest(&served, 100), Vec::new());
            is_true &= self.stored(hour, ContextId::all()).await == expected;
        }
        is_true
    }
}

fn name(context: usize) -> String {
    format!("GET /{context}")
}

fn slowest(served: &[Served], limit: usize) -> Vec<u64> {
    let mut slowest: Vec<_> = served.iter().map(|(_, nanos, _)| *nanos).collect();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    slowest.truncate(limit);
    slowest
}

/// Of those that ended in the same second, the slowest come first.
fn newest_failed(served: &[Served]) -> Vec<u64> {
    let mut failed: Vec<_> = served.iter().filter(|(_, _, failed)| *failed).collect();
    failed.sort_unstable_by(|a, b| b.cmp(a));
    let failed = failed.iter().map(|(_, nanos, _)| *nanos);
    failed.take(FAILED_PER_CONTEXT).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slowest_and_the_failed_of_a_million_requests_are_the_true_ones() {
    let mut fleet = Fleet::new(30, seed()).await;
    fleet.run(60, 1_000_000 / (60 * INSTANCES) + 1).await;
    assert!(fleet.requests >= 1_000_000);
    assert!(fleet.is_true().await);
}
