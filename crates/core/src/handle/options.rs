//! The configuration of an instance, which was validated.

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
    /// What bounds recording.
    pub limits: Limits,
    /// How what was recorded reaches the store.
    pub flush: FlushOptions,
    /// The most contexts that a step of the fold writes; `None` for as many as take 2 ms.
    pub fold_step_contexts: Option<usize>,
    /// The days of history that are asked for.
    pub history_days: Option<u32>,
    /// The time between two cleaning passes.
    pub clean_interval: Duration,
    /// How long what nobody writes any more is kept.
    pub retention: Retention,
    /// The names of counters that are listed before they count.
    pub counters: Vec<String>,
    /// What requests should achieve.
    pub targets: Targets,
    /// The most bytes that are held of what is read for the admin router.
    pub query_bytes: usize,
    /// How long a shutdown may take.
    pub shutdown_timeout: Duration,
    /// The warnings about the configuration.
    pub notices: Notices,
}
