//! One run, from the start of the fleet to the table.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::compare::{self, Compared};
use crate::fault::{Plan, Site, start_server};
use crate::fleet::Instance;
use crate::order::{Key, Quantity, Tally};
use crate::read::PREFIX;
use crate::rig::fold::{JournalKeys, fold_rest};
use crate::rig::proxy::Proxy;
use crate::sample::Samples;
use crate::table::{Report, lost_by_kills};
use crate::told::ToldFault;

const INSTANCES: usize = 3;
/// A fault begins every ten seconds.
const PERIOD: Duration = Duration::from_secs(10);
/// A fault that ends late leaves at least this time before the next one.
const REST: Duration = Duration::from_secs(3);
/// Time between two looks at the fleet.
const LOOK: Duration = Duration::from_millis(250);
/// Within which the fleet must be well again at the end.
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: i64 = 3_600;

/// Runs for this long, and prints the table. Returns whether all rules were kept.
pub async fn run(length: Duration, seed: u64) -> bool {
    wait_for_the_hour(length).await;
    let mut rng = fastrand::Rng::with_seed(seed);
    let faults = (length.as_secs_f64() / PERIOD.as_secs_f64()).ceil() as usize;
    let plans = Plan::draw(faults, INSTANCES, &mut rng);
    let began = now();
    let mut site = start(&mut rng).await;
    let mut samples = Samples::new(INSTANCES);
    let mut report = Report::new(seed);
    let told_faults = ToldFault::all();
    let start = Instant::now();
    let begin = |number: usize| {
        let offset = plans.get(number).map(|plan| plan.offset);
        start + PERIOD * number as u32 + offset.unwrap_or_default()
    };
    // All instances are known to the store before the first fault.
    watch(&mut site, &mut samples, begin(0) + REST).await;
    for (number, plan) in plans.iter().enumerate() {
        let said = plan.inflict(&mut site).await;
        let next = begin(number + 1).max(Instant::now() + REST);
        let recovery = recover(&mut site, next).await;
        let at = start.elapsed().as_secs();
        let well = match recovery {
            Some(time) => format!("well again after {:.1} s", time.as_secs_f64()),
            None => "not well again before the next".to_owned(),
        };
        eprintln!("{at:>5} s  {}: {said}; {well}", plan.fault.name());
        report.note(plan.fault, recovery);
        // Every other fault has a condition, which is waited for.
        let fault = told_faults[number % told_faults.len()];
        let late = report.told.inflict(fault, &mut site).await;
        report.faults.extend(late);
        // A kill may take no more than the last interval has.
        let _ = recover(&mut site, Instant::now() + PERIOD).await;
        watch(&mut site, &mut samples, next).await;
        if start.elapsed() >= length {
            break;
        }
    }
    report.length = start.elapsed();
    for instance in &mut site.fleet {
        instance.traffic.stop().await;
    }
    settle(&mut site, &mut report, began).await;
    report.sampled(&samples);
    report.print();
    report.passed()
}

