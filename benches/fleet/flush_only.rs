//! Flush-only instances: each has its own connection, and appends calls and sends heartbeats as a full instance does,
//! but serves no requests. The instances of a process append the same batches, which are made once a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower_pulse::Pulse;
use tower_pulse_core::store::{Append, Upkeep};
use tower_pulse_core::store::{Appended, FencedBatch};
use tower_pulse_model::batch::Batch;
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::reads::heartbeat;
use crate::traffic::{self, CONTEXTS};

/// The prefix that `Builder::redis` uses.
pub(crate) const PREFIX: &str = "pulse:";

/// The pause before the next thousand instances connect.
const CONNECT_PAUSE: Duration = Duration::from_secs(5);

/// A store for an instance without a `Pulse`.
pub(crate) fn store(url: &str, timeout: Duration) -> RedisStore {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX);
    let options = options.response_timeout(timeout);
    RedisStore::open(options.connection_timeout(timeout)).unwrap()
}

pub(crate) struct FlushOnly {
    store: RedisStore,
    generation: String,
    instance: String,
    /// The number of the last call.
    seq: u64,
}

impl FlushOnly {
    pub(crate) async fn new(url: &str, number: usize) -> Self {
        let store = store(url, Duration::from_secs(10));
        Self {
            generation: store.hello().await.unwrap().id,
            instance: format!("{number:08}{:024x}", fastrand::u64(..)),
            store,
            seq: 0,
        }
    }

    /// Appends a batch. Returns whether the journal had room.
    pub(crate) async fn append(&mut self, batch: Batch) -> bool {
        let call = FencedBatch {
            generation: self.generation.clone(),
            instance: self.instance.clone(),
            seq: self.seq + 1,
            previous: self.seq,
            batch,
        };
        match self.store.append(&call).await.unwrap() {
            Appended::Done(_) => self.seq += 1,
            Appended::Full => return false,
            other => panic!("{other:?}"),
        }
        true
    }

    pub(crate) async fn heartbeat(&self) {
        let heartbeat = heartbeat(&self.instance, crate::now());
        self.store.heartbeat(&heartbeat).await.unwrap();
    }
}

/// Runs flush-only instances forever, at the flush interval of the full instance `pulse`.
pub(crate) async fn fleet(url: String, instances: usize, pulse: Pulse) {
    let pulse = Arc::new(pulse);
    let batches = Arc::<Mutex<Batches>>::default();
    for number in 0..instances {
        let (url, pulse, batches) = (url.clone(), pulse.clone(), batches.clone());
        tokio::spawn(async move {
            // A server accepts some thousands of connections a second.
            tokio::time::sleep(CONNECT_PAUSE * (number / 1_000) as u32).await;
            let mut instance = FlushOnly::new(&url, number).await;
            let phase = number as f64 / instances as f64;
            let mut flushed = crate::now();
            loop {
                let interval = Duration::from_secs_f64(pulse.health().flush.interval_seconds);
                // In a large fleet, the calls are spread over the flush interval.
                let offset = match interval > Duration::from_secs(1) {
                    true => interval.mul_f64(phase),
                    false => Duration::from_millis(100).mul_f64(phase),
                };
                tokio::time::sleep(crate::until_flush(interval, offset)).await;
                let now = crate::now();
                let batch = batches.lock().unwrap().batch(now, now - flushed);
                // If the journal has no room, the next batch also has the requests of this batch, as in a full
                // instance.
                if instance.append(batch).await {
                    flushed = now;
                }
                tokio::time::sleep(interval / 3).await;
                instance.heartbeat().await;
            }
        });
    }
    std::future::pending::<()>().await;
}

/// The batches that end at the second `at`, by the number of seconds that they cover.
#[derive(Default)]
struct Batches {
    at: i64,
    by_seconds: HashMap<i64, Batch>,
}

impl Batches {
    fn batch(&mut self, now: i64, seconds: i64) -> Batch {
        if std::mem::replace(&mut self.at, now) != now {
            self.by_seconds.clear();
        }
        let batch = self.by_seconds.entry(seconds);
        let make = || traffic::batch(CONTEXTS, now, seconds);
        batch.or_insert_with(make).clone()
    }
}
