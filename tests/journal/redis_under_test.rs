//! The Redis server of a [`TestedStore`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};
use tokio::runtime::{Builder, Runtime};
use tower_pulse::{Clock, ManualClock};
use tower_pulse_core::store::Store;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::ranking::RankingState;
use tower_pulse_model::slice::{Precision, Precisions};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::journal::tested_store::TestedStore;
use crate::rig::server::RedisServer;

/// The number of the server's databases. The store uses the first; the others contain snapshots.
const DATABASES: usize = 16;
/// Bytes at which the journal is full: the size of a few calls.
const JOURNAL_BYTES: u64 = 6_000;

/// Replaces the keys of the database ARGV[2] by copies of the keys of the database ARGV[1].
const COPY: &str = "
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', ARGV[2]) end";

/// Appends an entry as an instance of a later version does.
const APPEND_NEWER: &str = "
local head, low = unpack(redis.call('HMGET', 'pulse:state', 'head', 'low'))
if not head then return 0 end
local id = string.format('%.0f-7', string.match(head, '^%d+') + 2)
local added = redis.pcall('XADD', 'pulse:journal', id, 'i', 'newer', 's', 1, 't', ARGV[1], 'v', 9, 'n', 1, 'p', '?')
if added.err then return 0 end -- Another program has added an entry with a higher id.
redis.call('HSET', 'pulse:state', 'head', id, 'need', 9)
if low == head then redis.call('HSET', 'pulse:state', 'oldest', ARGV[1]) end
return 1";

/// Adds an entry to the journal as another program does. The id is the server's time, or the newest entry's offset plus
/// ARGV[1].
const ADD_FOREIGN: &str = "
local head = redis.call('HGET', 'pulse:state', 'head')
if not head then return 0 end
local id = ARGV[1] == '' and '*' or string.format('%.0f-7', string.match(head, '^%d+') + ARGV[1])
return redis.pcall('XADD', 'pulse:journal', id, 'foo', 'bar').err and 0 or 1";

pub struct RedisUnderTest {
    io: Runtime,
    connection: MultiplexedConnection,
    pub store: Arc<RedisStore>,
    pub manual_clock: ManualClock,
    clock: Clock,
    _server: RedisServer,
}

/// The precisions of these tests. The many slices of a minute make steps large.
pub fn precisions() -> Precisions {
    let mut precisions = Precisions::default();
    precisions.counters = vec![Precision::new(60, 10_000), Precision::new(3_600, 120)];
    precisions
}

impl RedisUnderTest {
    pub fn start() -> Self {
        Self::with_journal_bytes(JOURNAL_BYTES)
    }

    /// Starts a server with a journal that is full at `bytes`.
    pub fn with_journal_bytes(bytes: u64) -> Self {
        let io = Builder::new_current_thread().enable_all().build().unwrap();
        let databases = DATABASES.to_string();
        let server = RedisServer::builder().arg("--databases", &databases);
        let server = io.block_on(server.start());
        let connection = io.block_on(server.connection());
        let (clock, manual_clock) = Clock::manual(0);
        let timeout = Duration::from_secs(10);
        let options = RedisOptions::new(&server.url()).unwrap();
        let options = options.precisions(precisions()).journal_bytes(bytes);
        let options = options
            .response_timeout(timeout)
            .connection_timeout(timeout);
        let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
        Self {
            io,
            connection,
            store: Arc::new(store),
            manual_clock,
            clock,
            _server: server,
        }
    }

