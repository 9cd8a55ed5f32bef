//! Records each line in its own second, by moving a manual clock.
//!
//! The first drain in a new second adds the recorded lines to the second before. So each second of the log ends with a
//! move of the clock to the next second, and one drain. In hours whose seconds are not stored, there is one drain for a
//! longer interval (`intervals`). The background tasks must not run, because their drains between two moves of the
//! clock would count lines in a wrong second.

use std::time::{Duration, Instant};

use tower_pulse::{ManualClock, Pulse, StoreError, StoreErrorKind};

use crate::counts::Counts;
use crate::intervals::Intervals;
use crate::line::Line;

/// The seconds before the last line for which histograms stay fine: the 98 half hours that are stored. In this time,
/// each minute has its own flush, because a batch of several minutes makes the histograms of older minutes coarser.
const FINE_FOR: i64 = 98 * 1_800;
const MINUTE: i64 = 60;
/// A flush is due at the end of each hour, because the profiles of the week read the hour from the store some minutes
/// later. A batch also has room for the statistics of only two hours.
const HOUR: i64 = 3_600;
/// The number of lines after which a flush is due, because each line may add to the batch.
const FLUSH_LINES: u64 = 250_000;
/// The number of lines after which a drain is due within an interval. A cell can hold the sum of this many durations,
/// even of the longest that are recorded.
const DRAIN_LINES: u64 = 30_000;
/// The time for which a call is repeated while the store is unreachable or slow. A flush of many contexts may take
/// minutes to fold.
const PATIENCE: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Replay<'a> {
    pulse: &'a Pulse,
    time: ManualClock,
    intervals: Intervals,
    /// The latest second of the lines in the current interval. The clock shows this second while lines are recorded.
    pub(crate) second: i64,
    /// The latest value that `second` has had.
    latest: i64,
    /// The second of the clock at the last drain.
    drained_at: i64,
    /// From this second on, histograms stay fine.
    fine_from: i64,
    /// From this second on, each minute is judged at its end.
    judged_from: Option<i64>,
    pub(crate) lines: u64,
    flushed_lines: u64,
    drained_lines: u64,
    /// The requests without a duration.
    counts: Counts,
}

impl<'a> Replay<'a> {
    /// Begins a replay of the lines from `second` to `last`. The clock of `pulse` must show `second`.
    pub(crate) fn new(pulse: &'a Pulse, time: ManualClock, (second, last): (i64, i64)) -> Self {
        Self {
            pulse,
            time,
            intervals: Intervals::until(last),
            second,
            latest: second,
            drained_at: second,
            fine_from: last - FINE_FOR,
            judged_from: None,
            lines: 0,
            flushed_lines: 0,
            drained_lines: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) async fn judge(&self) -> Result<(), StoreError> {
        until_answered(|| self.pulse.simulation().judge())
            .await
            .map(drop)
    }

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
        self.intervals.shorten_from(second);
    }

    /// Moves to another second, usually a later one. Ends the current interval and begins another if the second is in
    /// another interval, or if [`DRAIN_LINES`] lines wait for a drain.
    pub(crate) async fn move_to(&mut self, second: i64) -> Result<(), StoreError> {
        let end = (self.second.div_euclid(MINUTE) + 1) * MINUTE;
        if second >= end && self.judged_from.is_some_and(|from| self.second >= from) {
            self.end_minute(end).await?;
        }
        let is_same_interval =
            self.intervals.interval_of(second) == self.intervals.interval_of(self.second);
        if is_same_interval && self.lines - self.drained_lines < DRAIN_LINES {
            if second > self.second {
                self.second = second;
                self.latest = self.latest.max(second);
                self.time.set_wall(second);
            }
            return Ok(());
        }
        self.begin(second).await
    }

    async fn begin(&mut self, second: i64) -> Result<(), StoreError> {
        self.end_interval();
        let waiting = self.lines - self.flushed_lines;
        let becomes_coarse =
            second >= self.fine_from && second.div_euclid(MINUTE) != self.second.div_euclid(MINUTE);
        let ends_hour = second.div_euclid(HOUR) > self.latest.div_euclid(HOUR);
        let is_due = ends_hour || becomes_coarse;
        // The flush comes before the move of the clock, because the clock decides which samples are late and which
        // slices have ended.
        if waiting >= FLUSH_LINES || (waiting > 0 && is_due) {
            self.flush().await?;
        }
        self.time.set_wall(second);
        if second < self.drained_at {
            // The clock went back. Without this drain, the next drain would not be the first in a new second.
            self.pulse.simulation().drain();
            self.drained_at = second;
        }
        self.second = second;
        self.latest = self.latest.max(second);
        Ok(())
    }

    /// Ends the current interval at `end`, the end of a minute, flushes everything, and judges the minute.
    async fn end_minute(&mut self, end: i64) -> Result<(), StoreError> {
        if self.second < end {
            self.begin(end).await?;
        }
        if self.lines > self.flushed_lines {
            self.flush().await?;
        }
        self.judge().await
    }

    /// Flushes everything, and leaves the clock at the latest second.
    pub(crate) async fn finish(&mut self) -> Result<(), StoreError> {
        self.end_interval();
        self.flush().await
    }

    fn end_interval(&mut self) {
        self.drained_at = self.second + 1;
        self.time.set_wall(self.drained_at);
        self.pulse.simulation().drain();
        self.drained_lines = self.lines;
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        // Everything is drained, so the second in which the flush drains does not matter. The store's time must not go
        // back with an older line.
        self.time.set_wall(self.latest);
        self.drained_at = self.latest;
        until_answered(|| self.pulse.flush()).await?;
        self.flushed_lines = self.lines;
        Ok(())
    }
}

async fn until_answered<T>(
    mut call: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let start = Instant::now();
    loop {
        let error = match call().await {
            Err(error) if start.elapsed() < PATIENCE => error,
            result => return result,
        };
        if !matches!(
            error.kind(),
            StoreErrorKind::Unreachable | StoreErrorKind::TimedOut
        ) {
            return Err(error);
        }
        tokio::time::sleep(RETRY).await;
    }
}
