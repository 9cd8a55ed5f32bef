//! The cost of single operations: an append, a heartbeat, a round of folding, and folding a backlog.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock};
use tower_pulse_core::store::{Append, Store};
use tower_pulse_core::store::{Appended, FencedBatch};

use crate::flush_only::{FlushOnly, PREFIX, store};
use crate::meter::{self, Polls, process_cpu};
use crate::rig::instances::TestFolder;
use crate::rig::server::RedisServer;
use crate::traffic::{self, CONTEXTS};

/// The number of attempts. The best value counts.
const ATTEMPTS: usize = 3;
/// The number of instances whose calls are in a backlog.
const INSTANCES: usize = 20;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The measurements. A number without another unit is the processor time of the server in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Micro {
    /// The cost of a call without contexts.
    pub(crate) append_call: f64,
    /// The cost of each context in a call.
    pub(crate) append_context: f64,
    /// The cost of a call with all contexts of an instance that flushes every three seconds.
    pub(crate) append_of_3_seconds: f64,
    /// The cost of a heartbeat, including the read of the store's status.
    pub(crate) heartbeat: f64,
    /// The cost per context, including reads, in rounds of 40 and of 201 contexts.
    pub(crate) fold_40: f64,
    pub(crate) fold_201: f64,
    /// Folded context records per second of the folder's processor time.
    pub(crate) records_per_cpu_second: f64,
    /// The durations of the fold's polls while it folds a backlog, shortest first.
    pub(crate) polls: Vec<Duration>,
    /// The times for which the fold and the reading of replies held their thread, shortest first.
    pub(crate) holds: Vec<Duration>,
}

/// A store to which the bench appends, with a manual clock.
struct Bench<'a> {
    server: &'a RedisServer,
    store: Arc<dyn Store>,
    clock: Clock,
    manual: ManualClock,
    generation: String,
    /// The number of each instance's last call.
    seqs: Vec<u64>,
}

impl<'a> Bench<'a> {
    async fn new(server: &'a RedisServer) -> Self {
        crate::fill(server, PREFIX).await;
        let (clock, manual) = Clock::manual(crate::now());
        let store = store(&server.url(), RESPONSE_TIMEOUT).with_clock(clock.clone());
        Self {
            server,
            generation: store.hello().await.unwrap().id,
            store: Arc::new(store),
            clock,
            manual,
            seqs: vec![0; INSTANCES],
        }
    }

    /// The next call of an instance: `contexts` contexts and `<all>`, for each of the last `seconds` seconds.
    fn call(&mut self, instance: usize, contexts: usize, seconds: i64) -> FencedBatch {
        self.seqs[instance] += 1;
        FencedBatch {
            generation: self.generation.clone(),
            instance: format!("{instance:032}"),
            seq: self.seqs[instance],
            previous: self.seqs[instance] - 1,
            batch: traffic::batch(contexts, self.clock.now_seconds(), seconds),
        }
    }

    async fn append(&self, call: &FencedBatch) {
        let appended = self.store.append(call).await.unwrap();
        assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
    }

    fn folder(&self) -> TestFolder {
        TestFolder::new(self.store.clone(), self.clock.clone(), "bench", 100_000)
    }

    /// The server's mean time for a call with `contexts` contexts and `seconds` seconds.
    async fn append_micros(&mut self, contexts: usize, seconds: i64, calls: u32) -> f64 {
        let calls: Vec<_> = (0..calls)
            .map(|_| self.call(0, contexts, seconds))
            .collect();
        let before = cpu_when_idle(self.server).await;
        for call in &calls {
            self.append(call).await;
        }
        let used = cpu_when_idle(self.server).await - before;
        used.as_secs_f64() * 1e6 / calls.len() as f64
    }

    async fn heartbeat_micros(&mut self, heartbeats: u32) -> f64 {
        let instance = FlushOnly::new(&self.server.url(), 1).await;
        let before = cpu_when_idle(self.server).await;
        for _ in 0..heartbeats {
            instance.heartbeat().await;
        }
        let used = cpu_when_idle(self.server).await - before;
        used.as_secs_f64() * 1e6 / f64::from(heartbeats)
    }

