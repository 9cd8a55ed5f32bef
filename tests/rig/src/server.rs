//! A real redis-server for one test.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};

use super::process::{Leashed, TempDir, free_port, free_port_with_bus};
use super::wait::PATIENCE;

/// A text in the log of a server whose port is taken.
const TAKEN: &str = "Address already in use";

/// A redis-server with its own port and directory. Dropping this value kills the server and removes the directory, even
/// if the test panics.
///
/// By default, the server writes no snapshots and no append-only file.
#[derive(Debug)]
pub struct RedisServer {
    setup: Builder,
    port: u16,
    // Dropped before `dir`, so that the server is gone when its directory is removed.
    process: Mutex<Leashed>,
    dir: TempDir,
}

#[derive(Debug, Clone, Default)]
pub struct Builder {
    args: Vec<String>,
    password: Option<String>,
    /// Whether the server is a node of a cluster, which needs a second port.
    has_bus: bool,
}

impl Builder {
    /// Adds a configuration option, such as `.arg("--appendonly", "yes")`. Later options win.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Starts the server as a replica of the server on this port.
    #[must_use]
    pub fn replica_of(mut self, port: u16) -> Self {
        // Redis 6.2 does not accept host and port as one argument.
        let words = ["--replicaof".to_owned(), "127.0.0.1".to_owned()];
        self.args.extend(words);
        self.args.push(port.to_string());
        self
    }

    /// Requires this password of every client. [`RedisServer::url`] contains the password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.arg("--requirepass", password)
    }

    /// Starts the server as a node of a cluster. At first, the node knows no other node, and has no slots.
    #[must_use]
    pub fn node_of_a_cluster(mut self) -> Self {
        self.has_bus = true;
        self.arg("--cluster-enabled", "yes")
    }

    /// Makes the server write each change to disk before it answers.
    #[must_use]
    pub fn durable(self) -> Self {
        let durable = self.arg("--appendonly", "yes");
        durable.arg("--appendfsync", "always")
    }

    /// Starts the server and waits until it answers.
    pub async fn start(self) -> RedisServer {
        blocking(move || {
            let dir = TempDir::new("redis");
            let next_port = match self.has_bus {
                true => free_port_with_bus,
                false => free_port,
            };
            let (port, process) = self.launch_on(next_port, dir.path());
            RedisServer {
                setup: self,
                port,
                process: Mutex::new(process),
                dir,
            }
        })
        .await
    }

    /// Starts a process, and blocks until that process answers PING. If its port is taken, tries again.
    fn launch_on(&self, next_port: impl Fn() -> u16, dir: &Path) -> (u16, Leashed) {
        let end = Instant::now() + PATIENCE;
        loop {
            let port = next_port();
            match self.launch(port, dir, end) {
                Ok(process) => return (port, process),
                // Another process took the port between the check and the server's bind.
                Err(why) if why.contains(TAKEN) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(why) => panic!("the server {why}; its log:\n{}", log(dir)),
            }
        }
    }

    /// Starts a process on a port, and blocks until that process answers PING.
    fn launch(&self, port: u16, dir: &Path, end: Instant) -> Result<Leashed, String> {
        let before = log(dir).len();
        let out = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("redis.log"))
            .expect("open the server's log");
        let binary = binary();
        let mut command = Command::new(&binary);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--protected-mode", "no", "--loglevel", "warning"])
            // Serves a new replica at once; by default, a primary waits five seconds for more replicas.
            .args(["--repl-diskless-sync-delay", "0", "--dir"])
            .arg(dir)
            .args(&self.args)
            .stdout(out.try_clone().expect("share the server's log"))
            .stderr(out);
        let mut process = match Leashed::spawn(&mut command, dir) {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => panic!(
                "redis-server is not installed: run `make setup` or `apt-get install redis-server`, \
                 or set PULSE_REDIS_SERVER to the path of a server binary (looked for {})",
                binary.display()
            ),
            Err(error) => panic!("cannot start {}: {error}", binary.display()),
        };
        match until_it_answers(&mut process, port, end) {
            Ok(()) => Ok(process),
            Err(why) => Err(format!("{why}: {}", log(dir).split_off(before))),
        }
    }
}

impl RedisServer {
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    pub async fn start_durable() -> Self {
        Self::builder().durable().start().await
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `redis://127.0.0.1:PORT/`, with the password if there is one.
    pub fn url(&self) -> String {
        url(self.port, self.setup.password.as_deref())
    }

    /// The port, which stays the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the server's last process.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The server's log so far, including its log before a restart.
    pub fn log(&self) -> String {
        log(self.dir.path())
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("the rig's own URL")
    }

    /// A new connection with timeouts of 60 s.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.client()).await
    }

    /// Sends a command. Single spaces separate the command and its arguments.
    pub async fn run<T: FromRedisValue>(&self, command: &str) -> T {
        run(&mut self.connection().await, command).await
    }

    /// Kills the server (SIGKILL) and waits until it is gone.
    pub fn kill_9(&self) {
        self.process().kill_9();
    }

    /// Terminates the server (SIGTERM) and waits until it is gone.
    pub fn terminate(&self) {
        let mut process = self.process();
        process.signal("CONT");
        process.signal("TERM");
        let gone = process.wait(PATIENCE);
        drop(process);
        assert!(gone.is_some(), "SIGTERM ignored; log:\n{}", self.log());
    }

