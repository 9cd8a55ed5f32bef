//! Redis' memory hardly grows on the third day of a fleet's traffic on 60 active contexts.

use std::sync::Arc;

use redis::pipe;
use tower_pulse::Clock;
use tower_pulse_core::store::Store;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, Precisions};

use crate::cleaning::raw_redis::{PREFIX, keys};
use crate::rig::server::{RedisServer, issue};
use crate::stores::fixture::{THIS_HOUR, Writer, aggregate_of, call, pass_of, redis_store};

/// A text that the keys of six-hour records contain.
const WIDEST: &[u8] = b":r1:21600:";
/// A text that the keys of the profiles contain.
const PROFILES: &[u8] = b"pulse:profiles1:";
const CONTEXTS: u64 = 60;
/// The number of groups of contexts. The contexts of a group get the same samples.
const VARIANTS: usize = 10;
/// Samples of a context per second.
const REQUESTS: usize = 12;
/// The seconds between two additions of traffic: an hour, so that every slice of an hour, five hours and a day exists.
/// Shorter slices have gaps: a new slice then removes at most one old slice, and the cleaner must remove the others.
const INTERVAL: i64 = HOUR;
/// The highest cost of a call, in commands.
const COST: usize = 1_000;

const PASS_TIME: &str = "
for _, key in ipairs(redis.call('KEYS', 'pulse:pulse:r1:*')) do
  local left = redis.call('TTL', key)
  assert(left > 0, 'records that never expire')
  redis.call('EXPIRE', key, left - ARGV[1])
end";

struct Fleet {
    server: RedisServer,
    store: Arc<dyn Store>,
    writer: Writer,
    names: Vec<Arc<str>>,
    seq: u64,
}

impl Fleet {
    async fn send(&mut self, mut batch: Batch) {
        while !batch.is_empty() {
            self.seq += 1;
            let call = call("fleet", self.seq, batch.split(COST));
            self.writer.apply(&call).await.unwrap();
        }
    }

    async fn send_traffic(&mut self, rng: &mut fastrand::Rng, seconds: &[i64]) {
        for variant in 0..VARIANTS {
            let mut batch = Batch::new(Precisions::default());
            let first = self.names[variant].clone();
            for second in seconds {
                let nanos = [(); REQUESTS].map(|()| (1e6 * 10f64.powf(2.5 * rng.f64())) as u64);
                let aggregate = aggregate_of(&nanos, Outcome::Success);
                batch.add(&first, Kind::Http, *second, &aggregate);
            }
            let first = ContextId::new(Kind::Http, first);
            let delta = batch.contexts.get(&first).unwrap().clone();
            for name in self.names.iter().skip(variant).step_by(VARIANTS) {
                let context = ContextId::new(Kind::Http, name.clone());
                batch.contexts.insert(context, delta.clone());
            }
            self.send(batch).await;
        }
    }

    async fn clean(&self, now: i64) {
        let pass = pass_of("fleet", now, 60);
        let cleaned = self.store.upkeep().clean(&pass).await.unwrap().unwrap();
        assert_eq!(cleaned.skipped, None);
    }

    /// Shortens the time to live of the records' keys, which expire by the server's own clock.
    async fn pass_time(&self, seconds: i64) {
        let conn = &mut self.server.connection().await;
        let () = issue(conn, "EVAL", (PASS_TIME, 0, seconds)).await;
    }

    /// The bytes of the keys, and the bytes of the server without the buffers of connections. Both leave out the
    /// records of six hours, which grow for fifteen days, and the profiles, which grow for a week.
    async fn memory(&self) -> [u64; 2] {
        let conn = &mut self.server.connection().await;
        let mut keys = keys(conn, "*").await;
        let is_part =
            |key: &[u8], part: &[u8]| key.windows(part.len()).any(|window| window == part);
        let is_growing = |key: &Vec<u8>| is_part(key, WIDEST) || is_part(key, PROFILES);
        keys.sort_by_key(is_growing);
        let mut pipeline = pipe();
        for key in &keys {
            let memory = pipeline.cmd("MEMORY").arg("USAGE").arg(key);
            memory.arg("SAMPLES").arg(0);
        }
        let sizes: Vec<u64> = pipeline.query_async(conn).await.unwrap();
        let (flat, growing) = sizes.split_at(keys.partition_point(|key| !is_growing(key)));
        let info = self.server.info("memory").await;
        let [all, buffers]: [u64; 2] =
            ["used_memory", "mem_clients_normal"].map(|field| info[field].parse().unwrap());
        let growing: u64 = growing.iter().sum();
        [flat.iter().sum(), all - buffers - growing]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_days_of_traffic_leave_memory_flat() {
    let server = RedisServer::start().await;
    let (clock, manual_clock) = Clock::manual(THIS_HOUR);
    let store = redis_store(&server.url(), PREFIX).with_clock(clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let mut fleet = Fleet {
        server,
        writer: Writer::new(store.clone(), clock),
        store,
        names: (0..CONTEXTS)
            .map(|n| format!("GET /api/v1/things-{n}/{{id}}").into())
            .collect(),
        seq: 0,
    };
    let mut rng = fastrand::Rng::with_seed(11);
    let mut measured = Vec::new();
    for hour in 1..=72 {
        let now = THIS_HOUR + hour * INTERVAL;
        manual_clock.set_wall(now);
        fleet.pass_time(INTERVAL).await;
        let mut seconds = vec![now];
        let is_measured = [48, 72].contains(&hour);
        if is_measured {
            // A second in each retained slice of up to a minute.
            let widths = [1, 5, 60].into_iter();
            let starts = widths.flat_map(|width| (0..120).map(move |n| now - width * n));
            seconds = starts.collect();
            seconds.sort_unstable();
            seconds.dedup();
        }
        fleet.send_traffic(&mut rng, &seconds).await;
        if hour % 3 == 0 {
            fleet.clean(now).await;
        }
        if is_measured {
            measured.push(fleet.memory().await);
        }
    }
    println!("bytes of all keys and of the server after 48 and 72 h: {measured:?}");
    let per_context = measured[1][0] / CONTEXTS;
    assert!(per_context < 64 * 1024, "{per_context} bytes per context");
    // Until counters have 120 slices of an hour and longer, they grow by a few hundred bytes a day and context. The
    // server doubles a hash table when it is full. A leak would make memory grow by half.
    for (at, most) in [0.05, 0.08].into_iter().enumerate() {
        let growth = measured[1][at] as f64 / measured[0][at] as f64 - 1.0;
        assert!(growth < most, "{measured:?} grew by {growth:.3}");
    }
}
