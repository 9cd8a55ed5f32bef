//! The cost of a merged context in Redis.

use crate::stats::Median;

/// Microseconds of Redis per merged context.
#[derive(Debug)]
pub(crate) struct Cost {
    /// The merged part.
    pub(crate) parts: &'static str,
    /// CPU time of the server, user and system, including reading and answering.
    pub(crate) cpu: Median,
    /// Time within the script.
    pub(crate) script: Median,
}
