//! The time that an answer covers.

use serde::Serialize;

use super::error::QueryError;
use super::source::Source;
use super::window::{Window, WindowSlices};
use tower_pulse_model::context::ContextId;
use tower_pulse_model::measures::Measure;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::tiers::Tiers;

/// The time that the store has recorded, in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The start of the store's generation. A reset begins another generation.
    pub generation: i64,
    /// The time since the first sample that the store holds, without the gaps in which no instance was running.
    pub recorded: RecordedTime,
    /// The moment up to which all samples can be read.
    pub as_of: i64,
    /// The end of the time that counts as recorded: `now`, or `as_of` if `as_of` is over 15 s ago or flushes fail.
    pub recorded_until: i64,
    pub tiers: Tiers,
    pub now: i64,
}

/// The time that a window covers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Covered {
    /// The start of the first slice, in Unix seconds.
    pub from: i64,
    /// The end of the last slice, in Unix seconds; may be in the future.
    pub to: i64,
    /// The recorded share of the window until now, 0 to 1.
    pub complete: f64,
    /// Number of recorded seconds. Rates are amounts per recorded second.
    pub recorded_seconds: i64,
    /// Number of seconds, after the first recorded second, in which the service was not running.
    ///
    /// Always 0 with a store that cannot know this time, such as Redis.
    pub not_running_seconds: i64,
    /// Number of served requests that the figures lack: lost, skewed and set-aside requests.
    pub missing: u64,
}

/// Two windows are compared only if more than this share of each window was recorded.
const MOSTLY: f64 = 0.5;

impl Covered {
    /// Sets the recorded seconds. Sets `complete` to the share of the `passed` seconds that was recorded.
    #[must_use]
    pub(super) fn with_seconds(self, recorded: i64, passed: i64) -> Self {
        Self {
            complete: match passed {
                ..=0 => 0.0,
                passed => recorded as f64 / passed as f64,
            },
            recorded_seconds: recorded,
            ..self
        }
    }

    pub(super) async fn read(
        source: &Source,
        slices: WindowSlices,
        span: &Span,
    ) -> Result<Self, QueryError> {
        let covered = slices.covered(&span.recorded, span.recorded_until, span.now);
        covered.with_missing(source, span).await
    }

    /// Reads the number of missing requests, for an answer that reads no sums.
    pub(super) async fn with_missing(
        self,
        source: &Source,
        span: &Span,
    ) -> Result<Self, QueryError> {
        // The slices of the answer may be those of counters, but only records have the missing requests.
        let slices = Window::of(self.from, self.to).slices(span.tiers, span.now);
        let all = source.sums(&ContextId::all(), slices).await?;
        let missing = all.measures.get(Measure::Missing);
        Ok(Self { missing, ..self })
    }

    pub(super) fn is_mostly_recorded(&self) -> bool {
        self.complete > MOSTLY
    }

    pub(super) fn per_second(&self, amount: f64) -> Option<f64> {
        let seconds = self.recorded_seconds;
        (seconds > 0).then(|| amount / seconds as f64)
    }

    pub(super) fn per_minute(&self, amount: f64) -> Option<f64> {
        self.per_second(60.0 * amount)
    }
}
