//! The input of a detector, and its verdicts.

use std::sync::Arc;

use super::change::ChangeKind;
pub use super::cost::Cost;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::records::RecordId;

/// What all contexts did in one minute. Contexts without requests are absent.
#[derive(Clone, Debug)]
pub struct Minute<'a> {
    /// The start of the minute, in Unix seconds.
    pub start: i64,
    /// The HTTP contexts that had requests, without `<all>`. With them, if it is to be judged, the timer
    /// [`queue`](tower_pulse_model::timer_sums::queue): of it, only whether it takes longer than before.
    pub contexts: Vec<(RecordId, &'a Aggregate)>,
    /// What each instance did on its busiest contexts.
    pub instances: Vec<InstanceMinute<'a>>,
}

/// What one instance did in one minute.
#[derive(Clone, Debug)]
pub struct InstanceMinute<'a> {
    /// Its name.
    pub instance: Arc<str>,
    /// Its busiest contexts.
    pub contexts: Vec<(RecordId, &'a Aggregate)>,
}

/// Something that stands at the end of a minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The context.
    pub context: RecordId,
    /// What has changed.
    pub kind: ChangeKind,
    /// The instance, for [`ChangeKind::Instance`].
    pub instance: Option<Arc<str>>,
    /// The start of the first minute that is different, in Unix seconds.
    pub since: i64,
    /// The end of the minute in which it was detected, in Unix seconds.
    pub detected: i64,
    /// The figure before: for slower and faster, the mean seconds of the successful responses, times what all contexts
    /// share since.
    pub then: f64,
    /// The figure since.
    pub now: f64,
    /// `now` divided by `then`. For figures that were zero, a bound from below.
    pub ratio: f64,
    /// For slower: only the slowest tenth of the requests is. Then `then`, `now` and `ratio` are about the mean of
    /// that tenth.
    pub is_tail: bool,
    /// 1 minus the probability that chance alone makes such a difference.
    pub confidence: f64,
    /// The number of requests since the change.
    pub requests: u64,
    /// The number of minutes since the change that the figures are of.
    pub minutes: u32,
    /// What the change costs.
    pub cost: Cost,
    /// Mean seconds per request before, of all requests.
    pub mean_then: f64,
    /// Mean seconds per request since, of all requests.
    pub mean_now: f64,
}

/// A context that is likely slower, of which it is not certain yet. It is no change, and nobody is told of it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Watched {
    /// The start of the first minute that is different, in Unix seconds.
    pub since: i64,
    /// How many times as long the successful responses take.
    pub ratio: f64,
    /// Only the slowest tenth of them does; `ratio` is about that tenth.
    pub is_tail: bool,
}

/// How well a detector can see.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Sight {
    /// Contexts with requests in the last hour.
    pub contexts: usize,
    /// Of these, contexts with enough requests, for long enough, to be compared with their past.
    pub compared: usize,
    /// Minutes of the last hour in which no context had a request.
    pub gaps: usize,
}

/// All contexts together.
pub(crate) fn all_id() -> RecordId {
    RecordId::new(Kind::All, ALL)
}
