//! A TCP proxy in front of Redis whose faults are switched while it runs.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::resp::Frames;

/// The proxy. All methods may be called from any thread at any time. Dropping it closes all connections.
///
/// A new connection is reset if its upstream does not answer.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<ProxyState>,
    accepting: tokio::task::JoinHandle<()>,
}

/// The state of a connection after one of its replies was swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swallow {
    /// The connection stays open and mute: requests go on to the server, and no reply is forwarded until the connection
    /// is cut. (The client would take a later reply for the swallowed one.)
    Hang,
    /// The connection is reset as soon as the server has answered all of the doomed requests.
    Cut,
}

/// The current faults.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    refuse: bool,
    black_hole: bool,
    delay: Duration,
    swallow: Option<(f64, Swallow)>,
    truncate: Option<f64>,
}

#[derive(Debug)]
struct ProxyState {
    upstream: AtomicU16,
    faults: watch::Sender<Faults>,
    /// The number of cuts. A connection ends when it changes.
    cuts: watch::Sender<u64>,
    swallow_dice: Mutex<fastrand::Rng>,
    truncate_dice: Mutex<fastrand::Rng>,
    connections: AtomicU64,
    swallowed: AtomicU64,
    truncated: AtomicU64,
}

impl Proxy {
    /// Starts a proxy without faults to a port of 127.0.0.1.
    pub async fn start(upstream_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("bind the proxy");
        let port = listener.local_addr().expect("the proxy's address").port();
        let shared = Arc::new(ProxyState {
            upstream: AtomicU16::new(upstream_port),
            faults: watch::Sender::new(Faults::default()),
            cuts: watch::Sender::new(0),
            swallow_dice: Mutex::new(fastrand::Rng::new()),
            truncate_dice: Mutex::new(fastrand::Rng::new()),
            connections: AtomicU64::new(0),
            swallowed: AtomicU64::new(0),
            truncated: AtomicU64::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            port,
            shared,
            accepting,
        }
    }

    /// `redis://127.0.0.1:PORT/`, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The port that the proxy listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to another port. Present ones stay.
    pub fn set_upstream(&self, port: u16) {
        self.shared.upstream.store(port, SeqCst);
    }

    /// Resets all present connections. New ones are served.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sets whether new connections are reset at once. Present ones go on.
    pub fn refuse(&self, refuse: bool) {
        self.set(|faults| faults.refuse = refuse);
    }

    /// Sets whether the network swallows all traffic: connections stay open, new ones are accepted, nothing
    /// is read or forwarded either way. Bytes that were sent meanwhile are delivered once this is switched
    /// off.
    pub fn black_hole(&self, black_hole: bool) {
        self.set(|faults| faults.black_hole = black_hole);
    }

    /// Sets the delay before each chunk of reply is forwarded.
    pub fn delay(&self, delay: Duration) {
        self.set(|faults| faults.delay = delay);
    }

    /// Forwards requests to the server and swallows their replies, with this probability.
    ///
    /// The decision is made once for each chunk of requests that a client sends. Replies to requests before
    /// a doomed chunk are still delivered. The replies to the doomed requests are dropped whole, so a
    /// request without an answer has been executed. The seed makes the decisions repeatable; which request
    /// gets which decision depends on the order of the traffic. A handshake is traffic too: connect first,
    /// or let the client cope.
    pub fn swallow_replies(&self, probability: f64, seed: u64, then: Swallow) {
        *self.shared.swallow_dice.lock().unwrap() = fastrand::Rng::with_seed(seed);
        self.set(|faults| faults.swallow = Some((probability, then)));
    }

    /// Forwards only the first half of a reply and closes the connection, with this probability for each
    /// chunk of reply. The last reply of a truncated chunk is never complete.
    pub fn truncate(&self, probability: f64, seed: u64) {
        *self.shared.truncate_dice.lock().unwrap() = fastrand::Rng::with_seed(seed);
        self.set(|faults| faults.truncate = Some(probability));
    }

    /// Ends all faults. Connections that hang after a swallowed reply go on hanging until a cut.
    pub fn heal(&self) {
        self.set(|faults| *faults = Faults::default());
    }

    /// Number of connections accepted so far, including refused ones.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(SeqCst)
    }

    /// Number of doomed chunks of requests: forwarded to the server, their replies swallowed.
    pub fn swallowed(&self) -> u64 {
        self.shared.swallowed.load(SeqCst)
    }

    /// Number of truncated replies.
    pub fn truncated(&self) -> u64 {
        self.shared.truncated.load(SeqCst)
    }

    fn set(&self, change: impl FnOnce(&mut Faults)) {
        self.shared.faults.send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// How a connection ends before both sides have finished.
#[derive(PartialEq, Eq)]
enum Broken {
    /// At once, with RST to the client.
    Reset,
    /// Without RST, so that the client still reads the bytes that were sent.
    Closed,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyState>) {
    // Dropping the sender with this task ends every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                shared.connections.fetch_add(1, SeqCst);
                if shared.faults.borrow().refuse {
                    let _ = client.set_zero_linger();
                } else {
                    let cuts = shared.cuts.subscribe();
                    connections.spawn(serve(client, Arc::clone(&shared), cuts));
                }
            }
            Some(_) = connections.join_next() => {}
            else => tokio::task::yield_now().await,
        }
    }
}

