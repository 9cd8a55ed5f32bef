//! Shows a log of yours on the dashboard: `cargo run --release --example replay -- --serve access.log`.
//!
//! ```text
//! replay [--serve] [--verdicts VERDICTS] FILE
//! ```
//!
//! `FILE` (`-`: standard input) has lines `unix_seconds,context,micros,status`, or is an access log of nginx, Caddy,
//! Traefik or Envoy, or a common log, sorted by time. `line` says how a line is read. Each line is recorded as a request
//! in the second in which it ended; one of a format without durations is counted (`counts`). With `--serve`, the dashboard is at
//! `/admin/pulse` once every line is in the store, with what has changed in the last three hours of the log, and the clock
//! goes on from the time of the last line. With
//! `--verdicts`, the changes that stand at the end of each minute are written to a file: see `verdicts`.
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `REDIS_URL` | the Redis to store everything in | absent: in memory |
//! | `PULSE_FILE` | the file to store everything in; it must not exist yet | absent: in memory |
//! | `PULSE_PREFIX` | what every key in Redis begins with; nothing may be stored below it | `pulse:` |
//! | `LISTEN` | address and port, for `--serve` | `127.0.0.1:3000` |
//! | `PULSE_TOKEN` | token of the dashboard | absent: open, on loopback only |
//!
//! Read `args`, `input` (the file, read twice), `drive` (the clock), `serve`.
#![allow(clippy::print_stdout)] // An example talks to whoever started it.

mod args;
mod combined;
mod counts;
mod csv;
mod drive;
mod envoy;
mod input;
mod json;
mod line;
mod progress;
mod serve;
mod steps;
mod template;
mod time;
mod verdicts;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use args::{Args, Command};
use drive::Replay;
use input::{Input, MAX_CONTEXTS, Survey};
use progress::Progress;
use serve::Server;
use tower_pulse::store::CounterQuery;
use tower_pulse::{Clock, ManualClock, Pulse, Task};
use verdicts::VerdictsFile;

/// Seconds at the end of a log whose minutes are judged, for the dashboard.
const JUDGED: i64 = 3 * 3_600;

