//! The rows of the table: fleets by number of instances, and their cost.

use std::time::Duration;

use crate::child::Member;
use crate::light::PREFIX;
use crate::meter::{self, Rates, Usage};
use crate::probe::{Freshness, Probe};
use crate::rig::reads::StoreReads;
use crate::rig::server::RedisServer;
use crate::traffic::{CONTEXTS, REQUESTS};

/// The composition of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Complete instances, including the folder.
    pub(crate) real: usize,
    /// Instances that only append and send heartbeats.
    pub(crate) light: usize,
}

/// The measurements of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) size: Size,
    pub(crate) server: Rates,
    pub(crate) folder_cpu: f64,
    pub(crate) freshness: Freshness,
    /// Seconds between flushes, as chosen by the fleet.
    pub(crate) interval: f64,
    /// The durations of the polls of folding, shortest first.
    pub(crate) polls: Vec<Duration>,
}

/// The number of complete instances in one process.
const TOGETHER: usize = 100;
/// The number of parts into which the time is divided. The part with the smallest cost counts, because other processes
/// make the same work take longer.
pub(crate) const PARTS: u32 = 3;

/// Measures a fleet: its cost for `seconds`, and then the freshness of its data for as long.
pub(crate) async fn measure(server: &RedisServer, size: Size, seconds: f64) -> Row {
    crate::fill(server, PREFIX).await;
    let url = server.url();
    // The folder is alone at first, and has the lease when the others start.
    let mut folder = Member::start(&url, 1, 0);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let mut others = Vec::new();
    let mut left = size.real - 1;
    while left > 0 {
        let some = left.min(TOGETHER);
        others.push(Member::start(&url, some, 0));
        left -= some;
    }
    if size.light > 0 {
        // One of these instances is complete, to choose the interval.
        others.push(Member::start(&url, 1, size.light - 1));
    }
    let warm_up = 9.0 + (size.real + size.light) as f64 / 70.0;
    tokio::time::sleep(Duration::from_secs_f64(warm_up)).await;

    drop(folder.polls());
    crate::forget_commands(server).await;
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        let (before, cpu) = (Usage::of(server).await, folder.fold_cpu());
        tokio::time::sleep(Duration::from_secs_f64(seconds) / PARTS).await;
        let (after, later) = (Usage::of(server).await, folder.fold_cpu());
        let share = (later - cpu).as_secs_f64() * f64::from(PARTS) / seconds;
        parts.push((before.until(&after), share, folder.polls()));
    }
    print_commands(server).await;
    assert_all_is_counted(&url, size).await;
    let mut probe = Probe::new(&url);
    // The probe learns the size of the fleet from its first heartbeat.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let freshness = probe.watch(seconds, |_| false).await;
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

/// Checks that all requests are counted, as a low cost could come from lost requests.
async fn assert_all_is_counted(url: &str, size: Size) {
    let store = crate::light::store(url, Duration::from_secs(10));
    let hits = store.counter("hits", 1).await.unwrap();
    // All instances have flushed the seconds before `flushed`. A large fleet flushes only every ten seconds.
    let instances = size.real + size.light;
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

/// Kills the folder `kills` times. For each kill, returns how long the requests after it took, from their end, to
/// become readable.
pub(crate) async fn takeovers(server: &RedisServer, kills: usize) -> Vec<Freshness> {
    crate::fill(server, PREFIX).await;
    let url = server.url();
    let mut members: Vec<Member> = (0..kills + 2).map(|_| Member::start(&url, 1, 0)).collect();
    let mut probe = Probe::new(&url);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut measured = Vec::new();
    for _ in 0..kills {
        let holder = holder(server).await;
        let at = members
            .iter()
            .position(|member| member.instances.contains(&holder));
        members.remove(at.expect("one of them folds")).kill();
        measured.push(probe.watch(9.0, |_| false).await);
    }
    measured
}

async fn holder(server: &RedisServer) -> String {
    let mut connection = server.connection().await;
    for _ in 0..1_000 {
        let key = format!("{PREFIX}pulse:lease:fold");
        let holder: Option<String> = redis::cmd("GET")
            .arg(key)
            .query_async(&mut connection)
            .await
            .unwrap();
        if let Some(holder) = holder {
            return holder;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody folds");
}

/// Prints the commands that took most of the server's time.
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
