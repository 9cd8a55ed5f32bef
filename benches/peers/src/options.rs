//! The command line.

use crate::rows::{BODY_END, IDENTITY, IDENTITY_FIVE_POLLS, PULSE, PULSE_FIVE_POLLS};

pub(crate) const USAGE: &str = "\
Usage: pulse-peers [--only ROW,…] [--measure WHAT,…] [--http] [--rounds N] [--processes N] [--requests N] [--quick]
                   [--check]
  --only      measure only these rows, besides bare and floor
  --measure   only these measurements: ns, alloc, instr, workers, pause, memory, http;
              by default all but http
  --http      also measure http: requests/s over loopback, with wrk
  --rounds    rounds that measure nanoseconds, 90 by default
  --processes extra processes that measure nanoseconds again, 10 by default
  --requests  requests per row and round, 10000 by default
  --quick     fewer rounds and processes
  --check     measure only allocations and instructions, which do not vary between runs, and fail
              if they exceed their limits";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Nanos,
    Allocations,
    Instructions,
    /// Throughput of two worker threads.
    Workers,
    /// The effect of a flush on requests.
    Pause,
    Memory,
    /// Requests per second over loopback.
    Http,
}

const MEASURES: [(&str, Measure); 7] = [
    ("ns", Measure::Nanos),
    ("alloc", Measure::Allocations),
    ("instr", Measure::Instructions),
    ("workers", Measure::Workers),
    ("pause", Measure::Pause),
    ("memory", Measure::Memory),
    ("http", Measure::Http),
];

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) help: bool,
    /// Whether to fail if allocations or instructions exceed their limits.
    pub(crate) check: bool,
    /// The rows to measure, by id; all if empty.
    pub(crate) only: Vec<String>,
    pub(crate) measure: Vec<Measure>,
    /// Rounds of the measurement of nanoseconds.
    pub(crate) rounds: usize,
    /// The number of extra processes that measure nanoseconds.
    pub(crate) processes: usize,
    /// Rounds of the measurements with two workers and of pauses.
    pub(crate) long_rounds: usize,
    pub(crate) http_rounds: usize,
    /// Seconds per row in a round over loopback.
    pub(crate) http_seconds: usize,
    /// Requests per row and round.
    pub(crate) requests: usize,
    /// The row that this process measures under callgrind.
    pub(crate) instructions_of: Option<String>,
    /// Whether this is one of the extra processes of `--processes`.
    pub(crate) is_extra_process: bool,
    /// The row that this process serves for wrk.
    pub(crate) serve: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            help: false,
            check: false,
            only: Vec::new(),
            measure: MEASURES.map(|(_, measure)| measure).to_vec(),
            http_rounds: 9,
            http_seconds: 2,
            rounds: 90,
            processes: 10,
            long_rounds: 30,
            requests: 10_000,
            instructions_of: None,
            is_extra_process: false,
            serve: None,
        };
        options.measure.retain(|measure| *measure != Measure::Http);
        let mut arguments = arguments;
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{flag} needs a value"));
            let number = |text: String| match text.parse() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("{flag} needs a number above 0, not `{text}`")),
            };
            match flag.as_str() {
                "--help" | "-h" => options.help = true,
                "--quick" => {
                    (options.rounds, options.long_rounds) = (15, 8);
                    options.processes = 3;
                    (options.http_rounds, options.http_seconds) = (3, 1);
                }
                "--check" => {
                    options.check = true;
                    options.measure = vec![Measure::Allocations, Measure::Instructions];
                    let only = [
                        IDENTITY,
                        PULSE,
                        BODY_END,
                        IDENTITY_FIVE_POLLS,
                        PULSE_FIVE_POLLS,
                    ];
                    options.only = only.map(str::to_owned).to_vec();
                }
                "--http" => options.measure.push(Measure::Http),
                "--serve" => options.serve = Some(value()?),
                "--rounds" => options.rounds = number(value()?)?,
                "--processes" => options.processes = number(value()?)?,
                "--ratios" => options.is_extra_process = true,
                "--requests" => options.requests = number(value()?)?,
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--measure" => {
                    options.measure = value()?.split(',').map(measure).collect::<Result<_, _>>()?;
                }
                "--instructions-of" => options.instructions_of = Some(value()?),
                _ => return Err(format!("unknown flag `{flag}`")),
            }
        }
        Ok(options)
    }

    pub(crate) fn measures(&self, measure: Measure) -> bool {
        self.measure.contains(&measure)
    }
}

fn measure(name: &str) -> Result<Measure, String> {
    let found = MEASURES.iter().find(|(word, _)| *word == name);
    found
        .map(|(_, measure)| *measure)
        .ok_or(format!("`{name}` cannot be measured: see --help"))
}
