//! `state` or the journal is deleted under load: health reports the missing samples, and no sample is
//! counted twice.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::{EntryReader, Item};

use super::{Report, keys};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;
use crate::service::{Service, Stored, with_response_timeout};

/// Deletes a key, and returns the entries that were in the journal and not folded at that moment.
const DELETE: &str = "
local payloads = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '(' .. redis.call('HGET', KEYS[1], 'low'), '+')) do
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'p' then payloads[#payloads + 1] = entry[2][i + 1] end
  end
end
redis.call('DEL', ARGV[1])
return payloads";

/// The entries that were deleted before they were folded.
#[derive(Debug)]
struct Deleted {
    /// Number of requests to pages.
    requests: i64,
    /// Bytes in the journal.
    bytes: u64,
}

async fn delete(conn: &mut MultiplexedConnection, key: &str) -> Deleted {
    let script = redis::Script::new(DELETE);
    let mut call = script.key(keys().state);
    call.key(keys().journal).arg(key);
    let payloads: Vec<Vec<u8>> = call.invoke_async(conn).await.unwrap();
    let requests: i64 = payloads.iter().map(|payload| pages(payload)).sum();
    Deleted {
        requests,
        // The id of an entry counts one byte more than its payload.
        bytes: payloads
            .iter()
            .map(|payload| payload.len() as u64 + 1)
            .sum(),
    }
}

/// Number of requests to pages in an entry.
fn pages(payload: &[u8]) -> i64 {
    let mut reader = EntryReader::new(payload).unwrap();
    let mut requests = 0;
    while let Some(item) = reader.next().unwrap() {
        if let Item::Context(context, delta) = item
            && context.kind == Kind::Http
        {
            requests += delta.requests() as i64;
        }
    }
    requests
}

/// Checks that the number of missing requests is within `gone`.
fn compare(report: &mut Report, served: u64, stored: i64, gone: std::ops::RangeInclusive<i64>) {
    let missing = served as i64 - stored;
    if !gone.contains(&missing) {
        let line = format!("{missing} requests are missing, {gone:?} are expected");
        report.faults.push(line);
    }
    // A request that is missing and reported counts as accounted for.
    report.expected += served as i64;
    report.stored += stored + missing.clamp(*gone.start(), *gone.end());
}

/// The result of one deletion.
struct Ended {
    deleted: Deleted,
    /// Whether no instance was folding, so that all deleted entries are missing.
    is_all_gone: bool,
    served: u64,
    stored: i64,
    health: tower_pulse::Health,
}

/// Deletes a key under load. Every other time no instance folds, so that the exact number of missing
/// requests is known.
async fn delete_under_load(n: u64, seed: u64, key: &str, report: &mut Report) -> Ended {
    let server = RedisServer::start().await;
    let service = Service::new(with_response_timeout(&server.url(), Duration::from_secs(5)));
    let load = service.load(seed ^ n);
    let conn = &mut server.connection().await;
    until("something is folded, and something waits", async || {
        let conn = &mut conn.clone();
        keys().folded(conn).await > 0 && keys().unfolded(conn).await > 0
    })
    .await;
    let is_all_gone = n.is_multiple_of(2);
    if is_all_gone {
        keys().stop_folding(conn).await;
        until("much waits", async || {
            keys().unfolded(&mut conn.clone()).await > 20_000
        })
        .await;
    }
    let deleted = delete(conn, key).await;
    if is_all_gone {
        keys().free_lease(conn).await;
    }
    let served = service.oracle.served();
    until("it goes on", async || {
        service.oracle.served() > served + 500
    })
    .await;
    load.stop().await;
    service.settle().await;
    if let Err(error) = service.pulse.shutdown().await {
        report.faults.push(error.to_string());
    }
    Ended {
        deleted,
        is_all_gone,
        served: service.oracle.served(),
        stored: Stored::read(&mut server.connection().await).await.by_page(),
        health: service.health(),
    }
}

/// Deletes the journal alone: health reports a hole, in bytes.
pub async fn journal_deleted(times: u64, seed: u64) -> Report {
    let mut report = Report::default();
    let mut holes = 0;
    for n in 0..times {
        let ended = delete_under_load(n, seed, &keys().journal, &mut report).await;
        let Deleted { requests, bytes } = ended.deleted;
        let health = ended.health;
        let hole = health.fold.journal.map_or(0, |journal| journal.hole_bytes);
        let least = if ended.is_all_gone { bytes } else { 0 };
        if !(least..=bytes).contains(&hole) || (hole == 0 && ended.stored < ended.served as i64) {
            report.faults.push(format!(
                "{hole} bytes are reported as missing, {bytes} were deleted"
            ));
        }
        if health.flush.lost > 0 || health.flush.store_resets > 0 {
            let line = format!(
                "{} lost, {} resets",
                health.flush.lost, health.flush.store_resets
            );
            report.faults.push(line);
        }
        holes += hole;
        let least = if ended.is_all_gone { requests } else { 0 };
        compare(&mut report, ended.served, ended.stored, least..=requests);
    }
    report
        .notes
        .push(format!("reported as missing: {holes} bytes of the journal"));
    report
}

/// Deletes `state` alone, which is a reset. The journal is orphaned, and the calls in doubt are counted as
/// lost.
pub async fn state_deleted(times: u64, seed: u64) -> Report {
    let mut report = Report::default();
    let (mut orphaned, mut lost) = (0, 0);
    for n in 0..times {
        let ended = delete_under_load(n, seed, &keys().state, &mut report).await;
        let (requests, health) = (ended.deleted.requests, ended.health);
        let journal = health.fold.journal.unwrap();
        if health.flush.store_resets != 1 || (journal.orphaned == 0 && requests > 0) {
            let line = format!("{} resets, {journal:?}", health.flush.store_resets);
            report.faults.push(line);
        }
        orphaned += requests;
        lost += health.flush.lost;
        let least = if ended.is_all_gone { requests } else { 0 };
        let most = requests + health.flush.lost as i64;
        compare(&mut report, ended.served, ended.stored, least..=most);
    }
    let line = format!("reported: {orphaned} in orphaned journals, {lost} lost");
    report.notes.push(line);
    report
}
