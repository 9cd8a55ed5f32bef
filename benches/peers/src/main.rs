//! The cost of tower-pulse for a request, compared with a hand-written floor and with other crates. All layers have the
//! same routes and driver. One run measures all layers, and prints a table with a row for each.
//!
//! Read `rows` (the compared layers), `floor` (the hand-written layer), `driver` (sends and times the requests), then
//! the module of a measurement.

mod alloc;
mod driver;
mod floor;
mod goals;
mod http;
mod instructions;
mod memory;
mod options;
mod pause;
mod processes;
mod rows;
mod stats;
mod table;
mod workers;

use std::process::ExitCode;
use std::time::Duration;

use driver::Runtimes;
use options::{Measure, Options, USAGE};
use rows::{FLOOR, PULSE};
use table::Results;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pulse-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Any error; `main` prints it on stderr.
type Failure = Box<dyn std::error::Error>;

fn run(options: &Options) -> Result<(), Failure> {
    if options.help {
        println!("{USAGE}\n\nRows:");
        for row in rows::ROWS {
            println!("  {:<16} {}", row.id, row.name);
        }
        return Ok(());
    }
    let flush_interval = match options.instructions_of {
        Some(_) => instructions::FLUSH_INTERVAL,
        None => Duration::from_secs(1),
    };
    let runtimes = Runtimes::new(flush_interval)?;
    if let Some(id) = &options.instructions_of {
        return instructions::child(&runtimes, id);
    }
    if options.is_extra_process {
        return processes::child(&runtimes, options);
    }
    if let Some(id) = &options.serve {
        return http::child(&runtimes, id);
    }
    let mut results = Results::new(options);
    let mut apps = Vec::new();
    for row in rows::selected(&options.only)? {
        match rows::build(row, &runtimes) {
            Ok(app) => apps.push((row, app)),
            Err(why) => results.add_missing(row, why),
        }
    }
    if options.measures(Measure::Nanos) {
        eprintln!("nanoseconds: {} rounds", options.rounds);
        results.nanos = driver::nanoseconds(&runtimes, &mut apps, options);
        if results.ratio(PULSE, FLOOR).is_some() {
            eprintln!("nanoseconds: {} processes", options.processes);
            results.processes = processes::ratios(options)?;
        }
    }
    if options.measures(Measure::Allocations) {
        eprintln!("allocations");
        results.allocations = driver::allocations(&runtimes, &mut apps);
    }
    if options.measures(Measure::Instructions) {
        eprintln!("instructions");
        match instructions::per_request(&apps) {
            Ok(measured) => results.instructions = measured,
            Err(why) => results.notes.push(why),
        }
    }
    if options.measures(Measure::Workers) {
        eprintln!("two workers");
        results.workers = workers::throughput(&apps, options)?;
    }
    if options.measures(Measure::Pause) {
        eprintln!("pauses");
        results.pauses = pause::pauses(&runtimes, options)?;
    }
    if options.measures(Measure::Memory) {
        results.bytes_per_context = Some(memory::per_context(&runtimes)?);
    }
    if options.measures(Measure::Http) {
        eprintln!("loopback");
        match http::loopback(&apps, options) {
            Ok(measured) => results.loopback = measured,
            Err(why) => results.notes.push(why.to_string()),
        }
    }
    print!("{}", results.markdown());
    if options.check {
        goals::check(&results)?;
    }
    Ok(())
}
