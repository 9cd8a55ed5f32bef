//! A peer that replaces a Redis server, and sends the answers that a test chooses.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Dropping the peer closes all connections.
#[derive(Debug)]
pub struct Peer {
    port: u16,
    accepting: tokio::task::JoinHandle<()>,
}

impl Peer {
    /// Starts a peer. For each request, `answer` gets the words of the request, and returns the reply in RESP.
    pub async fn start(answer: impl Fn(&[Vec<u8>]) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("bind the peer");
        let port = listener.local_addr().expect("the peer's address").port();
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                connections.spawn(async move {
                    // The task ends when the client disconnects.
                    let _ = serve(stream, &*answer).await;
                });
            }
        });
        Self { port, accepting }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: &(dyn Fn(&[Vec<u8>]) -> String + Send + Sync),
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        while let Some((words, length)) = request(&buffer) {
            stream.write_all(answer(&words).as_bytes()).await?;
            buffer.drain(..length);
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

/// The words of the first request, and its length; `None` while the request is incomplete.
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
