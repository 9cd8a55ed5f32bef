//! A primary with two replicas, and three real Sentinels that watch them.
//!
//! Each server has a proxy. Sentinels and other servers connect to the proxy, and the Sentinels announce the proxy's
//! address. The tested service connects to the server directly, by [`Sentinels::address_map`]. So a test can cut a
//! primary off from Sentinels and servers while the service still writes to the primary.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use redis::{FromRedisValue, RedisResult};

use super::cluster::Tls;
use super::process::{Leashed, TempDir, free_port};
use super::proxy::Proxy;
use super::server::{self, Builder, RedisServer};
use super::wait::{PATIENCE, look_until, until};

/// The name under which the Sentinels watch the primary.
pub const SERVICE: &str = "pulse-primary";

const SENTINELS: usize = 3;
/// More than half of the Sentinels.
const QUORUM: usize = 2;

/// A primary, its replicas and their Sentinels. Dropping the value ends all processes.
#[derive(Debug)]
pub struct Sentinels {
    pub servers: Vec<Watched>,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
pub struct Watched {
    pub server: RedisServer,
    /// The proxy through which Sentinels and other servers reach the server.
    pub proxy: Proxy,
}

#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub server_password: Option<&'static str>,
    pub sentinel_password: Option<&'static str>,
    /// The certificate of the Sentinels, which then also listen with TLS.
    pub tls: Option<Tls>,
}

#[derive(Debug)]
struct Sentinel {
    port: u16,
    tls_port: u16,
    password: Option<&'static str>,
    // Dropped before `_dir`, so that the process is gone when its directory is removed.
    process: Mutex<Leashed>,
    _dir: TempDir,
}

impl Sentinels {
    /// Starts servers and Sentinels without passwords and TLS.
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub async fn start_with(setup: Setup) -> Self {
        let primary = Watched::start(setup.server_password, |server| server).await;
        let port = primary.proxy.port();
        let replica = || Watched::start(setup.server_password, |server| server.replica_of(port));
        let (first, second) = tokio::join!(replica(), replica());
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(Sentinel::start(port, setup.clone()).await);
        }
        let started = Self {
            servers: vec![primary, first, second],
            sentinels,
        };
        started.wait_until_healthy().await;
        started
    }

    /// Waits until the Sentinels know all servers and each other, and two replicas follow the primary.
    pub async fn wait_until_healthy(&self) {
        for sentinel in &self.sentinels {
            until("the Sentinel knows all servers and Sentinels", async || {
                let fields = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]).await;
                let fields: HashMap<String, String> = fields.unwrap_or_default();
                let is = |field: &str, value| fields.get(field).map(String::as_str) == Some(value);
                is("flags", "master")
                    && is("num-slaves", "2")
                    && is("num-other-sentinels", "2")
                    && is("role-reported", "master")
            })
            .await;
        }
        let primary = self.primary().await;
        for (at, watched) in self.servers.iter().enumerate() {
            let port = self.servers[primary].proxy.port();
            let follows = async || at == primary || watched.follows().await == Some(Some(port));
            until("the replica follows the primary", follows).await;
        }
    }

    /// Makes the Sentinels wait ten minutes before they replace the primary. Otherwise, they could replace a primary
    /// that is only slow, on a busy machine. Waits until a failover in progress is over.
    pub async fn hold(&self) {
        for sentinel in &self.sentinels {
            let setting = ["down-after-milliseconds", "600000"];
            let words = [&["SENTINEL", "SET", SERVICE][..], &setting].concat();
            let is_accepted = async || sentinel.ask::<String>(&words).await.is_ok();
            until("the Sentinel accepts the setting", is_accepted).await;
        }
        self.wait_until_healthy().await;
    }

    /// The URLs of the Sentinels, with their password if they have one.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Sentinel::url).collect()
    }

    pub fn tls_urls(&self) -> Vec<String> {
        let ports = self.sentinels.iter().map(|sentinel| sentinel.tls_port);
        ports
            .map(|port| format!("rediss://127.0.0.1:{port}/"))
            .collect()
    }

    /// Maps the addresses of the proxies, which the Sentinels announce, to the addresses of the servers.
    pub fn address_map(&self) -> HashMap<String, String> {
        let address = |port: u16| format!("127.0.0.1:{port}");
        let servers = self.servers.iter();
        servers
            .map(|watched| {
                let announced = address(watched.proxy.port());
                (announced, address(watched.server.port()))
            })
            .collect()
    }

    /// The index of the server that a Sentinel names as the primary.
    async fn named_by(&self, sentinel: &Sentinel) -> Option<usize> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
        let (_, port): (String, u16) = sentinel.ask(&words).await.ok()?;
        let mut servers = self.servers.iter();
        servers.position(|watched| watched.proxy.port() == port)
    }

    /// The index of the server that all Sentinels name as the primary, once they agree.
    pub async fn primary(&self) -> usize {
        look_until(PATIENCE, async || {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                named.push(self.named_by(sentinel).await);
            }
            named.dedup();
            match named[..] {
                [Some(primary)] => Ok(primary),
                _ => Err(format!("the Sentinels name {named:?}")),
            }
        })
        .await
    }

    /// Lets a Sentinel replace the primary by a replica. Returns the index of the new primary.
    pub async fn fail_over(&self) -> usize {
        let before = self.primary().await;
        let sentinel = &self.sentinels[0];
        until("a failover begins", async || {
            let words = ["SENTINEL", "FAILOVER", SERVICE];
            sentinel.ask::<String>(&words).await.is_ok()
        })
        .await;
        self.another_primary(before).await
    }

    /// Waits until the Sentinels name another primary than `before`, and that server reports itself as a primary.
    pub async fn another_primary(&self, before: usize) -> usize {
        let mut after = before;
        until("there is another primary", async || {
            after = self.primary().await;
            after != before && self.servers[after].follows().await == Some(None)
        })
        .await;
        after
    }

    /// Cuts the server off from Sentinels and other servers. Clients still reach the server directly.
    pub fn cut_off(&self, server: usize) {
        self.servers[server].proxy.refuse(true);
        self.servers[server].proxy.cut();
    }

    /// Ends [`cut_off`](Self::cut_off). If the Sentinels have chosen another primary meanwhile, there are two primaries
    /// until the Sentinels notice the old primary.
    pub fn heal(&self, server: usize) {
        self.servers[server].proxy.refuse(false);
    }

    pub fn kill_sentinels(&self) {
        for sentinel in &self.sentinels {
            let process = sentinel.process.lock();
            process.unwrap_or_else(PoisonError::into_inner).kill_9();
        }
    }
}

