//! What the windows of the page cost with 2,000 busy contexts and two weeks of records in Redis: the first
//! answer, an answer and the commands of a second in steady state, and memory: `cargo bench -p pulse-benches --bench windows`.
//!
//! The records are written straight into Redis, as the fold leaves them, and the newest slices are written anew each
//! second. `WINDOWS_CONTEXTS` and `WINDOWS_SECONDS` change the size.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use redis::aio::MultiplexedConnection;
use redis::{cmd, pipe};
use rig::server::RedisServer;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::model::aggregate::Aggregate;
use tower_pulse::model::context::{ALL, Kind};
use tower_pulse::model::histogram::{COARSE_SCALE, Histogram, SCALE, bucket_of};
use tower_pulse::model::pack;
use tower_pulse::model::records::{Record, RecordId};
use tower_pulse::model::tier::{FINEST, TIERS};
use tower_pulse::{Clock, Pulse};

const PREFIX: &str = "pulse:";
const WINDOWS: [&str; 8] = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];
/// Requests of a context and minute.
const REQUESTS: usize = 60;

fn setting(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn name(context: usize) -> String {
    format!("GET /api/v1/things-{context}/{{id}}")
}

/// A slice of a context whose access times spread over two decades.
fn record(rng: &mut fastrand::Rng, seconds: u32, until: i64) -> Vec<u8> {
    let mut sums = Aggregate::default();
    let middle = 10f64.powf(6.0 + 2.0 * rng.f64());
    let requests = REQUESTS * (seconds as usize / 60).min(60);
    let nanos: Vec<u64> = (0..requests)
        .map(|_| (middle * 10f64.powf(1.2 * (rng.f64() + rng.f64() - 1.0))) as u64)
        .collect();
    for nanos in &nanos {
        sums.times.record(*nanos);
    }
    sums.outcomes.counts[2] = requests as u64;
    let buckets = nanos.iter().map(|nanos| (bucket_of(*nanos) as u16, 1));
    sums.histogram = Histogram::new(SCALE, buckets);
    if seconds >= 3_600 {
        sums.histogram.coarsen(COARSE_SCALE);
    }
    let rolled_until = match seconds == FINEST.seconds {
        true => i64::MIN,
        false => until,
    };
    pack::record(&Record { sums, rolled_until })
}

struct Bench {
    server: RedisServer,
    connection: MultiplexedConnection,
    rng: fastrand::Rng,
    contexts: usize,
}

/// The server's usage by reading commands.
#[derive(Clone, Copy, Default)]
struct Usage {
    commands: f64,
    micros: f64,
}

impl Bench {
    fn ids(&self) -> Vec<RecordId> {
        let pages = (0..self.contexts).map(|context| RecordId::new(Kind::Http, &name(context)));
        pages.chain([RecordId::new(Kind::All, ALL)]).collect()
    }

    /// Writes a slice as a step of the fold does.
    async fn write(&mut self, seconds: u32, start: i64, now: i64) {
        let until = FINEST.slice(now);
        for ids in self.ids().chunks(500) {
            let mut set = cmd("HSET");
            set.arg(format!("{PREFIX}pulse:r1:{seconds}:{start}"));
            for id in ids {
                set.arg(&id.to_bytes())
                    .arg(record(&mut self.rng, seconds, until));
            }
            set.exec_async(&mut self.connection).await.unwrap();
        }
        let place = start.div_euclid(i64::from(seconds)).rem_euclid(256);
        let mut revision = cmd("HSET");
        revision.arg(format!("{PREFIX}pulse:revisions"));
        revision.arg(format!("{seconds}:{place}"));
        revision.arg(format!("{start} {}", self.rng.u64(..)));
        revision.exec_async(&mut self.connection).await.unwrap();
    }

    async fn fill(&mut self, now: i64) {
        let mut pipeline = pipe();
        for context in 0..self.contexts {
            pipeline
                .cmd("ZADD")
                .arg(format!("{PREFIX}pulse:contexts"))
                .arg(now)
                .arg(name(context));
        }
        let state = pipeline.cmd("HSET").arg(format!("{PREFIX}pulse:state"));
        state
            .arg("gen")
            .arg("bench")
            .arg("created")
            .arg(now - 14 * 86_400)
            .arg("fresh")
            .arg(1);
        pipeline.exec_async(&mut self.connection).await.unwrap();
        self.rolled(now).await;
        for tier in TIERS {
            let newest = tier.slice(now);
            for back in 0..i64::from(tier.retained) {
                self.write(tier.seconds, newest - back * i64::from(tier.seconds), now)
                    .await;
            }
        }
    }

    async fn rolled(&mut self, now: i64) {
        let minute = FINEST.slice(now);
        let mut set = cmd("HSET");
        set.arg(format!("{PREFIX}pulse:state"))
            .arg("rolled")
            .arg(format!("{minute} {minute}"));
        set.exec_async(&mut self.connection).await.unwrap();
    }

    /// The usage by the commands that the page sends, of which this bench sends none itself.
    async fn usage(&mut self) -> Usage {
        let stats: String = cmd("INFO")
            .arg("commandstats")
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let mut usage = Usage::default();
        for line in stats.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|l| l.split_once(':'))
            else {
                continue;
            };
            if matches!(
                name,
                "hset"
                    | "info"
                    | "zadd"
                    | "client|setinfo"
                    | "client|setname"
                    | "slowlog|get"
                    | "slowlog|reset"
                    | "ping"
                    | "config|get"
            ) {
                continue;
            }
            let field = |wanted: &str| -> f64 {
                let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
                fields
                    .find(|(name, _)| *name == wanted)
                    .and_then(|(_, n)| n.parse().ok())
                    .unwrap_or(0.0)
            };
            usage.commands += field("calls");
            usage.micros += field("usec");
        }
        usage
    }

    /// The slowest reading command so far, in milliseconds.
    async fn slowest(&mut self) -> f64 {
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let entries: Vec<Entry> = cmd("SLOWLOG")
            .arg("GET")
            .arg(10_000)
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let reads = entries
            .iter()
            .filter(|entry| !matches!(&*entry.3[0], b"HSET" | b"INFO" | b"SLOWLOG" | b"ZADD"));
        reads.map(|entry| entry.2 as f64 / 1e3).fold(0.0, f64::max)
    }
}

