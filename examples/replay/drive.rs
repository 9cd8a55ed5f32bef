//! Records lines in the seconds that they carry, with a clock that this file moves.
//!
//! A drain counts what was recorded in the second that has just ended, if it is the first one after the turn of
//! that second. So a second of the log ends with the clock moved to the next second, and one drain. The
//! background tasks must not run: a drain of theirs between two moves of the clock would count in another second.

use std::time::{Duration, Instant};

use tower_pulse::{Change, ManualClock, Pulse, StoreError, StoreErrorKind};

use crate::counts::Counts;
use crate::line::Line;

/// Seconds of the log after which a flush is due. Until then the batch must hold all that can be read later: up
/// to 120 slices of each precision, 130 minutes, and statistics of two hours.
const FLUSH_AFTER: i64 = 1_800;
/// Minutes of the log after which a flush is due among those whose histograms are kept fine: a batch that waits for
/// longer makes those of its older minutes coarser.
const FINE_MINUTES: i64 = 2;
/// For how long before the last line histograms are kept fine: in the 98 half hours that are stored.
const FINE_FOR: i64 = 98 * 1_800;
/// Seconds of a minute.
const MINUTE: i64 = 60;
/// Lines after which a flush is due, as each of them may add to the batch.
const FLUSH_LINES: u64 = 250_000;
/// For how long a flush is tried again while the store is away.
const AWAY: Duration = Duration::from_secs(30);
/// For how long it is tried again while the store is slow: a flush of many contexts may take minutes to fold.
const SLOW: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_millis(200);

/// A replay under way.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    pulse: &'a Pulse,
    time: ManualClock,
    /// The second of the lines that are recorded now.
    second: i64,
    /// The latest second of all lines.
    latest: i64,
    /// The second in which the last drain was.
    drained: i64,
    flushed: i64,
    /// The first minute that has lines since the last flush.
    first_minute: i64,
    /// From then on histograms are kept fine.
    fine_from: i64,
    /// From this second on each minute is judged at its end.
    judged_from: Option<i64>,
    lines: u64,
    flushed_lines: u64,
    /// The requests without a duration.
    counts: Counts,
}

impl<'a> Replay<'a> {
    /// A replay of lines from `second`, where the clock of `pulse` must stand, to `last`.
    pub(crate) fn new(pulse: &'a Pulse, time: ManualClock, (second, last): (i64, i64)) -> Self {
        Self {
            pulse,
            time,
            second,
            latest: second,
            drained: second,
            flushed: second,
            first_minute: second / 60,
            fine_from: last - FINE_FOR,
            judged_from: None,
            lines: 0,
            flushed_lines: 0,
            counts: Counts::new(pulse),
        }
    }

    /// The second of the lines that are recorded now.
    pub(crate) fn second(&self) -> i64 {
        self.second
    }

    /// Number of lines that were recorded.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// The changes that were found so far.
    pub(crate) async fn changes(&self) -> Result<Vec<Change>, StoreError> {
        self.pulse.changes().await
    }

    /// Records a line of the current second.
    pub(crate) fn record(&mut self, line: &Line<'_>) {
        let (pulse, context) = (self.pulse, line.context);
        match line.duration {
            Some(duration) => pulse.record(context, duration, line.ending.outcome()),
            None => self.counts.add(pulse, context, line.ending),
        }
        self.lines += 1;
    }

    /// Judges each minute from `second` on at its end, so that the dashboard shows what changed in these minutes.
    pub(crate) fn judge_from(&mut self, second: i64) {
        self.judged_from = Some(second);
    }

    /// Ends the current second, and begins another one: usually a later one.
    pub(crate) async fn turn_to(&mut self, second: i64) -> Result<(), StoreError> {
        let end = (self.second.div_euclid(MINUTE) + 1) * MINUTE;
        if second >= end && self.judged_from.is_some_and(|from| self.second >= from) {
            self.end_minute(end).await?;
        }
        match second == self.second {
            true => Ok(()),
            false => self.begin(second).await,
        }
    }

    async fn begin(&mut self, second: i64) -> Result<(), StoreError> {
        self.end_second();
        let waiting = self.lines - self.flushed_lines;
        let becomes_coarse =
            second >= self.fine_from && second / 60 - self.first_minute >= FINE_MINUTES;
        let is_due = second - self.flushed >= FLUSH_AFTER || becomes_coarse;
        // Before the clock moves: the store judges by its time what is late and what has ended.
        if waiting >= FLUSH_LINES || (waiting > 0 && is_due) {
            self.flush().await?;
        }
        let first_minute = match self.lines == self.flushed_lines {
            true => second / 60,
            // Lines may be late.
            false => self.first_minute.min(second / 60),
        };
        self.first_minute = first_minute;
        self.time.set_wall(second);
        if second < self.drained {
            // The clock went back: without this, the next drain would not be one after the turn of a second.
            self.pulse.simulation().drain();
            self.drained = second;
        }
        self.second = second;
        self.latest = self.latest.max(second);
        Ok(())
    }

    /// Ends the current second and begins `end`, the end of a minute; takes everything to the store, and judges the
    /// minute.
    pub(crate) async fn end_minute(&mut self, end: i64) -> Result<(), StoreError> {
        if self.second < end {
            self.begin(end).await?;
        }
        if self.lines > self.flushed_lines {
            self.flush().await?;
        }
        self.pulse.simulation().judge().await?;
        Ok(())
    }

    /// Takes everything to the store, and leaves the clock at the second of the last line.
    pub(crate) async fn finish(&mut self) -> Result<(), StoreError> {
        self.end_second();
        self.flush().await
    }

    fn end_second(&mut self) {
        self.drained = self.second + 1;
        self.time.set_wall(self.drained);
        self.pulse.simulation().drain();
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        // All is drained, so it does not matter in which second the flush drains. The store's time must not go
        // back by the seconds that a line was late.
        self.time.set_wall(self.latest);
        self.drained = self.latest;
        let start = Instant::now();
        while let Err(error) = self.pulse.flush().await {
            let patience = match error.kind() {
                StoreErrorKind::Unreachable => AWAY,
                StoreErrorKind::TimedOut => SLOW,
                _ => return Err(error),
            };
            if start.elapsed() > patience {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
        (self.flushed, self.flushed_lines) = (self.latest, self.lines);
        Ok(())
    }
}
