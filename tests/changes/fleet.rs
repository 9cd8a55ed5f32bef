//! Instances on one store, whose clocks the test moves minute by minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use futures_util::future::try_join_all;
use http::StatusCode;
use serde_json::Value;
use tokio::task::JoinHandle;
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Change, Clock, ManualClock, Pulse, StoreError};
use tower_pulse_core::store::Precisions;
use tower_pulse_core::store::memory::MemoryStore;

use crate::changes::traffic::{Request, SEARCH, Traffic, slow_down};
use crate::rig::asking;
use crate::rig::fold::JournalKeys;
use crate::rig::seed::fixed_seed;
use crate::rig::server::RedisServer;
use crate::rig::wait::PATIENCE;

pub const MINUTE: i64 = 60;
/// The start of the first minute, which is the start of an hour.
pub const START: i64 = 1_700_002_800;

pub enum Backend {
    Memory(Arc<MemoryStore>, ManualClock),
    Redis(RedisServer),
}

impl Backend {
    pub fn memory() -> Self {
        let (clock, time) = Clock::manual(START);
        let store = MemoryStore::new(Precisions::default(), clock);
        Self::Memory(Arc::new(store), time)
    }

    pub async fn redis() -> Self {
        Self::Redis(RedisServer::start().await)
    }

    pub fn builder(&self) -> Builder {
        match self {
            Self::Memory(store, _) => Pulse::builder().store(store.clone()),
            // The machine may be busy with other tests.
            Self::Redis(server) => Pulse::builder()
                .redis(server.url())
                .redis_response_timeout(Duration::from_secs(5)),
        }
    }

    pub fn server(&self) -> &RedisServer {
        match self {
            Self::Redis(server) => server,
            Self::Memory(..) => panic!("the store is in memory"),
        }
    }
}

/// An instance whose only background task is the fold.
pub struct Instance {
    pub pulse: Pulse,
    pub clock: Clock,
    pub time: ManualClock,
    pub app: Router,
    /// Whether a flush has succeeded. Before the first success, `pending_series` may be 0 although samples are not
    /// appended yet.
    has_flushed: AtomicBool,
    folding: Vec<JoinHandle<()>>,
}

impl Instance {
    pub fn start(builder: Builder, name: &str, second: i64) -> Self {
        let (clock, time) = Clock::manual(second);
        let builder = builder.instance(name).clock(clock.clone());
        let (pulse, tasks) = builder.build_with_tasks().unwrap();
        let folding = tasks.into_iter().filter(|task| task.name() == "fold");
        let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
        Self {
            app,
            pulse,
            clock,
            time,
            has_flushed: AtomicBool::new(false),
            folding: folding.map(tokio::spawn).collect(),
        }
    }

    pub async fn get(&self, endpoint: &str) -> (StatusCode, String) {
        asking::text(&self.app, &format!("/pulse/{endpoint}")).await
    }

    /// The answer of an endpoint, which must have the status 200.
    pub async fn json(&self, endpoint: &str) -> Value {
        asking::json(&self.app, &format!("/pulse/{endpoint}")).await
    }

    fn is_folder(&self) -> bool {
        let journal = self.pulse.health().fold.journal;
        journal.is_some_and(|journal| journal.is_folder)
    }

