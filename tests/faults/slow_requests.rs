//! A fleet lists exactly its slowest and its newest failed requests, although its store fails from time to time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use tower_pulse::{Clock, Pulse};
use tower_pulse_core::store::SlowRequestQuery;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::slice::hour_of;
use tower_pulse_model::slow_request::{FAILED_PER_CONTEXT, FAILED_PER_SECOND};

use crate::faults::service::{PATIENT, options, settle, with_clock, with_clocks, without_tasks};
use crate::rig::proxy::{Proxy, Swallow};
use crate::rig::reads::StoreOf;
use crate::rig::seed::seed;
use crate::rig::server::RedisServer;

const INSTANCES: usize = 4;
const CONTEXTS: usize = 30;
/// The start of an hour, in the middle of the run.
const HOUR_START: i64 = 1_700_002_800;
const SECONDS: usize = 60;
/// Requests of each instance in each second: a quarter of a million in all.
const REQUESTS: usize = 250_000 / SECONDS / INSTANCES;

/// A request that was served: when it ended, in Unix seconds, its duration in nanoseconds, and whether it failed.
type Served = (i64, u64, bool);

type All = BTreeMap<(i64, usize), Vec<Served>>;

/// Begins a random fault, ends all faults, or does nothing.
fn change_faults(proxy: &Proxy, rng: &mut fastrand::Rng) {
    match rng.u32(..10) {
        0 => proxy.swallow_replies(rng.f64() * 0.5, rng.u64(..), Swallow::Cut),
        1 => proxy.truncate(rng.f64() * 0.5, rng.u64(..)),
        2 => proxy.cut(),
        3 => proxy.refuse(rng.bool()),
        4 => proxy.heal(),
        _ => {}
    }
}

/// Serves requests with heavy-tailed durations of about a millisecond or more. No two requests have the same duration.
fn serve(
    pulse: &Pulse,
    (second, slowness): (i64, f64),
    rng: &mut fastrand::Rng,
    (number, all): &mut (u64, All),
) {
    let mut failed = [0; CONTEXTS];
    for _ in 0..REQUESTS {
        // Some contexts have many more requests than others, and some are much slower.
        let most = rng.usize(..CONTEXTS);
        let context = rng.usize(..=most);
        let millis = slowness * (1 + context % 5) as f64 / rng.f64().max(1e-9).powf(0.6);
        let nanos = ((millis.min(1e6) as u64) << 20) + *number;
        *number += 1;
        // One in fifty fails, but in each context at most as many as an instance sends to the store in a second.
        let has_failed = failed[context] < FAILED_PER_SECOND && rng.u32(..50) == 0;
        failed[context] += usize::from(has_failed);
        let status = match has_failed {
            true => StatusCode::BAD_GATEWAY,
            false => StatusCode::OK,
        };
        pulse.record(&name(context), Duration::from_nanos(nanos), status);
        let served = all.entry((hour_of(second), context)).or_default();
        served.push((second, nanos, has_failed));
    }
}

fn name(context: usize) -> String {
    format!("GET /{context}")
}

fn slowest(served: &[Served], limit: usize) -> Vec<u64> {
    let mut slowest: Vec<_> = served.iter().map(|(_, nanos, _)| *nanos).collect();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    slowest.truncate(limit);
    slowest
}

/// The newest failed requests. Among requests of the same second, slower ones come first.
fn newest_failed(served: &[Served]) -> Vec<u64> {
    let mut failed: Vec<_> = served.iter().filter(|(_, _, failed)| *failed).collect();
    failed.sort_unstable_by(|a, b| b.cmp(a));
    let failed = failed.iter().map(|(_, nanos, _)| *nanos);
    failed.take(FAILED_PER_CONTEXT).collect()
}

/// The durations of the slowest requests of a context, and of its newest failed requests.
async fn stored(pulse: &Pulse, hour: i64, context: ContextId) -> (Vec<u64>, Vec<u64>) {
    let contexts = vec![context];
    let query = SlowRequestQuery { contexts, hour };
    let store = pulse.backend();
    let lists = store.query().slow_requests(&query).await.unwrap();
    let different: BTreeSet<_> = lists[0].iter().map(|request| request.nanos).collect();
    assert_eq!(different.len(), lists[0].len(), "a request is listed twice");
    let slowest = lists[0].slowest().map(|request| request.nanos);
    let failed = lists[0].failed().map(|request| request.nanos);
    (slowest.collect(), failed.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_requests_the_slowest_and_the_newest_failed_are_listed() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let (clock, manual_clock) = Clock::manual(HOUR_START - SECONDS as i64 / 2);
    let pulses = [(); INSTANCES].map(|()| without_tasks(with_clock(&proxy.url(), &clock)));
    let rng = &mut fastrand::Rng::with_seed(seed());
    let mut served = (0, All::new());
    for _ in 0..SECONDS {
        manual_clock.advance(Duration::from_secs(1));
        change_faults(&proxy, rng);
        let slowness = if rng.u32(..20) == 0 { 10.0 } else { 1.0 };
        for pulse in &pulses {
            pulse.simulation().drain();
            serve(pulse, (clock.now_seconds(), slowness), rng, &mut served);
        }
        // A later flush repeats the calls of a flush that fails or takes longer than this.
        let most = Duration::from_millis(60);
        let flushes = pulses
            .each_ref()
            .map(|pulse| tokio::time::timeout(most, pulse.flush()));
        futures_util::future::join_all(flushes).await;
    }
    proxy.heal();
    for pulse in &pulses {
        settle(pulse).await;
        let health = pulse.health();
        assert_eq!((health.flush.lost, health.recording.dropped), (0, 0));
    }
    let options = options(&server.url(), PATIENT);
    let reader = without_tasks(with_clocks(options, &clock, &clock));
    let mut by_hour: BTreeMap<i64, Vec<Served>> = BTreeMap::new();
    for ((hour, context), served) in &served.1 {
        let context = ContextId::new(Kind::Http, name(*context));
        let expected = (slowest(served, 5), newest_failed(served));
        assert_eq!(stored(&reader, *hour, context).await, expected);
        by_hour.entry(*hour).or_default().extend(served);
    }
    assert_eq!(by_hour.len(), 2);
    for (hour, served) in by_hour {
        let expected = (slowest(&served, 100), Vec::new());
        let all = stored(&reader, hour, ContextId::all()).await;
        assert_eq!(all, expected);
    }
}
