//! A TCP proxy in front of Redis. Tests switch its faults on and off while it runs.

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

/// Dropping the proxy closes all connections.
///
/// A new connection is reset if the proxy cannot connect to the server, the *upstream*.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
    accepting: tokio::task::JoinHandle<()>,
}

/// The end of a connection after one of its replies was swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swallow {
    /// The connection stays open until a cut. Requests reach the server, but no reply reaches the client, because the
    /// client would take a later reply for the swallowed reply.
    Hang,
    /// The connection is reset once the server has answered all requests whose replies are swallowed.
    Cut,
}

#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    is_refusing: bool,
    is_black_hole: bool,
    delay: Duration,
    swallow: Option<(f64, Swallow)>,
    truncate: Option<f64>,
}

#[derive(Debug, Default)]
struct ProxyState {
    upstream: AtomicU16,
    faults: watch::Sender<Faults>,
    /// The number of cuts. A connection ends when the number changes.
    cuts: watch::Sender<u64>,
    /// Draws which replies are swallowed or truncated.
    rng: Mutex<fastrand::Rng>,
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
        let state = Arc::new(ProxyState {
            upstream: AtomicU16::new(upstream_port),
            ..ProxyState::default()
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self {
            port,
            state,
            accepting,
        }
    }

    /// `redis://127.0.0.1:PORT/`, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connects new connections to another port. Open connections stay as they are.
    pub fn set_upstream(&self, port: u16) {
        self.state.upstream.store(port, SeqCst);
    }

    /// Resets all open connections, but serves later connections.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sets whether new connections are reset at once. Open connections stay as they are.
    pub fn refuse(&self, is_refusing: bool) {
        self.set(|faults| faults.is_refusing = is_refusing);
    }

    /// Sets whether all traffic stops: connections stay open and new connections are accepted, but no bytes are read or
    /// forwarded in either direction. Once traffic flows again, the bytes that were sent meanwhile are delivered.
    pub fn black_hole(&self, is_black_hole: bool) {
        self.set(|faults| faults.is_black_hole = is_black_hole);
    }

    /// Sets the delay before each chunk of replies is forwarded.
    pub fn delay(&self, delay: Duration) {
        self.set(|faults| faults.delay = delay);
    }

    /// With this probability, swallows the replies to a chunk of requests that a client sends. The server executes the
    /// requests.
    ///
    /// From then on, the client gets only the replies to earlier requests. The seed makes the sequence of decisions
    /// repeatable, but the order of the traffic decides which request gets which decision. The replies to a handshake
    /// can be swallowed too: connect first, or let the client try again.
    pub fn swallow_replies(&self, probability: f64, seed: u64, then: Swallow) {
        self.state.rng.lock().unwrap().seed(seed);
        self.set(|faults| faults.swallow = Some((probability, then)));
    }

    /// With this probability, forwards a chunk of replies only up to the middle of its last reply, and closes the
    /// connection.
    pub fn truncate(&self, probability: f64, seed: u64) {
        self.state.rng.lock().unwrap().seed(seed);
        self.set(|faults| faults.truncate = Some(probability));
    }

    /// Ends all faults. Connections that hang after a swallowed reply still hang until a cut.
    pub fn heal(&self) {
        self.set(|faults| *faults = Faults::default());
    }

    /// Number of connections accepted so far, including refused ones.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(SeqCst)
    }

    /// The number of chunks of requests whose replies were swallowed.
    pub fn swallowed(&self) -> u64 {
        self.state.swallowed.load(SeqCst)
    }

    pub fn truncated(&self) -> u64 {
        self.state.truncated.load(SeqCst)
    }

    fn set(&self, change: impl FnOnce(&mut Faults)) {
        self.state.faults.send_modify(change);
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

async fn accept(listener: TcpListener, state: Arc<ProxyState>) {
    // Dropping this set with the task ends every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                state.connections.fetch_add(1, SeqCst);
                if state.faults.borrow().is_refusing {
                    let _ = client.set_zero_linger();
                } else {
                    let cuts = state.cuts.subscribe();
                    connections.spawn(serve(client, Arc::clone(&state), cuts));
                }
            }
            Some(_) = connections.join_next() => {}
            else => tokio::task::yield_now().await,
        }
    }
}