/// The memory of this process, in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

async fn get(app: &Router, window: &str) -> (serde_json::Value, Duration) {
    let uri = format!("/api/paths?window={window}&limit=100&sort=change");
    let start = Instant::now();
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let took = start.elapsed();
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
    (serde_json::from_slice(&body).unwrap(), took)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = RedisServer::builder()
        .arg("--slowlog-log-slower-than", "1000")
        .arg("--slowlog-max-len", "100000")
        .start()
        .await;
    let connection = server.connection().await;
    let contexts = setting("WINDOWS_CONTEXTS", 2_000);
    let seconds = setting("WINDOWS_SECONDS", 75);
    let mut bench = Bench {
        server,
        connection,
        rng: fastrand::Rng::with_seed(7),
        contexts,
    };
    let clock = Clock::system();
    bench.fill(clock.now_seconds()).await;
    println!(
        "{contexts} contexts, {:.0} MiB in Redis",
        bench.server.used_memory().await as f64 / 1_048_576.0
    );
    let builder = Pulse::builder().redis(bench.server.url());
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let app = pulse.router(Access::open());
    let before = resident();

    println!("\n| window | first answer | complete | whole after |\n|---|---|---|---|");
    for window in WINDOWS {
        let start = Instant::now();
        let (answer, first) = get(&app, window).await;
        let complete = answer["complete"].as_f64().unwrap();
        let (mut told, mut answers) = (answer, 1);
        while told["complete"].as_f64().unwrap() < 1.0
            || told["before"]["complete"].as_f64().unwrap() < 1.0
        {
            assert!(answers < 30, "{told}");
            tokio::time::sleep(Duration::from_millis(1_001)).await;
            told = get(&app, window).await.0;
            answers += 1;
        }
        println!(
            "| {window} | {:.0} ms | {complete:.2} | {:.1} s |",
            millis(first),
            start.elapsed().as_secs_f64()
        );
    }
    println!("\nslowest reading command: {}", bench.slowest().await);

    println!(
        "\n| windows that are looked at | commands/s | Redis CPU ms/s | answer ms, median | p99 | largest | held MiB |\n|---|---|---|---|---|---|---|"
    );
    for (label, windows) in [
        ("1h", &WINDOWS[2..3]),
        ("1h, with series", &["1h&series=hits"]),
        ("hour", &WINDOWS[6..7]),
        ("all eight", &WINDOWS[..]),
    ] {
        let start = bench.usage().await;
        let began = Instant::now();
        let mut took = BTreeMap::new();
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        for _ in 0..seconds {
            tick.tick().await;
            let now = clock.now_seconds();
            bench.rolled(now).await;
            bench.write(60, FINEST.slice(now), now).await;
            if now % 60 < 2 {
                for tier in &TIERS[1..] {
                    bench.write(tier.seconds, tier.slice(now), now).await;
                }
            }
            for window in windows {
                // Two pages that look at the same window.
                let (a, b) = tokio::join!(get(&app, window), get(&app, window));
                took.insert((a.1, took.len()), ());
                took.insert((b.1, took.len()), ());
            }
        }
        let (usage, passed) = (bench.usage().await, began.elapsed().as_secs_f64());
        let took: Vec<f64> = took.keys().map(|(took, _)| millis(*took)).collect();
        println!(
            "| {label} | {:.1} | {:.2} | {:.1} | {:.1} | {:.1} | {:.0} |",
            (usage.commands - start.commands) / passed,
            (usage.micros - start.micros) / 1e3 / passed,
            took[took.len() / 2],
            took[took.len() * 99 / 100],
            took[took.len() - 1],
            resident() - before,
        );
    }
    println!("\nslowest reading command: {}", bench.slowest().await);
}
