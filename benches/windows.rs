//! The cost of the dashboard's windows with 2,000 busy contexts and two weeks of records in Redis: `cargo bench -p
//! pulse-benches --bench windows`. A *look* is a question of the dashboard about a window. The bench measures the cost
//! of the first look of a new `Pulse` and of later looks, and how long a look holds a worker thread. Then, the bench
//! measures the service's own requests during looks, and the first answer about each window. Last, the bench measures
//! answers, commands and memory in steady state.
//!
//! The bench writes the records into Redis as the fold would, and replaces the newest minute each second.
//! `WINDOWS_CONTEXTS` and `WINDOWS_SECONDS` change the size. No instance folds or cleans meanwhile.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use pulse_rig::process::{processor_millis, resident_bytes};
use pulse_rig::server::{RedisServer, issue};
use redis::aio::MultiplexedConnection;
use redis::cmd;
use tower::ServiceExt;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::histogram::{COARSE_SCALE, Histogram, SCALE, bucket_of};
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::tier::{FINEST, RolledUp, TIERS};

const PREFIX: &str = "pulse:";
const WINDOWS: [&str; 8] = ["5m", "15m", "1h", "6h", "24h", "7d", "hour", "last_hour"];
const REQUESTS: usize = 60;

fn setting(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn name(context: usize) -> String {
    format!("GET /api/v1/things-{context}/{{id}}")
}

/// The record of a context in a slice, with durations around a random middle from 1 to 100 ms.
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
    sums.codes.add(200, requests as u64);
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

/// The commands that this bench and new connections send.
const BENCH_COMMANDS: &str =
    "hset info zadd client|setinfo client|setname slowlog|get ping config|get";

/// The server's commands that read, and the microseconds that they took.
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
        let index = start.div_euclid(i64::from(seconds)).rem_euclid(256);
        let revision = format!("{start} {}", self.rng.u64(..));
        let field = format!("{seconds}:{index}");
        self.set("revisions", &[(field.as_str(), revision)]).await;
    }

    async fn fill(&mut self, now: i64) {
        let contexts: Vec<_> = (0..self.contexts).map(|n| (now, name(n))).collect();
        let key = format!("{PREFIX}pulse:contexts");
        let _: u64 = issue(&mut self.connection, "ZADD", (key, contexts)).await;
        let created = (now - 14 * 86_400).to_string();
        let state = [
            ("gen", "bench"),
            ("created", created.as_str()),
            ("fresh", "1"),
        ];
        let state = state.map(|(field, value)| (field, value.to_owned()));
        self.set("state", &state).await;
        self.write_rolled_up(now).await;
        for tier in TIERS {
            let newest = tier.slice(now);
            for back in 0..i64::from(tier.retained) {
                self.write(tier.seconds, newest - back * i64::from(tier.seconds), now)
                    .await;
            }
        }
    }

    async fn write_rolled_up(&mut self, now: i64) {
        let mut rolled = RolledUp::default();
        rolled.advance(0);
        rolled.advance(now);
        rolled.finish();
        rolled.add(FINEST.slice(now));
        self.set("state", &[("rolled", pack::to_hex(&rolled))])
            .await;
    }

    async fn set(&mut self, key: &str, fields: &[(&str, String)]) {
        let key = format!("{PREFIX}pulse:{key}");
        let _: u64 = issue(&mut self.connection, "HSET", (key, fields)).await;
    }

    /// The usage so far by all commands except [`BENCH_COMMANDS`].
    async fn usage(&mut self) -> Usage {
        let stats: String = issue(&mut self.connection, "INFO", "commandstats").await;
        let mut usage = Usage::default();
        for line in stats.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|l| l.split_once(':'))
            else {
                continue;
            };
            if BENCH_COMMANDS.split(' ').any(|command| command == name) {
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

    /// The longest time that a reading command has taken so far, in milliseconds.
    async fn slowest(&mut self) -> f64 {
        type Slow = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let commands: Vec<Slow> = issue(&mut self.connection, "SLOWLOG", ("GET", 10_000)).await;
        let reads = commands
            .iter()
            .filter(|slow| !matches!(&*slow.3[0], b"HSET" | b"INFO" | b"SLOWLOG" | b"ZADD"));
        reads.map(|slow| slow.2 as f64 / 1e3).fold(0.0, f64::max)
    }
}

