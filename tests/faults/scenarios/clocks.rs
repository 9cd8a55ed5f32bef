//! Five instances whose clocks are up to an hour apart. Each instance folds from time to time.

use std::collections::BTreeMap;
use std::time::Duration;

use tower_pulse::{Clock, ManualClock};
use tower_pulse_model::slice::{HOUR, hour_of, iso_hour};

use crate::rig::reads::{StoreOf, StoreReads};

use super::{Report, keys};
use crate::faults::service::{
    PAGES, PATIENT, PREFIX, Service, context, now, options, statistics_by_hour, with_clocks,
};
use crate::rig::book;
use crate::rig::server::RedisServer;

/// The differences between the instances' clocks and the server's clock, in seconds.
const OFFSETS: [i64; 5] = [-1_800, -900, 0, 900, 1_800];
/// How often each instance serves in an hour.
const TURNS: i64 = 4;

struct Instance {
    service: Service,
    clock: Clock,
    manual_clock: ManualClock,
}

/// Serves for `hours`, and compares the counters and records of each page in each hour.
pub async fn clocks_apart(hours: u64, seed: u64) -> Report {
    let server = RedisServer::start().await;
    let conn = &mut server.connection().await;
    let (store_clock, server_clock) = Clock::manual(now());
    let mut instances: Vec<Instance> = Vec::new();
    for offset in OFFSETS {
        let (clock, manual_clock) = Clock::manual(now() + offset);
        let pulse = with_clocks(options(&server.url(), PATIENT), &store_clock, &clock);
        let service = match instances.first() {
            Some(first) => first.service.join(pulse),
            None => Service::new(pulse),
        };
        instances.push(Instance {
            service,
            clock,
            manual_clock,
        });
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut oracle: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let (mut kills, mut faults) = (0, Vec::new());
    for turn in 1..=hours as i64 * TURNS {
        for instance in &instances {
            // The first drain in a second counts samples for the second before, so a drain precedes the requests.
            instance.service.settle().await;
            let hour = hour_of(instance.clock.now_seconds());
            let served = oracle.entry(hour).or_insert_with(|| vec![0; PAGES]);
            for _ in 0..rng.usize(1..60) {
                let page = rng.usize(..PAGES);
                instance.service.request(page).await;
                served[page] += 1;
            }
            // If the lease is free, another instance may fold next.
            if rng.bool() {
                keys().free_lease(conn).await;
            }
            instance.service.settle().await;
        }
        // The statistics have the two newest hours with requests to the page.
        for page in 0..PAGES {
            let asked = oracle.iter().rev().filter(|(_, served)| served[page] > 0);
            let served = asked.map(|(hour, served)| (iso_hour(*hour), served[page]));
            let expected: Vec<_> = served.take(2).collect();
            let stored = statistics_by_hour(conn, PREFIX, &context(page)).await;
            if stored != expected {
                faults.push(format!(
                    "turn {turn}, page {page}: {stored:?} of {expected:?}"
                ));
            }
        }
        let time = Duration::from_secs((HOUR / TURNS) as u64);
        let manual_clocks = instances.iter().map(|instance| &instance.manual_clock);
        let manual_clocks = manual_clocks.chain([&server_clock]);
        manual_clocks.for_each(|manual_clock| manual_clock.advance(time));
        // After the last turn, no connection is killed, so all later calls are answered.
        if turn < hours as i64 * TURNS {
            kills += server.kill_clients().await;
            *conn = server.connection().await;
        }
    }
    for instance in &instances[1..] {
        instance.service.settle().await;
        instance.service.pulse.shutdown().await.unwrap();
    }
    let first = &instances[0].service;
    let mut report = Report::at_the_end(first, &server).await;
    // The statistics have only two hours, and counters of short precisions even less, so neither is compared with all
    // requests. No sample may be late or skewed.
    let is_whole = |line: &String| {
        let parts = ["statistics", "hits at 60 s", "hits at 300 s"];
        !parts.iter().any(|part| line.starts_with(part))
    };
    report.faults.retain(is_whole);
    report.faults.extend(faults);
    let fold = first.health().fold;
    let line = format!("late {}, skewed {}", fold.late, fold.skewed);
    report.fault_if(fold.late + fold.skewed > 0, line);
    let store = first.pulse.backend();
    let now = store_clock.now_seconds();
    report.stored = 0;
    for page in 0..PAGES {
        let name = format!("hits:{}", context(page));
        let slices = book::get_counter(conn, PREFIX, &name, HOUR).await;
        let slices: BTreeMap<i64, i64> = slices.into_iter().collect();
        let records = store.records_of(&context(page), HOUR as u32, now).await;
        let records = records.unwrap().into_iter();
        let records: BTreeMap<i64, u64> = records
            .map(|(hour, record)| (hour, record.histogram.count()))
            .collect();
        for (hour, served) in &oracle {
            let expected = served[page];
            let stored = slices.get(hour).copied().unwrap_or(0);
            let recorded = records.get(hour).map_or(0, |n| *n as i64);
            report.stored += stored;
            let is_retained = *hour > now - 47 * HOUR;
            report.fault_if(
                stored != expected || (is_retained && recorded != expected),
                format!("page {page} at {hour}: {stored} counted, {recorded} recorded, {expected} served"),
            );
        }
    }
    report.done = format!(
        "{hours} hours by five clocks up to an hour apart, folding in turns, {kills} kills of connections"
    );
    report
}
