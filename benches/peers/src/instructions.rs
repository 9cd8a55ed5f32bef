//! Instructions per request. The program runs itself under callgrind, once for each row. Only the instructions of
//! [`measured_requests`] are collected.

use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::driver::{ROUTES, Runtimes, measured_requests, send_here, uris};
use crate::rows::{self, App, Row};

const REQUESTS: usize = 2_000;

/// How often each row is counted. The least count is used, because the work of other threads can only add to a count.
pub(crate) const RUNS: usize = 3;

/// The flush interval while instructions are counted. The interval is long, because the instructions of flushes would
/// be counted too, and a slow machine would count more flushes.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(60);

/// Lets malloc keep many freed blocks of each size. By default, malloc keeps few and merges other freed blocks with
/// their neighbours. The merges take up to 260 instructions per request, depending on the memory layout after the start
/// of the program.
const MALLOC: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=127");

/// Instructions per request of each row, or why they could not be counted.
pub(crate) fn per_request(
    apps: &[(&'static Row, App)],
) -> Result<Vec<(&'static str, f64)>, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("Instructions are not counted: valgrind is not installed.".to_owned());
    }
    let least = |row: &Row| -> Result<f64, String> {
        let counts: Result<Vec<f64>, _> = (0..RUNS).map(|_| count(row)).collect();
        Ok(counts?.into_iter().fold(f64::INFINITY, f64::min))
    };
    apps.iter()
        .map(|(row, _)| Ok((row.id, least(row)?)))
        .collect()
}

fn count(row: &Row) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .env(MALLOC.0, MALLOC.1)
        .arg("--tool=callgrind")
        .arg("--callgrind-out-file=/dev/null")
        .arg("--toggle-collect=*measured_requests*")
        .arg(program)
        .args(["--instructions-of", row.id])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let output_text = String::from_utf8_lossy(&output.stderr);
    let collected = output_text
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse::<f64>().ok());
    match collected {
        Some(count) if output.status.success() && count > 0.0 => Ok(count / REQUESTS as f64),
        _ => Err(format!(
            "Instructions are not counted: callgrind failed with {}: {output_text}",
            row.id
        )),
    }
}

/// The program that runs under callgrind.
pub(crate) fn child(runtimes: &Runtimes, id: &str) -> Result<(), Failure> {
    for row in rows::ROWS.iter().filter(|row| row.id == id) {
        let mut app = rows::build(row, runtimes)?;
        let uris = uris(ROUTES);
        send_here(runtimes, &mut app.router, &uris, 20 * ROUTES);
        measured_requests(runtimes, &mut app.router, &uris, REQUESTS);
    }
    Ok(())
}
