//! Registries of names. They are bounded: beyond the maximum, all new names share the entry `<overflow>`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// At most `max` entries by name, and one entry for all other names.
#[derive(Debug)]
pub(super) struct Registry<E> {
    entries: RwLock<HashMap<Arc<str>, Arc<E>>>,
    max: usize,
    overflow: Arc<E>,
}

impl<E> Registry<E> {
    pub(super) fn new(max: usize, overflow: Arc<E>) -> Self {
        Self {
            entries: RwLock::default(),
            max,
            overflow,
        }
    }

    /// The entry of `name`, if it exists. Allocates nothing.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<Arc<E>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(name).cloned()
    }

    /// The entry of `name`, created if there is room, or else that of the overflow.
    pub(super) fn get_or_insert(&self, name: &str, make: impl FnOnce(Arc<str>) -> E) -> Arc<E> {
        if let Some(entry) = self.get(name) {
            return entry;
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(name) {
            return entry.clone();
        }
        if entries.len() >= self.max {
            return self.overflow.clone();
        }
        let name: Arc<str> = name.into();
        let entry = Arc::new(make(name.clone()));
        entries.insert(name, entry.clone());
        entry
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.len()
    }

    /// The entry that all names beyond the maximum share.
    pub(super) fn overflow(&self) -> Arc<E> {
        self.overflow.clone()
    }

    /// Copies the entries to `copy`, if it lacks any. Entries are never removed, so comparing lengths is
    /// enough.
    pub(super) fn refresh(&self, copy: &mut Vec<Arc<E>>) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if copy.len() != entries.len() + 1 {
            copy.clear();
            copy.push(self.overflow.clone());
            copy.extend(entries.values().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_maximum_share_one_entry() {
        let registry = Registry::new(2, Arc::new("overflow".to_owned()));
        let make = |name: &str| registry.get_or_insert(name, |name| name.to_string());
        assert_eq!(*make("a"), "a");
        assert_eq!(*make("b"), "b");
        assert_eq!(*make("c"), "overflow");
        assert_eq!(*make("a"), "a");
        assert!(registry.get("c").is_none());
        let mut copy = Vec::new();
        registry.refresh(&mut copy);
        assert_eq!(copy.len(), 3);
    }
}
