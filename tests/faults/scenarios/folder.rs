//! The folder is killed in the middle of a round, or frozen for longer than its lease.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use super::{Report, keys};
use crate::faults::service::{PATIENT, Service, with_response_timeout};
use crate::rig::demo::{self, Demo};
use crate::rig::http::Client;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::rig::wait::look_until;

const CANDIDATES: usize = 3;
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(7);
/// The deadline of each wait.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of contexts in each step: so few that a round has several steps even on a fast server.
const STEP: &str = "8";
/// Delay of each answer to the folder, so that a round lasts long enough for a signal to interrupt it.
const DELAY: Duration = Duration::from_millis(12);

/// A demo that may become the folder.
struct Candidate {
    demo: Demo,
    client: Client,
    instance: String,
    answered: u64,
}

impl Candidate {
    async fn start(url: &str) -> Self {
        let env = [
            ("REDIS_URL", url),
            ("DEMO_TRAFFIC", "off"),
            ("PULSE_FLUSH_MS", "50"),
            ("PULSE_FOLD_STEP", STEP),
        ];
        let demo = Demo::start(demo::built(), &env).await;
        let mut client = Client::connect(demo.address()).await;
        let health = client.json("/admin/pulse/api/health").await;
        Self {
            instance: health["instance"].as_str().unwrap().to_owned(),
            demo,
            client,
            answered: 0,
        }
    }

    /// Sends one request. An instance acquires a free lease only after it has appended to the journal.
    async fn ping(&mut self) {
        assert_eq!(self.client.get("/ping").await.status, 200);
        self.answered += 1;
    }

    /// Waits until the demo's requests are in the journal.
    async fn until_flushed(&mut self) {
        look_until(RECOVERY_TIMEOUT, async || {
            let health = self.client.json("/admin/pulse/api/health").await;
            let is_flushed = health["recording"]["recorded"] == self.answered
                && health["recording"]["pending_series"] == 0
                && health["flush"]["in_doubt_age_seconds"].is_null();
            let why = || format!("not flushed: {health:#}");
            is_flushed.then_some(()).ok_or_else(why)
        })
        .await;
    }
}

/// A server, a service that does not fold, and processes that may fold.
struct Fleet {
    server: RedisServer,
    proxy: Proxy,
    conn: MultiplexedConnection,
    service: Service,
    candidates: Vec<Candidate>,
}

impl Fleet {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        proxy.delay(DELAY);
        let builder = with_response_timeout(&server.url(), PATIENT);
        let mut candidates = Vec::new();
        for _ in 0..CANDIDATES {
            candidates.push(Candidate::start(&proxy.url()).await);
        }
        Self {
            conn: server.connection().await,
            service: Service::without_folding(builder),
            server,
            proxy,
            candidates,
        }
    }

    async fn folder(&mut self) -> Option<usize> {
        let folder = keys().folder(&mut self.conn).await?;
        let mut instances = self.candidates.iter();
        instances.position(|candidate| candidate.instance == folder)
    }

    /// Sends requests to all candidates except `excluded`, until one of them folds.
    async fn next_folder(&mut self, excluded: Option<usize>) -> usize {
        let end = Instant::now() + RECOVERY_TIMEOUT;
        loop {
            let folder = self.folder().await;
            if let Some(at) = folder.filter(|_| folder != excluded) {
                return at;
            }
            assert!(Instant::now() < end, "no instance takes over");
            for (at, candidate) in self.candidates.iter_mut().enumerate() {
                if excluded != Some(at) {
                    candidate.ping().await;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Freezes the folder in the middle of a round, once all requests of the folder are in the journal.
    async fn freeze_in_a_round(&mut self) -> usize {
        let end = Instant::now() + RECOVERY_TIMEOUT;
        loop {
            let at = self.next_folder(None).await;
            self.candidates[at].until_flushed().await;
            while Instant::now() < end && !keys().is_in_a_round(&mut self.conn).await {
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            self.candidates[at].demo.freeze();
            if self.folder().await == Some(at) && keys().is_in_a_round(&mut self.conn).await {
                return at;
            }
            self.candidates[at].demo.thaw();
            let log = self.candidates[at].demo.stderr();
            assert!(Instant::now() < end, "no folder was in a round: {log}");
        }
    }

    async fn end(mut self) -> Report {
        let mut ends = Report::default();
        for candidate in &mut self.candidates {
            candidate.until_flushed().await;
            let others = &self.service.oracle.others;
            others.fetch_add(candidate.answered, SeqCst);
            let (instance, demo) = (&candidate.instance, &candidate.demo);
            ends.terminate(instance, demo, RECOVERY_TIMEOUT).await;
        }
        let mut report = Report::at_the_end(&self.service, &self.server).await;
        report.add(ends);
        report
    }
}

/// Calls `stop_folder` `n` times in total. The function kills or freezes a folder, and returns the time until another
/// instance folded. Several fleets run at once, because each fleet waits most of the time.
async fn in_fleets(
    fleets: u64,
    n: u64,
    seed: u64,
    stop_folder: impl AsyncFn(&mut Fleet) -> Duration,
) -> Report {
    let stop_folder = &stop_folder;
    let runs = (0..fleets).map(|at| async move {
        let mut fleet = Fleet::start().await;
        let load = fleet.service.load(seed ^ at);
        let mut slowest = Duration::ZERO;
        for _ in at * n / fleets..(at + 1) * n / fleets {
            slowest = slowest.max(stop_folder(&mut fleet).await);
        }
        load.stop().await;
        (fleet.end().await, slowest)
    });
    let (mut all, mut slowest) = (Report::default(), Duration::ZERO);
    for (report, time) in futures_util::future::join_all(runs).await {
        all.add(report);
        slowest = slowest.max(time);
    }
    let line = format!("taken over within {:.1} s", slowest.as_secs_f64());
    all.fault_if(slowest > TAKEN_OVER_WITHIN, &*line);
    all.notes.push(line);
    all
}

pub async fn folders_killed(kills: u64, fleets: u64, seed: u64) -> Report {
    let mut report = in_fleets(fleets, kills, seed, async |fleet| {
        let at = fleet.freeze_in_a_round().await;
        fleet.candidates[at].demo.kill_9();
        let killed = Instant::now();
        let new = Candidate::start(&fleet.proxy.url()).await;
        let dead = std::mem::replace(&mut fleet.candidates[at], new);
        let others = &fleet.service.oracle.others;
        others.fetch_add(dead.answered, SeqCst);
        fleet.next_folder(None).await;
        killed.elapsed()
    })
    .await;
    report.done = format!("{kills} folders killed in the middle of a round, in {fleets} fleets");
    report
}

/// Freezes the folder `times` times in the middle of a round, and thaws it after another instance has finished the
/// round.
pub async fn folders_frozen(times: u64, fleets: u64, seed: u64) -> Report {
    let mut report = in_fleets(fleets, times, seed, async |fleet| {
        let at = fleet.freeze_in_a_round().await;
        let frozen = Instant::now();
        let folded = keys().folded(&mut fleet.conn).await;
        fleet.next_folder(Some(at)).await;
        let taken_over = frozen.elapsed();
        // Another instance finishes the round that the folder had begun.
        while keys().folded(&mut fleet.conn).await == folded {
            assert!(frozen.elapsed() < RECOVERY_TIMEOUT, "the round never ends");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fleet.candidates[at].demo.thaw();
        fleet.candidates[at].ping().await;
        taken_over
    })
    .await;
    report.done = format!(
        "{times} folders frozen in the middle of a round, and revived when another instance folded"
    );
    report
}
