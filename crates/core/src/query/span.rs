//! What an answer says of time.

use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::tiers::Tiers;

/// The time that the store has recorded, in Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the store's generation began: another one has other data.
    pub generation: i64,
    /// Since the first sample that the store holds, without the gaps in which no instance was running.
    pub recorded: RecordedTime,
    /// The moment up to which all samples can be read.
    pub as_of: i64,
    /// The end of the time that counts as recorded: `as_of`, or `now` if that is not much later.
    pub recorded_until: i64,
    /// The tiers that have it.
    pub tiers: Tiers,
    /// The time of the answer.
    pub now: i64,
}
