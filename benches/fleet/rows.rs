//! The rows of the table: the cost of fleets of different sizes.

use std::time::Duration;

use crate::child::Member;
use crate::flush_only::PREFIX;
use crate::meter::{self, Rates, Usage};
use crate::probe::{Freshness, Probe};
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::traffic::{CONTEXTS, REQUESTS};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Instances that serve requests, including the folder.
    pub(crate) full: usize,
    /// Instances that serve no requests, except the first one of them.
    pub(crate) flush_only: usize,
}

impl Size {
    pub(crate) const fn new(full: usize, flush_only: usize) -> Self {
        Self { full, flush_only }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) size: Size,
    pub(crate) server: Rates,
    pub(crate) folder_cpu: f64,
    pub(crate) freshness: Freshness,
    /// Seconds between flushes, which the instances choose by the size of the fleet.
    pub(crate) interval: f64,
    /// The durations of the fold's polls, shortest first.
    pub(crate) polls: Vec<Duration>,
}

/// The most full instances in one process.
const PER_PROCESS: usize = 100;
/// The number of parts into which the measured time is divided. The part with the smallest cost counts, because other
/// processes on the machine can only add to the cost.
pub(crate) const PARTS: u32 = 3;

/// Measures the cost of a fleet for `seconds`, and then the freshness of its data for `seconds`.
pub(crate) async fn measure(server: &RedisServer, size: Size, seconds: f64) -> Row {
    crate::fill(server, PREFIX).await;
    let url = server.url();
    // The first instance acquires the lease before the others start.
    let mut folder = Member::start(&url, 1, 0);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let mut others = Vec::new();
    let mut left = size.full - 1;
    while left > 0 {
        let count = left.min(PER_PROCESS);
        others.push(Member::start(&url, count, 0));
        left -= count;
    }
    if size.flush_only > 0 {
        // One of these instances is full, and chooses the flush interval.
        others.push(Member::start(&url, 1, size.flush_only - 1));
    }
    let warm_up = 9.0 + (size.full + size.flush_only) as f64 / 70.0;
    tokio::time::sleep(Duration::from_secs_f64(warm_up)).await;

    drop(folder.polls());
    crate::reset_command_counts(server).await;
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        let (before, cpu) = (Usage::of(server).await, folder.fold_cpu());
        tokio::time::sleep(Duration::from_secs_f64(seconds) / PARTS).await;
        let (after, later) = (Usage::of(server).await, folder.fold_cpu());
        let share = (later - cpu).as_secs_f64() * f64::from(PARTS) / seconds;
        parts.push((before.until(&after), share, folder.polls()));
    }
    print_commands(server).await;
    assert_all_requests_are_counted(&url, size).await;
    let mut probe = Probe::new(&url);
    // By its first heartbeat, the probe learns the size of the fleet.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let freshness = probe.watch(seconds).await;
    let servers = parts.iter().map(|(server, ..)| *server);
    let folders = parts.iter().map(|(_, folder, _)| *folder);
    Row {
        size,
        server: servers.min_by(|a, b| a.cpu.total_cmp(&b.cpu)).unwrap(),
        folder_cpu: folders.min_by(f64::total_cmp).unwrap(),
        interval: probe.interval(),
        freshness,
        polls: meter::least_held(parts.into_iter().map(|(.., polls)| polls)),
    }
}

/// Checks that all requests are counted, because lost requests would make the fleet look cheap.
async fn assert_all_requests_are_counted(url: &str, size: Size) {
    let store = crate::flush_only::store(url, Duration::from_secs(10));
    let hits = store.counter("hits", 1).await.unwrap();
    // All instances have flushed the seconds before `flushed`. A large fleet flushes only every ten seconds.
    let instances = size.full + size.flush_only;
    let flushed = crate::now() - if instances > 1_000 { 27 } else { 7 };
    let seconds = flushed - 6..flushed;
    let hits: i64 = (hits.iter())
        .filter(|(second, _)| seconds.contains(second))
        .map(|(_, n)| *n)
        .sum();
    let served = instances * CONTEXTS * REQUESTS * 6;
    let ratio = hits as f64 / served as f64;
    crate::note(&format!("    {ratio:.3} of all requests are counted"));
    assert!((0.9..1.1).contains(&ratio), "{hits} of {served}");
}

/// Kills the folder `kills` times. For each kill, returns the freshness of the requests after the kill.
pub(crate) async fn takeovers(server: &RedisServer, kills: usize) -> Vec<Freshness> {
    crate::fill(server, PREFIX).await;
    let url = server.url();
    let mut members: Vec<Member> = (0..kills + 2).map(|_| Member::start(&url, 1, 0)).collect();
    let mut probe = Probe::new(&url);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut measured = Vec::new();
    for _ in 0..kills {
        let folder = folder(server).await;
        let at = members
            .iter()
            .position(|member| member.instances.contains(&folder));
        members.remove(at.expect("one member folds")).kill();
        measured.push(probe.watch(9.0).await);
    }
    measured
}

/// The name of the instance that holds the lease.
async fn folder(server: &RedisServer) -> String {
    let mut connection = server.connection().await;
    for _ in 0..1_000 {
        let key = format!("{PREFIX}pulse:lease:fold");
        let holder: Option<String> = redis::cmd("GET")
            .arg(key)
            .query_async(&mut connection)
            .await
            .unwrap();
        if let Some((name, _id)) = holder.as_deref().and_then(|holder| holder.rsplit_once(':')) {
            return name.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no instance folds");
}

async fn print_commands(server: &RedisServer) {
    let mut times: Vec<_> = meter::command_times(server).await.into_iter().collect();
    times.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    for (name, (micros, calls)) in times.iter().take(14) {
        let each = micros / calls;
        crate::note(&format!(
            "    {name:<16} {micros:>9.0} µs, {calls:>7} calls, {each:>7.1} µs each"
        ));
    }
}
