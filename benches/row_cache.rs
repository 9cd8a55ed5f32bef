//! Compares the row cache with a bare GET: `cargo bench -p pulse-benches --bench row_cache`. The bench takes about a
//! minute and a half; `ROWS_SECONDS=10` measures the lateness of refreshes for ten seconds instead of sixty.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pulse_rig::server::RedisServer;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tower_pulse::Pulse;
use tower_pulse::row_cache::{RowCache, RowCacheBuilder, RowLoader};

const LOAD: Duration = Duration::from_millis(5);
const ROUNDS: usize = 7;
const READS: usize = 1_000;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Offer {
    id: i64,
    name: String,
    stock: i64,
}

/// A loader that takes [`LOAD`] for each row, and records the moments at which it loaded the row.
#[derive(Clone, Default)]
struct SlowLoader(Arc<Mutex<HashMap<String, Vec<Instant>>>>);

impl RowLoader for SlowLoader {
    type Row = Offer;
    type Error = std::convert::Infallible;

    async fn load(&self, id: String) -> Result<Option<Offer>, Self::Error> {
        let number = id.parse().unwrap();
        let now = Instant::now();
        self.0.lock().unwrap().entry(id).or_default().push(now);
        tokio::time::sleep(LOAD).await;
        Ok(Some(offer(number)))
    }
}

impl SlowLoader {
    fn loads(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }
}

fn offer(id: i64) -> Offer {
    Offer {
        id,
        name: format!("Offer {id}"),
        stock: 1_000,
    }
}

fn instance(server: &RedisServer) -> (Pulse, RowCacheBuilder<SlowLoader>, SlowLoader) {
    let pulse = Pulse::builder()
        .redis(server.url())
        .prefix("")
        .build()
        .unwrap();
    let loader = SlowLoader::default();
    let builder = RowCache::builder(&pulse).loader(loader.clone());
    (pulse, builder, loader)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The mean time of a read, in microseconds.
async fn micros(read: impl AsyncFn()) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        read().await;
    }
    start.elapsed().as_secs_f64() * 1e6 / READS as f64
}

/// Measures reads by each method in turn, so that the noise of the machine affects all methods equally.
async fn measure_reads() {
    let server = RedisServer::start().await;
    let (pulse, builder, _) = instance(&server);
    let cache = builder.build().unwrap();
    cache
        .schedule("7", Duration::from_secs(3_600))
        .await
        .unwrap();
    cache.refresh_now("7").await.unwrap();
    let (_other, builder, _) = instance(&server);
    let builder = builder.read_through(Duration::from_secs(60));
    let (read_through, _task) = builder.build_with_task().unwrap();
    let connection = server.connection().await;
    let mut micros_per_read = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        micros_per_read[0].push(
            micros(async || {
                let mut connection: MultiplexedConnection = connection.clone();
                let json: String = connection.get("inv:7").await.unwrap();
                assert!(!json.is_empty());
            })
            .await,
        );
        micros_per_read[1]
            .push(micros(async || assert!(cache.get::<Offer>("7").await.unwrap().is_some())).await);
        let read = async || assert!(read_through.get::<Offer>("7").await.unwrap().is_some());
        micros_per_read[2].push(micros(read).await);
    }
    let [bare, cached, read_through] = micros_per_read.map(median);
    println!("| one read at a time | us | / bare GET |");
    println!("|---|---|---|");
    for (name, micros) in [
        ("a bare GET", bare),
        ("`get`", cached),
        ("`get` with `read_through`", read_through),
    ] {
        println!("| {name} | {micros:.1} | {:.2} |", micros / bare);
    }
    println!();
    pulse.shutdown().await.unwrap();
}

/// Measures how many refreshes are made per second if all rows are always due.
async fn measure_refreshes() {
    const SPAN: Duration = Duration::from_secs(5);
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    for id in 0..2_000 {
        let _: () = connection.zadd("delay:", id, 0.01).await.unwrap();
        let _: () = connection.zadd("schedule:", id, id).await.unwrap();
    }
    let (pulse, builder, loader) = instance(&server);
    let _cache = builder.build().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, sent) = (loader.loads(), server.commands().await);
    tokio::time::sleep(SPAN).await;
    let loads = (loader.loads() - before) as f64;
    // The server also counts the commands that scripts call.
    let per_refresh = (server.commands().await - sent) as f64 / loads;
    pulse.shutdown().await.unwrap();
    println!(
        "with a loader of 5 ms, 16 at once: {:.0} refreshes a second, {per_refresh:.1} commands each, including the \
         commands of scripts",
        loads / SPAN.as_secs_f64()
    );
    println!();
}

/// Measures the lateness of 1,000 rows with an interval of 1 s. Two daemons (tasks that refresh due rows) share the
/// rows.
async fn measure_lateness() {
    let span = std::env::var("ROWS_SECONDS").map_or(60, |seconds| seconds.parse().unwrap());
    let server = RedisServer::start().await;
    let (first, builder, loader) = instance(&server);
    let cache = builder.build().unwrap();
    let (second, _, _) = instance(&server);
    let _other = RowCache::builder(&second)
        .loader(loader.clone())
        .build()
        .unwrap();
    let rows = (0..1_000).map(|id| (id.to_string(), Duration::from_secs(1)));
    cache.schedule_many(rows).await.unwrap();
    // The first refreshes are not measured, because all rows are due at once. Later refreshes are spread at random.
    tokio::time::sleep(Duration::from_secs(3)).await;
    loader.0.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(span)).await;
    let loads = loader.0.lock().unwrap().clone();
    let (mut late, mut twice, mut missed) = (Vec::new(), 0, 0);
    for times in loads.values() {
        let since = |time: &Instant| time.duration_since(times[0]).as_secs_f64();
        // The refreshes of a row are due one second apart. The refresh that came earliest within its second counts as
        // punctual.
        let phase = times
            .iter()
            .map(since)
            .map(|t| t - t.round())
            .fold(0.0, f64::min);
        let seconds: Vec<i64> = times
            .iter()
            .map(|time| (since(time) - phase).floor() as i64)
            .collect();
        late.extend(
            times
                .iter()
                .map(|time| since(time) - phase)
                .map(|t| t - t.floor()),
        );
        twice += seconds.windows(2).filter(|pair| pair[0] == pair[1]).count();
        missed += seconds
            .windows(2)
            .map(|pair| (pair[1] - pair[0] - 1).max(0))
            .sum::<i64>();
    }
    late.sort_by(f64::total_cmp);
    let at = |q: f64| late[((late.len() - 1) as f64 * q) as usize] * 1e3;
    println!("| 1,000 rows at 1 s, two daemons, {span} s | |");
    println!("|---|---|");
    println!("| refreshes | {} |", late.len());
    println!("| made twice | {twice} (goal 0) |");
    println!("| missed | {missed} |");
    println!("| lateness at the median, ms | {:.1} |", at(0.5));
    println!("| lateness at p99, ms | {:.1} (goal 100) |", at(0.99));
    for pulse in [first, second] {
        pulse.shutdown().await.unwrap();
    }
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` only checks that the bench starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    measure_reads().await;
    measure_refreshes().await;
    measure_lateness().await;
}
