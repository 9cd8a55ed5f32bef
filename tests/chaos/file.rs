//! Services on a file that are killed or replaced under load.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tower_pulse::Pulse;
use tower_pulse_core::store::CounterQuery;
use tower_pulse_core::store::Query;
use tower_pulse_file::{FileOptions, FileStore};

use crate::faults::scenarios::Report;
use crate::faults::scenarios::process::{CONNECTIONS, Clients};
use crate::faults::service::{pause, settle, without_tasks};
use crate::rig::demo::{self, Demo};
use crate::rig::process::TempDir;
use crate::table::Size;

/// Requests that ended within this time before a kill may be missing. The time covers a flush interval, its jitter, a
/// flush and a commit, on a busy machine.
const ALLOWED: Duration = Duration::from_millis(1_300);

async fn start(path: &Path) -> Demo {
    let path = path.to_str().unwrap();
    let env = [("PULSE_FILE", path), ("DEMO_TRAFFIC", "off")];
    Demo::start(demo::built(), &env).await
}

/// The number of requests in a file, after folding the entries that wait in its journal.
async fn stored(path: &Path) -> i64 {
    let options = FileOptions::new(path).unwrap();
    let store = Arc::new(FileStore::open(options).unwrap());
    let pulse = without_tasks(Pulse::builder().store(store.clone()));
    pulse.counter("looks").add(1);
    settle(&pulse).await;
    let query = CounterQuery::new(["hits:GET /ping"], 86_400);
    let counters = store.counters(&query).await.unwrap();
    pulse.shutdown().await.unwrap();
    counters[0].sum()
}

pub async fn sigkill(size: Size) -> Report {
    let rounds = size.scaled(200);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let dir = TempDir::new("killed");
    let path = dir.path().join("pulse.redb");
    let (mut report, mut longest) = (Report::default(), Duration::ZERO);
    for _ in 0..rounds {
        let demo = start(&path).await;
        let clients = Clients::start(&demo);
        pause(rng.u64(200..2_600)).await;
        let killed = Instant::now();
        demo.kill_9();
        let answered = clients.answers().await;
        let found = stored(&path).await - report.stored;
        longest = longest.max(report.add_killed(killed, &answered, found, ALLOWED));
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    let line = format!("{files} files: the file was damaged and set aside");
    report.fault_if(files != 1, line);
    report.done = format!(
        "{rounds} x SIGKILL of a service on a file, at most the last {:.2} s missing",
        longest.as_secs_f64()
    );
    report
}

pub async fn deploys(size: Size) -> Report {
    let rounds = size.scaled(20);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let dir = TempDir::new("deployed");
    let path = dir.path().join("pulse.redb");
    let mut report = Report {
        done: format!(
            "{rounds} x a new process starts and serves beside the old one, and takes over the file after SIGTERM has \
             ended the old one"
        ),
        ..Report::default()
    };
    let mut old = start(&path).await;
    let mut clients = Clients::start(&old);
    let mut answered = 0;
    for round in 0..=rounds {
        let next = match round < rounds {
            true => Some(start(&path).await),
            false => None,
        };
        let next = next.map(|demo| (Clients::start(&demo), demo));
        pause(rng.u64(500..3_000)).await;
        let (name, within) = (format!("round {round}"), Duration::from_secs(10));
        report.terminate(&name, &old, within).await;
        answered += clients.answers().await.len() as i64;
        let Some(next) = next else { break };
        (clients, old) = next;
        // The new process tries to open the file each second, and must have opened it before the next deploy.
        pause(2_000).await;
    }
    let connections = CONNECTIONS as i64 * (rounds as i64 + 1);
    report.add_ended(answered, stored(&path).await, connections);
    report
}
