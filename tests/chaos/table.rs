//! The rows of the table, and the parameters of a scenario.

use std::time::Instant;

use futures_util::FutureExt;

/// The size of a scenario, and its seed.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub scale: f64,
    pub seed: u64,
}

impl Size {
    /// A number of the full run, scaled, and at least 2.
    pub fn of(&self, full: u64) -> u64 {
        ((full as f64 * self.scale).round() as u64).max(2)
    }
}

/// The result of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub done: String,
    pub expected: i64,
    pub stored: i64,
    /// Deviations from the expected result, one line each.
    pub faults: Vec<String>,
    /// Further measurements.
    pub notes: Vec<String>,
}

struct Row {
    scenario: &'static str,
    seed: u64,
    seconds: f64,
    outcome: Outcome,
}

/// All scenarios of one run.
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

    /// Runs a scenario, unless other scenarios were selected.
    pub async fn scenario(
        &mut self,
        name: &'static str,
        scenario: impl AsyncFnOnce(Size) -> Outcome,
    ) {
        // The seed of a scenario does not depend on which others run.
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
        // A scenario that panics is a row too, and the others still run.
        let outcome = std::panic::AssertUnwindSafe(scenario(size));
        let outcome = outcome.catch_unwind().await.unwrap_or_else(|_| Outcome {
            done: "panicked, see above".to_owned(),
            faults: vec!["it panicked".to_owned()],
            ..Outcome::default()
        });
        self.rows.push(Row {
            scenario: name,
            seed,
            seconds: start.elapsed().as_secs_f64(),
            outcome,
        });
    }

    /// Prints the table. Returns whether all scenarios passed.
    pub fn print(&self) -> bool {
        println!(
            "| Scenario | What was done | Expected | Found | Difference | Verdict | Seed | Seconds |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for row in &self.rows {
            let outcome = &row.outcome;
            let mut done = outcome.done.clone();
            for note in &outcome.notes {
                done = format!("{done}; {note}");
            }
            let verdict = if outcome.faults.is_empty() {
                "ok"
            } else {
                "NOT REACHED"
            };
            println!(
                "| {} | {done} | {} | {} | {} | {verdict} | {} | {:.0} |",
                row.scenario,
                outcome.expected,
                outcome.stored,
                outcome.stored - outcome.expected,
                row.seed,
                row.seconds,
            );
        }
        for row in &self.rows {
            for fault in &row.outcome.faults {
                println!("{}: {fault}", row.scenario);
            }
        }
        if self.scale != 1.0 {
            println!("scaled by {}", self.scale);
        }
        self.rows.iter().all(|row| row.outcome.faults.is_empty())
    }
}
