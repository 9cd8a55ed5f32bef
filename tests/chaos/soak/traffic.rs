//! The clients of an instance, and the answers that they got.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::order::{Key, Life, Order, Tally, add};
use crate::rig::http::Client;
use crate::rig::wait::until;

/// Connections to each instance.
pub const CLIENTS: usize = 4;
/// Milliseconds between an answer and the next request of a client.
const PAUSE: std::ops::Range<u64> = 5..60;

/// Requests that ended within this time before a SIGKILL may be lost. The time covers a flush interval of 1 s, its
/// jitter of 50 ms, and a flush, on a busy machine.
pub const LAST_INTERVAL: Duration = Duration::from_millis(1_500);

/// The totals of the requests that the clients of an instance have sent.
#[derive(Debug, Default)]
pub struct Ledger {
    pub answered: Tally,
    /// Totals of requests that were sent, but not answered, because the instance was killed. The store may have these
    /// requests.
    pub unanswered: Tally,
    /// Totals of requests that were answered within the [`LAST_INTERVAL`] before a kill. The store may lack these
    /// requests.
    pub at_kills: Tally,
    /// Unexpected answers, one line each.
    pub faults: Vec<String>,
    /// The requests that were answered last, oldest first.
    recent: VecDeque<(Instant, Order, Life)>,
    disconnected: usize,
}

impl Ledger {
    pub fn keys(&self) -> BTreeSet<Key> {
        let keys = self.answered.keys().chain(self.unanswered.keys());
        keys.cloned().collect()
    }

    fn add_answer(&mut self, order: Order, life: Life) {
        let now = Instant::now();
        add(&mut self.answered, order.amounts(life));
        self.recent.push_back((now, order, life));
        while let Some((at, ..)) = self.recent.front()
            && now - *at > 4 * LAST_INTERVAL
        {
            self.recent.pop_front();
        }
    }
}

#[derive(Debug)]
pub struct Traffic {
    ledger: Arc<Mutex<Ledger>>,
    /// The life of the instance and its address; `None` ends the traffic.
    life: watch::Sender<Option<(Life, SocketAddr)>>,
    clients: JoinSet<()>,
}

impl Traffic {
    pub fn start(life: Life, address: SocketAddr, seed: u64) -> Self {
        let ledger = Arc::<Mutex<Ledger>>::default();
        let (life, lives) = watch::channel(Some((life, address)));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let rng = fastrand::Rng::with_seed(seed ^ client as u64);
            clients.spawn(visit(ledger.clone(), lives.clone(), rng));
        }
        Self {
            ledger,
            life,
            clients,
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Waits until each client has noticed the kill at `killed`. Then adds to `at_kills` the requests that the kill may
    /// have lost.
    pub async fn note_kill(&self, killed: Instant) {
        let have_noticed = async || self.ledger().disconnected == CLIENTS;
        until("each client notices the kill", have_noticed).await;
        let mut ledger = self.ledger();
        ledger.disconnected = 0;
        let first = killed - LAST_INTERVAL;
        for (at, order, life) in std::mem::take(&mut ledger.recent) {
            if at >= first {
                add(&mut ledger.at_kills, order.amounts(life));
            }
        }
    }

    pub fn reconnect(&self, life: Life, address: SocketAddr) {
        self.life.send_replace(Some((life, address)));
    }

    /// Ends the traffic, once the requests that were sent are answered.
    pub async fn stop(&mut self) {
        self.life.send_replace(None);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
    }
}

/// Runs one client, which sends requests with random pauses, over one connection at a time.
async fn visit(
    ledger: Arc<Mutex<Ledger>>,
    mut lives: watch::Receiver<Option<(Life, SocketAddr)>>,
    mut rng: fastrand::Rng,
) {
    loop {
        let Some((life, address)) = *lives.borrow_and_update() else {
            return;
        };
        let mut client = Client::connect(address).await;
        while !lives.has_changed().unwrap_or(true) {
            let order = Order::draw(&mut rng);
            let path = order.path(life);
            match client.try_request("GET", &path, &[], "").await {
                Ok(answer) if answer.status == order.status() => {
                    ledger.lock().unwrap().add_answer(order, life);
                }
                Ok(answer) => {
                    let line = format!("{path} was answered with {}", answer.status);
                    ledger.lock().unwrap().faults.push(line);
                }
                Err(_) => {
                    let mut ledger = ledger.lock().unwrap();
                    add(&mut ledger.unanswered, order.amounts(life));
                    ledger.disconnected += 1;
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(rng.u64(PAUSE))).await;
        }
        if !lives.has_changed().unwrap_or(true) && lives.changed().await.is_err() {
            return;
        }
    }
}
