//! What a run has shown, and the tables that say so.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::compare::Compared;
use crate::fault::Fault;
use crate::fleet::{HealthCounts, Kill};
use crate::order::{Key, Life, Quantity, instance_name};
use crate::sample::{JOURNAL, RSS, Rule, Samples, Series, USED_MEMORY};
use crate::told::Told;

/// How many violations are printed one by one.
const MOST_FAULTS: usize = 30;

/// What a kill has cost.
#[derive(Debug)]
pub struct LostByKill {
    pub life: Life,
    pub lost: i64,
    /// Requests that were answered within the last interval.
    pub most: u64,
}

/// How the fleet recovered from the faults of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Recoveries {
    times: usize,
    longest: Duration,
    /// How often it had not recovered before the next fault.
    late: usize,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub length: Duration,
    pub requests: u64,
    /// Violations, one line each.
    pub faults: Vec<String>,
    pub notes: Vec<String>,
    pub told: Told,
    pub kills: Vec<LostByKill>,
    /// Each instance and its counts.
    pub health_counts: Vec<(String, HealthCounts)>,
    /// The last warnings of each instance, which are printed with violations.
    pub warnings: Vec<(String, Vec<String>)>,
    by_kind: BTreeMap<Fault, Recoveries>,
    by_quantity: BTreeMap<(usize, Quantity), Compared>,
    rows: Vec<String>,
}

/// What each kill has cost, by the ranking of lives.
pub fn lost_by_kills(kills: &[Kill], compared: &[(Key, Compared)]) -> Vec<LostByKill> {
    let lost = |kill: &Kill| {
        let id = kill.life.id();
        let of_life = compared
            .iter()
            .find(|(key, _)| key.quantity == Quantity::Lives && key.name == id);
        LostByKill {
            life: kill.life,
            lost: of_life.map_or(0, |(_, compared)| -compared.difference()),
            most: kill.most,
        }
    };
    kills.iter().map(lost).collect()
}

impl Report {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// Notes a fault, and how long the fleet took to recover; `None` if it had not before the next fault.
    pub fn note(&mut self, fault: Fault, recovery: Option<Duration>) {
        let recoveries = self.by_kind.entry(fault).or_default();
        recoveries.times += 1;
        match recovery {
            Some(time) => recoveries.longest = recoveries.longest.max(time),
            None => recoveries.late += 1,
        }
    }

    /// Judges the health of an instance at the end.
    pub fn health(&mut self, name: &str, health: &Value) {
        if health["status"] != "ok" {
            let line = format!("{name} is {}: {}", health["status"], health["warnings"]);
            self.faults.push(line);
        }
        // Of the fleet: nothing may be refused, set aside or missing.
        for pointer in [
            "/fold/late",
            "/fold/skewed",
            "/fold/quarantined",
            "/fold/journal/set_aside",
            "/fold/journal/hole_bytes",
            "/fold/journal/orphaned",
            "/recording/overflowed",
        ] {
            let n = health.pointer(pointer).and_then(Value::as_u64);
            if n != Some(0) {
                self.faults.push(format!("{name} tells {pointer}: {n:?}"));
            }
        }
    }

    /// Adds up what was compared.
    pub fn compared(&mut self, compared: &[(Key, Compared)]) {
        for (key, compared) in compared {
            let sum = self.by_quantity.entry((key.instance, key.quantity));
            sum.or_default().add(compared);
        }
        // What is missing beyond what kills took must be told, and the other way around.
        for (instance, (name, counts)) in self.health_counts.iter().enumerate() {
            let hits = self.by_quantity.get(&(instance, Quantity::Hits));
            let hits = hits.copied().unwrap_or_default();
            let missing = -hits.difference();
            let unexplained = missing - hits.at_kills - counts.lost as i64;
            if unexplained > 0 {
                let line =
                    format!("{name}: {unexplained} requests are missing, and no health tells it");
                self.faults.push(line);
            }
            if counts.lost > 0 || counts.store_resets > 0 {
                let HealthCounts {
                    lost, store_resets, ..
                } = counts;
                let line = format!(
                    "{name} tells {lost} lost and {store_resets} resets; {missing} are missing"
                );
                self.faults.push(line);
            }
        }
        for kill in &self.kills {
            if kill.lost > kill.most as i64 {
                let LostByKill { life, lost, most } = kill;
                let line = format!("{}: lost {lost} of at most {most}", life.id());
                self.faults.push(line);
            }
        }
    }

