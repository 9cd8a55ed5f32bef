//! The row cache beside a bare GET, a SQLite query, and the book's daemon: `cargo bench -p pulse-benches --bench row_cache`. It takes
//! about a minute and a half; `ROWS_SECONDS=10` measures the lateness for ten seconds instead of sixty.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pulse_rig::server::RedisServer;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rusqlite::Connection;
use tower_pulse::Pulse;
use tower_pulse::row_cache::{RowCache, RowCacheBuilder, RowLoader};

/// How long the loader takes.
const LOAD: Duration = Duration::from_millis(5);
const ROUNDS: usize = 7;
const READS: usize = 1_000;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Offer {
    id: i64,
    name: String,
    stock: i64,
}

/// A loader that takes [`LOAD`], and notes when it loaded each row.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<HashMap<String, Vec<Instant>>>>);

impl RowLoader for Slow {
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

impl Slow {
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

fn instance(server: &RedisServer) -> (Pulse, RowCacheBuilder<Slow>, Slow) {
    let pulse = Pulse::builder()
        .redis(server.url())
        .prefix("")
        .build()
        .unwrap();
    let loader = Slow::default();
    let builder = RowCache::builder(&pulse).loader(loader.clone());
    (pulse, builder, loader)
}

async fn commands(server: &RedisServer) -> u64 {
    server.info("stats").await["total_commands_processed"]
        .parse()
        .unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn micros(reads: impl AsyncFn()) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        reads().await;
    }
    start.elapsed().as_secs_f64() * 1e6 / READS as f64
}

/// Reads one after the other, round by round, so that the noise of the machine meets all alike.
async fn reads() {
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
    let (near, _task) = builder.build_with_task().unwrap();
    let connection = server.connection().await;
    let file = server.dir().join("offers.db");
    let database = Connection::open(file).unwrap();
    database
        .execute(
            "CREATE TABLE offers(id integer primary key, name text, stock integer)",
            (),
        )
        .unwrap();
    database
        .execute("INSERT INTO offers VALUES (7, 'Offer 7', 1000)", ())
        .unwrap();
    let database = Arc::new(Mutex::new(database));
    let mut micros_per_read = [const { Vec::new() }; 4];
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
        micros_per_read[2]
            .push(micros(async || assert!(near.get::<Offer>("7").await.unwrap().is_some())).await);
        micros_per_read[3].push(
            micros(async || {
                let database = database.clone();
                // As a service does, whose runtime must not block.
                let stock: i64 = tokio::task::spawn_blocking(move || {
                    let database = database.lock().unwrap();
                    let mut select = database
                        .prepare_cached("SELECT stock FROM offers WHERE id = ?1")
                        .unwrap();
                    select.query_row([7], |row| row.get(0)).unwrap()
                })
                .await
                .unwrap();
                assert_eq!(stock, 1_000);
            })
            .await,
        );
    }
    let [bare, cached, near, sqlite] = micros_per_read.map(median);
    println!("| read, one after the other | us | / bare GET | / SQLite |");
    println!("|---|---|---|---|");
    for (name, micros) in [
        ("a bare GET", bare),
        ("`get`", cached),
        ("`get` with `read_through`", near),
        ("the SQLite query", sqlite),
    ] {
        println!(
            "| {name} | {micros:.1} | {:.2} | {:.2} |",
            micros / bare,
            micros / sqlite
        );
    }
    println!();
    pulse.shutdown().await.unwrap();
}

/// The book's daemon, which refreshes one row at a time.
async fn book(connection: &mut MultiplexedConnection, loader: &Slow, span: Duration) {
    let seconds = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let end = Instant::now() + span;
    while Instant::now() < end {
        let next: Vec<(String, f64)> = connection
            .zrange_withscores("schedule:", 0, 0)
            .await
            .unwrap();
        let now = seconds();
        let Some((id, _)) = next.into_iter().next().filter(|(_, due)| *due <= now) else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let delay: f64 = connection.zscore("delay:", &id).await.unwrap();
        let row = loader.load(id.clone()).await.unwrap();
        let _: () = connection
            .zadd("schedule:", &id, now + delay)
            .await
            .unwrap();
        let json = serde_json::to_string(&row).unwrap();
        let _: () = connection.set(format!("inv:{id}"), json).await.unwrap();
    }
}

