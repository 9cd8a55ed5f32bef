//! Five instances whose clocks are up to an hour apart, each of which folds now and then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_redis::{RedisOptions, RedisStore};

use crate::rig::reads::{StoreOf, StoreReads};

use super::{Report, keys};
use crate::rig::book;
use crate::rig::server::RedisServer;
use crate::service::{PAGES, PREFIX, Service, context};

/// Differences of the instances' clocks from the server's, in seconds.
const OFFSETS: [i64; 5] = [-1_800, -900, 0, 900, 1_800];
/// 2023-11-14 22:30 UTC.
const START: i64 = 1_700_001_000;
/// Number of steps in an hour.
const STEPS: i64 = 4;

struct Instance {
    service: Service,
    clock: Clock,
    hand: ManualClock,
}

/// Serves for `hours`, and compares each hour of each page: counters and records.
pub async fn clocks_apart(hours: u64, seed: u64) -> Report {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (servers, servers_hand) = Clock::manual(START);
    let mut instances: Vec<Instance> = Vec::new();
    for offset in OFFSETS {
        let options = RedisOptions::new(&server.url()).unwrap();
        let options = options.prefix(PREFIX).unwrap();
        let options = options.response_timeout(Duration::from_secs(5));
        let store = RedisStore::open(options)
            .unwrap()
            .with_clock(servers.clone());
        let (clock, hand) = Clock::manual(START + offset);
        let pulse = Pulse::builder().store(Arc::new(store)).clock(clock.clone());
        let pulse = pulse.flush_interval(Duration::from_secs(60));
        let service = match instances.first() {
            Some(first) => first.service.join(pulse),
            None => Service::new(pulse),
        };
        instances.push(Instance {
            service,
            clock,
            hand,
        });
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut oracle: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for _ in 0..hours as i64 * STEPS {
        for instance in &instances {
            // Drained at their own second, as samples that are drained later belong to the second before.
            instance.service.settle().await;
            let hour = hour_of(instance.clock.now_seconds());
            let served = oracle.entry(hour).or_insert_with(|| vec![0; PAGES]);
            for _ in 0..rng.usize(1..60) {
                let page = rng.usize(..PAGES);
                instance.service.request(page).await;
                served[page] += 1;
            }
            // The next instance that flushes folds the call, if this one did not.
            if rng.bool() {
                keys().free_lease(conn).await;
            }
            instance.service.settle().await;
        }
        let step = Duration::from_secs((HOUR / STEPS) as u64);
        let hands = instances.iter().map(|instance| &instance.hand);
        hands
            .chain([&servers_hand])
            .for_each(|hand| hand.advance(step));
    }
    for instance in &instances[1..] {
        instance.service.settle().await;
        instance.service.pulse.shutdown().await.unwrap();
    }
    let first = &instances[0].service;
    let mut report = Report::at_the_end(first, &server).await;
    // The statistics retain two hours, and precisions below an hour not even that, so they are not compared
    // here. No sample was late for either hour of the statistics, and none was skewed.
    let is_whole = |line: &String| {
        let parts = ["statistics", "hits at 60 s", "hits at 300 s"];
        !parts.iter().any(|part| line.starts_with(part))
    };
    report.faults.retain(is_whole);
    let health = first.health();
    if health.fold.late + health.fold.skewed > 0 {
        let line = format!("late {}, skewed {}", health.fold.late, health.fold.skewed);
        report.faults.push(line);
    }
    let store = first.pulse.backend();
    let now = servers.now_seconds();
    let mut in_hours = 0;
    for page in 0..PAGES {
        let name = format!("hits:{}", context(page));
        let slices = book::get_counter(conn, PREFIX, &name, HOUR).await;
        let records = store.records_of(&context(page), HOUR as u32, now).await;
        let records = records.unwrap().into_iter();
        let records: BTreeMap<i64, u64> = records
            .map(|(hour, record)| (hour, record.histogram.count()))
            .collect();
        for (hour, served) in &oracle {
            let expected = served[page];
            let stored = slices
                .iter()
                .find(|(at, _)| at == hour)
                .map_or(0, |(_, n)| *n);
            let recorded = records.get(hour).map_or(0, |n| *n as i64);
            in_hours += stored;
            let is_retained = *hour > now - 47 * HOUR;
            if stored != expected || (is_retained && recorded != expected) {
                report.faults.push(format!(
                    "page {page} at {hour}: {stored} counted, {recorded} recorded, {expected} served"
                ));
            }
        }
        // Compares the statistics: those of the newest hour in which the page was asked for, and of the one before.
        let mut asked = oracle.iter().rev().filter(|(_, served)| served[page] > 0);
        let newest = asked.next().map_or(0, |(hour, _)| *hour);
        let of = |hour| oracle.get(&hour).map_or(0, |served| served[page]);
        let expected = of(newest) + of(newest - HOUR);
        let stored = crate::service::statistics(conn, &context(page)).await;
        if stored != expected {
            report.faults.push(format!(
                "page {page}: {stored} in its statistics, {expected} served"
            ));
        }
    }
    report.stored = in_hours;
    report
}