    /// Compares the counter of all requests with the sum of those by path.
    pub fn all_hits(&mut self, all: i64, compared: &[(Key, Compared)]) {
        let mut by_path = Compared::default();
        let of_hits = compared
            .iter()
            .filter(|(key, _)| key.quantity == Quantity::Hits);
        of_hits.for_each(|(_, compared)| by_path.add(compared));
        // They are in other calls than those by path: a kill may come between the two.
        let between = by_path.at_kills + by_path.unheard;
        let line = format!("{all} hits, {} by path", by_path.stored);
        if (all - by_path.stored).abs() > between {
            self.faults.push(line.clone());
        }
        self.notes.push(line);
    }

    /// Judges whether memory and journal are flat.
    pub fn sampled(&mut self, samples: &Samples) {
        for (instance, series) in samples.rss.iter().enumerate() {
            let what = format!("memory of {}, kB", instance_name(instance));
            self.flat(&what, series, RSS, 1024);
        }
        let what = "used_memory of Redis, kB";
        self.flat(what, &samples.used_memory, USED_MEMORY, 1024);
        self.flat("entries of the journal", &samples.journal, JOURNAL, 1);
    }

    fn flat(&mut self, what: &str, series: &Series, rule: Rule, unit: u64) {
        let Some(medians) = series.medians(self.length, rule) else {
            // An instance may have been killed too often.
            self.rows
                .push(format!("| {what} | too few samples | | | |"));
            return;
        };
        let [second, last, allowed, most] =
            [medians.second, medians.last, medians.allowed, medians.most].map(|n| n / unit);
        self.rows.push(format!(
            "| {what} | {second} | {last} | {allowed} | {most} |"
        ));
        if medians.last > medians.allowed {
            let line = format!("{what}: grew from {second} to {last}, {allowed} are allowed");
            self.faults.push(line);
        }
    }

    pub fn print(&self) {
        let minutes = self.length.as_secs_f64() / 60.0;
        let faults: usize = self.by_kind.values().map(|kind| kind.times).sum();
        println!(
            "{minutes:.1} minutes, {faults} faults, {} requests, seed {}",
            self.requests, self.seed
        );
        println!(
            "\n| Fault | Times | Longest recovery, s | Not before the next fault |\n|---|---|---|---|"
        );
        for (fault, kind) in &self.by_kind {
            let Recoveries {
                times,
                longest,
                late,
            } = kind;
            let longest = match times - late {
                0 => "-".to_owned(),
                _ => format!("{:.1}", longest.as_secs_f64()),
            };
            println!("| {} | {times} | {longest} | {late} |", fault.name());
        }
        println!(
            "\n| Instance | Total | Answered | Stored | Difference | At most by kills | Unheard |"
        );
        println!("|---|---|---|---|---|---|---|");
        for ((instance, quantity), compared) in &self.by_quantity {
            let Compared {
                answered,
                stored,
                unheard,
                at_kills,
            } = compared;
            println!(
                "| {} | {quantity:?} | {answered} | {stored} | {} | -{at_kills} | {unheard} |",
                instance_name(*instance),
                compared.difference()
            );
        }
        self.told.print();
        println!("\n| Flat | Median of the second third | Of the last | Allowed | Most |");
        println!("|---|---|---|---|---|");
        self.rows.iter().for_each(|row| println!("{row}"));
        println!();
        for LostByKill { life, lost, most } in &self.kills {
            println!("{}: lost by the kill: {lost} of at most {most}", life.id());
        }
        for (name, counts) in &self.health_counts {
            println!("{name}: {counts:?}");
        }
        self.notes.iter().for_each(|note| println!("{note}"));
        if self.passed() {
            println!("ok");
            return;
        }
        for (name, warnings) in &self.warnings {
            warnings.iter().for_each(|line| println!("{name}: {line}"));
        }
        for fault in self.faults.iter().take(MOST_FAULTS) {
            println!("VIOLATION: {fault}");
        }
        println!("{} violations, PULSE_SEED={}", self.faults.len(), self.seed);
    }
}
