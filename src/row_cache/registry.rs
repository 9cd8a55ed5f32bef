//! The caches of a process, by name.

use std::sync::{Arc, Mutex, Weak};

use super::shared::Shared;
use crate::task::lock;

/// The caches of a [`Pulse`](crate::Pulse) that are in use.
#[derive(Clone, Default)]
pub struct RowCaches(Arc<Mutex<Vec<Weak<Shared>>>>);

impl RowCaches {
    /// Adds a cache. `false` if there is one of the same name.
    pub(super) fn add(&self, cache: &Arc<Shared>) -> bool {
        let mut caches = lock(&self.0);
        caches.retain(|other| other.strong_count() > 0);
        let name = &cache.options.name;
        let mut others = caches.iter().filter_map(Weak::upgrade);
        let is_new = !others.any(|other| other.options.name == *name);
        if is_new {
            caches.push(Arc::downgrade(cache));
        }
        is_new
    }

    /// All caches, by name.
    #[cfg(feature = "query")]
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        let mut caches: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        caches.sort_by(|a, b| a.options.name.cmp(&b.options.name));
        caches
    }
}
