//! The limits and rules of a recorder.

use std::sync::Arc;

use http::HeaderName;

use super::{DetailOptions, MaybeErrorRule};
use crate::targets::PathTarget;

/// Limits and rules of a [`Recorder`](super::Recorder).
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum number of contexts.
    pub max_contexts: usize,
    /// The maximum number of the user's counters.
    pub max_counters: usize,
    /// The bytes that the records and the minute reports of a batch may take after a failed flush. Above this limit,
    /// the oldest reports are dropped, and older slices of the records are merged.
    pub pending_bytes: usize,
    /// The rule that decides which responses are errors.
    pub error_rule: MaybeErrorRule,
    /// The details that are recorded of a slow or failed request.
    pub details: DetailOptions,
    /// The version of the application.
    pub app_version: Option<Arc<str>>,
    /// The header in which a proxy says when it received a request.
    pub queue_header: Option<HeaderName>,
    /// The targets of paths. For the Prometheus text, the recorder counts the requests that miss them.
    pub targets: Vec<PathTarget>,
}

impl Limits {
    /// Limits with the default rules, and without a limit for the size of the records.
    pub fn new(max_contexts: usize, max_counters: usize) -> Self {
        Self {
            max_contexts,
            max_counters,
            pending_bytes: usize::MAX,
            error_rule: Default::default(),
            details: Default::default(),
            app_version: None,
            queue_header: None,
            targets: Vec::new(),
        }
    }
}
