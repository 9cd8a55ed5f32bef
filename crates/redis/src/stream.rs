//! The stream below a connection. It bounds the memory that an answer takes, whatever the peer sends.
//!
//! The client reads a whole answer before it parses it, and trusts the lengths that the peer sends. This stream
//! therefore counts the bytes below the client, from the last completed answer on. Beyond the limit the stream
//! fails, and the connection with it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use redis::io::tcp::{TcpSettings, socket2::SockRef};
use redis::{ConnectionAddr, ConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use tower_pulse_core::error::StoreError;

/// The memory of a value beside its bytes. Each value has a line in the protocol, and a string has two.
const LINE_BYTES: usize = 64;
/// The memory of an array beside its values: the client allocates room for at least four values or four pairs.
const ARRAY_BYTES: usize = 512;

/// Bytes that are counted in a byte, which cannot overflow: the compiler vectorizes that.
const COUNTED_AT_ONCE: usize = u8::MAX as usize;

/// The size above which an answer may take long to arrive.
const LARGE_BYTES: usize = 1024 * 1024;

/// An estimate of the memory of the answer that is under way. It is hardly ever too small.
#[derive(Debug)]
pub(super) struct AnswerSize {
    bytes: AtomicUsize,
    /// All bytes that were ever read.
    received: AtomicUsize,
    max_bytes: usize,
    is_exceeded: AtomicBool,
}

impl AnswerSize {
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            max_bytes,
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Called when an answer is complete.
    pub(super) fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// How many bytes were ever read, which grows as long as the peer answers.
    #[cfg(feature = "row-cache")]
    pub(super) fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether a part of an answer has arrived.
    pub(super) fn is_under_way(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > 0
    }

    /// Whether so much of an answer has arrived that its size may be the cause of a timeout.
    pub(super) fn is_large(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > LARGE_BYTES
    }

    /// Whether an answer was larger than the limit. The stream has failed then.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Adds bytes that were read. They count twice, as a string is copied out of them.
    fn add(&self, read: &[u8], is_line_start: &mut bool) -> io::Result<()> {
        let lines = count(read, read, |byte, _| byte == b'\n');
        let inner = match lines {
            0 => 0,
            _ => count(read, &read[1..], |end, begin| {
                (end == b'\n') & begins_array(begin)
            }),
        };
        let first = read
            .first()
            .filter(|byte| *is_line_start && begins_array(**byte));
        let arrays = inner + usize::from(first.is_some());
        if let Some(last) = read.last() {
            *is_line_start = *last == b'\n';
        }
        let size = 2 * read.len() + lines * LINE_BYTES + arrays * ARRAY_BYTES;
        self.received.fetch_add(read.len(), Ordering::Relaxed);
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) <= self.max_bytes {
            return Ok(());
        }
        self.is_exceeded.store(true, Ordering::Relaxed);
        Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "the answer is too large",
        ))
    }
}

/// Whether a line that begins with this byte begins an array or a map.
fn begins_array(byte: u8) -> bool {
    (byte == b'*') | (byte == b'%') | (byte == b'~') | (byte == b'|') | (byte == b'>')
}

/// The number of pairs of bytes at the same places of which a condition is true.
fn count(bytes: &[u8], others: &[u8], is_true: impl Fn(u8, u8) -> bool) -> usize {
    let parts = bytes
        .chunks(COUNTED_AT_ONCE)
        .zip(others.chunks(COUNTED_AT_ONCE));
    let counts = parts.map(|(bytes, others)| {
        let pairs = bytes.iter().zip(others);
        let counts = pairs.map(|(byte, other)| u8::from(is_true(*byte, *other)));
        usize::from(counts.sum::<u8>())
    });
    counts.sum()
}

/// A stream whose answers are bounded.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    size: Arc<AnswerSize>,
    is_line_start: bool,
    /// Whether a command was written. Until then nothing is read: a message that the server sends on its own,
    /// such as that it has no connection left, then counts as the answer to the first command.
    is_written: bool,
}

