//! The cost of a cleaning pass to the server, at 100,000 counters, beside the book's algorithm with the
//! same data in the same server: `cargo bench -p pulse-benches --bench clean`.
//!
//! The server's time is its processor time (`used_cpu_user` + `used_cpu_sys`), which includes reading,
//! parsing and answering commands. The time within commands is measured separately.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use pulse_rig::book;
use pulse_rig::server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse_core::store::Upkeep;
use tower_pulse_core::store::{CleanReport, Pass};
use tower_pulse_model::slice::{DEFAULT_PRECISIONS, DEFAULT_RETAINED, Precision};

const PREFIX: &str = "pulse:";
/// Number of names. Seven precisions of each make 100,002 counters.
const NAMES: usize = 14_286;
const AT_ONCE: usize = 100;
/// The number of the first pass. 1 s, 5 s and 1 min are due in it and in the next four.
const NUMBER: i64 = 28_333_321;

/// Fills the counters `ARGV[3]` to `ARGV[4]` at all precisions with 120 slices up to now.
const FILL: &str = r"
local now, samples = tonumber(ARGV[1]), tonumber(ARGV[2])
for name = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  for at = 5, #ARGV do
    local p = tonumber(ARGV[at])
    local member = ARGV[at] .. ':hits:GET /api/v1/things-' .. name .. '/{id}'
    local fields = {}
    for back = samples - 1, 0, -1 do
      fields[#fields + 1] = string.format('%.0f', now - now % p - back * p)
      fields[#fields + 1] = name % 1000 + back
    end
    redis.call('HSET', KEYS[1] .. 'count:' .. member, unpack(fields))
    redis.call('ZADD', KEYS[1] .. 'known:', 0, member)
  end
end";

/// Calls `ARGV[1]` (EXPIRE or DEL) for the keys of the counters `ARGV[2]` to `ARGV[3]`: a writer has just
/// written to them, or none has for a long time.
const TOUCH: &str = r"
for name = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  for at = 4, #ARGV, 2 do
    local key = KEYS[1] .. 'count:' .. ARGV[at] .. ':hits:GET /api/v1/things-' .. name .. '/{id}'
    if ARGV[1] == 'DEL' then redis.call('DEL', key) else redis.call('EXPIRE', key, ARGV[at + 1]) end
  end
end";

struct Bench {
    server: RedisServer,
    conn: MultiplexedConnection,
    store: RedisStore,
}

/// The cost of a pass.
struct Cost {
    cpu: Duration,
    commands: Duration,
    calls: u64,
    took: Duration,
    slowest: Duration,
    slowest_name: String,
    over: usize,
}

impl Bench {
    async fn new() -> Self {
        let server = RedisServer::builder()
            .arg("--slowlog-log-slower-than", "500")
            .arg("--slowlog-max-len", "100000")
            .start()
            .await;
        let options = RedisOptions::new(&server.url()).unwrap();
        let options = options.response_timeout(Duration::from_secs(10));
        let store = RedisStore::open(options.prefix(PREFIX).unwrap()).unwrap();
        let conn = server.connection().await;
        Self {
            server,
            conn,
            store,
        }
    }

    async fn each(&mut self, script: &str, args: &[String], tail: &[String]) {
        let script = Script::new(script);
        for first in (0..NAMES).step_by(AT_ONCE) {
            let last = (first + AT_ONCE).min(NAMES) - 1;
            let mut call = script.key(PREFIX);
            args.iter().for_each(|arg| {
                call.arg(arg);
            });
            call.arg(first).arg(last);
            tail.iter().for_each(|arg| {
                call.arg(arg);
            });
            call.invoke_async::<()>(&mut self.conn).await.unwrap();
        }
    }

    async fn fill(&mut self, now: i64) {
        let args = [now.to_string(), DEFAULT_RETAINED.to_string()];
        let precisions = DEFAULT_PRECISIONS.map(|p| p.to_string());
        self.each(FILL, &args, &precisions).await;
    }

    async fn touch(&mut self, what: &str) {
        let tail = DEFAULT_PRECISIONS.map(|p| {
            let precision = Precision::new(p, DEFAULT_RETAINED);
            [p.to_string(), precision.key_ttl().to_string()]
        });
        self.each(TOUCH, &[what.to_owned()], &tail.concat()).await;
    }

    async fn measure<T>(&mut self, pass: impl AsyncFnOnce(&mut Self) -> T) -> (Cost, T) {
        for what in ["CONFIG RESETSTAT", "SLOWLOG RESET"] {
            let (name, argument) = what.split_once(' ').unwrap();
            let mut reset = cmd(name);
            reset
                .arg(argument)
                .exec_async(&mut self.conn)
                .await
                .unwrap();
        }
        let (before, start) = (self.server.cpu_micros().await, Instant::now());
        let done = pass(self).await;
        let took = start.elapsed();
        let cpu = Duration::from_micros(self.server.cpu_micros().await - before);
        let stats = self.server.info("commandstats").await;
        let (mut commands, mut calls) = (0, 0);
        // The time of a script includes the time of the commands that it calls.
        let scripts = ["cmdstat_evalsha", "cmdstat_eval"];
        let is_script = stats.keys().any(|name| scripts.contains(&&**name));
        let within = ["exists", "expire", "hdel", "zrem", "get"].map(|c| format!("cmdstat_{c}"));
        for (name, fields) in &stats {
            let of = |field: &str| -> u64 {
                let all = fields.split(',').filter_map(|f| f.split_once('='));
                all.filter(|(name, _)| *name == field)
                    .map(|(_, n)| n.parse::<u64>().unwrap())
                    .sum()
            };
            if !(is_script && within.contains(name)) && name != "cmdstat_info" {
                commands += of("usec");
                calls += of("calls");
            }
        }
        let mut slow = cmd("SLOWLOG");
        let slow = slow.arg("GET").arg(-1);
        let slow: Vec<Vec<redis::Value>> = slow.query_async(&mut self.conn).await.unwrap();
        let slow = slow
            .iter()
            .filter_map(|entry| match (entry.get(2), entry.get(3)) {
                (Some(redis::Value::Int(micros)), Some(redis::Value::Array(words))) => {
                    let name = redis::from_redis_value_ref::<String>(words.first()?).ok()?;
                    Some((u64::try_from(*micros).ok()?, name))
                }
                _ => None,
            });
        let slow: Vec<(u64, String)> = slow.collect();
        let slowest = slow.iter().max().cloned().unwrap_or_default();
        let cost = Cost {
            cpu,
            commands: Duration::from_micros(commands),
            calls,
            took,
            slowest: Duration::from_micros(slowest.0),
            slowest_name: slowest.1,
            over: slow.iter().filter(|(micros, _)| *micros > 1_000).count(),
        };
        (cost, done)
    }

    async fn ours(&mut self, number: i64) -> (Cost, CleanReport) {
        let pass = Pass {
            instance: "bench".into(),
            now: number * 60,
            interval: 60,
            ranking_retention: 86_400,
            context_retention: 7 * 86_400,
        };
        let clean = async |bench: &mut Self| bench.store.clean(&pass).await;
        let (cost, cleaned) = self.measure(clean).await;
        (cost, cleaned.unwrap().unwrap())
    }

    async fn books(&mut self, number: i64) -> (Cost, book::CleanReport) {
        let samples = i64::from(DEFAULT_RETAINED);
        let clean = async |bench: &mut Self| {
            book::clean_counters_pass(&mut bench.conn, PREFIX, number, samples, number * 60).await
        };
        let (cost, cleaned) = self.measure(clean).await;
        (cost, cleaned.unwrap())
    }
}

fn show(what: &str, cost: &Cost, done: [u64; 3]) {
    let [examined, slices, counters] = done;
    println!(
        "{what:<44} {:>9.1?} {:>9.1?} {:>8} {:>9.1?} {:>9} {:>5}   {examined} / {slices} / {counters} {}",
        cost.cpu,
        cost.commands,
        cost.calls,
        cost.took,
        match cost.slowest.is_zero() {
            true => "< 500µs".to_owned(),
            false => format!("{:.0?}", cost.slowest),
        },
        cost.over,
        cost.slowest_name,
    );
}

fn main() {
    // `cargo test --benches` and the like only check that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(bench());
}

async fn bench() {
    let mut bench = Bench::new().await;
    println!(
        "filling {} counters with {DEFAULT_RETAINED} slices each …",
        NAMES * 7
    );
    // The keys do not expire during all passes below.
    let now = NUMBER * 60;
    bench.fill(now + 300).await;
    bench.touch("EXPIRE").await;
    println!(
        "\n{:<44} {:>9} {:>9} {:>8} {:>9} {:>9} {:>5}   examined / slices / counters gone",
        "a pass at 100,002 known counters",
        "server",
        "commands",
        "calls",
        "took",
        "slowest",
        ">1ms"
    );
    let ours = |cleaned: &CleanReport| [cleaned.examined, cleaned.slices, cleaned.counters];
    let books = |cleaned: &book::CleanReport| [cleaned.examined, cleaned.slices, cleaned.counters];
    let mut ratios = Vec::new();

    let (cost, cleaned) = bench.ours(NUMBER).await;
    show("busy: the first pass of all", &cost, ours(&cleaned));
    bench.touch("EXPIRE").await;
    let (mine, cleaned) = bench.ours(NUMBER + 1).await;
    show("busy: every other pass", &mine, ours(&cleaned));
    let (theirs, cleaned) = bench.books(NUMBER + 1).await;
    show("busy: the book's", &theirs, books(&cleaned));
    ratios.push(("busy", theirs.cpu.as_secs_f64() / mine.cpu.as_secs_f64()));
    // All seven precisions are due once a day. Six are due on the hour, the most that any other pass looks
    // through.
    let hour = (NUMBER / 60 + 1) * 60;
    let (cost, cleaned) = bench.ours(hour).await;
    show("busy: on the hour, after a pause", &cost, ours(&cleaned));

    bench.touch("DEL").await;
    let (theirs, cleaned) = bench.books(NUMBER + 2).await;
    show("idle, keys expired: the book's", &theirs, books(&cleaned));
    let (mine, cleaned) = bench.ours(NUMBER + 2 + 60).await;
    show("idle, keys expired: ours", &mine, ours(&cleaned));
    ratios.push(("idle", theirs.cpu.as_secs_f64() / mine.cpu.as_secs_f64()));
    println!();
    for (what, ratio) in ratios {
        println!("{what}: the book's pass takes {ratio:.0} times the server's time of ours");
    }
}