/// Serves one connection to its end.
async fn serve(mut client: TcpStream, shared: Arc<ProxyState>, mut cuts: watch::Receiver<u64>) {
    let end = tokio::select! {
        biased;
        _ = cuts.changed() => Err(Broken::Reset),
        end = relay(&mut client, &shared) => end,
    };
    if end == Err(Broken::Reset) {
        // The upstream side is closed without RST, so that what was forwarded still arrives.
        let _ = client.set_zero_linger();
    }
}

async fn relay(client: &mut TcpStream, shared: &ProxyState) -> Result<(), Broken> {
    let mut faults = shared.faults.subscribe();
    passable(&mut faults).await;
    let mut upstream = TcpStream::connect(("127.0.0.1", shared.upstream.load(SeqCst))).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let doom = Mutex::new(Doom::default());
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = upstream.split();
    tokio::try_join!(
        requests(from_client, to_server, shared, &doom, faults.clone()),
        replies(from_server, to_client, shared, &doom, faults),
    )?;
    Ok(())
}

/// The replies of one connection: how many are due, and which are swallowed.
#[derive(Debug, Default)]
struct Doom {
    asked: usize,
    /// The first reply not to be delivered, and the last that is due before a cut, counted from 1.
    sentence: Option<(usize, usize, Swallow)>,
}

/// Forwards from the client to the server.
async fn requests(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &ProxyState,
    doom: &Mutex<Doom>,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), Broken> {
    let mut frames = Frames::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = read(&mut from, &mut buffer, &mut faults).await?;
        if n == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        {
            let now = *faults.borrow();
            let mut doom = doom.lock().unwrap();
            let first = doom.asked + 1;
            doom.asked += frames.feed(&buffer[..n]).len();
            if let (Some((probability, then)), None) = (now.swallow, doom.sentence)
                && shared.swallow_dice.lock().unwrap().f64() < probability
            {
                doom.sentence = Some((first, doom.asked.max(first), then));
                shared.swallowed.fetch_add(1, SeqCst);
            }
        }
        forward(&mut to, &buffer[..n], &mut faults).await?;
    }
}

/// Forwards from the server to the client.
async fn replies(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    shared: &ProxyState,
    doom: &Mutex<Doom>,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), Broken> {
    let mut frames = Frames::default();
    let mut answered = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = read(&mut from, &mut buffer, &mut faults).await?;
        if n == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        let ends = frames.feed(&buffer[..n]);
        let mut chunk = &buffer[..n];
        let sentence = doom.lock().unwrap().sentence;
        if let Some((first, ..)) = sentence {
            // Deliver up to the end of reply `first - 1`, which may lie in an earlier chunk.
            let wanted = (first - 1).saturating_sub(answered);
            let end = match wanted {
                0 => 0,
                wanted => ends.get(wanted - 1).copied().unwrap_or(n),
            };
            chunk = &chunk[..end];
        }
        answered += ends.len();

        let now = *faults.borrow();
        if !now.delay.is_zero() {
            tokio::time::sleep(now.delay).await;
        }
        if let Some(probability) = now.truncate
            && !chunk.is_empty()
            && shared.truncate_dice.lock().unwrap().f64() < probability
        {
            // Cut in the middle of the last reply: the middle of the chunk could be the border between two.
            let begin = ends.iter().rev().find(|end| **end < chunk.len());
            let begin = begin.copied().unwrap_or(0);
            let half = begin + (chunk.len() - begin) / 2;
            shared.truncated.fetch_add(1, SeqCst);
            forward(&mut to, &chunk[..half], &mut faults).await?;
            return Err(Broken::Closed);
        }
        forward(&mut to, chunk, &mut faults).await?;
        if let Some((_, last, Swallow::Cut)) = sentence
            && answered >= last
        {
            return Err(Broken::Reset);
        }
    }
}

/// Reads a chunk, but waits while the black hole is on.
async fn read(
    from: &mut ReadHalf<'_>,
    buffer: &mut [u8],
    faults: &mut watch::Receiver<Faults>,
) -> io::Result<usize> {
    loop {
        passable(faults).await;
        tokio::select! {
            biased;
            _ = faults.wait_for(|faults| faults.black_hole) => {}
            n = from.read(buffer) => return n,
        }
    }
}

/// Writes a chunk, but waits while the black hole is on.
async fn forward(
    to: &mut WriteHalf<'_>,
    chunk: &[u8],
    faults: &mut watch::Receiver<Faults>,
) -> io::Result<()> {
    passable(faults).await;
    to.write_all(chunk).await
}

/// Waits until the black hole is off. (The sender lives as long as the connection.)
async fn passable(faults: &mut watch::Receiver<Faults>) {
    let _ = faults.wait_for(|faults| !faults.black_hole).await;
}
