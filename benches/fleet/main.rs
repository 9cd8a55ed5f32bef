//! The cost of a fleet: 1, 20, 200, 1,000 and 10,000 instances of 200 busy contexts each on a real server:
//! `cargo bench -p pulse-benches --bench fleet`. The bench takes about eleven minutes; `FLEET_SECONDS=5` makes a short
//! run, and `FLEET_ONLY=micro,10000` measures only these rows. `FLEET_TABLE` names a file for the table.
//!
//! Costs are processor time from the kernel, which other processes affect less than wall time. Each cost is the
//! smallest of several attempts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a panic fails the bench"
)]

mod child;
mod flush_only;
mod meter;
mod micro;
mod probe;
#[path = "../../tests/rig/mod.rs"]
mod rig;
mod rows;
mod table;
mod traffic;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::server::RedisServer;
use rows::Size;
use tower_pulse_model::context::{ALL, Metric};
use tower_pulse_model::slice::{DEFAULT_PRECISIONS, DEFAULT_RETAINED};

/// One machine cannot serve the requests of a thousand instances, so most instances of the last of these fleets are
/// flush-only.
const FLEETS: [Size; 4] = [
    Size::new(1, 0),
    Size::new(20, 0),
    Size::new(200, 0),
    Size::new(20, 980),
];

/// The instances of the largest fleet. If this machine has too few sockets, the fleet is smaller. The row of the table
/// shows the number.
const LARGEST: usize = 10_000;

/// Fills the counters `ARGV[4…]` of one precision with `ARGV[2]` slices of `ARGV[3]` seconds.
const FILL: &str = r"
local now, samples, seconds = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for at = 4, #ARGV do
  local fields = {}
  for back = samples, 1, -1 do
    fields[#fields + 1] = string.format('%.0f', now - now % seconds - back * seconds)
    fields[#fields + 1] = at % 1000 + back
  end
  redis.call('HSET', KEYS[1] .. 'count:' .. ARGV[3] .. ':' .. ARGV[at], unpack(fields))
  redis.call('ZADD', KEYS[1] .. 'known:', 0, ARGV[3] .. ':' .. ARGV[at])
end";

fn main() {
    child::run_if_child();
    // Without `--bench`, as in `cargo test --benches`, only check that the bench starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    runtime().block_on(bench());
}

async fn bench() {
    let seconds = std::env::var("FLEET_SECONDS").map_or(20.0, |text| text.parse::<f64>().unwrap());
    let only = std::env::var("FLEET_ONLY").unwrap_or_default();
    let chosen = |row: &str| only.is_empty() || only.split(',').any(|word| word == row);
    let sockets = sockets();
    let server = RedisServer::builder()
        .arg("--maxclients", &(sockets + 500).to_string())
        .start()
        .await;
    let mut measured = table::Measurements::default();
    if chosen("micro") {
        note("single operations");
        measured.micro = Some(micro::measure(&server, (seconds / 20.0).min(1.0)).await);
    }
    let largest = Size::new(20, sockets.min(LARGEST - 20));
    for size in FLEETS.into_iter().chain([largest]) {
        let instances = size.full + size.flush_only;
        let is_largest = size.flush_only == largest.flush_only && chosen(&LARGEST.to_string());
        if !is_largest && !chosen(&instances.to_string()) {
            continue;
        }
        note(&format!("{instances} instances"));
        measured
            .rows
            .push(rows::measure(&server, size, seconds).await);
    }
    if chosen("kill") {
        note("folders killed");
        measured.takeovers = rows::takeovers(&server, if seconds < 20.0 { 2 } else { 5 }).await;
    }
    let table = table::markdown(&measured);
    println!("{table}");
    if let Ok(path) = std::env::var("FLEET_TABLE") {
        std::fs::write(path, table).unwrap();
    }
}

/// The number of instances that can connect, limited by the open files of a process and the ports of the machine.
fn sockets() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files = files.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    let ports = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let ports: Vec<usize> = ports
        .split_whitespace()
        .map(|port| port.parse().unwrap())
        .collect();
    // The server needs some sockets for itself, and a full instance has several connections.
    files
        .unwrap_or(1_024)
        .min(ports[1] - ports[0])
        .saturating_sub(1_000)
        .max(1)
}

/// Empties the server, and fills all retained slices of all contexts' counters, because commands on longer hashes take
/// longer.
async fn fill(server: &RedisServer, prefix: &str) {
    let mut connection = server.connection().await;
    redis::cmd("FLUSHALL")
        .arg("SYNC")
        .exec_async(&mut connection)
        .await
        .unwrap();
    let contexts = (0..traffic::CONTEXTS).map(traffic::context);
    let names: Vec<String> = contexts
        .chain([ALL.to_owned()])
        .flat_map(|context| {
            [
                Metric::Hits.counter(&context),
                Metric::Micros.counter(&context),
            ]
        })
        .collect();
    let script = redis::Script::new(FILL);
    for precision in DEFAULT_PRECISIONS {
        let mut call = script.key(prefix);
        call.arg(now())
            .arg(DEFAULT_RETAINED)
            .arg(precision)
            .arg(&names);
        call.invoke_async::<()>(&mut connection).await.unwrap();
    }
}

async fn reset_command_counts(server: &RedisServer) {
    let mut connection = server.connection().await;
    redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .exec_async(&mut connection)
        .await
        .unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn now() -> i64 {
    since_epoch().as_secs() as i64
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// The time until the next flush. Flushes are `offset` later than the multiples of the interval.
fn until_flush(interval: Duration, offset: Duration) -> Duration {
    let interval = interval.as_nanos() as i128;
    let since = since_epoch().as_nanos() as i128 - offset.as_nanos() as i128;
    Duration::from_nanos((interval - since.rem_euclid(interval)) as u64)
}

fn note(line: &str) {
    eprintln!("fleet: {line}");
}