    /// Stops the process (SIGSTOP), and returns once it is stopped. Connections stay open and the kernel accepts new
    /// ones, but no request is answered.
    pub fn freeze(&self) {
        self.process().freeze();
    }

    pub fn thaw(&self) {
        self.process().signal("CONT");
    }

    /// Starts the server again on the same port, in the same directory, with the same arguments. If the server still
    /// runs, terminates it first.
    pub async fn restart(&self) {
        self.terminate();
        let (setup, port, dir) = (self.setup.clone(), self.port, self.dir().to_owned());
        let (_, process) = blocking(move || setup.launch_on(|| port, &dir)).await;
        *self.process() = process;
    }

    /// Closes the connections of all ordinary clients. Returns their number.
    pub async fn kill_clients(&self) -> u64 {
        self.run("CLIENT KILL TYPE normal SKIPME yes").await
    }

    /// The server's `used_memory`, in bytes.
    pub async fn used_memory(&self) -> u64 {
        self.info("memory").await["used_memory"].parse().unwrap()
    }

    /// The processor time of the server, user and system together, in microseconds.
    pub async fn cpu_micros(&self) -> u64 {
        let info = self.info("cpu").await;
        let seconds = |field: &str| info[field].parse::<f64>().unwrap();
        ((seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6).round() as u64
    }

    /// A section of INFO, as fields and values.
    pub async fn info(&self, section: &str) -> HashMap<String, String> {
        let text: String = self.run(&format!("INFO {section}")).await;
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(field, value)| (field.to_owned(), value.trim_end().to_owned()))
            .collect()
    }

    pub async fn commands(&self) -> u64 {
        let stats = self.info("stats").await;
        stats["total_commands_processed"].parse().unwrap()
    }

    fn process(&self) -> MutexGuard<'_, Leashed> {
        let process = self.process.lock();
        process.unwrap_or_else(PoisonError::into_inner)
    }
}

/// `redis://127.0.0.1:PORT/`, with the password if there is one.
pub(super) fn url(port: u16, password: Option<&str>) -> String {
    let login = password.map_or_else(String::new, |password| format!(":{password}@"));
    format!("redis://{login}127.0.0.1:{port}/")
}

/// The server's program: `PULSE_REDIS_SERVER`, or `redis-server` on PATH.
pub(super) fn binary() -> PathBuf {
    let binary = std::env::var_os("PULSE_REDIS_SERVER").filter(|path| !path.is_empty());
    binary
        .unwrap_or_else(|| OsString::from("redis-server"))
        .into()
}

/// Opens a connection with timeouts of 60 s. The defaults of the crate `redis`, 1 s and 500 ms, are too short for a
/// busy machine.
pub async fn connect(client: &redis::Client) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap_or_else(|error| panic!("cannot connect: {error}"))
}

/// Sends a command with its arguments, and returns the answer. An error fails the test.
pub async fn issue<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &str,
    arguments: impl redis::ToRedisArgs,
) -> T {
    let command = redis::cmd(command).arg(arguments).take();
    command.query_async(connection).await.unwrap()
}

/// Sends a command. Single spaces separate the command and its arguments.
pub async fn run<T: FromRedisValue>(connection: &mut MultiplexedConnection, text: &str) -> T {
    let words: Vec<_> = text.split(' ').collect();
    issue(connection, words[0], &words[1..]).await
}

/// Sends a command to a server that may be dead or frozen.
pub(super) async fn ask<T: FromRedisValue>(
    client: &redis::Client,
    words: &[&str],
) -> RedisResult<T> {
    const DEADLINE: Duration = Duration::from_secs(2);
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(DEADLINE))
        .set_response_timeout(Some(DEADLINE));
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection.await?).await
}

/// Blocks until a process answers on a port, at most until `end`. The error says why the process does not answer.
pub(super) fn until_it_answers(
    process: &mut Leashed,
    port: u16,
    end: Instant,
) -> Result<(), String> {
    while !answers(port, process.pid()) {
        if let Some(status) = process.try_wait() {
            return Err(format!("ended at once ({status})"));
        }
        if Instant::now() >= end {
            return Err(format!("did not answer within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether the process that answers PING on this port is `pid`, and has loaded its data. If the server asks
/// for a password, neither is checked.
fn answers(port: u16, pid: u32) -> bool {
    let own = format!("process_id:{pid}\r\n");
    let is_ready = |reply: &str| {
        reply.starts_with("-NOAUTH") || (reply.starts_with("+PONG") && reply.contains(&own))
    };
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\nINFO server\r\nQUIT\r\n")?;
        let (mut reply, mut buffer) = (String::new(), [0; 4096]);
        // A Sentinel does not know QUIT, so the connection may stay open.
        while !is_ready(&reply) {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            reply += &String::from_utf8_lossy(&buffer[..n]);
        }
        Ok(is_ready(&reply))
    };
    ask().unwrap_or(false)
}

fn log(dir: &Path) -> String {
    std::fs::read(dir.join("redis.log"))
        .map(|bytes| bytes.iter().map(|byte| char::from(byte & 0x7f)).collect())
        .unwrap_or_default()
}

/// Runs `work` on a thread for blocking work. A panic of `work` fails the test.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
