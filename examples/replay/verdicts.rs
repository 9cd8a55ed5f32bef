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
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use tower_pulse::{Change, ChangeKind};

use crate::drive::Replay;

const MINUTE: i64 = 60;

/// The file, and how far it is written.
#[derive(Debug)]
pub(crate) struct Verdicts {
    file: BufWriter<File>,
    /// The first minute of the log, and the next one to be written, in minutes since the Unix epoch.
    minutes: Option<(i64, i64)>,
}

impl Verdicts {
    /// Creates the file, or empties it.
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path);
        let file = file.map_err(|error| format!("--verdicts {}: {error}", path.display()))?;
        Ok(Self {
            file: BufWriter::new(file),
            minutes: None,
        })
    }

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
