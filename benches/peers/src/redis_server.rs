//! A redis-server on a free port, which is killed when it is dropped.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server.
#[derive(Debug)]
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
}

impl RedisServer {
    /// Starts a server that writes nothing to disk.
    pub(crate) fn start() -> Result<Self, String> {
        let port = free_port()?;
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string()])
            .args(["--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("not measured: redis-server cannot be started ({error})"))?;
        let server = Self { process, port };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if start.elapsed() > Duration::from_secs(5) {
                return Err("not measured: redis-server does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself; there is no data to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port without a listener at this moment.
pub(crate) fn free_port() -> Result<u16, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}
