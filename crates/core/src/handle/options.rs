//! The configuration of an instance, which the builder has checked.

use std::time::Duration;

use crate::cleaner::Retention;
use crate::clock::Clock;
use crate::flush::FlushOptions;
use crate::health::Notices;
use crate::recorder::Limits;
use crate::targets::Targets;
use tower_pulse_model::slice::Precisions;

/// The configuration of a [`Handle`](super::Handle).
#[derive(Clone)]
pub struct HandleOptions {
    /// The time source.
    pub clock: Clock,
    /// The precisions of the counters.
    pub precisions: Precisions,
    /// The limits of recording.
    pub limits: Limits,
    /// The settings of flushing.
    pub flush: FlushOptions,
    /// The most contexts that a step of the fold writes; `None` for as many as the store can take quickly.
    pub fold_step_contexts: Option<usize>,
    /// The days of history that this instance asks for; `None` for no history.
    pub history_days: Option<u32>,
    /// The time between two cleaning passes.
    pub clean_interval: Duration,
    /// The retention of data that is not stored in slices.
    pub retention: Retention,
    /// The names of counters that are listed before they have counts.
    pub counters: Vec<String>,
    /// The targets of requests.
    pub targets: Targets,
    /// The most bytes of data that this process holds to answer questions.
    pub query_bytes: usize,
    /// How long a shutdown may take.
    pub shutdown_timeout: Duration,
    /// The warnings about the configuration, wrong credentials and failures.
    pub notices: Notices,
}
