//! The overhead in several processes. The nanoseconds of a row differ more between processes than between the rounds of
//! one process, because each process has another memory layout.

use std::process::Command;

use crate::Failure;
use crate::driver::{self, Runtimes};
use crate::options::Options;
use crate::rows::{self, BODY_END, FLOOR, PULSE};
use crate::table::Results;

/// The rows that [`child`] measures, besides bare.
const ROWS: [&str; 3] = [FLOOR, PULSE, BODY_END];
const ROUNDS: usize = 30;

/// The overhead of tower-pulse in one process, as a multiple of the floor's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    /// Timed to the head of the response.
    pub(crate) to_head: f64,
    /// Timed to the end of the response's body.
    pub(crate) to_body_end: f64,
}

/// Starts processes one after another, and returns the ratios that each has measured.
pub(crate) fn ratios(options: &Options) -> Result<Vec<Ratios>, Failure> {
    (0..options.processes)
        .map(|_| ratios_of_a_process())
        .collect()
}

fn ratios_of_a_process() -> Result<Ratios, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .arg("--ratios")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(to_head), Some(to_body_end)) if output.status.success() => Ok(Ratios {
            to_head,
            to_body_end,
        }),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("a process that measures ratios has failed: {text}{errors}").into())
        }
    }
}

/// The program of each process that [`ratios`] starts.
pub(crate) fn child(runtimes: &Runtimes, options: &Options) -> Result<(), Failure> {
    let mut apps = Vec::new();
    for row in rows::selected(&ROWS.map(str::to_owned))? {
        apps.push((row, rows::build(row, runtimes)?));
    }
    let options = Options {
        rounds: ROUNDS,
        ..options.clone()
    };
    let mut results = Results::new(&options);
    results.nanos = driver::nanoseconds(runtimes, &mut apps, &options);
    let ratio = |id| results.ratio(id, FLOOR).ok_or("no ratio was measured");
    println!("{} {}", ratio(PULSE)?, ratio(BODY_END)?);
    Ok(())
}