    /// The server's mean time per context for folding rounds of one entry with `contexts` contexts.
    async fn fold_micros(&mut self, contexts: usize, rounds: u32) -> f64 {
        let folder = self.folder();
        assert!(folder.fold().await.unwrap());
        let mut used = Duration::ZERO;
        for round in 0..rounds + 8 {
            self.manual.advance(Duration::from_secs(1));
            let call = self.call(0, contexts, 1);
            self.append(&call).await;
            let before = cpu_when_idle(self.server).await;
            assert!(folder.fold().await.unwrap());
            let after = cpu_when_idle(self.server).await;
            // In the first rounds, the folder adapts the size of its steps.
            if round >= 8 {
                used += after - before;
            }
        }
        folder.release().await.unwrap();
        used.as_secs_f64() * 1e6 / f64::from(rounds) / (contexts + 1) as f64
    }

    /// Appends a call of each instance in each of `seconds` seconds, and does not fold the calls.
    async fn leave_backlog(&mut self, seconds: usize) {
        let folder = self.folder();
        assert!(folder.fold().await.unwrap());
        for _ in 0..seconds {
            self.manual.advance(Duration::from_secs(1));
            for instance in 0..INSTANCES {
                let call = self.call(instance, CONTEXTS, 1);
                self.append(&call).await;
            }
        }
        folder.release().await.unwrap();
    }

    /// Folds the backlog in a new folder, with its own thread and connection.
    async fn fold_backlog<T, F>(&self, fold: impl FnOnce(TestFolder) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let store = store(&self.server.url(), RESPONSE_TIMEOUT).with_clock(self.clock.clone());
        let folder = TestFolder::new(Arc::new(store), self.clock.clone(), "alone", 100_000);
        let folding = std::thread::spawn(|| crate::runtime().block_on(fold(folder)));
        let folded = tokio::task::spawn_blocking(|| folding.join().unwrap());
        folded.await.unwrap()
    }
}

/// Returns the processor time of folding the whole backlog, and the duration of each poll.
async fn timed(folder: TestFolder) -> (Duration, Vec<Duration>) {
    let (process, thread, polls) = (std::process::id(), meter::this_thread(), Polls::default());
    // The kernel accounts for a thread's time when the thread sleeps.
    let pause = || tokio::time::sleep(Duration::from_millis(10));
    pause().await;
    let before = meter::thread_cpu(process, thread);
    assert!(polls.watch(folder.fold()).await.unwrap());
    pause().await;
    let used = meter::thread_cpu(process, thread) - before;
    folder.release().await.unwrap();
    (used, polls.take())
}

/// The server's processor time so far, after 3 ms in which the server can finish its work.
async fn cpu_when_idle(server: &RedisServer) -> Duration {
    tokio::time::sleep(Duration::from_millis(3)).await;
    process_cpu(server.pid())
}

pub(crate) async fn measure(server: &RedisServer, effort: f64) -> Micro {
    let times = |n: f64| ((n * effort) as u32).max(10);
    let seconds = times(100.0) as usize;
    let mut least = [f64::MAX; 6];
    let mut keep = |at: usize, micros: f64| least[at] = least[at].min(micros);
    let (mut records_per_cpu_second, mut polls, mut holds) = (0f64, Vec::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        let mut bench = Bench::new(server).await;
        keep(0, bench.append_micros(1, 1, times(1_000.0)).await);
        keep(1, bench.append_micros(CONTEXTS, 1, times(500.0)).await);
        keep(2, bench.append_micros(CONTEXTS, 3, times(500.0)).await);
        keep(3, bench.heartbeat_micros(times(1_000.0)).await);
        let mut bench = Bench::new(server).await;
        keep(4, bench.fold_micros(39, times(100.0)).await);
        let mut bench = Bench::new(server).await;
        keep(5, bench.fold_micros(CONTEXTS, times(60.0)).await);

        let mut bench = Bench::new(server).await;
        bench.leave_backlog(seconds).await;
        let (used, poll_times) = bench.fold_backlog(timed).await;
        let records = (seconds * INSTANCES * (CONTEXTS + 1)) as f64;
        records_per_cpu_second = records_per_cpu_second.max(records / used.as_secs_f64());
        polls.push(poll_times);
        bench.leave_backlog(seconds).await;
        let fold = |folder: TestFolder| async move { meter::holds_during(folder.fold()).await };
        holds.push(bench.fold_backlog(fold).await);
    }
    let [small, large, long, heartbeat, fold_40, fold_201] = least;
    // `small` and `large` also contain `<all>`.
    let append_context = (large - small) / (CONTEXTS - 1) as f64;
    Micro {
        append_call: small - 2.0 * append_context,
        append_context,
        append_of_3_seconds: long,
        heartbeat,
        fold_40,
        fold_201,
        records_per_cpu_second,
        polls: meter::least_held(polls.into_iter()),
        holds: meter::least_held(holds.into_iter()),
    }
}