/// What is said of a log whose format has no durations.
const UNTIMED: &str = "\
the log does not say how long requests took: they are counted, and nothing else is known of them. The counters are
`requests` and `5xx`, and for each context `requests:CONTEXT` and `5xx:CONTEXT`; there are no pages, percentiles or changes";

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os().skip(1)) {
        Ok(Command::Replay(args)) => args,
        Ok(Command::Help) => {
            println!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("{message}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    // What cannot work must fail before an hour of reading, not after it.
    let server = match args.serve {
        true => Some(Server::from_env()?),
        false => None,
    };
    let output = args
        .verdicts
        .as_deref()
        .map(VerdictsFile::open)
        .transpose()?;
    let start = Instant::now();
    let mut input = Input::open(&args.file)?;
    let survey = input.survey()?;
    let Some(format) = survey.format.filter(|_| survey.readable > 0) else {
        if survey.unreadable > 0 {
            report_unreadable(&survey);
            return Err("no line could be read".into());
        }
        println!("0 lines");
        output.map(VerdictsFile::begin).transpose()?;
        return match server {
            Some(server) => {
                let (pulse, time, tasks) = build(&survey, unix_now())?;
                server.run(&pulse, time, tasks).await
            }
            None => Ok(()),
        };
    };

    if output.is_some() && !format.has_durations() {
        return Err(
            "--verdicts: the log has no durations, so that there is nothing to judge".into(),
        );
    }
    let (pulse, time, tasks) = build(&survey, survey.first)?;
    refuse_other_data(&pulse).await?;
    let mut verdicts = output.map(VerdictsFile::begin).transpose()?;
    let mut replay = Replay::new(&pulse, time.clone(), (survey.first, survey.last));
    if server.is_some() && format.has_durations() {
        replay.judge_from(survey.last - JUDGED);
    }
    if verdicts.is_some() {
        replay.keep_minutes();
    }
    let mut progress = Progress::new("recording", input.bytes());
    let mut lines = input.lines()?;
    let mut context = String::new();
    loop {
        let read = lines.bytes();
        let Some(bytes) = lines.next()? else { break };
        // The survey has counted the lines that cannot be read.
        let Ok(line) = line::parse(format, bytes, &mut context) else {
            continue;
        };
        if let Some(verdicts) = &mut verdicts {
            verdicts.write_until(line.second, &mut replay).await?;
        }
        if line.second != replay.second() {
            replay.turn_to(line.second).await?;
            progress.show(replay.lines(), read);
        }
        replay.record(&line);
    }
    if let Some(verdicts) = verdicts {
        verdicts.finish(&mut replay).await?;
    }
    replay.finish().await?;
    replay.judge().await?;
    progress.clear();

    let took = start.elapsed();
    let contexts = match survey.contexts {
        1 => "1 context".to_owned(),
        contexts if contexts > MAX_CONTEXTS => format!("more than {MAX_CONTEXTS} contexts"),
        contexts => format!("{contexts} contexts"),
    };
    let seconds = took.as_secs_f64();
    println!(
        "{} of {contexts} in {seconds:.2} s: {:.0} lines/s",
        in_words(replay.lines()),
        replay.lines() as f64 / seconds
    );
    if !format.has_durations() {
        println!("{UNTIMED}");
    }
    if survey.unreadable > 0 {
        report_unreadable(&survey);
    }
    if survey.disordered > 0 {
        let verb = if survey.disordered == 1 { "is" } else { "are" };
        println!(
            "{} {verb} more than an hour older than a line before: sort the log by time",
            in_words(survey.disordered)
        );
    }
    match server {
        Some(server) => server.run(&pulse, time, tasks).await,
        None => Ok(pulse.shutdown().await?),
    }
}

/// Builds the pulse from the environment, with a clock that stands at `second`. Its tasks are not spawned: until
/// the last line is recorded, nobody but [`Replay`] may drain or flush.
fn build(survey: &Survey, second: i64) -> Result<(Pulse, ManualClock, Vec<Task>), Box<dyn Error>> {
    let (clock, time) = Clock::manual(second);
    let is_untimed = survey.format.is_some_and(|format| !format.has_durations());
    let (most, counters) = match is_untimed {
        true => (counts::MAX_COUNTED, counts::counters_of(survey.contexts)),
        false => (MAX_CONTEXTS, 1),
    };
    if survey.contexts > most {
        tracing::warn!(
            "the file has more than {most} contexts, the most that can be told apart: all further ones are counted \
             together as <overflow>"
        );
    }
    let mut builder = Pulse::builder()
        .clock(clock)
        .max_contexts(survey.contexts.clamp(1, MAX_CONTEXTS))
        .max_counters(counters)
        .shutdown_timeout(Duration::from_secs(5));
    let url = variable("REDIS_URL")?.filter(|url| !url.is_empty());
    let path = variable("PULSE_FILE")?.filter(|path| !path.is_empty());
    builder = match (url, path) {
        (Some(_), Some(_)) => return Err("set REDIS_URL or PULSE_FILE, and not both".into()),
        (Some(url), None) => builder.redis(url),
        (None, Some(path)) => builder.file(path),
        (None, None) => builder,
    };
    if let Some(prefix) = variable("PULSE_PREFIX")? {
        builder = builder.prefix(prefix);
    }
    let (pulse, tasks) = builder.build_with_tasks()?;
    Ok((pulse, time, tasks))
}

/// A log must not be added to what a live service has recorded, nor twice to the same store.
async fn refuse_other_data(pulse: &Pulse) -> Result<(), Box<dyn Error>> {
    const DAY: u32 = 86_400;
    let requests = CounterQuery::new(["hits", counts::REQUESTS], DAY);
    let requests = pulse.store().counters(&requests).await?;
    if requests.iter().all(|counter| counter.slices.is_empty()) {
        return Ok(());
    }
    let store = pulse.store().describe();
    Err(format!(
        "there are requests in the store already ({store}): set PULSE_PREFIX to a prefix of its own, and pass \
         several logs at once through standard input"
    )
    .into())
}

fn in_words(n: u64) -> String {
    let noun = if n == 1 { "line" } else { "lines" };
    format!("{n} {noun}")
}

fn report_unreadable(survey: &Survey) {
    println!("{} could not be read", in_words(survey.unreadable));
    if let Some(first) = &survey.first_unreadable {
        println!("the first is {first}");
    }
}

fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

/// The value of an environment variable, if it is set.
fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
