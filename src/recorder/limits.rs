//! The limits and rules of a recorder.

use std::sync::Arc;

use super::{DetailOptions, MaybeErrorRule};

/// Limits and rules of a [`Recorder`](super::Recorder).
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) max_contexts: usize,
    pub(crate) max_counters: usize,
    /// Bytes of pending records above which they are compacted.
    pub(crate) pending_bytes: usize,
    pub(crate) error_rule: MaybeErrorRule,
    pub(crate) details: DetailOptions,
    /// The version of the application.
    pub(crate) app_version: Option<Arc<str>>,
}

impl Limits {
    /// For tests: no limit of bytes, and the default rules.
    pub(crate) fn for_tests(max_contexts: usize, max_counters: usize) -> Self {
        Self {
            max_contexts,
            max_counters,
            pending_bytes: usize::MAX,
            error_rule: Default::default(),
            details: Default::default(),
            app_version: None,
        }
    }
}
