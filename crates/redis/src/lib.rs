//! The store of a fleet, in one Redis or Valkey: standalone, in a cluster, or behind Sentinel. This crate implements
//! the store traits of `tower-pulse-core` with the crate `redis`.
//!
//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.

// Read `keys` (all keys), `append` with `lua/hello.lua` (the journal's state) and `lua/append.lua` (appends a call
// once), `journal` with `lua/fold.lua` (writes a step once) and `encode` (the arguments of fold.lua). Then read
// `connection` with `topology` (finds the server), `commands`, `value` (reads replies), `read`, `large_keys`,
// `heartbeat`, `status`, `replaced_keys`, and `exports` (keys for programs in other languages).

mod append;
#[cfg(feature = "row-cache")]
mod cached_rows;
mod call_keys;
mod commands;
mod connection;
mod credentials;
mod encode;
mod error;
mod exports;
mod heartbeat;
mod journal;
mod keys;
mod large_keys;
mod options;
mod permissions;
mod read;
mod replaced_keys;
#[cfg(feature = "row-cache")]
pub mod rows;
mod script;
mod server;
mod status;
mod tables;
#[cfg(feature = "tls")]
mod tls;
mod topology;
mod value;

use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::time::Instant;

pub use credentials::RedisCredentials;
pub use options::RedisOptions;

use self::connection::Connections;
use self::keys::Keys;
use self::large_keys::LargeKeys;
use self::replaced_keys::ReplacedKeys;
use tower_pulse_core::clock::Clock;
use tower_pulse_core::condition::Warning;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::store::exports::Exports;
use tower_pulse_core::store::journal::Journal;
use tower_pulse_core::store::table_reads::TableReader;
use tower_pulse_core::store::{
    Cleaned, CounterQuery, CounterSeries, Fleet, Heartbeat, Pass, Query, RecordCache, Store,
    StoreFuture, StoreStatus, Upkeep,
};
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::slowest::{RANKING_LEN, RankedContext};
use tower_pulse_model::snapshot::FleetSnapshot;

/// The seconds for which a context stays among the slowest after its last sample, if the book's keys are not written.
const RANKED_SECONDS: i64 = 86_400;

/// A store in a Redis that a fleet shares.
///
/// The store does not retry. After an error of the kind [`TimedOut`](tower_pulse_core::error::StoreErrorKind::TimedOut)
/// or [`Unreachable`](tower_pulse_core::error::StoreErrorKind::Unreachable), the server may or may not have appended
/// the call. The caller must then send the call again with the same number.
pub struct RedisStore {
    connections: Connections,
    keys: Keys,
    options: RedisOptions,
    replaced_keys: ReplacedKeys,
    large_keys: LargeKeys,
    record_cache: RecordCache,
    /// The instance whose heartbeat was last given a time to live, and when.
    last_expiry: Mutex<Option<(String, Instant)>>,
    /// When the lists of quarantined keys, of rankings with several configurations and of silent instances were last
    /// read, in Unix seconds, and the number of quarantined writes at that time. `None` if any list had entries.
    last_listing: Mutex<Option<(i64, u64)>>,
    /// The reason why the server does not trim the journal, as the folder has stored it; empty if the server trims.
    untrimmed: Mutex<String>,
    /// When the server was last asked for INFO after a refusal, in Unix seconds.
    server_asked_at: AtomicI64,
    inspected_at: AtomicI64,
    sizes_asked_at: AtomicI64,
    /// Replaces the server's clock in tests.
    clock: Option<Clock>,
}

impl RedisStore {
    /// Opens a store in the server that `options` describe. The store connects on first use.
    ///
    /// # Errors
    /// Fails if keys with the prefix could be in several slots of a cluster.
    pub fn open(options: RedisOptions) -> Result<Self, BuildError> {
        let keys = Keys::new(options.prefix.clone());
        options.check_prefix()?;
        let connections = Connections::new(&options, &keys);
        Ok(Self {
            connections,
            keys,
            options,
            replaced_keys: ReplacedKeys::default(),
            large_keys: LargeKeys::default(),
            record_cache: RecordCache::default(),
            last_expiry: Mutex::default(),
            last_listing: Mutex::default(),
            untrimmed: Mutex::default(),
            server_asked_at: AtomicI64::default(),
            inspected_at: AtomicI64::default(),
            sizes_asked_at: AtomicI64::default(),
            clock: None,
        })
    }

    /// Takes the time from `clock` instead of the server, so that tests can skip an hour. Keys still expire by the
    /// server's clock.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The time by the clock of this process, in Unix seconds.
    fn now(&self) -> i64 {
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        clock.now_seconds()
    }
}

impl Store for RedisStore {
    fn precisions(&self) -> &Precisions {
        &self.options.precisions
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    fn query(&self) -> &dyn Query {
        self
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }

    fn describe(&self) -> String {
        let server = self.connections.server();
        let server = server.map_or_else(|| "redis".to_owned(), |server| server.name());
        let address = self.connections.address();
        format!("{server} at {address} (prefix {:?})", self.keys.prefix())
    }

    fn has_context_counters(&self) -> bool {
        self.options.book_keys
    }

    fn reset_remedy(&self) -> Option<&'static str> {
        Some(
            "look for FLUSHALL, a restart without persistence, evictions (use `maxmemory-policy \
             noeviction`) and a failover to an empty replica",
        )
    }

    fn conditions(&self) -> Vec<Warning> {
        let server = self.connections.server();
        let grant = self.connections.server_info.grant("info");
        let mut warnings = server.map_or_else(Vec::new, |server| server.warnings(&grant));
        warnings.extend(self.connections.topology.warning());
        warnings.extend(self.untrimmed_warning());
        warnings.extend(self.replaced_keys.warnings());
        warnings.extend(self.large_keys.warnings());
        warnings
    }
}

impl Query for RedisStore {
    fn tables(&self) -> &dyn TableReader {
        self
    }

    fn exports(&self) -> Option<&dyn Exports> {
        self.options.book_keys.then_some(self)
    }

    fn record_cache(&self) -> Option<&RecordCache> {
        Some(&self.record_cache)
    }

    fn fleet(&self, now: i64) -> StoreFuture<'_, FleetSnapshot> {
        Box::pin(self.read_fleet(now))
    }

    fn counters<'a>(&'a self, query: &'a CounterQuery) -> StoreFuture<'a, Vec<CounterSeries>> {
        Box::pin(self.read_counters(query))
    }

    fn counter_names<'a>(&'a self, precisions: &'a [u32]) -> StoreFuture<'a, Vec<String>> {
        Box::pin(self.read_counter_names(precisions))
    }

    fn slowest(&self, limit: usize) -> StoreFuture<'_, Vec<RankedContext>> {
        match self.exports() {
            Some(exports) => exports.slowest(limit.min(RANKING_LEN)),
            None => {
                let now = self.now();
                let since = now.saturating_sub(RANKED_SECONDS);
                let slowest = tower_pulse_core::store::read::slowest(self, since, limit, now);
                Box::pin(slowest)
            }
        }
    }
}

impl Upkeep for RedisStore {
    fn status(&self, now: i64) -> StoreFuture<'_, StoreStatus> {
        Box::pin(self.read_status(now))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> StoreFuture<'a, (Fleet, StoreStatus)> {
        Box::pin(self.write_heartbeat(heartbeat))
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.remove_heartbeat(instance))
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> StoreFuture<'a, Option<Cleaned>> {
        Box::pin(self.clean_once(pass))
    }
}
