//! Faults of the folder and of the journal: `tests/faults/folds` at full length.

use std::time::Duration;

use crate::folds::{self, Report};
use crate::table::{Outcome, Size};

/// Number of fleets that run at once. Each waits for leases to expire most of the time.
const FLEETS: u64 = 4;

fn outcome(done: String, report: Report) -> Outcome {
    let mut outcome = Outcome {
        done,
        expected: report.expected,
        stored: report.stored,
        faults: report.faults,
        notes: report.notes,
    };
    if outcome.stored != outcome.expected && outcome.faults.is_empty() {
        outcome.faults.push("it differs".to_owned());
    }
    outcome
}

pub async fn folder_killed(size: Size) -> Outcome {
    let kills = size.of(100);
    let report = folds::folders_killed(kills, FLEETS, size.seed).await;
    let done = format!("{kills} folders killed in the middle of a round, in {FLEETS} fleets");
    outcome(done, report)
}

pub async fn folder_frozen(size: Size) -> Outcome {
    let times = size.of(20);
    let report = folds::folders_frozen(times, FLEETS, size.seed).await;
    let done = format!(
        "{times} folders frozen in the middle of a round, and revived when another one folded"
    );
    outcome(done, report)
}

pub async fn clocks_apart(size: Size) -> Outcome {
    let hours = size.of(48);
    let report = folds::clocks_apart(hours, size.seed).await;
    let done = format!("{hours} hours by five clocks up to an hour apart, folding in turns");
    outcome(done, report)
}

pub async fn journal_full(size: Size) -> Outcome {
    let time = Duration::from_secs(60).mul_f64(size.scale);
    let report = folds::journal_full(time, size.seed).await;
    let seconds = time.as_secs_f64();
    outcome(format!("a journal at its bound for {seconds:.0} s"), report)
}

pub async fn servers_killed(size: Size) -> Outcome {
    let kills = size.of(50);
    let report = folds::servers_killed(kills, size.seed).await;
    outcome(format!("{kills} x kill -9, appendfsync always"), report)
}

pub async fn failovers(size: Size) -> Outcome {
    let times = size.of(10);
    let report = folds::failovers(times, size.seed).await;
    let done =
        format!("{times} primaries lost in a round, two right after an instance's first call");
    outcome(done, report)
}

pub async fn journal_deleted(size: Size) -> Outcome {
    let times = size.of(10);
    let report = folds::journal_deleted(times, size.seed).await;
    let done = format!("the journal deleted {times} times; requests reported as missing are added");
    outcome(done, report)
}

pub async fn state_deleted(size: Size) -> Outcome {
    let times = size.of(10);
    let report = folds::state_deleted(times, size.seed).await;
    let done = format!("`state` deleted {times} times; requests reported as missing are added");
    outcome(done, report)
}
