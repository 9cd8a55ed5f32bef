//! Which names there are. Bounded: beyond the maximum, new names share the entry `<overflow>`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Entries by name, at most `max` of them, and one for all others.
#[derive(Debug)]
pub(crate) struct Registry<E> {
    entries: RwLock<HashMap<Arc<str>, Arc<E>>>,
    max: usize,
    overflow: Arc<E>,
}

impl<E> Registry<E> {
    pub(crate) fn new(max: usize, overflow: Arc<E>) -> Self {
        Self {
            entries: RwLock::default(),
            max,
            overflow,
        }
    }

    /// The entry of `name`, if there is one. Allocates nothing.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<Arc<E>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(name).cloned()
    }

    /// The entry of `name`, made if there is room.
    pub(crate) fn get_or_insert(&self, name: &str, make: impl FnOnce(Arc<str>) -> E) -> Arc<E> {
        if let Some(known) = self.get(name) {
            return known;
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.get(name) {
            return known.clone();
        }
        if entries.len() >= self.max {
            return self.overflow.clone();
        }
        let name: Arc<str> = name.into();
        let entry = Arc::new(make(name.clone()));
        entries.insert(name, entry.clone());
        entry
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.len()
    }

    /// The entry of the names that had no room.
    pub(crate) fn overflow(&self) -> Arc<E> {
        self.overflow.clone()
    }

    /// Adds the entries that `known` lacks. Cheap when there are none: entries are never removed.
    pub(crate) fn refresh(&self, known: &mut Vec<Arc<E>>) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        if known.len() != entries.len() + 1 {
            known.clear();
            known.push(self.overflow.clone());
            known.extend(entries.values().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_shares_one_entry() {
        let registry = Registry::new(2, Arc::new("overflow".to_owned()));
        let make = |name: &str| registry.get_or_insert(name, |name| name.to_string());
        assert_eq!(*make("a"), "a");
        assert_eq!(*make("b"), "b");
        assert_eq!(*make("c"), "overflow");
        assert_eq!(*make("a"), "a");
        assert!(registry.get("c").is_none());
        let mut known = Vec::new();
        registry.refresh(&mut known);
        assert_eq!(known.len(), 3);
    }
}
