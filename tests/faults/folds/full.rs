//! No instance folds, until the journal has reached its limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tower_pulse::{Builder, Pulse};
use tower_pulse_redis::{RedisOptions, RedisStore};

use super::{Report, keys};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{PREFIX, Service, pause};

/// The smallest limit that can be set.
const BOUND: u64 = 1 << 20;

fn bounded(url: &str) -> Builder {
    let options = RedisOptions::new(url).unwrap().prefix(PREFIX).unwrap();
    let options = options.response_timeout(Duration::from_secs(5));
    let store = RedisStore::open(options.journal_bytes(BOUND)).unwrap();
    let pulse = Pulse::builder().store(Arc::new(store));
    pulse.flush_interval(Duration::from_millis(20))
}

/// Whether health names the journal as the reason.
fn is_full(service: &Service) -> bool {
    let error = service.health().store.last_error.unwrap_or_default();
    error.contains("journal_bytes")
}

/// Two instances go on for `time` with a journal at its limit.
pub async fn journal_full(time: Duration, seed: u64) -> Report {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let service = Service::new(bounded(&server.url()));
    let other = service.join(bounded(&server.url()));
    let loads = [service.load(seed), other.load(seed ^ 1)];
    until("something is folded", async || {
        keys().folded(&mut conn.clone()).await > 0
    })
    .await;
    keys().stop_folding(conn).await;
    let start = Instant::now();
    while !(is_full(&service) && is_full(&other)) {
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(120), "it is never full");
        pause(20).await;
    }
    let (full, mut faults) = (Instant::now(), Vec::new());
    let served = service.oracle.served();
    let (mut most_bytes, mut most_names) = (0, 0);
    while full.elapsed() < time {
        pause(200).await;
        keys().stop_folding(conn).await;
        most_bytes = most_bytes.max(keys().unfolded(conn).await);
        for service in [&service, &other] {
            most_names = most_names.max(service.health().recording.pending_series);
            if !is_full(service) {
                faults.push("health does not name the reason".to_owned());
            }
        }
    }
    if service.oracle.served() == served {
        faults.push("nothing was served".to_owned());
    }
    // The last call may exceed the limit.
    if most_bytes > BOUND + 64 * 1024 {
        faults.push(format!("{most_bytes} bytes in the journal"));
    }
    keys().free_lease(conn).await;
    let freed = Instant::now();
    for load in loads {
        load.stop().await;
    }
    other.settle().await;
    faults.extend(other.pulse.shutdown().await.err().map(|e| e.to_string()));
    let mut report = Report::at_the_end(&service, &server).await;
    let drained = freed.elapsed();
    report.faults.extend(faults);
    let seconds = drained.as_secs_f64();
    report.notes = vec![
        format!("at most {most_bytes} bytes in it"),
        format!("{most_names} names pending"),
        format!("drained in {seconds:.1} s"),
    ];
    report
}