    /// Runs a future on the runtime of the store's connections.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.io.block_on(future)
    }

    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let mut connection = self.connection.clone();
        let reply = self.io.block_on(command.query_async(&mut connection));
        reply.unwrap_or_else(|error| panic!("{error}"))
    }

    fn copy(&self, from: usize, to: usize) {
        let () = self.query(cmd("EVAL").arg(COPY).arg(0).arg(from).arg(to));
    }

    /// The fields of the state; empty if there is no state.
    pub fn state(&self) -> HashMap<String, String> {
        self.query(cmd("HGETALL").arg("pulse:state"))
    }

    /// Whether entries of a later version wait, so no instance folds.
    pub fn is_waiting_for_newer(&self) -> bool {
        let state = self.state();
        let is_noted = state.get("newer").is_some_and(|newer| !newer.is_empty());
        let is_held: bool = self.query(cmd("EXISTS").arg("pulse:lease:fold"));
        is_noted && !is_held && !self.is_folded()
    }

    /// Returns `false` if there is no journal yet, or the journal accepts no entry.
    pub fn append_newer(&self) -> bool {
        self.query(cmd("EVAL").arg(APPEND_NEWER).arg(0).arg(self.now()))
    }

    /// Adds an entry. Its id is the newest entry's offset plus `distance`, or the server's time for `None`. Returns
    /// `false` if there is no journal yet, or the stream has a higher id.
    pub fn add_foreign(&self, distance: Option<u64>) -> bool {
        let distance = distance.map_or_else(String::new, |bytes| bytes.to_string());
        self.query(cmd("EVAL").arg(ADD_FOREIGN).arg(0).arg(distance))
    }
}

impl TestedStore for RedisUnderTest {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn io(&self) -> &Runtime {
        &self.io
    }

    fn manual_clock(&self) -> &ManualClock {
        &self.manual_clock
    }

    fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    fn clear(&self) {
        let () = self.query(&cmd("FLUSHALL"));
    }

    fn lose_all(&self) {
        let () = self.query(&cmd("FLUSHDB"));
    }

    fn save(&self, number: usize) {
        self.copy(0, number);
    }

    fn restore(&self, number: usize) {
        self.copy(number, 0);
    }

    fn generation(&self) -> Option<(String, i64)> {
        let mut state = self.state();
        let created = state.get("created").and_then(|at| at.parse().ok());
        Some((state.remove("gen")?, created.unwrap_or(0)))
    }

    fn fence(&self, instance: &str) -> u64 {
        let state = self.state();
        let fence = state.get(&format!("f:{instance}"));
        fence.map_or(0, |fence| fence.split(' ').next().unwrap().parse().unwrap())
    }

    fn is_folded(&self) -> bool {
        let (low, head): (Option<String>, Option<String>) =
            self.query(cmd("HMGET").arg("pulse:state").arg(&["low", "head"]));
        low == head
    }

    fn counted(&self, exception: &str) -> u64 {
        let state = self.state();
        state.get(exception).map_or(0, |n| n.parse().unwrap())
    }

    fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64> {
        self.query(cmd("HGETALL").arg(format!("count:{precision}:{name}")))
    }

    fn statistics(&self, context: &str) -> Option<(u64, u64)> {
        let key = format!("stats:{context}:AccessTime");
        let count = |key: String| -> u64 {
            let count: Option<f64> = self.query(cmd("ZSCORE").arg(key).arg("count"));
            count.unwrap_or(0.0) as u64
        };
        Some((count(key.clone()), count(key + ":last")))
    }

    fn ranking(&self, name: &str) -> [BTreeMap<usize, i64>; 2] {
        let range = (format!("stats_{name}"), 0, -1, "WITHSCORES");
        let totals: Vec<(usize, f64)> = self.query(cmd("ZRANGE").arg(range));
        let totals = totals.into_iter().map(|(id, n)| (id, n as i64)).collect();
        let state: Option<Vec<u8>> = self.query(cmd("HGET").arg("pulse:rankings").arg(name));
        let state = state.map_or_else(Default::default, |state| {
            let state = unpack::<RankingState>(&state);
            state.expect("the state of a ranking").slices
        });
        let mut sums = BTreeMap::new();
        for start in state.iter() {
            let slice: Vec<(usize, i64)> =
                self.query(cmd("HGETALL").arg(format!("slot_{name}_{start}")));
            for (id, n) in slice {
                *sums.entry(id).or_default() += n;
            }
        }
        [totals, sums]
    }

    fn reported_minutes(&self) -> Vec<i64> {
        let keys: Vec<String> = self.query(cmd("KEYS").arg("pulse:by_*1:*"));
        let minutes = keys
            .iter()
            .filter_map(|key| key.split(':').nth(2)?.parse().ok());
        let mut minutes: Vec<i64> = minutes.collect();
        minutes.sort_unstable();
        minutes.dedup();
        minutes
    }

    fn redis(&self) -> Option<&RedisUnderTest> {
        Some(self)
    }
}