/// The book's statistics have two hours. If the run would touch a third one and need not, it waits for the hour to
/// turn, for at most three minutes.
async fn wait_for_the_hour(length: Duration) {
    let (length, passed) = (length.as_secs() as i64 + 120, now() % HOUR);
    let left = HOUR - passed;
    if passed + length > 2 * HOUR && left <= 180 {
        eprintln!("waiting {left} s, so that two hours cover the run");
        tokio::time::sleep(Duration::from_secs(left as u64)).await;
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64
}

async fn start(rng: &mut fastrand::Rng) -> Site {
    let server = start_server().await;
    let proxy = Proxy::start(server.port()).await;
    let mut fleet = Vec::new();
    for instance in 0..INSTANCES {
        fleet.push(Instance::start(instance, proxy.url(), rng.u64(..)).await);
    }
    Site {
        server,
        proxy,
        fleet,
        kills: Vec::new(),
    }
}

/// Samples once a second, and looks at the health of the instances, until `end`.
async fn watch(site: &mut Site, samples: &mut Samples, end: Instant) {
    loop {
        for instance in &mut site.fleet {
            instance.health().await;
        }
        samples.take(site).await;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
    }
}

/// Waits after a fault until the store has acknowledged a call of each instance. Returns how long that took, or `None`
/// if it has not happened by `end`.
async fn recover(site: &mut Site, end: Instant) -> Option<Duration> {
    let healed = Instant::now();
    while Instant::now() < end {
        let mut is_well = true;
        for instance in &mut site.fleet {
            let health = instance.health().await;
            let age = health.and_then(|health| health["flush"]["last_flush_age_seconds"].as_f64());
            is_well &= age.is_some_and(|age| age < healed.elapsed().as_secs_f64());
        }
        if is_well {
            return Some(healed.elapsed());
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}

/// Flushes everything, ends the fleet, and compares.
async fn settle(site: &mut Site, report: &mut Report, began: i64) {
    for instance in &site.fleet {
        if let Err(error) = instance.flush().await {
            let line = format!("{} cannot flush: {error}", instance.name());
            report.faults.push(line);
        }
    }
    let keys = keys(site);
    let stored = read(site, &keys, began, report).await;
    for instance in &mut site.fleet {
        let name = instance.name();
        let warnings = instance.last_warnings();
        match instance.health().await {
            Some(health) => report.health(&name, &health),
            None => report.faults.push(format!("{name} tells no health")),
        }
        report
            .health_counts
            .push((name.clone(), instance.health_counts()));
        instance.process.signal("TERM");
        let exit = instance.process.wait_exit(Duration::from_secs(20)).await;
        if !exit.is_some_and(|exit| exit.success()) {
            report.faults.push(format!("{name} ended with {exit:?}"));
        }
        report.warnings.push((name, warnings));
        let ledger = instance.traffic.ledger();
        report.requests += ledger.requests;
        let wrong = ledger.faults.iter().take(10).cloned();
        report.faults.extend(wrong);
    }
    fold_rest(&site.server.url(), PREFIX).await;
    let mut conn = site.server.connection().await;
    let unfolded = JournalKeys::below(PREFIX).unfolded(&mut conn).await;
    if unfolded > 0 {
        report
            .faults
            .push(format!("{unfolded} bytes are not folded"));
    }
    let mut stored = stored;
    stored.extend(compare::read_keys(&mut conn, &keys).await);
    if now() / HOUR - began / HOUR > 1 {
        stored.retain(|key, _| key.quantity != Quantity::Statistics);
        report
            .notes
            .push("more than two hours: statistics are not compared".to_owned());
    }
    let compared = compared(site, &stored);
    report.kills = lost_by_kills(&site.kills, &compared);
    report.compared(&compared);
    // Last, as they are many and say less of the cause.
    report.faults.extend(compare::faults(&compared));
    let all = crate::read::by_day(&mut conn, "hits").await;
    report.all_hits(all, &compared);
}

/// All keys that anything was sent for.
fn keys(site: &Site) -> Vec<Key> {
    let mut keys = Vec::new();
    for instance in &site.fleet {
        let ledger = instance.traffic.ledger();
        keys.extend(ledger.answered.keys().cloned());
        keys.extend(ledger.unheard.keys().cloned());
    }
    keys.sort();
    keys.dedup();
    keys
}

fn compared(site: &Site, stored: &Tally) -> Vec<(Key, Compared)> {
    let fleet = site.fleet.iter();
    fleet
        .flat_map(|instance| compare::compare(&instance.traffic.ledger(), stored))
        .collect()
}

/// Reads the records as `api/paths` answers them, once the reader has caught up.
async fn read(site: &Site, keys: &[Key], began: i64, report: &mut Report) -> Tally {
    let start = Instant::now();
    loop {
        let path = format!(
            "/admin/pulse/api/paths?kind=all&limit=100&from={began}&to={}",
            now() + 60
        );
        let answer = site.fleet[0].get(&path).await;
        let stored = answer.map(|answer: Value| compare::read_answer(&answer, keys));
        if let Some(stored) = stored {
            let is_exact = compare::faults(&compared(site, &stored)).is_empty();
            if is_exact || start.elapsed() > PATIENCE / 4 {
                return stored;
            }
        } else if start.elapsed() > PATIENCE / 4 {
            report
                .faults
                .push("api/paths does not answer at the end".to_owned());
            return Tally::new();
        }
        tokio::time::sleep(LOOK).await;
    }
}
