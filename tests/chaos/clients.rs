//! Clients of the demo that send request after request, and what of it the store lacks after a kill.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::rig::demo::Demo;
use crate::rig::http::Client;
use crate::service::pause;
use crate::table::Outcome;

/// The connections to one process.
pub const CONNECTIONS: usize = 4;

/// Clients that send requests until the server does not answer any more.
pub struct Clients([JoinHandle<Vec<Instant>>; CONNECTIONS]);

impl Clients {
    pub fn start(demo: &Demo) -> Self {
        let address = demo.address();
        Self([(); CONNECTIONS].map(|()| tokio::spawn(ping(address))))
    }

    /// The times of all answers, in order, once there are no more.
    pub async fn answers(self) -> Vec<Instant> {
        let mut answered = Vec::new();
        for client in self.0 {
            answered.extend(client.await.unwrap());
        }
        answered.sort_unstable();
        answered
    }
}

/// Sends requests on one connection until the server does not answer any more. Returns the times of the
/// answers.
async fn ping(address: SocketAddr) -> Vec<Instant> {
    let mut client = Client::connect(address).await;
    let mut answered = Vec::new();
    while let Ok(response) = client.try_request("GET", "/ping", &[], "").await {
        if response.status != 200 {
            break;
        }
        answered.push(Instant::now());
        // A busy service, but not a busy loop.
        if answered.len() % 10 == 0 {
            pause(1).await;
        }
    }
    answered
}

/// What some kills have cost.
#[derive(Default)]
pub struct Missing {
    requests: i64,
    widest: Duration,
}

impl Missing {
    /// Adds a kill to the outcome: the answers until then, and the requests that the store has of them. Those of the
    /// `allowed` time before the kill may be missing.
    pub fn add(
        &mut self,
        outcome: &mut Outcome,
        (round, killed): (u64, Instant),
        (answered, stored): (&[Instant], i64),
        allowed: Duration,
    ) {
        outcome.expected += answered.len() as i64;
        outcome.stored += stored;
        if stored < 0 || stored > (answered.len() + CONNECTIONS) as i64 {
            let line = format!(
                "round {round}: {stored} stored, {} answered",
                answered.len()
            );
            outcome.faults.push(line);
        }
        // Flushes are in order, so the first missing request is the oldest.
        let first = usize::try_from(stored).ok().and_then(|at| answered.get(at));
        let Some(first) = first else { return };
        let window = killed.saturating_duration_since(*first);
        self.widest = self.widest.max(window);
        self.requests += answered.len() as i64 - stored;
        if window > allowed {
            let line = format!("round {round}: the last {window:?} are missing");
            outcome.faults.push(line);
        }
    }

    /// What is said about all of them.
    pub fn notes(&self) -> Vec<String> {
        vec![
            format!("{} missing", self.requests),
            format!("at most the last {:.2} s", self.widest.as_secs_f64()),
        ]
    }
}
