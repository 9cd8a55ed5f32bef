//! The cost of a second of traffic in each store: processor time, and bytes written to the disk.

use std::time::{Duration, Instant};

use crate::stores::{NOW, PulseFile, REQUESTS, Target, batch};
use pulse_rig::process::processor_millis;
use pulse_rig::server::RedisServer;

/// The number of measured flushes, one per second.
const FLUSHES: i64 = 40;
/// The number of flushes before the measurement, for one-time work.
const WARM_UP: i64 = 5;

fn written_bytes(pid: u32) -> f64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}

async fn print_row(
    label: &str,
    contexts: usize,
    target: &mut Target,
    server: Option<&RedisServer>,
) {
    let (own, server) = (std::process::id(), server.map(RedisServer::pid));
    let flushes = -WARM_UP..FLUSHES;
    let batches: Vec<_> = (flushes.clone())
        .map(|second| batch(contexts, NOW + WARM_UP + second))
        .collect();
    let (mut began, mut took) = ([0.0; 4], Vec::new());
    for (second, batch) in flushes.zip(batches) {
        if second == 0 {
            began = usage(own, server);
            took.clear();
        }
        let start = Instant::now();
        target.flush(batch).await;
        took.push(start.elapsed().as_secs_f64() * 1e3);
        // The file becomes durable when the store has been idle for a moment.
        tokio::time::sleep(Duration::from_millis(60)).await;
        target.manual.advance(Duration::from_secs(1));
    }
    let ended = usage(own, server);
    let used = [0, 1, 2, 3].map(|at| (ended[at] - began[at]) / FLUSHES as f64);
    took.sort_by(f64::total_cmp);
    println!(
        "| {label} | {contexts} | {:.1} | {:.1} | {:.0} | {:.1} |",
        used[0],
        used[1],
        (used[2] + used[3]) / 1e3,
        took[took.len() / 2]
    );
}

/// The processor times of this process and of the server, and the bytes that they have written.
fn usage(own: u32, server: Option<u32>) -> [f64; 4] {
    [
        processor_millis(own),
        server.map_or(0.0, processor_millis),
        written_bytes(own),
        server.map_or(0.0, written_bytes),
    ]
}

pub async fn print_table() {
    println!(
        "\nA second of {REQUESTS} requests of each context, appended and folded. The file and Redis's append-only file \
         are made durable each second.\n\n\
         | store | contexts | CPU of this process, ms | CPU of Redis, ms | kB written | median flush, ms |\n\
         |---|---:|---:|---:|---:|---:|"
    );
    for contexts in [50, 2_000] {
        print_row("memory", contexts, &mut Target::memory(), None).await;
        let file = PulseFile::new();
        print_row("file", contexts, &mut Target::file(&file).await, None).await;
        let server = RedisServer::builder().arg("--appendonly", "yes").start();
        let server = server.await;
        let mut target = Target::redis(&server);
        print_row("Redis", contexts, &mut target, Some(&server)).await;
    }
}
