//! Registries of names. They are bounded: beyond the maximum, all new names share the entry `<overflow>`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::dirty_bits::{DirtyBit, DirtyBits};

/// At most `max` entries by name, and one entry for all other names.
pub(super) struct Registry<E> {
    entries: RwLock<Entries<E>>,
    max: usize,
    /// The entry that all names beyond the maximum share.
    pub(super) overflow: Arc<E>,
    /// The dirty bits of the entries, by their places.
    dirty_bits: Arc<DirtyBits>,
}

struct Entries<E> {
    by_name: HashMap<Arc<str>, Arc<E>>,
    /// The place of an entry never changes.
    by_place: Vec<Arc<E>>,
}

impl<E> Registry<E> {
    /// `overflow` creates the overflow entry from its dirty bit.
    pub(super) fn new(max: usize, overflow: impl FnOnce(DirtyBit) -> E) -> Self {
        let dirty_bits = DirtyBits::new(max + 1);
        let overflow = Arc::new(overflow(dirty_bits.dirty_bit(0)));
        let entries = Entries {
            by_name: HashMap::new(),
            by_place: vec![overflow.clone()],
        };
        Self {
            entries: RwLock::new(entries),
            max,
            overflow,
            dirty_bits,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<E>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of `name`, if it exists. Allocates nothing.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<Arc<E>> {
        self.read().by_name.get(name).cloned()
    }

    /// The entry of `name`, created if there is room, or else the overflow entry.
    pub(super) fn get_or_insert(
        &self,
        name: &str,
        make: impl FnOnce(Arc<str>, DirtyBit) -> E,
    ) -> Arc<E> {
        if let Some(entry) = self.get(name) {
            return entry;
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.by_name.get(name) {
            return entry.clone();
        }
        if entries.by_name.len() >= self.max {
            return self.overflow.clone();
        }
        let name: Arc<str> = name.into();
        // The overflow entry is at the first place.
        let dirty_bit = self.dirty_bits.dirty_bit(entries.by_place.len());
        let entry = Arc::new(make(name.clone(), dirty_bit));
        entries.by_name.insert(name, entry.clone());
        entries.by_place.push(entry.clone());
        entry
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.read().by_name.len()
    }

    /// The sum of a number over all entries.
    pub(super) fn sum(&self, number: impl Fn(&E) -> usize) -> usize {
        self.read().by_place.iter().map(|entry| number(entry)).sum()
    }

    /// Adds the entries that `copy` lacks. Entries are never removed, and stay at their places.
    pub(super) fn refresh(&self, copy: &mut Vec<Arc<E>>) {
        let entries = self.read();
        copy.extend(entries.by_place[copy.len()..].iter().cloned());
    }

    /// Takes the dirty bits that are set, and calls `visit` with the places of their entries, in order. If an entry is
    /// too new to be in the copy, its bit is set again for the next call.
    pub(super) fn take_dirty(&self, copied: usize, mut visit: impl FnMut(usize)) {
        self.dirty_bits.take(|place| match place < copied {
            true => visit(place),
            false => self.dirty_bits.dirty_bit(place).set(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::dirty_bits::visited;

    #[test]
    fn an_entry_is_visited_once_after_its_bit_was_set() {
        let registry = Registry::new(9, |dirty_bit| dirty_bit);
        let visited = |copied| visited(|visit| registry.take_dirty(copied, visit));
        for name in ["a", "b", "c"] {
            registry.get_or_insert(name, |_, dirty_bit| dirty_bit).set();
        }
        registry.overflow.set();
        assert_eq!(visited(3), [0, 1, 2], "`c` came after the copy");
        assert_eq!(visited(4), [3]);
        assert!(visited(4).is_empty());
    }
}
