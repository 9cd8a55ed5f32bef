//! Instances of a service that share a store and a manual clock, and a loader that counts its loads and fails on
//! demand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tower_pulse::row_cache::{RowCache, RowCacheBuilder, RowLoader};
use tower_pulse::{Clock, ManualClock, Pulse, StoreError};
use tower_pulse_core::row_lists::{RowList, RowsQuery};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::server::RedisServer;
use crate::rig::wait::{let_tasks_run, until};
use crate::stores::fixture::calls;

pub const NOW: i64 = 1_700_000_000;

pub trait List {
    async fn list(&self, offset: usize, limit: usize) -> Result<RowList, StoreError>;
}

impl List for RowCache {
    async fn list(&self, offset: usize, limit: usize) -> Result<RowList, StoreError> {
        let mut query = RowsQuery::default();
        (query.offset, query.limit) = (offset, Some(limit));
        tower_pulse_rows::list(self, &query).await
    }
}

pub struct Service {
    pub store: Arc<RedisStore>,
    pub clock: Clock,
    pub manual_clock: ManualClock,
    pub database: Database,
    pub server: Option<RedisServer>,
    /// The instances. Dropping an instance ends its tasks.
    pulses: Mutex<Vec<Pulse>>,
}

/// The result of a row's loads.
#[derive(Clone, Default)]
pub enum Mode {
    /// Returns the number of the load.
    #[default]
    Ok,
    Missing,
    Fail,
    /// Fails with a reason of many lines.
    FailAtLength,
    Panic,
    Hang,
    Huge,
    /// Asks the cache for other rows first.
    Asks(RowCache, Vec<String>),
}

/// A database. Each load returns a row with the number of the load.
#[derive(Clone, Default)]
pub struct Database(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    loads: HashMap<String, u64>,
    modes: HashMap<String, Mode>,
    /// For each row, the permits for which the row's loads wait.
    gates: HashMap<String, Arc<Semaphore>>,
    /// The rows whose loads have begun, in this order.
    order: Vec<String>,
    /// The number of loads in progress, except those that wait for other rows.
    running: usize,
    max_running: usize,
}

struct Running<'a>(&'a Database);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stock {
    pub load: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filling: String,
}

impl Database {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn loads(&self, id: &str) -> u64 {
        self.state().loads.get(id).copied().unwrap_or(0)
    }

    pub fn all_loads(&self) -> u64 {
        self.state().loads.values().sum()
    }

    pub fn set_mode(&self, id: &str, mode: Mode) {
        self.state().modes.insert(id.to_owned(), mode);
    }

    /// Makes each load of a row wait for a permit.
    pub fn gate(&self, id: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.state().gates.insert(id.to_owned(), gate.clone());
        gate
    }

    pub fn gate_of(&self, id: &str) -> Option<Arc<Semaphore>> {
        self.state().gates.get(id).cloned()
    }

    pub fn order(&self) -> Vec<String> {
        self.state().order.clone()
    }

    pub fn running(&self) -> usize {
        self.state().running
    }

    pub fn max_running(&self) -> usize {
        self.state().max_running
    }

    /// Lets later loads of a row end without a permit.
    pub fn remove_gate(&self, id: &str) {
        self.state().gates.remove(id);
    }
}

impl RowLoader for Database {
    type Row = Stock;
    type Error = String;

    async fn load(&self, id: String) -> Result<Option<Stock>, String> {
        let (load, mode) = {
            let mut state = self.state();
            state.order.push(id.clone());
            state.running += 1;
            state.max_running = state.max_running.max(state.running);
            let load = state.loads.entry(id.clone()).or_default();
            *load += 1;
            (*load, state.modes.get(&id).cloned().unwrap_or_default())
        };
        let running = Running(self);
        if let Some(gate) = self.gate_of(&id) {
            gate.acquire().await.unwrap().forget();
        }
        let_tasks_run().await;
        let filling = String::new();
        match mode {
            Mode::Ok => Ok(Some(Stock { load, filling })),
            Mode::Asks(cache, others) => {
                drop(running);
                let rows = others.iter().map(|other| cache.get_or_load::<Stock>(other));
                for row in join_all(rows).await {
                    row.map_err(|error| error.to_string())?;
                }
                Ok(Some(Stock { load, filling }))
            }
            Mode::Missing => Ok(None),
            Mode::Fail => Err(format!("load {load} failed")),
            Mode::FailAtLength => Err("1\n2 ü".repeat(50_000)),
            Mode::Panic => panic!("the loader panics, as the test wants"),
            Mode::Hang => std::future::pending().await,
            Mode::Huge => Ok(Some(Stock {
                load,
                filling: "x".repeat(2_000),
            })),
        }
    }
}

impl Service {
    fn new(options: RedisOptions, server: Option<RedisServer>) -> Self {
        let (clock, manual_clock) = Clock::manual(NOW);
        // On a busy machine, an answer may take longer than the default timeouts.
        let options = options.response_timeout(Duration::from_secs(2));
        let options = options.connection_timeout(Duration::from_secs(10));
        let store = RedisStore::open(options).unwrap();
        Self {
            store: Arc::new(store.with_clock(clock.clone())),
            clock,
            manual_clock,
            database: Database::default(),
            server,
            pulses: Mutex::default(),
        }
    }

    pub async fn redis() -> Self {
        let server = RedisServer::start().await;
        let options = RedisOptions::new(&server.url()).unwrap();
        Self::new(options.prefix(""), Some(server))
    }

    pub async fn cluster() -> Self {
        let cluster = crate::rig::shared::cluster().await;
        let options = RedisOptions::cluster(cluster.urls()).unwrap();
        Self::new(options.prefix(crate::rig::shared::prefix()), None)
    }

    pub async fn connection(&self) -> redis::aio::MultiplexedConnection {
        self.server.as_ref().unwrap().connection().await
    }

    /// The number of calls of these commands that the server has executed.
    pub async fn calls(&self, commands: &[&str]) -> u64 {
        let calls = calls(self.server.as_ref().unwrap()).await;
        let calls = commands.iter().filter_map(|command| calls.get(*command));
        calls.sum()
    }

    pub fn pulse(&self) -> Pulse {
        let builder = Pulse::builder().store(self.store.clone());
        let pulse = builder.clock(self.clock.clone()).build().unwrap();
        self.pulses.lock().unwrap().push(pulse.clone());
        pulse
    }

    /// The builder of a cache in a new instance.
    pub fn builder(&self) -> RowCacheBuilder<Database> {
        RowCache::builder(&self.pulse()).loader(self.database.clone())
    }

    pub fn cache(&self) -> RowCache {
        self.builder().build().unwrap()
    }

    /// Advances the clock in steps of 10 ms, because the task that refreshes rows sleeps many times.
    pub async fn advance(&self, millis: u64) {
        for _ in 0..millis.div_ceil(10) {
            self.manual_clock.advance(Duration::from_millis(10));
            let_tasks_run().await;
        }
    }

    pub async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        until(what, async || {
            self.manual_clock.advance(Duration::from_millis(10));
            condition().await
        })
        .await;
    }

    pub async fn until_loaded(&self, id: &str, loads: u64) {
        let what = format!("load {loads} of {id} begins");
        self.until(&what, async || self.database.loads(id) == loads)
            .await;
    }

    /// Waits until the cache has the result of the load with this number.
    pub async fn until_cached(&self, cache: &RowCache, id: &str, load: u64) {
        let what = format!("load {load} of {id} is cached");
        self.until(&what, async || {
            let row = cache.get::<Stock>(id).await.unwrap();
            row.is_some_and(|row| row.value.load == load)
        })
        .await;
    }
}
