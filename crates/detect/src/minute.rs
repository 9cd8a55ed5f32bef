//! The input of a detector, and its verdicts.

use std::sync::Arc;

use super::change::ChangeKind;
pub use super::cost::Cost;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ALL, Kind};
use tower_pulse_model::pack::packed;
use tower_pulse_model::records::RecordId;

/// The sums of all contexts in one minute. Contexts without requests are absent.
#[derive(Clone, Debug)]
pub struct Minute<'a> {
    /// The start of the minute, in Unix seconds.
    pub start: i64,
    /// The HTTP contexts that had requests, without `<all>`. To judge the wait in front of the service too, add the
    /// timer [`queue`](tower_pulse_model::timer_sums::queue): only its times are judged.
    pub contexts: Vec<(RecordId, &'a Aggregate)>,
    /// The sums of each instance on its busiest contexts.
    pub instances: Vec<InstanceMinute<'a>>,
}

/// The sums of one instance in one minute.
#[derive(Clone, Debug)]
pub struct InstanceMinute<'a> {
    /// The name of the instance.
    pub instance: Arc<str>,
    /// The busiest contexts of the instance.
    pub contexts: Vec<(RecordId, &'a Aggregate)>,
}

/// An ongoing change at the end of a minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The context.
    pub context: RecordId,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The instance, for [`ChangeKind::Instance`].
    pub instance: Option<Arc<str>>,
    /// The kind of error, for [`ChangeKind::NewError`].
    pub error: Option<Arc<str>>,
    /// The start of the first minute that is different, in Unix seconds.
    pub since: i64,
    /// The end of the minute in which the change was detected, in Unix seconds.
    pub detected: i64,
    /// The figure before the change. For slower and faster: the mean seconds of the successful responses, multiplied by
    /// the factor by which all contexts have shifted since.
    pub then: f64,
    /// The figure since the change.
    pub now: f64,
    /// `now` divided by `then`. If `then` was zero, a lower bound.
    pub ratio: f64,
    /// For slower: whether only the slowest tenth of the requests is slower. If so, `then`, `now` and `ratio` are about
    /// the mean of this tenth.
    pub is_tail: bool,
    /// 1 minus the probability of such a difference by chance.
    pub confidence: f64,
    /// The number of requests behind the figures.
    pub requests: u64,
    /// The number of minutes since the change that the figures cover.
    pub minutes: u32,
    /// The cost of the change.
    pub cost: Cost,
    /// Mean seconds per request before the change, of all requests.
    pub mean_then: f64,
    /// Mean seconds per request since the change, of all requests.
    pub mean_now: f64,
}

packed! {
    /// A context that is likely slower, but not certainly. The detector reports no change for it.
    #[derive(Clone, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize))]
    #[non_exhaustive]
    pub struct Watched {
        /// The start of the first minute that is different, in Unix seconds.
        pub since: i64,
        /// How many times as long the successful responses take.
        pub ratio: f64,
        /// Whether only the slowest tenth of the responses is slower; if so, `ratio` is about that tenth.
        pub is_tail: bool,
    }

    /// How much of the traffic a detector can compare.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize))]
    #[non_exhaustive]
    pub struct Coverage {
        /// Contexts with requests in the last hour.
        pub contexts: usize,
        /// Contexts with enough requests, for long enough, to be compared with their past.
        pub compared: usize,
        /// Minutes without a request in the last hour.
        pub gaps: usize,
    }
}

/// The number of failed requests for a kind of change: for refusing, 4xx that are not errors; otherwise errors.
pub fn failed(kind: ChangeKind, sums: &Aggregate) -> u64 {
    let errors = sums.outcomes.errors;
    match kind {
        // The histogram of failures has errors and 4xx.
        ChangeKind::Refusing => sums.failures.count().saturating_sub(errors),
        _ => errors,
    }
}

pub(crate) fn all_id() -> RecordId {
    RecordId::new(Kind::All, ALL)
}
