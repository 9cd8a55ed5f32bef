//! Signals to the demo under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::Report;
use crate::faults::service::{counter, pause};
use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_unfolded;
use crate::rig::http::Client;
use crate::rig::server::RedisServer;

pub const CONNECTIONS: usize = 4;

/// Clients that send requests, one after another, until they are stopped or the server stops answering.
pub struct Clients(Vec<JoinHandle<(Vec<Answer>, u64)>>);

/// The moment of an answer, and the time since its request.
type Answer = (Instant, Duration);

impl Clients {
    /// Starts clients that keep the service busy, but without a busy loop.
    pub fn start(demo: &Demo) -> Self {
        Self::start_many(demo, CONNECTIONS, 10, &Arc::default())
    }

    /// Starts clients. Each pauses for a millisecond after every `most` answers, and ends once `stop` is set.
    pub fn start_many(demo: &Demo, clients: usize, most: usize, stop: &Arc<AtomicBool>) -> Self {
        let address = demo.address();
        let visit = |_| {
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let mut answers = Vec::new();
                while !stop.load(SeqCst) {
                    let sent = Instant::now();
                    match client.try_request("GET", "/ping", &[], "").await {
                        Ok(answer) if answer.status == 200 => {
                            answers.push((Instant::now(), sent.elapsed()));
                        }
                        _ => return (answers, 1),
                    }
                    if answers.len() % most == 0 {
                        pause(1).await;
                    }
                }
                (answers, 0)
            })
        };
        Self((0..clients).map(visit).collect())
    }

    /// Waits until there are no more answers. Returns the times of all answers, in order.
    pub async fn answers(self) -> Vec<Instant> {
        let answers = self.end().await.0.into_iter();
        let mut times: Vec<_> = answers.map(|(at, _)| at).collect();
        times.sort_unstable();
        times
    }

    /// Waits until there are no more answers. Returns all answers, and the number of requests without an answer.
    pub async fn end(self) -> (Vec<Answer>, u64) {
        let (mut all, mut failed) = (Vec::new(), 0);
        for client in self.0 {
            let (answers, failures) = client.await.unwrap();
            all.extend(answers);
            failed += failures;
        }
        (all, failed)
    }
}

/// Starts the demo with a prefix of its own and a flush each `interval` milliseconds. Lets the demo serve for `millis`,
/// and ends it by `end`. Returns the times of the answers, in order, and the number of requests in Redis.
async fn run_demo(
    server: &RedisServer,
    round: u64,
    interval: u64,
    millis: u64,
    end: impl AsyncFnOnce(&Demo),
) -> (Vec<Instant>, i64) {
    let (url, prefix) = (server.url(), format!("pulse:{round}:"));
    let interval = interval.to_string();
    let env = [
        ("REDIS_URL", &*url),
        ("PULSE_PREFIX", &*prefix),
        ("DEMO_TRAFFIC", "off"),
        ("PULSE_FLUSH_MS", &*interval),
    ];
    let demo = Demo::start(demo::built(), &env).await;
    let clients = Clients::start(&demo);
    pause(millis).await;
    end(&demo).await;
    let answered = clients.answers().await;
    // Calls that were appended are not lost: the next folder would fold them.
    fold_unfolded(&url, &prefix).await;
    let mut conn = server.connection().await;
    let stored = counter(&mut conn, &prefix, "hits:GET /ping", 86_400).await;
    (answered, stored)
}

/// Ends processes by SIGTERM. Each must exit within the time `within`.
pub async fn sigterm(rounds: u64, within: Duration, seed: u64) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let server = RedisServer::start().await;
    let mut report = Report {
        done: format!("{rounds} x SIGTERM under load of {CONNECTIONS} connections"),
        ..Report::default()
    };
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let millis = rng.u64(200..1_500);
        let (answered, stored) = run_demo(&server, round, 1_000, millis, async |demo| {
            let start = Instant::now();
            let name = format!("round {round}");
            report.terminate(&name, demo, within).await;
            slowest = slowest.max(start.elapsed());
        })
        .await;
        report.add_ended(answered.len() as i64, stored, CONNECTIONS as i64);
    }
    report.notes = vec![format!("slowest {:.2} s", slowest.as_secs_f64())];
    report
}

/// Kills processes that flush each `interval` milliseconds. Requests that ended within `allowed` before the kill may be
/// missing.
pub async fn sigkill(rounds: u64, interval: u64, allowed: Duration, seed: u64) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let server = RedisServer::start().await;
    let (mut report, mut widest) = (Report::default(), Duration::ZERO);
    for round in 0..rounds {
        let mut killed = Instant::now();
        let millis = rng.u64(1_200..2_600);
        let (answered, stored) = run_demo(&server, round, interval, millis, async |demo| {
            killed = Instant::now();
            demo.kill_9();
        })
        .await;
        widest = widest.max(report.add_killed(killed, &answered, stored, allowed));
    }
    report.fault_if(report.stored == 0, "nothing was stored");
    report.done = format!(
        "{rounds} x SIGKILL under load of {CONNECTIONS} connections, at most the last {:.2} s missing",
        widest.as_secs_f64()
    );
    report
}

impl Report {
    /// Adds processes that have ended. When a connection is closed, one of its requests may be served without an
    /// answer.
    pub fn add_ended(&mut self, answered: i64, stored: i64, connections: i64) {
        let unanswered = (stored - answered).clamp(0, connections);
        let line = format!("{stored} stored, {answered} answered");
        self.fault_if(stored != answered + unanswered, line);
        self.expected += answered + unanswered;
        self.stored += stored;
    }

    /// Adds a process that was killed, with the times of its answers and the number of its requests in the store.
    /// Returns the time from the answer to the oldest missing request until the kill.
    pub fn add_killed(
        &mut self,
        killed: Instant,
        answered: &[Instant],
        stored: i64,
        allowed: Duration,
    ) -> Duration {
        self.expected += answered.len() as i64;
        self.stored += stored;
        let most = answered.len() + CONNECTIONS;
        let is_possible = usize::try_from(stored).is_ok_and(|stored| stored <= most);
        let line = format!("{stored} stored, {} answered", answered.len());
        self.fault_if(!is_possible, line);
        // Flushes are in order, so the store has the oldest requests.
        let first = answered.get(stored.max(0) as usize);
        let missing = first.map_or(Duration::ZERO, |first| {
            killed.saturating_duration_since(*first)
        });
        let line = format!("the last {missing:?} are missing");
        self.fault_if(missing > allowed, line);
        missing
    }
}
