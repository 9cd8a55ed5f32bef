//! A peer that speaks the server's protocol, and sends the answers that a test chooses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An answer of the peer.
#[derive(Debug, Clone)]
pub struct Answer(Vec<u8>);

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

/// The peer. Dropping it closes all connections.
#[derive(Debug)]
pub struct Peer {
    port: u16,
    shared: Arc<PeerState>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct PeerState {
    connections: AtomicU64,
    requests: AtomicU64,
}

impl Peer {
    /// Starts a peer that answers each request, given as its words, with `answer`.
    pub async fn start(answer: impl Fn(&[Vec<u8>]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("bind the peer");
        let port = listener.local_addr().expect("the peer's address").port();
        let shared = Arc::new(PeerState::default());
        let (accepted, answer) = (shared.clone(), Arc::new(answer));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                accepted.connections.fetch_add(1, SeqCst);
                let (shared, answer) = (accepted.clone(), answer.clone());
                connections.spawn(async move {
                    // The task ends when the client disconnects.
                    let _ = serve(stream, &shared, &*answer).await;
                });
            }
        });
        Self {
            port,
            shared,
            accepting,
        }
    }

    /// Starts a peer that behaves like Redis in everything but scripts.
    pub async fn start_with_scripts(
        answer: impl Fn(Script) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |words| match Script::of(words) {
            Some(script) => answer(script),
            None if words[0] == b"INFO" => "$21\r\nredis_version:7.2.0\r\n\r\n".into(),
            None => ":1\r\n".into(),
        })
        .await
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT/`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Number of connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(SeqCst)
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(SeqCst)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A script of the crate, recognized by its numbers of keys and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    Hello,
    Append,
    Acquire,
    Other,
}

impl Script {
    fn of(words: &[Vec<u8>]) -> Option<Self> {
        // A call without keys only checks that the script compiles.
        if words[0] != b"EVALSHA" || words[2] == b"0" {
            return None;
        }
        Some(match (&*words[2], words.len()) {
            (b"5", _) => Self::Hello,
            (b"4", 18) => Self::Append,
            (b"3", 12) => Self::Acquire,
            _ => Self::Other,
        })
    }
}

async fn serve(
    mut stream: TcpStream,
    shared: &PeerState,
    answer: &(dyn Fn(&[Vec<u8>]) -> Answer + Send + Sync),
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        while let Some((words, length)) = request(&buffer) {
            shared.requests.fetch_add(1, SeqCst);
            stream.write_all(&answer(&words).0).await?;
            buffer.drain(..length);
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The words of the first request, and its length; `None` while it is incomplete.
fn request(buffer: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let number = |at: usize| {
        let line = &buffer[at..];
        let end = line.windows(2).position(|two| two == b"\r\n")?;
        let number: usize = std::str::from_utf8(&line[1..end]).ok()?.parse().ok()?;
        Some((number, at + end + 2))
    };
    let (count, mut end) = number(0)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = number(end)?;
        end = start + length + 2;
        words.push(buffer.get(start..end)?[..length].to_vec());
    }
    Some((words, end))
}
