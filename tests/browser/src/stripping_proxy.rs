//! A reverse proxy that serves a part of its own paths from elsewhere, without their prefix.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running proxy. Dropping it closes its port.
#[derive(Debug)]
pub struct StrippingProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl StrippingProxy {
    /// Serves `PREFIX/…` from `/…` of an upstream.
    pub async fn start(prefix: &'static str, upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("bind the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A browser that leaves in the middle is nobody's fault.
                tokio::spawn(async move { forward(client, prefix, upstream).await.ok() });
            }
        });
        Self { address, accepting }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StrippingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards one request, on a connection of its own.
async fn forward(client: TcpStream, prefix: &str, upstream: SocketAddr) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let Some((method, path)) = line.split_once(' ') else {
        return Ok(());
    };
    let Some(path) = path
        .strip_prefix(prefix)
        .filter(|path| path.starts_with('/'))
    else {
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return client.get_mut().write_all(answer).await;
    };
    let mut head = format!("{method} {path}");
    loop {
        line.clear();
        client.read_line(&mut line).await?;
        if line.trim().is_empty() {
            break;
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            head.push_str(&line);
        }
    }
    head.push_str("connection: close\r\n\r\n");
    let mut server = TcpStream::connect(upstream).await?;
    server.write_all(head.as_bytes()).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