async fn get(app: &Router, window: &str) -> (serde_json::Value, Duration) {
    get_ok(
        app,
        &format!("/api/paths?window={window}&limit=100&sort=change"),
    )
    .await
}

async fn get_ok(app: &Router, uri: &str) -> (serde_json::Value, Duration) {
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

const TRIES: usize = 7;
/// The window of the looks that have goals.
const GOAL_WINDOW: &str = "1h";

fn verdict(value: f64, goal: f64) -> String {
    let result = if value <= goal { "ok" } else { "**MISSED**" };
    format!("{value:.1} | <= {goal:.0}: {result}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The router of a new `Pulse`, which has not read any window.
fn new_router(bench: &Bench) -> Router {
    let builder = Pulse::builder().redis(bench.server.url());
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    pulse.router(Access::open())
}

/// Measures first looks at a window and the window before, each by a new `Pulse`.
async fn first_looks(bench: &mut Bench) {
    let (mut commands, mut redis, mut took) = (Vec::new(), Vec::new(), Vec::new());
    let began = processor_millis(std::process::id());
    for _ in 0..TRIES {
        let app = new_router(bench);
        // This request opens the connection.
        get_ok(&app, "/api/health").await;
        let start = bench.usage().await;
        took.push(millis(get(&app, GOAL_WINDOW).await.1));
        let end = bench.usage().await;
        commands.push(end.commands - start.commands);
        redis.push((end.micros - start.micros) / 1e3);
    }
    println!("\n| first look at {GOAL_WINDOW}, the median of {TRIES} | | goal |\n|---|---:|---|");
    println!("| commands | {} |", verdict(median(commands), 2_000.0));
    println!("| ms of Redis | {} |", verdict(median(redis), 80.0));
    println!("| ms | {} |", verdict(median(took), 300.0));
    let processor = (processor_millis(std::process::id()) - began) / TRIES as f64;
    println!("| CPU ms of this process, on average | {processor:.0} | |");
}

/// The time for which a thread has waited for a processor.
fn waited(schedule: &File) -> Duration {
    let mut text = [0; 64];
    let length = schedule.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Makes `looks` looks, with a pause after each, and does not read the answers.
async fn look(app: &Router, uri: &str, looks: usize, pause: Duration) {
    for _ in 0..looks {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        tokio::time::sleep(pause).await;
    }
}

/// The longest time between two polls of a task that is always ready, during a first look and during later looks. The
/// runtime has one thread, whose waits for a processor do not count. The shortest of several tries counts, because
/// other processes use the machine too.
fn longest_holds(bench: &Bench, uri: &str) -> [f64; 2] {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let schedule = File::open("/proc/thread-self/schedstat").unwrap();
    let mut least = [f64::MAX; 2];
    for _ in 0..TRIES {
        let app = runtime.block_on(async { new_router(bench) });
        runtime.block_on(get_ok(&app, "/api/health"));
        for (at, looks) in [1, 5].into_iter().enumerate() {
            let mut longest = Duration::ZERO;
            let watching = async {
                loop {
                    let (before, start) = (waited(&schedule), Instant::now());
                    tokio::task::yield_now().await;
                    let took = start.elapsed();
                    longest = longest.max(took.saturating_sub(waited(&schedule) - before));
                }
            };
            runtime.block_on(async {
                tokio::select! {
                    () = look(&app, uri, looks, Duration::from_millis(1_010)) => {}
                    () = watching => {}
                }
            });
            least[at] = least[at].min(millis(longest));
        }
    }
    least
}

/// The durations of the service's own requests while `meanwhile` runs, in milliseconds, sorted. A request that answers
/// at once is sent through the layer each millisecond.
async fn service_latencies(pulse: &Pulse, meanwhile: impl Future<Output = ()>) -> Vec<f64> {
    let service = Router::new()
        .route("/", axum::routing::get(|| async { "found" }))
        .layer(pulse.layer());
    let mut took = Vec::new();
    let sending = async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let start = Instant::now();
            let request = Request::get("/").body(Body::empty()).unwrap();
            // The request has its own task, as in a server, so it waits for a worker.
            let answering = tokio::spawn(service.clone().oneshot(request));
            assert_eq!(answering.await.unwrap().unwrap().status(), StatusCode::OK);
            took.push(millis(start.elapsed()));
        }
    };
    tokio::select! {
        () = meanwhile => {}
        () = sending => {}
    }
    took.sort_by(f64::total_cmp);
    took
}

/// Measures the service's latency at rest, and while this process reads windows for the first time.
async fn service_while_reading(bench: &Bench) {
    println!(
        "\n| a request of the service, ms | requests | median | p99 | longest |\n|---|---:|---:|---:|---:|"
    );
    let builder = Pulse::builder().redis(bench.server.url());
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let at_rest = service_latencies(&pulse, tokio::time::sleep(Duration::from_secs(3))).await;
    let reading = async {
        for _ in 0..TRIES {
            get_ok(&new_router(bench), "/api/paths?window=7d&limit=100").await;
        }
    };
    let while_reading = service_latencies(&pulse, reading).await;
    for (label, took) in [
        ("at rest", at_rest),
        ("while a new reader looks at 7d", while_reading),
    ] {
        let longest = took.last().copied().unwrap_or(f64::NAN);
        let (n, p99) = (took.len(), took[took.len() * 99 / 100]);
        let median = median(took);
        println!("| {label} | {n} | {median:.3} | {p99:.3} | {longest:.1} |");
    }
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
    first_looks(&mut bench).await;
    println!(
        "\n| longest time for which a worker was held, ms | first look | | later looks | |\n|---|---:|---|---:|---|"
    );
    let paths = format!("/api/paths?window={GOAL_WINDOW}&limit=100&sort=change");
    let overview = format!("/api/overview?window={GOAL_WINDOW}");
    for (label, uri) in [
        ("api/health", "/api/health"),
        ("api/overview", &overview),
        ("api/paths", &paths),
    ] {
        let holds = std::thread::scope(|scope| scope.spawn(|| longest_holds(&bench, uri)).join());
        let [first, later] = holds.unwrap().map(|held| verdict(held, 1.0));
        println!("| {label} | {first} | {later} |");
    }
    service_while_reading(&bench).await;
    let app = new_router(&bench);
    let before = resident_bytes(std::process::id());

    println!(
        "\n| window | first answer | its complete share | complete after |\n|---|---|---|---|"
    );
    for window in WINDOWS {
        let start = Instant::now();
        let (answer, first) = get(&app, window).await;
        let complete = answer["complete"].as_f64().unwrap();
        let (mut latest, mut answers) = (answer, 1);
        while latest["complete"].as_f64().unwrap() < 1.0
            || latest["before"]["complete"].as_f64().unwrap() < 1.0
        {
            assert!(answers < 30, "{latest}");
            tokio::time::sleep(Duration::from_millis(1_001)).await;
            latest = get(&app, window).await.0;
            answers += 1;
        }
        println!(
            "| {window} | {:.0} ms | {complete:.2} | {:.1} s |",
            millis(first),
            start.elapsed().as_secs_f64()
        );
    }
    println!("\nslowest reading command: {} ms", bench.slowest().await);

    println!(
        "\n| windows in use | commands/s | Redis CPU ms/s | answer ms, median | p99 | longest | more memory, MiB |\n|---|---|---|---|---|---|---|"
    );
    let mut later = [0.0; 2];
    for (label, windows) in [
        (GOAL_WINDOW, &WINDOWS[2..3]),
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
            bench.write_rolled_up(now).await;
            bench.write(60, FINEST.slice(now), now).await;
            if now % 60 < 2 {
                for tier in &TIERS[1..] {
                    bench.write(tier.seconds, tier.slice(now), now).await;
                }
            }
            for window in windows {
                // Two dashboards look at the same window.
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
            (resident_bytes(std::process::id()) as f64 - before as f64) / 1_048_576.0,
        );
        if label == GOAL_WINDOW {
            let looks = seconds as f64;
            later = [
                (usage.commands - start.commands) / looks,
                (usage.micros - start.micros) / 1e3 / looks,
            ];
        }
    }
    println!("\n| a later look at {GOAL_WINDOW} | | goal |\n|---|---:|---|");
    println!("| commands | {} |", verdict(later[0], 25.0));
    println!("| ms of Redis | {} |", verdict(later[1], 3.0));
    println!("\nslowest reading command: {} ms", bench.slowest().await);
}
