//! Signals to the demo, under load.

use std::time::{Duration, Instant};

use crate::clients::{CONNECTIONS, Clients, Missing};
use crate::rig::demo::{self, Demo};
use crate::rig::fold::fold_rest;
use crate::rig::server::RedisServer;
use crate::table::{Outcome, Size};

/// Starts the demo under a prefix of its own, lets it serve, and ends it with `end`. Returns the times of
/// the answers, in order, and the number of requests in Redis.
async fn one(
    server: &RedisServer,
    round: u64,
    serve: Duration,
    end: impl AsyncFnOnce(&Demo),
) -> (Vec<Instant>, i64) {
    let (url, prefix) = (server.url(), format!("pulse:{round}:"));
    let env = [
        ("REDIS_URL", &*url),
        ("PULSE_PREFIX", &*prefix),
        ("DEMO_TRAFFIC", "off"),
    ];
    let demo = Demo::start(demo::built(), &env).await;
    let clients = Clients::start(&demo);
    tokio::time::sleep(serve).await;
    end(&demo).await;
    let answered = clients.answers().await;
    // Appended calls are safe, and the next folder folds them.
    fold_rest(&url, &prefix).await;
    let mut conn = server.connection().await;
    let stored = crate::rig::book::get_counter(&mut conn, &prefix, "hits:GET /ping", 86_400).await;
    (answered, stored.iter().map(|(_, n)| n).sum())
}

pub async fn sigterm(size: Size) -> Outcome {
    let rounds = size.of(50);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let server = RedisServer::start().await;
    let mut outcome = Outcome {
        done: format!("{rounds} x SIGTERM under load of {CONNECTIONS} connections"),
        ..Outcome::default()
    };
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let serve = Duration::from_millis(rng.u64(200..1_500));
        let mut took = None;
        let (answered, stored) = one(&server, round, serve, async |demo| {
            let start = Instant::now();
            demo.signal("TERM");
            let exit = demo.wait_exit(Duration::from_secs(10)).await;
            took = exit.filter(|exit| exit.success()).map(|_| start.elapsed());
        })
        .await;
        let answered = answered.len() as i64;
        match took {
            Some(took) => slowest = slowest.max(took),
            None => outcome.faults.push(format!("round {round}: no clean exit")),
        }
        // A request that was served while its connection was closed has no answer.
        let unheard = (stored - answered).clamp(0, CONNECTIONS as i64);
        if stored != answered + unheard {
            let line = format!("round {round}: {stored} stored, {answered} answered");
            outcome.faults.push(line);
        }
        outcome.expected += answered + unheard;
        outcome.stored += stored;
    }
    outcome.notes = vec![format!("slowest {:.2} s", slowest.as_secs_f64())];
    if slowest >= Duration::from_secs(2) {
        outcome.faults.push("it took 2 s or more".to_owned());
    }
    outcome
}

/// A flush begins up to 50 ms after its second, so that a fleet does not flush all at once. The remainder
/// is for the flush itself, on a busy machine.
const ALLOWED: Duration = Duration::from_millis(1_150);

pub async fn sigkill(size: Size) -> Outcome {
    let rounds = size.of(100);
    let mut rng = fastrand::Rng::with_seed(size.seed);
    let server = RedisServer::start().await;
    let mut outcome = Outcome {
        done: format!("{rounds} x SIGKILL under load of {CONNECTIONS} connections"),
        ..Outcome::default()
    };
    let mut missing = Missing::default();
    for round in 0..rounds {
        let serve = Duration::from_millis(rng.u64(1_200..2_600));
        let mut killed = Instant::now();
        let (answered, stored) = one(&server, round, serve, async |demo| {
            killed = Instant::now();
            demo.kill_9();
        })
        .await;
        let (kill, counts) = ((round, killed), (&*answered, stored));
        missing.add(&mut outcome, kill, counts, ALLOWED);
    }
    outcome.notes = missing.notes();
    outcome
        .notes
        .push("interval 1 s and up to 0.05 s of jitter".to_owned());
    outcome
}
