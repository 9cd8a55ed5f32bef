//! No instance folds, so the journal reaches its limit.

use std::time::{Duration, Instant};

use tower_pulse::Builder;

use super::{Report, keys};
use crate::faults::service::{PATIENT, Service, options, pause, with_options};
use crate::rig::server::RedisServer;
use crate::rig::wait::{until, until_within};

/// The smallest limit that can be set.
const BOUND: u64 = 1 << 20;

fn bounded(url: &str) -> Builder {
    with_options(options(url, PATIENT).journal_bytes(BOUND))
}

/// Whether health names the full journal as the cause of an error.
fn is_full(service: &Service) -> bool {
    let error = service.health().store.last_error.unwrap_or_default();
    error.contains("journal_bytes")
}

/// Lets two instances serve for `time` while the journal is at its limit.
pub async fn journal_full(time: Duration, seed: u64) -> Report {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let service = Service::new(bounded(&server.url()));
    let other = service.join(bounded(&server.url()));
    let loads = [service.load(seed), other.load(seed ^ 1)];
    let are_folded = async || keys().folded(&mut conn.clone()).await > 0;
    until("some entries are folded", are_folded).await;
    keys().stop_folding(conn).await;
    until_within(Duration::from_secs(120), "a full journal", async || {
        is_full(&service) && is_full(&other)
    })
    .await;
    let (full, mut is_named) = (Instant::now(), true);
    let served = service.oracle.served();
    let (mut most_bytes, mut most_names) = (0, 0);
    while full.elapsed() < time {
        pause(200).await;
        keys().stop_folding(conn).await;
        most_bytes = most_bytes.max(keys().unfolded(conn).await);
        for service in [&service, &other] {
            most_names = most_names.max(service.health().recording.pending_series);
            is_named &= is_full(service);
        }
    }
    let is_serving = service.oracle.served() > served;
    keys().free_lease(conn).await;
    for load in loads {
        load.stop().await;
    }
    other.settle().await;
    let ended = other.pulse.shutdown().await;
    let mut report = Report::at_the_end(&service, &server).await;
    report.add_shutdown(ended);
    report.fault_if(!is_named, "health does not name the cause");
    report.fault_if(!is_serving, "no request was served");
    // The last call may exceed the limit.
    let is_exceeded = most_bytes > BOUND + 64 * 1024;
    report.fault_if(is_exceeded, format!("{most_bytes} bytes in the journal"));
    let seconds = time.as_secs_f64();
    report.done = format!("a journal at its bound for {seconds:.0} s");
    report.notes.extend([
        format!("at most {most_bytes} bytes in the journal"),
        format!("{most_names} names pending"),
    ]);
    report
}