async fn serve(mut client: TcpStream, state: Arc<ProxyState>, mut cuts: watch::Receiver<u64>) {
    let end = tokio::select! {
        biased;
        _ = cuts.changed() => Err(Broken::Reset),
        end = relay(&mut client, &state) => end,
    };
    if end == Err(Broken::Reset) {
        // The connection to the server is closed without RST, so that the forwarded requests still arrive.
        let _ = client.set_zero_linger();
    }
}

async fn relay(client: &mut TcpStream, state: &ProxyState) -> Result<(), Broken> {
    let mut faults = state.faults.subscribe();
    wait_until_passable(&mut faults).await;
    let mut upstream = TcpStream::connect(("127.0.0.1", state.upstream.load(SeqCst))).await?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let exchange = Mutex::new(Exchange::default());
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = upstream.split();
    tokio::try_join!(
        requests(from_client, to_server, state, &exchange, faults.clone()),
        replies(from_server, to_client, state, &exchange, faults),
    )?;
    Ok(())
}

/// The requests of one connection so far, and the replies that are swallowed.
#[derive(Debug, Default)]
struct Exchange {
    requests: usize,
    /// The numbers of the first swallowed reply and of the last reply before a cut, counted from 1.
    swallowed: Option<(usize, usize, Swallow)>,
}

/// Forwards from the client to the server.
async fn requests(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    state: &ProxyState,
    exchange: &Mutex<Exchange>,
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
            let mut exchange = exchange.lock().unwrap();
            let first = exchange.requests + 1;
            exchange.requests += frames.feed(&buffer[..n]).len();
            if let (Some((probability, then)), None) = (now.swallow, exchange.swallowed)
                && state.rng.lock().unwrap().f64() < probability
            {
                exchange.swallowed = Some((first, exchange.requests.max(first), then));
                state.swallowed.fetch_add(1, SeqCst);
            }
        }
        forward(&mut to, &buffer[..n], &mut faults).await?;
    }
}

/// Forwards from the server to the client.
async fn replies(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    state: &ProxyState,
    exchange: &Mutex<Exchange>,
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
        let swallowed = exchange.lock().unwrap().swallowed;
        if let Some((first, ..)) = swallowed {
            // Delivers up to the end of reply `first - 1`, which may be in an earlier chunk.
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
            && state.rng.lock().unwrap().f64() < probability
        {
            // Cuts in the middle of the last reply, because the middle of the chunk could be the end of a reply.
            let begin = ends.iter().rev().find(|end| **end < chunk.len());
            let begin = begin.copied().unwrap_or(0);
            let half = begin + (chunk.len() - begin) / 2;
            state.truncated.fetch_add(1, SeqCst);
            forward(&mut to, &chunk[..half], &mut faults).await?;
            return Err(Broken::Closed);
        }
        forward(&mut to, chunk, &mut faults).await?;
        if let Some((_, last, Swallow::Cut)) = swallowed
            && answered >= last
        {
            return Err(Broken::Reset);
        }
    }
}

/// Reads a chunk. Waits while the black hole is on.
async fn read(
    from: &mut ReadHalf<'_>,
    buffer: &mut [u8],
    faults: &mut watch::Receiver<Faults>,
) -> io::Result<usize> {
    loop {
        wait_until_passable(faults).await;
        tokio::select! {
            biased;
            _ = faults.wait_for(|faults| faults.is_black_hole) => {}
            n = from.read(buffer) => return n,
        }
    }
}

/// Writes a chunk. Waits while the black hole is on.
async fn forward(
    to: &mut WriteHalf<'_>,
    chunk: &[u8],
    faults: &mut watch::Receiver<Faults>,
) -> io::Result<()> {
    wait_until_passable(faults).await;
    to.write_all(chunk).await
}

/// Waits until the black hole is off. Never fails, because the sender lives as long as the connection.
async fn wait_until_passable(faults: &mut watch::Receiver<Faults>) {
    let _ = faults.wait_for(|faults| !faults.is_black_hole).await;
}
