//! The detector: says at the end of each minute which contexts have changed.

use std::sync::Arc;

use super::change::ChangeKind;
use crate::model::batch::Aggregate;
use crate::model::records::RecordId;

/// What all contexts did in one minute. Contexts without requests are absent.
#[derive(Clone, Debug)]
pub struct Minute<'a> {
    /// The start of the minute, in Unix seconds.
    pub start: i64,
    /// The HTTP contexts that had requests, without `<all>`.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    /// The figure before.
    pub then: f64,
    /// The figure since.
    pub now: f64,
    /// `now` divided by `then`, corrected for what all contexts share.
    pub ratio: f64,
    /// 1 minus the probability that chance alone makes such a difference.
    pub confidence: f64,
    /// The number of requests since the change.
    pub requests: u64,
    /// Requests per minute before.
    pub rate_then: f64,
    /// Requests per minute since.
    pub rate_now: f64,
    /// Mean seconds per request before, of all requests.
    pub mean_then: f64,
    /// Mean seconds per request since, of all requests.
    pub mean_now: f64,
}

/// What a detector needs, beside the minutes themselves, to go on where another one was.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct DetectorState {
    /// The end of the last minute that was judged, in Unix seconds.
    pub judged_until: i64,
}

/// How well a detector can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sight {
    /// Contexts with requests in the last hour.
    pub contexts: usize,
    /// Of these, contexts with enough requests, for long enough, to be compared with their past.
    pub compared: usize,
    /// Minutes of the last hour in which no context had a request.
    pub gaps: usize,
}

/// The minutes before the first one to judge that a new detector must [recall](Detector::recall).
pub const RECALLED_MINUTES: i64 = 90;

/// Finds changes, minute by minute.
#[derive(Debug, Default)]
pub struct Detector {
    state: DetectorState,
}

impl Detector {
    /// A detector that goes on from a state. Recall the minutes before
    /// [`judged_until`](DetectorState::judged_until), oldest first, before the next one is judged.
    pub fn new(state: DetectorState) -> Self {
        Self { state }
    }

    /// Adds a minute that another detector has judged.
    pub fn recall(&mut self, _minute: &Minute<'_>) {}

    /// Judges a minute that has ended. Returns all verdicts that stand at its end. Minutes are given in
    /// order; those without any request may be left out.
    pub fn judge(&mut self, minute: &Minute<'_>) -> Vec<Verdict> {
        self.state.judged_until = minute.start + 60;
        Vec::new()
    }

    /// What another detector needs to go on from here.
    pub fn state(&self) -> &DetectorState {
        &self.state
    }

    /// How well it can see.
    pub fn sight(&self) -> Sight {
        Sight::default()
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