/// As many refreshes as there is time for: rows that are always late.
async fn refreshes() {
    const SPAN: Duration = Duration::from_secs(5);
    let mut rates = [const { Vec::new() }; 2];
    let mut per_refresh = Vec::new();
    for _ in 0..2 {
        let server = RedisServer::start().await;
        let mut connection = server.connection().await;
        for id in 0..2_000 {
            let _: () = connection.zadd("delay:", id, 0.01).await.unwrap();
            let _: () = connection.zadd("schedule:", id, id).await.unwrap();
        }
        let loader = Slow::default();
        book(&mut connection, &loader, SPAN).await;
        rates[0].push(loader.loads() as f64 / SPAN.as_secs_f64());
        let (pulse, builder, loader) = instance(&server);
        let _cache = builder.build().unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (before, sent) = (loader.loads(), commands(&server).await);
        tokio::time::sleep(SPAN).await;
        let loads = (loader.loads() - before) as f64;
        rates[1].push(loads / SPAN.as_secs_f64());
        // What scripts call counts as well, so only calls of clients are counted here.
        per_refresh.push((commands(&server).await - sent) as f64 / loads);
        pulse.shutdown().await.unwrap();
    }
    let [book, ours] = rates.map(median);
    println!("| refreshes with a loader of 5 ms | per second | / the book's |");
    println!("|---|---|---|");
    println!("| the book's daemon | {book:.0} | 1.0 |");
    println!(
        "| this daemon, 16 at once | {ours:.0} | {:.1} (goal 15) |",
        ours / book
    );
    println!();
    println!(
        "{:.1} commands per refresh, those within scripts included",
        median(per_refresh)
    );
    println!();
}

/// 1,000 rows at 1 s, two daemons.
async fn lateness() {
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
    // The first turns are spread.
    tokio::time::sleep(Duration::from_secs(3)).await;
    loader.0.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(span)).await;
    let loads = loader.0.lock().unwrap().clone();
    let (mut late, mut twice, mut missed) = (Vec::new(), 0, 0);
    for times in loads.values() {
        let since = |time: &Instant| time.duration_since(times[0]).as_secs_f64();
        // A turn is at a whole number of seconds after the first that was on time.
        let phase = times
            .iter()
            .map(since)
            .map(|t| t - t.round())
            .fold(0.0, f64::min);
        let turns: Vec<i64> = times
            .iter()
            .map(|time| (since(time) - phase).floor() as i64)
            .collect();
        late.extend(
            times
                .iter()
                .map(|time| since(time) - phase)
                .map(|t| t - t.floor()),
        );
        twice += turns.windows(2).filter(|pair| pair[0] == pair[1]).count();
        missed += turns
            .windows(2)
            .map(|pair| (pair[1] - pair[0] - 1).max(0))
            .sum::<i64>();
    }
    late.sort_by(f64::total_cmp);
    let at = |q: f64| late[((late.len() - 1) as f64 * q) as usize] * 1e3;
    println!("| 1,000 rows at 1 s, two daemons, {span} s | |");
    println!("|---|---|");
    println!("| turns | {} |", late.len());
    println!("| done twice | {twice} (goal 0) |");
    println!("| missed | {missed} |");
    println!("| lateness at the median, ms | {:.1} |", at(0.5));
    println!("| lateness at p99, ms | {:.1} (goal 100) |", at(0.99));
    for pulse in [first, second] {
        pulse.shutdown().await.unwrap();
    }
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` only checks that it starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    reads().await;
    refreshes().await;
    lateness().await;
}
