//! The fleet, as each heartbeat of an instance learns of it.

use std::sync::Arc;

/// The instances that are alive, and what they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The number of instances.
    pub instances: u64,
    /// The versions of the application that they run, each once, in alphabetical order. A version is among them for a
    /// minute after the last heartbeat of an instance that runs it.
    pub versions: Vec<Arc<str>>,
}

/// The most versions in a [`Fleet`], and of which a store remembers when they were last alive.
pub const MAX_VERSIONS: usize = 100;

/// The longest version of an application, in bytes.
pub const MAX_VERSION_BYTES: usize = 200;
