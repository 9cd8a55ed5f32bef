//! The state or the journal is deleted under load: health reports the missing samples, and no sample is counted twice.

use redis::aio::MultiplexedConnection;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::{EntryReader, Item};

use super::{Report, keys};
use crate::faults::service::{PATIENT, Service, Stored, with_response_timeout};
use crate::rig::server::RedisServer;
use crate::rig::wait::until;

/// Deletes a key, and returns the journal's entries that were not folded at that moment.
const DELETE: &str = "
local payloads = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '(' .. redis.call('HGET', KEYS[1], 'low'), '+')) do
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'p' then payloads[#payloads + 1] = entry[2][i + 1] end
  end
end
redis.call('DEL', ARGV[1])
return payloads";

/// Deletes a key. Returns the requests to pages and the bytes in those entries of the journal that were not folded.
async fn delete(conn: &mut MultiplexedConnection, key: &str) -> (i64, u64) {
    let script = redis::Script::new(DELETE);
    let mut call = script.key(keys().state);
    call.key(keys().journal).arg(key);
    let payloads: Vec<Vec<u8>> = call.invoke_async(conn).await.unwrap();
    // An entry counts one byte more than its payload.
    let bytes = payloads.iter().map(|payload| payload.len() as u64 + 1);
    let requests = payloads.iter().map(|payload| requests_in(payload));
    (requests.sum(), bytes.sum())
}

fn requests_in(payload: &[u8]) -> i64 {
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

/// Deletes only the journal or, if `is_state`, only the state. Health reports a deleted journal as a hole of some
/// bytes. A deleted state is a reset: the journal is orphaned, and the calls in doubt are counted as lost. Before
/// every other deletion, the test stops folding, so the exact number of missing requests is known.
pub async fn deleted(is_state: bool, times: u64, seed: u64) -> Report {
    let key = match is_state {
        true => keys().state,
        false => keys().journal,
    };
    let mut report = Report {
        done: format!("{key} deleted {times} times; requests reported as missing are added"),
        ..Report::default()
    };
    for n in 0..times {
        let server = RedisServer::start().await;
        let service = Service::new(with_response_timeout(&server.url(), PATIENT));
        let load = service.load(seed ^ n);
        let conn = &mut server.connection().await;
        until("some entries are folded, and some wait", async || {
            let conn = &mut conn.clone();
            keys().folded(conn).await > 0 && keys().unfolded(conn).await > 0
        })
        .await;
        let is_exact = n.is_multiple_of(2);
        if is_exact {
            keys().stop_folding(conn).await;
            let many_wait = async || keys().unfolded(&mut conn.clone()).await > 20_000;
            until("many bytes wait", many_wait).await;
        }
        let (requests, bytes) = delete(conn, &key).await;
        if is_exact {
            keys().free_lease(conn).await;
        }
        let served = service.oracle.served();
        let continues = async || service.oracle.served() > served + 500;
        until("the service continues", continues).await;
        load.stop().await;
        service.settle().await;
        let ended = service.pulse.shutdown().await;
        report.add_shutdown(ended);

        let (served, health) = (service.oracle.served() as i64, service.health());
        let stored = Stored::read(conn).await.by_page();
        let (missing, journal) = (served - stored, health.fold.journal.unwrap());
        let (lost, resets) = (health.flush.lost as i64, health.flush.store_resets);
        let line = format!("{lost} lost, {resets} resets, {bytes} bytes deleted, {journal:?}");
        let is_wrong = match is_state {
            true => resets != 1 || (journal.orphaned == 0 && requests > 0),
            false => {
                let (hole, least) = (journal.hole_bytes, if is_exact { bytes } else { 0 });
                let is_reported = (least..=bytes).contains(&hole) && (hole > 0 || missing == 0);
                lost > 0 || resets > 0 || !is_reported
            }
        };
        report.fault_if(is_wrong, line);
        let gone = if is_exact { requests } else { 0 }..=requests + lost;
        let line = format!("{missing} requests are missing, {gone:?} are expected");
        report.fault_if(!gone.contains(&missing), line);
        // A missing request that health reports counts as stored.
        report.expected += served;
        report.stored += stored + missing.clamp(*gone.start(), *gone.end());
        report.notes.push(format!("{missing} missing, {lost} lost"));
    }
    report
}
