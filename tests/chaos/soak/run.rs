//! One run, from the start of the fleet to the tables.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tower_pulse::Clock;

use super::compare::{self, Compared};
use super::fault::{Plan, Site, start_server};
use super::fleet::Instance;
use super::order::{Key, Quantity, Tally};
use super::reported::{Reported, conditions};
use super::sample::Samples;
use crate::faults::scenarios::Report;
use crate::faults::service::{PREFIX, by_day};
use crate::rig::fold::{JournalKeys, fold_unfolded};
use crate::rig::proxy::Proxy;

const INSTANCES: usize = 3;
const PERIOD: Duration = Duration::from_secs(10);
/// The least time between the end of a fault and the next fault.
const LEAST_PAUSE: Duration = Duration::from_secs(3);
/// The time between two reads of the health or of an answer.
const PAUSE: Duration = Duration::from_millis(250);
/// The time within which the API must answer at the end.
const PATIENCE: Duration = Duration::from_secs(15);
const HOUR: i64 = 3_600;
const MOST_PRINTED: usize = 30;
/// Counts of health that must be 0 at the end.
const ZERO: [&str; 7] = [
    "/fold/late",
    "/fold/skewed",
    "/fold/quarantined",
    "/fold/journal/set_aside",
    "/fold/journal/hole_bytes",
    "/fold/journal/orphaned",
    "/recording/overflowed",
];

/// Runs the soak for `length`, and prints the tables. Returns whether there was no violation.
pub async fn run(length: Duration, seed: u64) -> bool {
    wait_for_next_hour(length).await;
    let mut rng = fastrand::Rng::with_seed(seed);
    let faults = (length.as_secs_f64() / PERIOD.as_secs_f64()).ceil() as usize;
    let plans = Plan::draw(faults, INSTANCES, &mut rng);
    let began = now();
    let mut site = start(&mut rng).await;
    let mut samples = Samples::new(&site);
    let (mut report, mut reported) = (Report::default(), Reported::default());
    let conditions = conditions();
    let start = Instant::now();
    let begin = |number: usize| {
        let offset = plans.get(number).map(|plan| plan.offset);
        start + PERIOD * number as u32 + offset.unwrap_or_default()
    };
    // Before the first fault, the store must know all instances.
    watch(&mut site, &mut samples, begin(0) + LEAST_PAUSE).await;
    for (number, plan) in plans.iter().enumerate() {
        plan.inflict(&mut site).await;
        let next = begin(number + 1).max(Instant::now() + LEAST_PAUSE);
        let recovery = match recover(&mut site, next).await {
            Some(time) => format!("recovered after {:.1} s", time.as_secs_f64()),
            None => "not recovered before the next fault".to_owned(),
        };
        let (at, lasted) = (start.elapsed().as_secs(), plan.length.as_secs_f64());
        eprintln!("{at:>5} s  {}, {lasted:.1} s; {recovery}", plan.fault);
        // Each planned fault is followed by the fault of a condition, which an instance must report.
        let condition = conditions[number % conditions.len()];
        report
            .faults
            .extend(reported.inflict(condition, &mut site).await);
        // The next kill may lose only the last flush interval, so the instances must recover first.
        let _ = recover(&mut site, Instant::now() + PERIOD).await;
        watch(&mut site, &mut samples, next).await;
        if start.elapsed() >= length {
            break;
        }
    }
    let length = start.elapsed();
    for instance in &mut site.fleet {
        instance.traffic.stop().await;
    }
    settle(&mut site, &mut report, began).await;
    reported.print();
    println!(
        "\n| Sampled | Median of the second third | Of the last third | Allowed |\n|---|---|---|---|"
    );
    for series in &samples.series {
        // A third may have no samples of an instance that was killed too often.
        let medians = series.medians(length).unwrap_or_default();
        let ([second, last, allowed], name) = (medians, &series.name);
        println!("| {name} | {second} | {last} | {allowed} |");
        let line = format!("{name}: grew from {second} to {last}, at most {allowed} is allowed");
        report.fault_if(last > allowed, line);
    }
    let has_passed = report.faults.is_empty();
    if !has_passed {
        for instance in &site.fleet {
            let warnings = instance.last_warnings();
            println!("{}, newest first: {warnings:#?}", instance.life.name());
        }
    }
    for fault in report.faults.iter().take(MOST_PRINTED) {
        println!("VIOLATION: {fault}");
    }
    let (minutes, faults) = (length.as_secs_f64() / 60.0, plans.len());
    let violations = report.faults.len();
    println!("\n{minutes:.1} minutes, {faults} faults, {violations} violations, PULSE_SEED={seed}");
    has_passed
}

/// Waits for the next hour if the run would otherwise touch three hours, and at most three minutes are left. The book's
/// statistics cover only two hours.
async fn wait_for_next_hour(length: Duration) {
    let (length, passed) = (length.as_secs() as i64 + 120, now() % HOUR);
    let left = HOUR - passed;
    if passed + length > 2 * HOUR && left <= 180 {
        eprintln!("waiting {left} s, so that two hours cover the run");
        tokio::time::sleep(Duration::from_secs(left as u64)).await;
    }
}

