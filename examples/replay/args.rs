//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: replay [--serve] [--verdicts VERDICTS] FILE
  FILE     lines `unix_seconds,context,micros,status` sorted by time, or an access log: nginx's combined
           format with $request_time, Caddy's or Traefik's JSON, Envoy's or Traefik's default,
           or a common or combined log without times, which is only counted; - is standard input
  --serve  afterwards, show the dashboard on LISTEN (127.0.0.1:3000)
  --verdicts VERDICTS
           write what has changed at the end of each minute to this file, as lines of JSON
REDIS_URL stores everything in Redis instead of memory, below PULSE_PREFIX (pulse:);
PULSE_FILE stores everything in a new file.";

/// All flags.
const FLAGS: [&str; 3] = ["--serve", "--verdicts", "--help"];

/// What the user asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Replay(Args),
    Help,
}

/// A log, and what to do with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) serve: bool,
    /// Where to write what has changed.
    pub(crate) verdicts: Option<PathBuf>,
    pub(crate) file: Source,
}

/// Where the lines come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

/// Reads the arguments after the program's name. An error says what is allowed.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let (mut serve, mut file, mut are_flags_over) = (false, None, false);
    let mut verdicts = None;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        match &*text {
            "--" if !are_flags_over => are_flags_over = true,
            "--serve" if !are_flags_over => serve = true,
            "--verdicts" if !are_flags_over => {
                let path = args.next().filter(|path| !path.is_empty());
                let path = path.ok_or("--verdicts needs the name of a file to write")?;
                let text = path.to_string_lossy();
                if text.starts_with('-') {
                    return Err(format!(
                        "--verdicts needs the name of a file to write, and {text:?} looks like a flag: write ./{text}"
                    ));
                }
                if verdicts.replace(PathBuf::from(path)).is_some() {
                    return Err("--verdicts is given twice".to_owned());
                }
            }
            "--help" | "-h" if !are_flags_over => return Ok(Command::Help),
            flag if flag.starts_with('-') && flag != "-" && !are_flags_over => {
                let allowed = FLAGS.join(", ");
                return Err(format!("unknown flag {flag:?}: allowed are {allowed}"));
            }
            _ if file.is_some() => {
                return Err(format!("one FILE is allowed, and {text:?} is another"));
            }
            "-" if !are_flags_over => file = Some(Source::Stdin),
            _ => file = Some(Source::File(arg.into())),
        }
    }
    let file = file.ok_or("FILE is missing")?;
    Ok(Command::Replay(Args {
        serve,
        verdicts,
        file,
    }))
}
