//! Processes that keep their history in a file: killed under load, and deployed under load.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tower_pulse::Pulse;
use tower_pulse_core::store::CounterQuery;
use tower_pulse_core::store::Query;
use tower_pulse_file::{FileOptions, FileStore};

use crate::clients::{CONNECTIONS, Clients, Missing};
use crate::rig::demo::{self, Demo};
use crate::rig::process::TempDir;
use crate::rig::wait::until;
use crate::table::{Outcome, Size};

/// What may be missing: a flush interval and its jitter, as the commit follows the flush, and the flush and the
/// commit themselves on a busy machine.
const ALLOWED: Duration = Duration::from_millis(1_300);

/// Starts the demo on a file.
async fn start(path: &Path) -> Demo {
    let path = path.to_str().unwrap();
    let env = [("PULSE_FILE", path), ("DEMO_TRAFFIC", "off")];
    Demo::start(demo::built(), &env).await
}

/// The requests that a file has, of which the entries that wait in it are folded before.
async fn stored(path: &Path) -> i64 {
    let options = FileOptions::new(path).unwrap();
    let store = Arc::new(FileStore::open(options).unwrap());
    let builder = Pulse::builder().store(store.clone());
    let (pulse, tasks) = builder.build_with_tasks().unwrap();
    drop(tasks);
    pulse.counter("looks").add(1);
    until("the file is open", async || pulse.flush().await.is_ok()).await;
    let query = CounterQuery::new(["hits:GET /ping"], 86_400);
    let counters = store.counters(&query).await.unwrap();
    pulse.shutdown().await.unwrap();
    counters[0].sum()
}

pub async fn sigkill(size: Size) -> Outcome {
    let rounds = size.of(200);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let dir = TempDir::new("killed");
    let path = dir.path().join("pulse.redb");
    let mut outcome = Outcome {
        done: format!(
            "{rounds} x SIGKILL of a service on a file, under load of {CONNECTIONS} connections"
        ),
        ..Outcome::default()
    };
    let mut missing = Missing::default();
    for round in 0..rounds {
        let demo = start(&path).await;
        let clients = Clients::start(&demo);
        tokio::time::sleep(Duration::from_millis(rng.u64(200..2_600))).await;
        let killed = Instant::now();
        demo.kill_9();
        let answered = clients.answers().await;
        let found = stored(&path).await - outcome.stored;
        let (kill, counts) = ((round, killed), (&*answered, found));
        missing.add(&mut outcome, kill, counts, ALLOWED);
    }
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    if files != 1 {
        let line = format!("{files} files: the file was damaged and set aside");
        outcome.faults.push(line);
    }
    outcome.notes = missing.notes();
    outcome
        .notes
        .push("interval 1 s, durable each second".to_owned());
    outcome
}

pub async fn deploys(size: Size) -> Outcome {
    let rounds = size.of(20);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let dir = TempDir::new("deployed");
    let path = dir.path().join("pulse.redb");
    let mut outcome = Outcome {
        done: format!(
            "{rounds} x the next process starts, serves beside the last one, and takes the file over when SIGTERM has \
             ended that"
        ),
        ..Outcome::default()
    };
    let mut old = start(&path).await;
    let mut clients = Clients::start(&old);
    let mut answered = 0;
    for round in 0..=rounds {
        let new = match round < rounds {
            true => Some(start(&path).await),
            false => None,
        };
        let of_new = new.as_ref().map(Clients::start);
        tokio::time::sleep(Duration::from_millis(rng.u64(500..3_000))).await;
        old.signal("TERM");
        let exit = old.wait_exit(Duration::from_secs(10)).await;
        if exit.is_none_or(|exit| !exit.success()) {
            let line = format!("round {round}: no clean exit\n{}", old.stderr());
            outcome.faults.push(line);
        }
        answered += clients.answers().await.len() as i64;
        let (Some(new), Some(of_new)) = (new, of_new) else {
            break;
        };
        (old, clients) = (new, of_new);
        // It tries the file each second, and must have it before the next deploy.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    outcome.stored = stored(&path).await;
    // A request that was served while its connection was closed has no answer.
    let most = (CONNECTIONS as i64) * (rounds as i64 + 1);
    let unheard = (outcome.stored - answered).clamp(0, most);
    outcome.expected = answered + unheard;
    outcome.notes = vec![format!("{unheard} served without an answer")];
    if outcome.stored != outcome.expected {
        let line = format!("{} stored, {answered} answered", outcome.stored);
        outcome.faults.push(line);
    }
    outcome
}
