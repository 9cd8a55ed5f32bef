//! The server whose data the processes share. Its clock stands still between steps, and its data can be reset to a
//! snapshot taken a few scripts ago.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::rig::reads::StoreReads;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};
use tokio::runtime::{Builder, Runtime};
use tower_pulse::model::histogram::Histogram;
use tower_pulse::model::ranking::RankingState;
use tower_pulse::model::slice::{Precision, Precisions};
use tower_pulse::store::Query;
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::{Clock, ManualClock, StoreError};

use crate::net::{Reply, Request};
use crate::rig::server::RedisServer;

/// The server's databases; the first one is used, the others hold snapshots.
pub const DATABASES: usize = 16;
/// Bytes at which the journal is full: the size of a few calls.
const JOURNAL_BYTES: u64 = 6_000;
/// The scale of the coarsest histograms. The index of a bucket of a finer histogram is shifted to this scale.
const FINE_SCALE: u8 = 2;

/// Replaces the keys of a database by copies of the keys of another.
const COPY: &str = "
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', ARGV[2]) end";

/// Appends an entry of a later version, as an instance of a later version of this crate would.
const APPEND_NEWER: &str = "
local head, low = unpack(redis.call('HMGET', 'pulse:state', 'head', 'low'))
if not head then return 0 end
local id = string.format('%.0f-7', string.match(head, '^%d+') + 2)
local added = redis.pcall('XADD', 'pulse:journal', id, 'i', 'newer', 's', 1, 't', ARGV[1], 'v', 9, 'n', 1, 'p', '?')
if added.err then return 0 end -- An entry of another program is in the way.
redis.call('HSET', 'pulse:state', 'head', id, 'need', 9)
if low == head then redis.call('HSET', 'pulse:state', 'oldest', ARGV[1]) end
return 1";

/// Adds an entry to the journal as another program does: at the server's time, or a little behind the newest entry.
const ADD_FOREIGN: &str = "
local head = redis.call('HGET', 'pulse:state', 'head')
if not head then return 0 end
local id = ARGV[1] == '' and '*' or string.format('%.0f-7', string.match(head, '^%d+') + ARGV[1])
return redis.pcall('XADD', 'pulse:journal', id, 'foo', 'bar').err and 0 or 1";

/// A server, a store in it, and the clock of both.
pub struct Data {
    io: Runtime,
    connection: MultiplexedConnection,
    pub store: RedisStore,
    pub manual_clock: ManualClock,
    clock: Clock,
    _server: RedisServer,
}

/// The precisions of these tests: an hour, and a minute whose many slices make steps large.
pub fn precisions() -> Precisions {
    Precisions {
        counters: vec![Precision::new(60, 10_000), Precision::new(3_600, 120)],
    }
}