impl<S> Bounded<S> {
    fn new(stream: S, size: &Arc<AnswerSize>) -> Self {
        Self {
            stream,
            size: size.clone(),
            is_line_start: true,
            is_written: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_written {
            // The first write wakes this task, which does both.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let Self {
            size,
            is_line_start,
            ..
        } = &mut *self;
        let added = size.add(&buf.filled()[before..], is_line_start);
        if added.is_err() {
            buf.set_filled(before);
        }
        Poll::Ready(added)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !std::mem::replace(&mut self.is_written, true) {
            cx.waker().wake_by_ref();
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream to a server, of any transport.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens a stream to the server. `None` where only the client can: with TLS certificates of the user, which the
/// client does not expose.
pub(super) async fn open(
    info: &ConnectionInfo,
    size: &Arc<AnswerSize>,
) -> io::Result<Option<Bounded<Box<dyn Stream>>>> {
    let stream: Box<dyn Stream> = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            Box::new(open_tcp(host, *port, info.tcp_settings()).await?)
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        } => {
            let stream = open_tcp(host, *port, info.tcp_settings()).await?;
            Box::new(super::tls::connect(host, stream).await?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Bounded::new(stream, size)))
}

/// Connects to the address of the host that answers first.
async fn open_tcp(host: &str, port: u16, settings: &TcpSettings) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    for address in tokio::net::lookup_host((host, port)).await? {
        attempts.spawn(TcpStream::connect(address));
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(stream)) => {
                apply(settings, &stream)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = error,
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

fn apply(settings: &TcpSettings, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(settings.nodelay())?;
    let socket = SockRef::from(stream);
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}

/// The source of an error whose cause is an answer that was larger than its connection accepts, or too large
/// to arrive in time.
#[derive(Debug)]
pub(super) struct Oversized;

impl std::fmt::Display for Oversized {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is too large")
    }
}

impl std::error::Error for Oversized {}

impl Oversized {
    /// Whether an oversized answer caused the error.
    pub(super) fn caused(error: &StoreError) -> bool {
        let source = std::error::Error::source(error);
        source.is_some_and(|source| source.is::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read_all(answers: &[u8], max_bytes: usize) -> (io::Result<usize>, Arc<AnswerSize>) {
        let size = AnswerSize::new(max_bytes);
        let mut read = Vec::new();
        let mut bounded = Bounded::new(answers, &size);
        bounded.is_written = true;
        let result = bounded.read_to_end(&mut read).await;
        (result, size)
    }

    #[tokio::test]
    async fn bytes_are_counted_until_an_answer_is_given() {
        let (read, size) = read_all(&[b'A'; 1_000], 2_000).await;
        assert_eq!(read.expect("within the limit"), 1_000);
        assert!(size.is_under_way() && !size.is_exceeded());
        size.reset();
        assert!(!size.is_under_way());
        let (read, size) = read_all(&[b'A'; 1_001], 2_000).await;
        let error = read.expect_err("too large");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(size.is_exceeded());
    }

    #[tokio::test]
    async fn small_values_count_for_what_they_take_in_memory() {
        let value = size_of::<redis::Value>();
        assert!(LINE_BYTES >= value, "{value}");
        assert!(ARRAY_BYTES >= 8 * value, "{value}");
        for (answer, bytes) in [
            (&b":1\r\n"[..], 8 + LINE_BYTES),
            (b"$1\r\n*\r\n", 14 + 2 * LINE_BYTES + ARRAY_BYTES),
            (b"*0\r\n", 8 + LINE_BYTES + ARRAY_BYTES),
        ] {
            assert!(read_all(&answer.repeat(100), 100 * bytes).await.0.is_ok());
            assert!(read_all(&answer.repeat(101), 100 * bytes).await.0.is_err());
            // The sum is the same if the bytes arrive one by one.
            let (size, mut is_line_start) = (AnswerSize::new(usize::MAX), true);
            for byte in answer.repeat(100) {
                size.add(&[byte], &mut is_line_start).expect("no limit");
            }
            assert_eq!(size.bytes.load(Ordering::Relaxed), 100 * bytes);
        }
    }
}
