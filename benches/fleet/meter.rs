//! Usage of processes and of the server, from the kernel and INFO, and durations of polls.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::rig::server::RedisServer;

/// The processor time of a thread. While the thread runs, the value is up to one kernel tick old.
pub(crate) fn thread_cpu(process: u32, thread: u32) -> Duration {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

pub(crate) fn this_thread() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

pub(crate) fn process_cpu(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
        .map(|thread| thread_cpu(process, thread))
        .sum()
}

/// The server's totals: CPU since the start of the server, commands and bytes since CONFIG RESETSTAT.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    at: Instant,
    cpu: Duration,
    /// Approximate number of commands that clients sent: scripts, and the commands of heartbeats.
    commands: f64,
    bytes: f64,
}

/// The number of commands that a heartbeat of an instance without `app_version` sends, including those that read the
/// store's status. Exactly one of these commands is ZCOUNT, so the number of calls of ZCOUNT is the number of
/// heartbeats. Other reads of the status also call ZCOUNT, but rarely. Some heartbeats also list keys by HSCAN.
const COMMANDS_PER_HEARTBEAT: f64 = 8.0;

/// The server's usage per second, on average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// The share of one core.
    pub(crate) cpu: f64,
    pub(crate) commands: f64,
    pub(crate) bytes: f64,
}

impl Usage {
    pub(crate) async fn of(server: &RedisServer) -> Self {
        let commands = server.info("commandstats").await;
        let calls = |name: &str| -> f64 {
            let stats = commands.get(&format!("cmdstat_{name}"));
            let calls =
                stats.and_then(|stats| stats.split(',').find_map(|s| s.strip_prefix("calls=")));
            calls.map_or(0.0, |calls| calls.parse().unwrap())
        };
        let stats = server.info("stats").await;
        let total = |name: &str| stats[name].parse::<f64>().unwrap();
        let scripts = calls("evalsha") + calls("eval");
        Self {
            at: Instant::now(),
            cpu: process_cpu(server.pid()),
            commands: scripts + COMMANDS_PER_HEARTBEAT * calls("zcount") + calls("hscan"),
            bytes: total("total_net_input_bytes") + total("total_net_output_bytes"),
        }
    }

    pub(crate) fn until(&self, later: &Self) -> Rates {
        let seconds = (later.at - self.at).as_secs_f64();
        Rates {
            cpu: (later.cpu - self.cpu).as_secs_f64() / seconds,
            commands: (later.commands - self.commands) / seconds,
            bytes: (later.bytes - self.bytes) / seconds,
        }
    }
}

/// The microseconds and the calls of each command since the statistics were reset, by the command's name.
pub(crate) async fn command_times(server: &RedisServer) -> HashMap<String, (f64, f64)> {
    let stats = server.info("commandstats").await;
    let times = stats.iter().filter_map(|(name, fields)| {
        let value = |field: &str| -> Option<f64> {
            fields
                .split(',')
                .find_map(|f| f.strip_prefix(field))?
                .parse()
                .ok()
        };
        Some((
            name.strip_prefix("cmdstat_")?.to_owned(),
            (value("usec=")?, value("calls=")?),
        ))
    });
    times.collect()
}

/// The durations of the polls of futures, without the thread's waits for a processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls(Arc<Mutex<Vec<Duration>>>);

impl Polls {
    pub(crate) fn watch<F: Future>(&self, future: F) -> Watched<F> {
        Watched {
            future: Box::pin(future),
            polls: self.clone(),
            schedstat: None,
        }
    }

    /// The durations since the last call, shortest first.
    pub(crate) fn take(&self) -> Vec<Duration> {
        let mut polls = std::mem::take(&mut *self.0.lock().unwrap());
        polls.sort();
        polls
    }
}

/// Runs `future` beside a loop that only yields. Returns the times between the polls of this loop, shortest first. In
/// these times, `future` and the tasks that read replies for `future` held the thread.
pub(crate) async fn holds_during(future: impl Future) -> Vec<Duration> {
    let schedstat = File::open(format!("/proc/self/task/{}/schedstat", this_thread())).unwrap();
    let (mut holds, mut future) = (Vec::new(), std::pin::pin!(future));
    let watching = async {
        loop {
            let (before, start) = (waited(&schedstat), Instant::now());
            tokio::task::yield_now().await;
            let took = start.elapsed();
            holds.push(took.saturating_sub(waited(&schedstat) - before));
        }
    };
    tokio::select! {
        _ = &mut future => {}
        () = watching => {}
    }
    holds.sort();
    holds
}

pub(crate) struct Watched<F> {
    future: Pin<Box<F>>,
    polls: Polls,
    schedstat: Option<File>,
}

/// The time for which a thread has waited for a processor.
fn waited(schedstat: &File) -> Duration {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        // All polls are on one thread.
        let open = || File::open(format!("/proc/self/task/{}/schedstat", this_thread())).unwrap();
        let schedstat = this.schedstat.get_or_insert_with(open);
        let (before, start) = (waited(schedstat), Instant::now());
        let poll = this.future.as_mut().poll(cx);
        let took = start.elapsed();
        let took = took.saturating_sub(waited(schedstat) - before);
        this.polls.0.lock().unwrap().push(took);
        poll
    }
}

/// The run whose longest poll is the shortest, because other processes on the machine can only make polls longer.
pub(crate) fn least_held(runs: impl Iterator<Item = Vec<Duration>>) -> Vec<Duration> {
    let runs = runs.filter(|polls| !polls.is_empty());
    runs.min_by_key(|polls| polls.last().copied())
        .unwrap_or_default()
}

/// The quantile of a sorted list, by nearest rank.
pub(crate) fn quantile(sorted: &[Duration], q: f64) -> Duration {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}
