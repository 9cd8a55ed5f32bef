//! Three days of a fleet's traffic on 200 contexts, all of them active, leave Redis' memory flat.

use std::sync::Arc;

use redis::pipe;
use tower_pulse::Clock;
use tower_pulse_core::store::Store;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, Precisions};

use crate::fixture::{ApplyOutcome, THIS_HOUR, Writer, aggregate_of, call, pass_of, redis_store};
use crate::raw_redis::{PREFIX, ask, keys};
use crate::rig::server::RedisServer;

/// A part of the keys of records of the coarsest tier.
const WIDEST: &[u8] = b":r1:21600:";
/// A part of the names of the keys of the profiles.
const PROFILES: &[u8] = b"pulse:profiles1:";
const CONTEXTS: u64 = 200;
/// Samples of a context per second.
const REQUESTS: usize = 12;
/// Seconds between two calls: an hour, so that every slice of an hour, five hours and a day exists. No sample comes
/// between two calls, so that only the cleaner removes slices of seconds and minutes. Before memory is measured, a
/// call fills every slice of up to five minutes.
const STEP: i64 = HOUR;
/// Commands per call.
const COST: usize = 1_000;

struct Fleet {
    server: RedisServer,
    store: Arc<dyn Store>,
    writer: Writer,
    precisions: Precisions,
    names: Vec<Arc<str>>,
    seq: u64,
}

impl Fleet {
    async fn send(&mut self, mut batch: Batch) {
        while !batch.is_empty() {
            self.seq += 1;
            let call = call("fleet", self.seq, batch.split(COST));
            let applied = self.writer.apply(&call).await.unwrap();
            assert!(matches!(applied, ApplyOutcome::Merged(_)));
        }
    }

    /// Sends samples of all contexts at these seconds. Every tenth context has the same samples.
    async fn traffic(&mut self, rng: &mut fastrand::Rng, seconds: &[i64]) {
        for variant in 0..10 {
            let (mut batch, first) = (
                Batch::new(self.precisions.clone()),
                self.names[variant].clone(),
            );
            for second in seconds {
                let nanos: Vec<u64> = (0..REQUESTS)
                    .map(|_| (1e6 * 10f64.powf(2.5 * rng.f64())) as u64)
                    .collect();
                let aggregate = aggregate_of(&nanos, Outcome::Success);
                batch.add(&first, Kind::Http, *second, &aggregate);
            }
            let delta = batch
                .contexts
                .get(&ContextId::new(Kind::Http, first))
                .expect("it is in it")
                .clone();
            for name in self.names.iter().skip(variant).step_by(10) {
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

    /// Shortens the time to live of the records' keys, which expire by the server's own time.
    async fn pass_time(&self, seconds: i64) {
        let conn = &mut self.server.connection().await;
        for key in keys(conn, "pulse:pulse:r1:*").await {
            let left: i64 = ask(conn, "TTL", &key).await;
            assert!(left > 0, "records that never expire");
            let _: i64 = ask(conn, "EXPIRE", (key, left - seconds)).await;
        }
    }

    /// What all keys take, and what the server takes for data of any kind (buffers of connections, which
    /// come and go, left out), without the slices of six hours and
    /// the profiles: these are flat after fifteen days and after a week only.
    async fn memory(&self) -> (u64, u64) {
        let conn = &mut self.server.connection().await;
        let keys = keys(conn, "*").await;
        let (mut sum, mut widest) = (0, 0);
        for keys in keys.chunks(500) {
            let mut pipeline = pipe();
            for key in keys {
                pipeline
                    .cmd("MEMORY")
                    .arg("USAGE")
                    .arg(key)
                    .arg("SAMPLES")
                    .arg(0);
            }
            let sizes: Vec<u64> = pipeline.query_async(conn).await.unwrap();
            for (key, size) in keys.iter().zip(sizes) {
                let is_widest = [WIDEST, PROFILES]
                    .iter()
                    .any(|name| key.windows(name.len()).any(|part| part == *name));
                *(if is_widest { &mut widest } else { &mut sum }) += size;
            }
        }
        let info = self.server.info("memory").await;
        let dataset: u64 = info["used_memory_dataset"].parse().unwrap();
        (sum, dataset - widest)
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
        precisions: Precisions::default(),
        names: (0..CONTEXTS)
            .map(|n| format!("GET /api/v1/things-{n}/{{id}}").into())
            .collect(),
        seq: 0,
    };
    let mut rng = fastrand::Rng::with_seed(11);
    let mut measured = Vec::new();
    for step in 1..=72 * HOUR / STEP {
        let now = THIS_HOUR + step * STEP;
        manual_clock.set_wall(now);
        fleet.pass_time(STEP).await;
        let mut seconds = vec![now];
        let measures = [48, 72].contains(&(step * STEP / HOUR)) && step * STEP % HOUR == 0;
        if measures {
            // All retained slices of up to five minutes.
            let fine = [1, 5, 60]
                .into_iter()
                .flat_map(|p| (0..120).map(move |n| now - p * n));
            seconds = fine.collect();
            seconds.sort_unstable();
            seconds.dedup();
        }
        fleet.traffic(&mut rng, &seconds).await;
        if step % 3 == 0 {
            fleet.clean(now).await;
        }
        if measures {
            measured.push(fleet.memory().await);
        }
    }
    println!("bytes of all keys, and of all data, after 48 and 72 h: {measured:?}");
    let per_context = measured[1].0 / CONTEXTS;
    assert!(per_context < 64 * 1024, "{per_context} bytes per context");
    let (before, after) = (measured[0], measured[1]);
    // What still grows are the slices of an hour and longer, of which 120 are kept: 24 a day, twice some
    // ten bytes each. What leaked would grow by half; the allocator is not the same in each run.
    for (what, before, after, most) in [
        ("keys", before.0, after.0, 0.05),
        ("data", before.1, after.1, 0.08),
    ] {
        let growth = after as f64 / before as f64 - 1.0;
        assert!(growth < most, "{what} grew by {growth:.3}");
    }
}
