//! The fleet, as each heartbeat of an instance returns it.

use std::sync::Arc;

/// The instances that are alive, and the versions that they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The number of instances.
    pub instances: u64,
    /// The versions of the application that the instances run, each once, in alphabetical order. A version stays in the
    /// list for a minute after the last heartbeat of an instance with this version.
    pub versions: Vec<Arc<str>>,
}

/// The maximum number of versions in a [`Fleet`], and of versions for which a store has the time of the last heartbeat.
pub const MAX_VERSIONS: usize = 100;

/// The longest version of an application, in bytes.
pub const MAX_VERSION_BYTES: usize = 200;
