//! Eight processes write into one Redis while the hours turn, by clocks that the parent process sets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, Pulse};
use tower_pulse_model::slice::{HOUR, hour_of, iso_hour};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::book;
use crate::rig::server::{RedisServer, issue};
use crate::service::{PAGES, PREFIX, Service, context};
use crate::table::{Outcome, Size};

/// The environment variable with the server's URL, set in a child process.
pub const CHILD: &str = "PULSE_CHAOS_CHILD";
const PROCESSES: usize = 8;

/// 2023-11-14 22:00 UTC.
fn first_hour() -> i64 {
    hour_of(1_700_001_000)
}

/// The child process: reads an hour and a seed from each line, serves for that hour, and writes how many
/// requests it has served of each page, and how many were late and skewed so far.
pub async fn child() {
    let url = std::env::var(CHILD).unwrap();
    let (clock, hand) = Clock::manual(first_hour());
    let options = RedisOptions::new(&url).unwrap().prefix(PREFIX).unwrap();
    let store = RedisStore::open(options).unwrap().with_clock(clock.clone());
    let pulse = Pulse::builder().store(Arc::new(store)).clock(clock);
    let service = Service::new(pulse.shutdown_timeout(Duration::from_secs(10)));
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (hour, seed) = line.split_once(' ').unwrap();
        let (hour, seed): (i64, u64) = (hour.parse().unwrap(), seed.parse().unwrap());
        let mut rng = fastrand::Rng::with_seed(seed);
        hand.set_wall(hour + 30);
        let before = pages(&service);
        for _ in 0..4 {
            service.requests(PAGES).await;
            for _ in 0..rng.usize(..100) {
                service.request(rng.usize(..PAGES)).await;
            }
            // Samples that are drained late belong to the second that has ended, which is of the same hour.
            // The child does not wait until another process has folded them.
            if rng.bool() {
                let flush = service.pulse.flush();
                let _ = tokio::time::timeout(Duration::from_millis(50), flush).await;
            }
            hand.advance(Duration::from_millis(rng.u64(1..800_000)));
        }
        service.settle().await;
        let after = pages(&service);
        let served: Vec<_> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        let health = service.health();
        println!("{served:?};{};{}", health.fold.late, health.fold.skewed);
        std::io::stdout().flush().unwrap();
    }
    service.pulse.shutdown().await.unwrap();
}

fn pages(service: &Service) -> Vec<u64> {
    (0..PAGES).map(|page| service.oracle.page(page)).collect()
}

struct Member {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(CHILD, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn tell(&mut self, hour: i64, seed: u64) {
        writeln!(self.input.as_mut().unwrap(), "{hour} {seed}").unwrap();
    }

    /// The number of requests served of each page, and the numbers of late and skewed ones.
    fn answer(&mut self) -> (Vec<u64>, u64) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut parts = line.trim().split(';');
        let pages = parts.next().unwrap().trim_matches(['[', ']']);
        let pages = pages.split(", ").map(|n| n.parse().unwrap()).collect();
        (pages, parts.map(|n| n.parse::<u64>().unwrap()).sum())
    }
}

pub async fn eight_processes(size: Size) -> Outcome {
    let hours = size.of(100) as i64;
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let server = RedisServer::start().await;
    let mut fleet: Vec<_> = (0..PROCESSES)
        .map(|_| Member::start(&server.url()))
        .collect();
    let mut oracle: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    let (mut faults, mut kills) = (Vec::new(), 0);
    for step in 0..hours {
        // Every other instance is an hour behind.
        let hour = |member: usize| first_hour() + (step + 1 - member as i64 % 2) * HOUR;
        for (at, member) in fleet.iter_mut().enumerate() {
            member.tell(hour(at), rng.u64(..));
        }
        kills += server.kill_clients().await;
        for (at, member) in fleet.iter_mut().enumerate() {
            let (pages, exceptions) = tokio::task::block_in_place(|| member.answer());
            let served = oracle.entry(hour(at)).or_insert_with(|| vec![0; PAGES]);
            served.iter_mut().zip(pages).for_each(|(all, n)| *all += n);
            if exceptions > 0 {
                faults.push(format!("step {step}: {exceptions} late or skewed"));
            }
        }
        let mut conn = server.connection().await;
        // Both hours of the statistics, page by page.
        for (page, context) in (0..PAGES).map(context).enumerate() {
            for (set, start, at) in [("", ":start", 1), (":last", ":pstart", 0)] {
                let at = first_hour() + (step + at) * HOUR;
                let key = format!("{PREFIX}stats:{context}:AccessTime");
                let hour: String = issue(&mut conn, "GET", format!("{key}{start}")).await;
                let count: f64 = issue(&mut conn, "ZSCORE", (format!("{key}{set}"), "count")).await;
                let expected = oracle[&at][page];
                if hour != iso_hour(at) || count as u64 != expected {
                    let line =
                        format!("step {step}, page {page}: {hour} has {count}, {expected} served");
                    faults.push(line);
                }
            }
        }
    }
    for member in &mut fleet {
        drop(member.input.take());
        let exit = member.child.wait().unwrap();
        if !exit.success() {
            faults.push(format!("a child ended with {exit}"));
        }
    }
    let mut conn = server.connection().await;
    // Compares each hour of each page and of all pages.
    let mut stored_in_hours = 0;
    for page in 0..PAGES {
        let name = format!("hits:{}", context(page));
        let stored: BTreeMap<i64, i64> = book::get_counter(&mut conn, PREFIX, &name, HOUR)
            .await
            .into_iter()
            .collect();
        for (hour, served) in &oracle {
            let stored = stored.get(hour).copied().unwrap_or(0);
            stored_in_hours += stored;
            if stored as u64 != served[page] {
                faults.push(format!(
                    "page {page}, {}: {stored} of {}",
                    iso_hour(*hour),
                    served[page]
                ));
            }
        }
    }
    let days = book::get_counter(&mut conn, PREFIX, "hits", 86_400).await;
    let stored: i64 = days.iter().map(|(_, n)| n).sum();
    let expected = oracle.values().flatten().sum::<u64>() as i64;
    if stored != expected {
        faults.push(format!("{stored} by day, {expected} served"));
    }
    Outcome {
        done: format!("{PROCESSES} processes, half of them an hour behind, {hours} hours"),
        expected,
        stored: stored_in_hours,
        faults,
        notes: vec![format!("{kills} connections killed meanwhile")],
    }
}
