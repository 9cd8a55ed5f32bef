//! A long outage under full load, over real HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::faults::scenarios::Report;
use crate::faults::scenarios::process::Clients;
use crate::faults::service::{PREFIX, by_day, pause};
use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_unfolded;
use crate::rig::http::Client;
use crate::rig::proxy::Proxy;
use crate::rig::server::RedisServer;
use crate::table::Size;

const CONNECTIONS: usize = 8;
/// The most bytes by which the service may grow while Redis is away: the default of `pending_bytes`.
const MOST_GROWTH: u64 = 64 << 20;

/// Clients that send each request as soon as the previous one is answered.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Clients,
}

impl Load {
    fn start(demo: &Demo) -> Self {
        let stop = Arc::default();
        let clients = Clients::start_many(demo, CONNECTIONS, usize::MAX, &stop);
        Self { stop, clients }
    }

    /// Returns the p99 in microseconds, and the numbers of failed and of answered requests.
    async fn stop(self) -> (u128, u64, u64) {
        self.stop.store(true, SeqCst);
        let (answers, failed) = self.clients.end().await;
        let answers = answers.iter();
        let mut micros: Vec<_> = answers.map(|(_, took)| took.as_micros()).collect();
        micros.sort_unstable();
        let p99 = micros.get(micros.len() * 99 / 100).copied().unwrap_or(0);
        (p99, failed, micros.len() as u64)
    }
}

async fn start_demo(url: &str, has_layer: bool) -> Demo {
    let layer = if has_layer { "on" } else { "off" };
    let env = [
        ("REDIS_URL", url),
        ("DEMO_TRAFFIC", "off"),
        ("DEMO_LAYER", layer),
    ];
    Demo::start(demo::built(), &env).await
}

/// The p99 of the same requests without the layer, in microseconds.
async fn p99_without_layer(url: &str, length: Duration) -> u128 {
    let demo = start_demo(url, false).await;
    let load = Load::start(&demo);
    tokio::time::sleep(length).await;
    load.stop().await.0
}

pub async fn away(size: Size) -> Report {
    let outage = size.time(120).max(Duration::from_secs(4));
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let control_length = (outage / 4).max(Duration::from_secs(3));
    let before = p99_without_layer(&proxy.url(), control_length).await;

    let demo = start_demo(&proxy.url(), true).await;
    let mut admin = Client::connect(demo.address()).await;
    let load = Load::start(&demo);
    pause(2_000).await;
    let rss = demo.rss_bytes();
    let (_, failed_before, answered) = load.stop().await;
    let mut expected = answered as i64;

    proxy.refuse(true);
    proxy.cut();
    let load = Load::start(&demo);
    let mut peak = rss;
    let start = Instant::now();
    while start.elapsed() < outage {
        pause(200).await;
        peak = peak.max(demo.rss_bytes());
    }
    let health = admin.json("/admin/pulse/api/health").await;
    let (p99, failed, answered) = load.stop().await;
    expected += answered as i64;

    // The store comes back while clients send requests, which count too.
    let load = Load::start(&demo);
    proxy.heal();
    let healed = Instant::now();
    let mut conn = server.connection().await;
    while by_day(&mut conn, HITS).await < expected && healed.elapsed() < Duration::from_secs(30) {
        pause(20).await;
    }
    let all_stored = healed.elapsed();
    peak = peak.max(demo.rss_bytes());
    let (_, failed_after, answered) = load.stop().await;
    demo.signal("TERM");
    demo.wait_exit(Duration::from_secs(5)).await;
    fold_unfolded(&server.url(), PREFIX).await;
    let after = p99_without_layer(&proxy.url(), control_length).await;

    let seconds = outage.as_secs_f64();
    let mut report = Report {
        done: format!("Redis away for {seconds:.0} s under full load"),
        expected: expected + answered as i64,
        stored: by_day(&mut conn, HITS).await,
        ..Report::default()
    };
    let failed = failed_before + failed + failed_after;
    report.fault_if(failed > 0, format!("{failed} requests failed"));
    let (growth, bound) = (peak.saturating_sub(rss) / 1024, MOST_GROWTH / 1024);
    let line = format!("grew by {growth} kB (bound {bound} kB)");
    report.fault_if(growth > bound, &*line);
    report.notes.push(line);
    let line = format!("all stored after {:.2} s", all_stored.as_secs_f64());
    report.fault_if(all_stored > Duration::from_secs(5), &*line);
    report.notes.push(line);
    // A tenth above the slower run without the layer is allowed for noise.
    let is_slower = p99 > before.max(after) * 11 / 10;
    let line = format!("p99 {p99} µs (without the layer {before} and {after} µs)");
    report.fault_if(is_slower, &*line);
    report.notes.push(line);
    let must_be_down = outage > Duration::from_secs(11);
    let is_wrong = must_be_down && health["status"] != "down";
    report.fault_if(is_wrong, format!("health says {}", health["status"]));
    report
}

const HITS: &str = "hits:GET /ping";