impl Watched {
    async fn start(password: Option<&str>, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let proxy = Proxy::start(1).await;
        let mut builder = RedisServer::builder()
            .arg("--replica-announce-ip", "127.0.0.1")
            .arg("--replica-announce-port", &proxy.port().to_string())
            .arg("--repl-timeout", "5");
        if let Some(password) = password {
            builder = builder.password(password).arg("--masterauth", password);
        }
        let server = configure(builder).start().await;
        proxy.set_upstream(server.port());
        Self { server, proxy }
    }

    /// `Some(None)` if the server is a primary. `Some(Some(port))` if the server is a replica and connected to the
    /// primary on this port. `None` if the replica is not connected, or the server does not answer. Both happen while a
    /// Sentinel changes the server's role.
    pub async fn follows(&self) -> Option<Option<u16>> {
        let role = server::ask(&self.server.client(), &["ROLE"]).await;
        let role: Vec<redis::Value> = role.ok()?;
        let text = |at: usize| String::from_redis_value(role.get(at)?.clone()).ok();
        match &*text(0)? {
            "master" => Some(None),
            _ if text(3)? == "connected" => Some(text(2)?.parse().ok()),
            _ => None,
        }
    }
}

impl Sentinel {
    async fn start(primary: u16, setup: Setup) -> Self {
        server::blocking(move || {
            let dir = TempDir::new("sentinel");
            let (port, tls_port) = (free_port(), free_port());
            let process = launch((port, tls_port), primary, &setup, dir.path());
            Self {
                port,
                tls_port,
                password: setup.sentinel_password,
                process: Mutex::new(process),
                _dir: dir,
            }
        })
        .await
    }

    fn url(&self) -> String {
        server::url(self.port, self.password)
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let client = redis::Client::open(self.url()).expect("the rig's own URL");
        server::ask(&client, words).await
    }
}

/// Starts a Sentinel, and blocks until it answers.
fn launch((port, tls_port): (u16, u16), primary: u16, setup: &Setup, dir: &Path) -> Leashed {
    let mut lines = vec![
        format!("port {port}"),
        "bind 127.0.0.1".to_owned(),
        "protected-mode no".to_owned(),
        format!("dir {}", dir.display()),
        format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} {QUORUM}"),
        format!("sentinel down-after-milliseconds {SERVICE} 700"),
        // A Sentinel tries a failover again after twice this time.
        format!("sentinel failover-timeout {SERVICE} 3000"),
        format!("sentinel parallel-syncs {SERVICE} 2"),
    ];
    let passwords = [
        (
            format!("sentinel auth-pass {SERVICE}"),
            setup.server_password,
        ),
        ("requirepass".to_owned(), setup.sentinel_password),
    ];
    for (setting, password) in passwords {
        lines.extend(password.map(|password| format!("{setting} {password}")));
    }
    if let Some(tls) = &setup.tls {
        let settings = tls.settings(tls_port);
        lines.extend(settings.map(|(name, value)| format!("{name} {value}")));
    }
    let config = dir.join("sentinel.conf");
    std::fs::write(&config, lines.join("\n") + "\n").expect("write the Sentinel's settings");
    let log = std::fs::File::create(dir.join("sentinel.log")).expect("make the Sentinel's log");
    let mut command = Command::new(server::binary());
    command
        .arg(&config)
        .arg("--sentinel")
        .stdout(log.try_clone().expect("share the Sentinel's log"))
        .stderr(log);
    let mut process = Leashed::spawn(&mut command, dir).expect("start a Sentinel");
    let answers = server::until_it_answers(&mut process, port, Instant::now() + PATIENCE);
    answers.unwrap_or_else(|why| {
        let log = std::fs::read_to_string(dir.join("sentinel.log")).unwrap_or_default();
        panic!("the Sentinel {why}: {log}");
    });
    process
}
