//! The printed table of results, and the size of each scenario.

use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::faults::scenarios::Report;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub scale: f64,
    pub seed: u64,
}

impl Size {
    /// A number of the full run, scaled, but at least 2.
    pub fn scaled(&self, full: u64) -> u64 {
        ((full as f64 * self.scale).round() as u64).max(2)
    }

    /// Seconds of the full run, scaled.
    pub fn time(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).mul_f64(self.scale)
    }
}

struct Row {
    scenario: &'static str,
    seed: u64,
    seconds: f64,
    report: Report,
}

pub struct Run {
    scale: f64,
    chosen: Vec<String>,
    rng: fastrand::Rng,
    rows: Vec<Row>,
}

impl Run {
    pub fn new(scale: f64, chosen: Vec<String>) -> Self {
        let rng = fastrand::Rng::with_seed(crate::rig::seed::seed());
        Self {
            scale,
            chosen,
            rng,
            rows: Vec::new(),
        }
    }

    /// Runs a scenario, unless only others are selected.
    pub async fn scenario(
        &mut self,
        name: &'static str,
        scenario: impl AsyncFnOnce(Size) -> Report,
    ) {
        // Draws the seed even if the scenario is not selected, so that a scenario's seed does not depend on the
        // selection.
        let seed = self.rng.u64(..);
        if !self.chosen.is_empty() && !self.chosen.iter().any(|word| name.contains(word.as_str())) {
            return;
        }
        eprintln!("{name} …");
        let start = Instant::now();
        let size = Size {
            scale: self.scale,
            seed,
        };
        // A scenario that panics gets a row too, and the other scenarios still run.
        let report = std::panic::AssertUnwindSafe(scenario(size));
        let mut report = report.catch_unwind().await.unwrap_or_else(|_| Report {
            faults: vec!["the scenario panicked, see above".to_owned()],
            ..Report::default()
        });
        // After a SIGKILL, the requests of the last interval may be missing.
        let is_wrong = report.stored != report.expected && !name.contains("SIGKILL");
        report.fault_if(is_wrong, "the number of stored requests differs");
        self.rows.push(Row {
            scenario: name,
            seed,
            seconds: start.elapsed().as_secs_f64(),
            report,
        });
    }

    /// Prints the table. Returns whether all scenarios passed.
    pub fn print(&self) -> bool {
        println!(
            "| Scenario | What was done | Expected | Found | Difference | Verdict | Seed | Seconds |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for row in &self.rows {
            let (scenario, seed, report) = (row.scenario, row.seed, &row.report);
            let (expected, stored, seconds) = (report.expected, report.stored, row.seconds);
            let done = [&[report.done.clone()][..], &report.notes].concat();
            let done = done.join("; ");
            let verdict = ["FAILED", "ok"][usize::from(report.faults.is_empty())];
            let difference = stored - expected;
            println!(
                "| {scenario} | {done} | {expected} | {stored} | {difference} | {verdict} | {seed} | {seconds:.0} |"
            );
        }
        for row in &self.rows {
            for fault in &row.report.faults {
                println!("{}: {fault}", row.scenario);
            }
        }
        if self.scale != 1.0 {
            println!("scaled by {}", self.scale);
        }
        self.rows.iter().all(|row| row.report.faults.is_empty())
    }
}
