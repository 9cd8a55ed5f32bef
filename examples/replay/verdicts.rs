//! Writes what has changed, minute by minute: `--verdicts FILE`.
//!
//! Each line is a JSON object about one minute of the log: its `minute`, and the changes that stand at its end.
//! Minutes are counted from that of the first line. A line uses nothing that came later.
//!
//! ```text
//! {"minute":97,"slower":[{"context":"GET /search","since":93,"ratio":1.52}],"faster":[],"surges":[],"failing":[]}
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tower_pulse::{Change, ChangeKind};

use crate::drive::Replay;

const MINUTE: i64 = 60;
/// Bytes of a first line that are looked at.
const LOOKED_AT: u64 = 64 * 1024;

/// A file that will be written.
#[derive(Debug)]
pub(crate) struct VerdictsFile {
    file: File,
    path: PathBuf,
}

/// The file, and how far it is written.
#[derive(Debug)]
pub(crate) struct Verdicts {
    file: BufWriter<File>,
    /// The first minute of the log, and the next one to be written, in minutes since the Unix epoch.
    minutes: Option<(i64, i64)>,
}

impl VerdictsFile {
    /// Opens the file, and creates it if there is none. Refuses one with anything but verdicts, such as the log itself:
    /// it is about to be overwritten.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let with_path = |error: io::Error| format!("--verdicts {}: {error}", path.display());
        if holds_something_else(path).map_err(with_path)? {
            let path = path.display();
            return Err(format!(
                "--verdicts {path}: the file exists and holds no verdicts: name another one, or remove it"
            ));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(Self {
            file: file.map_err(with_path)?,
            path: path.to_owned(),
        })
    }

    /// Empties the file.
    pub(crate) fn begin(self) -> Result<Verdicts, String> {
        let path = self.path.display();
        let is_file = self.file.metadata().is_ok_and(|file| file.is_file());
        if is_file && let Err(error) = self.file.set_len(0) {
            return Err(format!("--verdicts {path}: {error}"));
        }
        Ok(Verdicts {
            file: BufWriter::new(self.file),
            minutes: None,
        })
    }
}

/// Whether a file exists whose first line is no verdict. A device or a pipe holds nothing.
fn holds_something_else(path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let mut first = Vec::new();
    let mut start = BufReader::new(File::open(path)?.take(LOOKED_AT));
    start.read_until(b'\n', &mut first)?;
    let verdict = serde_json::from_slice(&first);
    let is_verdict = verdict.is_ok_and(|line: Value| line["minute"].is_i64());
    Ok(!first.is_empty() && !is_verdict)
}

impl Verdicts {
    /// Ends the minutes before that of `second`, and writes a line about each.
    pub(crate) async fn write_until(
        &mut self,
        second: i64,
        replay: &mut Replay<'_>,
    ) -> Result<(), Box<dyn Error>> {
        let minute = second.div_euclid(MINUTE);
        let (first, mut next) = self.minutes.unwrap_or((minute, minute));
        while next < minute {
            replay.end_minute((next + 1) * MINUTE).await?;
            let line = line(next - first, first, &replay.changes().await?);
            writeln!(self.file, "{line}")?;
            next += 1;
        }
        self.minutes = Some((first, next));
        Ok(())
    }

    /// Writes a line about the last minute too.
    pub(crate) async fn finish(mut self, replay: &mut Replay<'_>) -> Result<(), Box<dyn Error>> {
        if let Some((_, next)) = self.minutes {
            self.write_until((next + 1) * MINUTE, replay).await?;
        }
        self.file.flush()?;
        Ok(())
    }
}

/// The line about a minute.
fn line(minute: i64, first: i64, changes: &[Change]) -> Value {
    let of_kind = |kind: ChangeKind| {
        let standing = changes.iter().filter(|change| change.ended.is_none());
        standing.filter(move |change| change.kind == kind)
    };
    let compared = |kind: ChangeKind| -> Vec<Value> {
        let changes = of_kind(kind).map(|change| {
            json!({
                "context": &*change.context,
                "since": change.since.div_euclid(MINUTE) - first,
                "ratio": change.ratio,
            })
        });
        changes.collect()
    };
    let named = |kind: ChangeKind| -> Vec<Value> {
        let changes = of_kind(kind).map(|change| json!({ "context": &*change.context }));
        changes.collect()
    };
    json!({
        "minute": minute,
        "slower": compared(ChangeKind::Slower),
        "faster": compared(ChangeKind::Faster),
        "surges": named(ChangeKind::Surging),
        "failing": named(ChangeKind::Failing),
    })
}
