//! The suspects of a change, as users get them.

use std::sync::Arc;

/// A possible cause of a change, or the requests of a surge. `text` describes the suspect as a part of a sentence.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "kind", rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum Suspect {
    /// A mark near the start of the change.
    #[non_exhaustive]
    Deploy {
        /// The id of the mark.
        mark: Arc<str>,
        /// The suspect in words, with the text of the mark.
        text: Arc<str>,
        /// The version of the mark, if it has one.
        version: Option<Arc<str>>,
        /// Seconds from the mark to the start of the change.
        seconds_before: i64,
        /// The new version's figure divided by the old one's in the same minutes, if both ran.
        side_by_side: Option<f64>,
    },
    /// The instances that the change comes from. The other instances are not affected.
    #[non_exhaustive]
    Instance {
        /// The names of the instances: at most 3.
        instances: Vec<Arc<str>>,
        /// Number of these instances, including the unnamed ones.
        count: u64,
        /// The figure of the other instances in the same minutes, in the unit of [`Change::then`](super::Change::then).
        then: f64,
        /// The figure of these instances, in the same unit.
        now: f64,
        /// `now` divided by `then`.
        ratio: f64,
        /// The part of the change that comes from these instances, 0 to 1.
        share: f64,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The machine of an instance: everything takes longer, because tasks that are ready wait for a CPU.
    #[non_exhaustive]
    Machine {
        /// The name of the instance.
        instance: Arc<str>,
        /// The median scheduling delay since the change, in seconds.
        delay: f64,
        /// The share of its CPUs that the process used, 0 to 1; `None` if the system does not report it.
        cpu: Option<f64>,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// A timer within the requests of the context, whose time per request has changed.
    #[non_exhaustive]
    Timer {
        /// The name of the timer.
        timer: Arc<str>,
        /// Seconds per request before.
        then: f64,
        /// Seconds per request now.
        now: f64,
        /// The part of the change that this timer covers, 0 to 1.
        share: f64,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The code outside of all timers within the requests of the context.
    ///
    /// Contexts without timers never have this suspect.
    #[non_exhaustive]
    Code {
        /// Seconds per request before.
        then: f64,
        /// Seconds per request now.
        now: f64,
        /// The part of the change that is outside of timers, 0 to 1.
        share: f64,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The requests compute for longer or shorter, or block their workers.
    ///
    /// Not reported while the scheduling delay of an instance is high: the time of a poll then includes time in which
    /// the system runs other threads.
    #[non_exhaustive]
    Computing {
        /// Seconds per request within polls before.
        then: f64,
        /// Seconds per request within polls now.
        now: f64,
        /// The part of the change that is within polls, 0 to 1.
        share: f64,
        /// The longest single poll since the change, in seconds.
        longest: f64,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The requests wait for longer or shorter.
    #[non_exhaustive]
    Waiting {
        /// Seconds per request outside of polls before.
        then: f64,
        /// Seconds per request outside of polls now.
        now: f64,
        /// The part of the change that is outside of polls, 0 to 1.
        share: f64,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The failures (errors or 4xx) since the change began.
    #[non_exhaustive]
    Failures {
        /// The timer within the requests that fails more often than before, if there is one.
        timer: Option<Arc<str>>,
        /// The statuses of the newest failed requests, or the outcomes of those without a response: at most 3.
        statuses: Vec<Arc<str>>,
        /// The status code that at least 80 % of the additional failures have, if there is one.
        code: Option<Arc<str>>,
        /// The kind of error that at least half of the additional failures have, if there is one.
        error: Option<Arc<str>>,
        /// The suspect in words.
        text: Arc<str>,
    },
    /// The requests of a surge.
    #[non_exhaustive]
    Traffic {
        /// The instance with the most requests, if it gets much more than an even share.
        busiest: Option<Arc<str>>,
        /// The instances, outcomes and latency of the requests, in words.
        text: Arc<str>,
    },
}

impl Suspect {
    /// The suspect as a part of a sentence, without hidden characters.
    pub fn text(&self) -> &str {
        let (Self::Deploy { text, .. }
        | Self::Instance { text, .. }
        | Self::Machine { text, .. }
        | Self::Timer { text, .. }
        | Self::Code { text, .. }
        | Self::Computing { text, .. }
        | Self::Waiting { text, .. }
        | Self::Failures { text, .. }
        | Self::Traffic { text, .. }) = self;
        text
    }

    /// The timer of the suspect.
    #[doc(hidden)]
    pub fn timer(&self) -> Option<&Arc<str>> {
        match self {
            Self::Timer { timer, .. } => Some(timer),
            Self::Failures { timer, .. } => timer.as_ref(),
            _ => None,
        }
    }
}
