//! Shows an access log on the dashboard, before you add the crate to the service:
//!
//! ```console
//! $ cargo run --release --example replay -- --serve access.log
//! ```
//!
//! The file `-` is standard input. The module `line` lists the formats. Lines must be sorted by time; some seconds of
//! disorder are fine. At its end, the program reports lines that cannot be read, or that are more than an hour older
//! than an earlier line.
//!
//! The dashboard, at `/admin/pulse`, shows the changes of the last three hours of the log. Its clock runs on from the
//! last line. Percentiles are off by at most 2.2 % in the last two days, and by 9 % before. Contexts beyond 100,000
//! count as `<overflow>`. Requests without durations are only counted, as `requests`, `5xx`, `requests:CONTEXT` and
//! `5xx:CONTEXT` (at most 49,998 contexts).
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `REDIS_URL` | the Redis that keeps everything | absent: in memory |
//! | `PULSE_PREFIX` | the prefix of every key in Redis; must be without data | `pulse:` |
//! | `LISTEN` | address and port, for `--serve` | `127.0.0.1:3000` |
//! | `PULSE_TOKEN` | token of the dashboard | absent: open, on loopback only |
//!
//! Read this file, then `args`, `input` (the file, read twice), `line` (its lines), `drive` (records them) and `serve`.
#![allow(clippy::print_stdout)] // An example prints to its terminal.

mod args;
mod caddy;
mod combined;
mod counts;
mod drive;
mod input;
mod intervals;
mod line;
mod serve;
mod template;
mod time;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use drive::Replay;
use input::{Input, MAX_CONTEXTS, Survey};
use line::Format;
use serve::Server;
use tower_pulse::{Clock, ManualClock, Pulse, Task};

/// The seconds at the end of a log whose minutes are judged, so that the dashboard shows changes.
const JUDGED: i64 = 3 * 3_600;

const UNTIMED: &str = "\
the log does not say how long requests took, so they are only counted. The counters are
`requests` and `5xx`, and for each context `requests:CONTEXT` and `5xx:CONTEXT`; there are no pages, percentiles or changes";

#[tokio::main]
async fn main() -> ExitCode {
    let (serve, file) = match args::parse(std::env::args_os().skip(1)) {
        Ok(Some(replay)) => replay,
        Ok(None) => {
            println!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("{message}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(serve, &file).await {
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

async fn run(serve: bool, file: &Path) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    // A wrong setting is reported before an hour of reading, not after it.
    let server = serve.then(Server::from_env).transpose()?;
    let start = Instant::now();
    let mut input = Input::open(file)?;
    let survey = input.survey()?;
    let Some(format) = survey.format else {
        report_unreadable(&survey);
        return Err("no line could be read".into());
    };
    let (pulse, time, tasks) = build(&survey, format)?;
    refuse_other_data(&pulse).await?;
    let mut replay = Replay::new(&pulse, time.clone(), (survey.first, survey.last));
    if server.is_some() && format.has_durations() {
        replay.judge_from(survey.last - JUDGED);
    }
    let mut lines = input.lines()?;
    let mut context = String::new();
    while let Some(bytes) = lines.next()? {
        // The survey has counted the lines that cannot be read.
        let Ok(line) = line::parse(format, bytes, &mut context) else {
            continue;
        };
        if line.second != replay.second {
            replay.move_to(line.second).await?;
        }
        replay.record(&line);
    }
    replay.finish().await?;
    replay.judge().await?;

    let seconds = start.elapsed().as_secs_f64();
    let contexts = match survey.contexts {
        1 => "1 context".to_owned(),
        contexts => format!("{contexts} contexts"),
    };
    println!(
        "{} of {contexts} in {seconds:.2} s: {:.0} lines/s",
        in_words(replay.lines),
        replay.lines as f64 / seconds
    );
    if !format.has_durations() {
        println!("{UNTIMED}");
    }
    report_unreadable(&survey);
    if survey.disordered > 0 {
        let verb = if survey.disordered == 1 { "is" } else { "are" };
        println!(
            "{} {verb} more than an hour older than an earlier line: sort the log by time",
            in_words(survey.disordered)
        );
    }
    match server {
        Some(server) => server.run(&pulse, time, tasks).await,
        None => Ok(pulse.shutdown().await?),
    }
}

/// Builds the `Pulse` from the environment, with a clock that shows the time of the first line. The tasks are not
/// spawned: until the last line is recorded, only [`Replay`] may drain or flush.
fn build(
    survey: &Survey,
    format: Format,
) -> Result<(Pulse, ManualClock, Vec<Task>), Box<dyn Error>> {
    let (clock, time) = Clock::manual(survey.first);
    let (most, counters) = match format.has_durations() {
        true => (MAX_CONTEXTS, 1),
        false => (counts::MAX_COUNTED, counts::counters_of(survey.contexts)),
    };
    if survey.contexts > most {
        tracing::warn!(
            "the file has more than {most} contexts, the most that are counted separately: all others are counted \
             together as <overflow>"
        );
    }
    let mut builder = Pulse::builder()
        .clock(clock)
        .max_contexts(survey.contexts.clamp(1, MAX_CONTEXTS))
        .max_counters(counters)
        .shutdown_timeout(Duration::from_secs(5));
    if let Some(url) = variable("REDIS_URL")?.filter(|url| !url.is_empty()) {
        builder = builder.redis(url);
    }
    if let Some(prefix) = variable("PULSE_PREFIX")? {
        builder = builder.prefix(prefix);
    }
    let (pulse, tasks) = builder.build_with_tasks()?;
    Ok((pulse, time, tasks))
}

/// Refuses a store with data. A log must not be added to the data of a live service, or twice to the same store.
async fn refuse_other_data(pulse: &Pulse) -> Result<(), Box<dyn Error>> {
    const DAY: u32 = 86_400;
    let store = pulse.store();
    let hits = store.counter("hits", DAY).await?;
    if hits.is_empty() && store.counter(counts::REQUESTS, DAY).await?.is_empty() {
        return Ok(());
    }
    let store = store.describe();
    Err(format!(
        "the store has requests already ({store}): set another PULSE_PREFIX, and pass several logs at once through \
         standard input"
    )
    .into())
}

fn in_words(n: u64) -> String {
    let noun = if n == 1 { "line" } else { "lines" };
    format!("{n} {noun}")
}

fn report_unreadable(survey: &Survey) {
    if let Some(first) = &survey.first_unreadable {
        println!("{} could not be read", in_words(survey.unreadable));
        println!("the first is {first}");
    }
}

fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