fn now() -> i64 {
    Clock::system().now_seconds()
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
    }
}

/// Reads the health of the instances and takes samples once a second, until `end`.
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

/// Waits after a fault until the store has acknowledged a call of each instance. Returns the time that this took, or
/// `None` at `end`.
async fn recover(site: &mut Site, end: Instant) -> Option<Duration> {
    let healed = Instant::now();
    while Instant::now() < end {
        let mut has_recovered = true;
        for instance in &mut site.fleet {
            let health = instance.health().await;
            let age = health.and_then(|health| health["flush"]["last_flush_age_seconds"].as_f64());
            has_recovered &= age.is_some_and(|age| age < healed.elapsed().as_secs_f64());
        }
        if has_recovered {
            return Some(healed.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}

/// Flushes all samples, ends the fleet, and compares the totals.
async fn settle(site: &mut Site, report: &mut Report, began: i64) {
    for instance in &site.fleet {
        instance.flush().await;
    }
    let keys = site.fleet.iter();
    let keys: Vec<Key> = keys
        .flat_map(|instance| instance.traffic.ledger().keys())
        .collect();
    let mut stored = read(site, &keys, began).await;
    for instance in &mut site.fleet {
        let name = instance.life.name();
        let health = instance.health().await.unwrap_or_default();
        let line = format!("{name} is {}: {}", health["status"], health["warnings"]);
        report.fault_if(health["status"] != "ok", line);
        for pointer in ZERO {
            let n = health.pointer(pointer).and_then(Value::as_u64);
            report.fault_if(n != Some(0), format!("{name} reports {pointer}: {n:?}"));
        }
        report.faults.extend(instance.loss.take());
        let within = Duration::from_secs(20);
        report.terminate(&name, &instance.process, within).await;
        report
            .faults
            .extend(instance.traffic.ledger().faults.iter().take(10).cloned());
    }
    fold_unfolded(&site.server.url(), PREFIX).await;
    let mut conn = site.server.connection().await;
    let unfolded = JournalKeys::below(PREFIX).unfolded(&mut conn).await;
    report.fault_if(unfolded > 0, format!("{unfolded} bytes are not folded"));
    stored.extend(compare::read_keys(&mut conn, &keys).await);
    if now() / HOUR - began / HOUR > 1 {
        stored.retain(|key, _| key.0 != Quantity::Statistics);
        println!("more than two hours: statistics are not compared");
    }
    let mut sums = BTreeMap::<Quantity, Compared>::new();
    let mut wrong = Vec::new();
    for (key, compared) in compared(site, &stored) {
        sums.entry(key.0).or_default().add(&compared);
        if compared.is_wrong() {
            wrong.push(format!("{key:?}: {compared:?}"));
        }
    }
    println!("\n| Total | Answered | Stored | Difference | At most by kills | Unanswered |");
    println!("|---|---|---|---|---|---|");
    for (quantity, sum) in &sums {
        let (answered, stored) = (sum.answered, sum.stored);
        let (at_kills, unanswered) = (sum.at_kills, sum.unanswered);
        let difference = stored - answered;
        println!(
            "| {quantity:?} | {answered} | {stored} | {difference} | -{at_kills} | {unanswered} |"
        );
    }
    // The counter of all requests and the counters by path may be in different calls, of which a kill may prevent one.
    let (all, hits) = (by_day(&mut conn, "hits").await, sums[&Quantity::Hits]);
    let is_wrong = (all - hits.stored).abs() > hits.at_kills + hits.unanswered;
    report.fault_if(is_wrong, format!("{all} hits, {} by path", hits.stored));
    // These lines come last, because there are many, and they say little about the cause.
    report.faults.extend(wrong);
}

fn compared(site: &Site, stored: &Tally) -> Vec<(Key, Compared)> {
    let fleet = site.fleet.iter();
    fleet
        .flat_map(|instance| compare::compare(&instance.traffic.ledger(), stored))
        .collect()
}

/// Reads the totals of records from `api/paths` until the answer has all requests, or [`PATIENCE`] ends.
async fn read(site: &Site, keys: &[Key], began: i64) -> Tally {
    let start = Instant::now();
    loop {
        let window = format!("from={began}&to={}", now() + 60);
        let path = format!("/admin/pulse/api/paths?kind=all&limit=100&{window}");
        let answer = site.fleet[0].get(&path).await;
        let is_over = start.elapsed() > PATIENCE;
        if let Some(answer) = answer {
            let stored = compare::read_answer(&answer, keys);
            let compared = compared(site, &stored);
            if is_over || !compared.iter().any(|(_, compared)| compared.is_wrong()) {
                return stored;
            }
        }
        assert!(!is_over, "api/paths does not answer at the end");
        tokio::time::sleep(PAUSE).await;
    }
}
