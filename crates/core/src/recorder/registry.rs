//! Bounded registries of names: beyond the maximum, all new names share the item `<overflow>`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::dirty_bits::{DirtyBit, DirtyBits};

/// At most `max` items by name, and one item for all other names.
pub(super) struct Registry<E> {
    items: RwLock<Items<E>>,
    max: usize,
    pub(super) overflow: Arc<E>,
    /// The dirty bits of the items, by index.
    dirty_bits: Arc<DirtyBits>,
}

struct Items<E> {
    by_name: HashMap<Arc<str>, Arc<E>>,
    /// The index of an item never changes.
    by_index: Vec<Arc<E>>,
}

impl<E> Registry<E> {
    pub(super) fn new(max: usize, overflow: impl FnOnce(DirtyBit) -> E) -> Self {
        let dirty_bits = DirtyBits::new(max + 1);
        let overflow = Arc::new(overflow(dirty_bits.dirty_bit(0)));
        let items = Items {
            by_name: HashMap::new(),
            by_index: vec![overflow.clone()],
        };
        Self {
            items: RwLock::new(items),
            max,
            overflow,
            dirty_bits,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Items<E>> {
        self.items.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates nothing.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<Arc<E>> {
        self.read().by_name.get(name).cloned()
    }

    /// The item of `name`, created if there is room, or else the overflow item.
    pub(super) fn get_or_insert(
        &self,
        name: &str,
        make: impl FnOnce(Arc<str>, DirtyBit) -> E,
    ) -> Arc<E> {
        if let Some(item) = self.get(name) {
            return item;
        }
        let mut items = self.items.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(item) = items.by_name.get(name) {
            return item.clone();
        }
        if items.by_name.len() >= self.max {
            return self.overflow.clone();
        }
        let name: Arc<str> = name.into();
        // The overflow item has the index 0.
        let dirty_bit = self.dirty_bits.dirty_bit(items.by_index.len());
        let item = Arc::new(make(name.clone(), dirty_bit));
        items.by_name.insert(name, item.clone());
        items.by_index.push(item.clone());
        item
    }

    pub(super) fn len(&self) -> usize {
        self.read().by_name.len()
    }

    pub(super) fn sum(&self, number: impl Fn(&E) -> usize) -> usize {
        self.read().by_index.iter().map(|item| number(item)).sum()
    }

    /// Adds the items that `copy` lacks. Items are never removed.
    pub(super) fn refresh(&self, copy: &mut Vec<Arc<E>>) {
        let items = self.read();
        copy.extend(items.by_index[copy.len()..].iter().cloned());
    }

    /// Takes the dirty bits that are set, and calls `visit` with their indexes, in order. `copied` is the number of
    /// items in the caller's copy. The bits of newer items are set again, for the next call.
    pub(super) fn take_dirty(&self, copied: usize, mut visit: impl FnMut(usize)) {
        self.dirty_bits.take(|index| match index < copied {
            true => visit(index),
            false => self.dirty_bits.dirty_bit(index).set(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::dirty_bits::visited;

    #[test]
    fn an_item_is_visited_once_after_its_bit_was_set() {
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
