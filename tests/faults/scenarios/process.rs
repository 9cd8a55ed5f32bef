//! Signals to the demo under load.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::Report;
use crate::faults::service::{counter, pause};
use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_rest;
use crate::rig::http::Client;
use crate::rig::server::RedisServer;

/// The connections to one process.
pub const CONNECTIONS: usize = 4;

/// Clients that send requests until the server stops answering.
pub struct Clients([JoinHandle<Vec<Instant>>; CONNECTIONS]);

impl Clients {
    pub fn start(demo: &Demo) -> Self {
        let address = demo.address();
        Self([(); CONNECTIONS].map(|()| {
            tokio::spawn(async move {
                let mut client = Client::connect(address).await;
                let mut answered = Vec::new();
                while let Ok(response) = client.try_request("GET", "/ping", &[], "").await
                    && response.status == 200
                {
                    answered.push(Instant::now());
                    // Keeps the service busy, but without a busy loop.
                    if answered.len() % 10 == 0 {
                        pause(1).await;
                    }
                }
                answered
            })
        }))
    }

    /// Waits until there are no more answers. Returns the times of all answers, in order.
    pub async fn answers(self) -> Vec<Instant> {
        let mut answered = Vec::new();
        for client in self.0 {
            answered.extend(client.await.unwrap());
        }
        answered.sort_unstable();
        answered
    }
}

/// Starts the demo with its own prefix and a flush each `interval` milliseconds. Lets the demo serve for some
/// milliseconds, and ends it with `end`. Returns the times of the answers, in order, and the number of requests in
/// Redis.
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
    // Appended calls are safe, and the next folder folds them.
    fold_rest(&url, &prefix).await;
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
        let mut took = None;
        let millis = rng.u64(200..1_500);
        let (answered, stored) = run_demo(&server, round, 1_000, millis, async |demo| {
            let start = Instant::now();
            demo.signal("TERM");
            let exit = demo.wait_exit(within).await;
            took = exit.filter(|exit| exit.success()).map(|_| start.elapsed());
        })
        .await;
        report.fault_if(took.is_none(), format!("round {round}: no clean exit"));
        slowest = slowest.max(took.unwrap_or_default());
        report.ended(answered.len() as i64, stored, CONNECTIONS as i64);
    }
    report.notes = vec![format!("slowest {:.2} s", slowest.as_secs_f64())];
    report
}

/// Kills processes that flush each `interval` milliseconds. Requests of at most the time `allowed` before the kill may
/// be missing; each process serves for longer.
pub async fn sigkill(rounds: u64, interval: u64, allowed: Duration, seed: u64) -> Report {
    let mut rng = fastrand::Rng::with_seed(seed);
    let server = RedisServer::start().await;
    let (mut report, mut widest) = (Report::default(), Duration::ZERO);
    for round in 0..rounds {
        let mut killed = Instant::now();
        let (answered, stored) = run_demo(
            &server,
            round,
            interval,
            rng.u64(1_200..2_600),
            async |demo| {
                killed = Instant::now();
                demo.kill_9();
            },
        )
        .await;
        widest = widest.max(report.killed(killed, &answered, stored, allowed));
    }
    report.fault_if(report.stored == 0, "nothing was stored");
    report.done = format!(
        "{rounds} x SIGKILL under load of {CONNECTIONS} connections, at most the last {:.2} s missing",
        widest.as_secs_f64()
    );
    report
}

impl Report {
    /// Adds processes that have ended. When a connection is closed, one request may be served without an answer.
    pub fn ended(&mut self, answered: i64, stored: i64, connections: i64) {
        let unanswered = (stored - answered).clamp(0, connections);
        let line = format!("{stored} stored, {answered} answered");
        self.fault_if(stored != answered + unanswered, line);
        self.expected += answered + unanswered;
        self.stored += stored;
    }

    /// Adds a process that was killed, with the times of its answers and the number of its requests in the store.
    /// Returns the time from the answer to the oldest missing request until the kill.
    pub fn killed(
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
        // Flushes are in order, so the first missing request is the oldest.
        let first = answered.get(stored.max(0) as usize);
        let missing = first.map_or(Duration::ZERO, |first| {
            killed.saturating_duration_since(*first)
        });
        self.fault_if(
            missing > allowed,
            format!("the last {missing:?} are missing"),
        );
        missing
    }
}