impl Data {
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
            store,
            manual_clock,
            clock,
            _server: server,
        }
    }

    /// Runs a future on the store.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.io.block_on(future)
    }

    /// Makes a call.
    pub fn run(&self, request: &Request) -> Result<Reply, StoreError> {
        self.io.block_on(request.run(&self.store))
    }

    /// Sends a command.
    pub fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let mut connection = self.connection.clone();
        let reply = self.io.block_on(command.query_async(&mut connection));
        reply.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes one database the copy of another.
    pub fn copy(&self, from: usize, to: usize) {
        let () = self.query(cmd("EVAL").arg(COPY).arg(0).arg(from).arg(to));
    }

    /// Empties everything, snapshots included.
    pub fn clear(&self) {
        let () = self.query(&cmd("FLUSHALL"));
    }

    pub fn now(&self) -> i64 {
        self.clock.now_seconds()
    }

    /// The fields of the state; empty when there is none.
    pub fn state(&self) -> HashMap<String, String> {
        self.query(cmd("HGETALL").arg("pulse:state"))
    }

    /// Whether all entries of the journal are folded.
    pub fn is_folded(&self) -> bool {
        let (low, head): (Option<String>, Option<String>) =
            self.query(cmd("HMGET").arg("pulse:state").arg(&["low", "head"]));
        low == head
    }

    /// Whether no instance folds, as entries of a later version wait.
    pub fn waits_for_newer(&self) -> bool {
        let is_noted = self
            .state()
            .get("newer")
            .is_some_and(|newer| !newer.is_empty());
        let is_held: bool = self.query(cmd("EXISTS").arg("pulse:lease:fold"));
        is_noted && !is_held && !self.is_folded()
    }

    /// Appends as an instance of a later version. `false` if there is no journal yet, or it takes no entry.
    pub fn append_newer(&self) -> bool {
        self.query(cmd("EVAL").arg(APPEND_NEWER).arg(0).arg(self.now()))
    }

    /// Adds an entry to the journal as another program does, `behind` bytes behind the newest entry, or at the
    /// server's time. `false` if there is no journal yet, or no room for the entry.
    pub fn add_foreign(&self, behind: Option<u64>) -> bool {
        let behind = behind.map_or_else(String::new, |behind| behind.to_string());
        self.query(cmd("EVAL").arg(ADD_FOREIGN).arg(0).arg(behind))
    }

    /// The slices of a counter.
    pub fn counter(&self, precision: u32, name: &str) -> BTreeMap<String, i64> {
        self.query(cmd("HGETALL").arg(format!("count:{precision}:{name}")))
    }

    /// The counts of the statistics of a context: of this hour and of the last.
    pub fn statistics(&self, context: &str) -> (u64, u64) {
        let key = format!("stats:{context}:AccessTime");
        let count = |key: String| -> u64 {
            let count: Option<f64> = self.query(cmd("ZSCORE").arg(key).arg("count"));
            count.unwrap_or(0.0) as u64
        };
        (count(key.clone()), count(key + ":last"))
    }

    /// The sums of a ranking by request, and those of its slices.
    pub fn ranking(&self, name: &str) -> [BTreeMap<usize, i64>; 2] {
        let totals: Vec<(usize, f64)> = self.query(
            cmd("ZRANGE")
                .arg(format!("stats_{name}"))
                .arg(&["0", "-1", "WITHSCORES"]),
        );
        let totals = totals.into_iter().map(|(id, n)| (id, n as i64)).collect();
        let state: Option<String> = self.query(cmd("HGET").arg("pulse:rankings").arg(name));
        let state = state.map_or_else(Default::default, |state| {
            let state = RankingState::from_text(&state);
            state.expect("the state of a ranking").slices
        });
        let mut sums = BTreeMap::new();
        for start in state {
            let slice: Vec<(usize, i64)> =
                self.query(cmd("HGETALL").arg(format!("slot_{name}_{start}")));
            for (id, n) in slice {
                *sums.entry(id).or_default() += n;
            }
        }
        [totals, sums]
    }

    /// How often each request is in the minutes of the instances, and in those of the versions.
    pub fn reported(&self) -> [BTreeMap<usize, u64>; 2] {
        let keys: Vec<String> = self.query(cmd("KEYS").arg("pulse:by_*1:*"));
        let minutes = keys
            .iter()
            .filter_map(|key| key.split(':').nth(2)?.parse().ok());
        let mut minutes: Vec<i64> = minutes.collect();
        minutes.sort_unstable();
        minutes.dedup();
        let (instances, versions) = self.io.block_on(async {
            let instances = self.store.minute_reports(&minutes).await.unwrap();
            (
                instances,
                self.store.version_records(&minutes).await.unwrap(),
            )
        });
        let instances = instances.iter().flatten().flat_map(|one| &one.records);
        let versions = versions.iter().flat_map(|one| &one.records);
        [
            requests_of(instances.map(|(_, sums)| &sums.histogram)),
            requests_of(versions.map(|(_, sums)| &sums.histogram)),
        ]
    }

    /// How often each request is in the records of a context. Each request has a bucket of its own, also in a coarse
    /// histogram.
    pub fn records(&self, context: &str, tier: u32) -> BTreeMap<usize, u64> {
        let records = self.store.records_of(context, tier, self.now());
        let mut counts = BTreeMap::new();
        for (_, record) in self.io.block_on(records).unwrap() {
            let shift = record.histogram.scale() - FINE_SCALE;
            for (bucket, n) in record.histogram.buckets() {
                *counts.entry(usize::from(*bucket >> shift)).or_default() += n;
            }
            let buckets = record.histogram.buckets().iter();
            let counted: u64 = buckets.map(|(_, n)| n).sum();
            assert_eq!(counted, record.times.count, "a record contradicts itself");
        }
        counts
    }
}

/// How often each request is in histograms of the fine scale.
fn requests_of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> BTreeMap<usize, u64> {
    let mut counts = BTreeMap::new();
    for (bucket, n) in histograms.flat_map(|histogram| histogram.buckets()) {
        *counts.entry(usize::from(*bucket >> 2)).or_default() += n;
    }
    counts
}