    /// Flushes until a flush succeeds. Flushes fail while no instance folds, such as after the folder was killed.
    async fn flush(&self) -> Result<(), StoreError> {
        let start = Instant::now();
        loop {
            match self.pulse.flush().await {
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Ok(()) => {
                    self.has_flushed.store(true, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
    }

    /// Appends all samples to the journal, without waiting until they can be read.
    async fn append(&self) -> Result<(), StoreError> {
        if !self.has_flushed.load(Ordering::Relaxed) {
            return self.flush().await;
        }
        let appended = async {
            while self.pulse.health().recording.pending_series > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            flushed = self.flush() => flushed,
            () = appended => Ok(()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Ends the instance as if its process was killed.
        for task in &self.folding {
            task.abort();
        }
    }
}

pub struct Fleet {
    pub backend: Backend,
    pub instances: Vec<Instance>,
    /// The start of the next minute, in Unix seconds.
    pub now: i64,
    pub versions: Vec<Option<&'static str>>,
}

impl Fleet {
    pub fn new(backend: Backend, instances: usize) -> Self {
        Self::with_versions(backend, &vec![None; instances])
    }

    pub fn with_versions(backend: Backend, versions: &[Option<&'static str>]) -> Self {
        let mut fleet = Self {
            backend,
            instances: Vec::new(),
            now: START,
            versions: versions.to_vec(),
        };
        for number in 0..versions.len() {
            fleet.instances.push(fleet.start(number));
        }
        fleet
    }

    pub fn start(&self, number: usize) -> Instance {
        let mut builder = self.backend.builder();
        if let Some(version) = self.versions[number] {
            builder = builder.app_version(version);
        }
        Instance::start(builder, &format!("web-{}", number + 1), self.now)
    }

    /// Kills an instance, and starts it again.
    pub async fn restart(&mut self, number: usize) {
        let new = self.start(number);
        self.instances[number] = new;
        self.free_lease().await;
    }

    /// Kills an instance and starts another version.
    pub async fn deploy(&mut self, number: usize, version: &'static str) {
        self.versions[number] = Some(version);
        self.restart(number).await;
    }

    /// Deploys a version to the first instances, and sends heartbeats, so that all instances know the version.
    pub async fn deploy_to_first(&mut self, instances: usize, version: &'static str) {
        for number in 0..instances {
            self.deploy(number, version).await;
        }
        self.set_clocks(self.now);
        // Heartbeats mark the version, then announce it, and then learn the versions of the other instances.
        self.heartbeat().await;
        self.flush().await.unwrap();
        self.heartbeat().await;
        self.heartbeat().await;
    }

    /// Frees the lease of a killed folder, which would otherwise end only after some seconds.
    async fn free_lease(&self) {
        if let Backend::Redis(server) = &self.backend {
            let mut conn = server.connection().await;
            JournalKeys::below("pulse:").free_lease(&mut conn).await;
        }
    }

    pub fn set_clocks(&self, second: i64) {
        if let Backend::Memory(_, time) = &self.backend {
            time.set_wall(second);
        }
        for instance in &self.instances {
            instance.time.set_wall(second);
        }
    }

    pub async fn heartbeat(&self) {
        for instance in &self.instances {
            instance.pulse.simulation().heartbeat().await.unwrap();
        }
    }

    /// Records requests in the middle of a minute, and ends the minute. No instance judges the minute.
    pub async fn pass(&mut self, requests: &[Request]) {
        self.pass_with(requests, async |_| {}).await;
    }

    /// Like [`Self::pass`], but also calls `record_more` in the middle of the minute.
    pub async fn pass_with(&mut self, requests: &[Request], record_more: impl AsyncFnOnce(&Self)) {
        self.set_clocks(self.now);
        self.heartbeat().await;
        self.record(self.now + 30, requests);
        record_more(self).await;
        for instance in &self.instances {
            instance.pulse.simulation().drain();
        }
        self.now += MINUTE;
        self.set_clocks(self.now);
        self.flush().await.unwrap();
    }

    pub fn record(&self, second: i64, requests: &[Request]) {
        self.set_clocks(second);
        for instance in &self.instances {
            // After this drain, samples count in the clock's current second.
            instance.pulse.simulation().drain();
        }
        for request in requests {
            let status = StatusCode::from_u16(request.status).unwrap();
            let pulse = &self.instances[request.instance].pulse;
            pulse.record(&request.context, request.duration, status);
        }
    }

    /// Flushes all instances, the folder last.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let instances = self.instances.iter();
        let Some(folder) = self.instances.iter().position(Instance::is_folder) else {
            let flushes = instances.map(Instance::flush);
            return try_join_all(flushes).await.map(drop);
        };
        let others = instances.enumerate();
        let others = others.filter(|(number, _)| *number != folder);
        try_join_all(others.map(|(_, instance)| instance.append())).await?;
        self.instances[folder].flush().await
    }

    /// Passes a minute, and lets the first instance judge it. Returns the ongoing changes.
    pub async fn pass_and_judge(&mut self, requests: &[Request]) -> Vec<Change> {
        self.pass(requests).await;
        assert_eq!(self.judge().await, 1, "minutes judged");
        self.ongoing().await
    }

    /// Passes minutes of usual traffic, each of which the first instance judges.
    pub async fn usual(&mut self, traffic: &mut Traffic, minutes: usize) {
        for _ in 0..minutes {
            self.pass_and_judge(&traffic.minute()).await;
        }
    }

    /// Passes minutes in which [`SEARCH`] takes three times as long, each of which the first instance judges.
    pub async fn slow(&mut self, traffic: &mut Traffic, minutes: usize) {
        for _ in 0..minutes {
            let mut requests = traffic.minute();
            slow_down(&mut requests, SEARCH, 3.0);
            self.pass_and_judge(&requests).await;
        }
    }

    /// Passes 45 minutes without a change, and then five minutes with a slow page. The change of this page is ongoing.
    pub async fn with_a_slow_page(backend: Backend) -> (Self, Traffic) {
        let mut fleet = Self::new(backend, 1);
        let mut traffic = Traffic::new(fixed_seed(), 1);
        fleet.usual(&mut traffic, 45).await;
        assert_eq!(named(&fleet.ongoing().await), []);
        fleet.slow(&mut traffic, 5).await;
        assert_eq!(named(&fleet.ongoing().await), [("slower", SEARCH)]);
        (fleet, traffic)
    }

    pub async fn judge(&self) -> usize {
        self.judge_by(0).await
    }

    /// Lets an instance judge. Returns the number of judged minutes.
    pub async fn judge_by(&self, number: usize) -> usize {
        let simulation = self.instances[number].pulse.simulation();
        simulation.judge().await.unwrap()
    }

    pub async fn changes(&self) -> Vec<Change> {
        self.instances[0].pulse.changes().await.unwrap()
    }

    pub async fn ongoing(&self) -> Vec<Change> {
        let mut changes = self.changes().await;
        changes.retain(|change| change.ended.is_none());
        changes
    }
}

/// The kinds and contexts of changes.
pub fn named(changes: &[Change]) -> Vec<(&str, &str)> {
    let names = changes
        .iter()
        .map(|change| (change.kind.as_str(), &*change.context));
    names.collect()
}
