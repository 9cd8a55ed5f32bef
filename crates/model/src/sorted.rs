//! Maps and sets in the order of their keys, as sorted lists. A `BTreeMap` compiles to several times as much code for
//! each pair of types.

use std::borrow::Borrow;

use super::pack::{Packed, Reader, Writer, packed};

/// The value of a key in a sorted list. A missing key is inserted with a default value.
pub fn entry<K: Ord, V>(list: &mut Vec<(K, V)>, key: K, default: impl FnOnce() -> V) -> &mut V {
    let index = list.binary_search_by(|(other, _)| other.cmp(&key));
    let index = index.unwrap_or_else(|index| {
        list.insert(index, (key, default()));
        index
    });
    &mut list[index].1
}

/// The most entries of one list in a map. The number is small, because an insertion moves all later entries of the
/// list.
const MOST: usize = 64;

/// A map as a sequence of lists that are never empty.
#[derive(Clone, Debug)]
pub struct Map<K, V>(Vec<Vec<(K, V)>>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for Map<K, V> {}

impl<K: Ord, V> Map<K, V> {
    /// The index of a key's list, and the key's index in that list. For a missing key, the error has the indices at
    /// which to insert the key.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<(usize, usize), (usize, usize)>
    where
        K: Borrow<Q>,
    {
        let lists = self.0.partition_point(|list| list[0].0.borrow() <= key);
        let at = lists.saturating_sub(1);
        let list = self.0.get(at).map_or(&[][..], Vec::as_slice);
        let index = list.binary_search_by(|(other, _)| other.borrow().cmp(key));
        index.map(|index| (at, index)).map_err(|index| (at, index))
    }

    fn insert_at(&mut self, mut at: usize, mut index: usize, entry: (K, V)) -> &mut V {
        match self.0.get_mut(at) {
            None => self.0.push(Vec::new()),
            Some(list) if list.len() == MOST => {
                // A key after the last one of a full list begins a new list, so that ascending keys fill their lists.
                let end = if index == MOST { MOST } else { MOST / 2 };
                let second = list.split_off(end);
                self.0.insert(at + 1, second);
                if index >= end {
                    (at, index) = (at + 1, index - end);
                }
            }
            Some(_) => {}
        }
        let list = &mut self.0[at];
        list.insert(index, entry);
        &mut list[index].1
    }

    fn take(&mut self, at: usize, index: usize) -> (K, V) {
        let taken = self.0[at].remove(index);
        let left = self.0[at].len();
        if left == 0 {
            self.0.remove(at);
        } else if (self.0.get(at + 1)).is_some_and(|next| left + next.len() <= MOST / 2) {
            let next = self.0.remove(at + 1);
            self.0[at].extend(next);
        }
        taken
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key).ok()?;
        Some(&self.0[at][index].1)
    }

    /// The value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key).ok()?;
        Some(&mut self.0[at][index].1)
    }

    /// Whether the map has a key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// The value of a key. A missing key is inserted with a default value.
    pub fn or_insert_with(&mut self, key: K, default: impl FnOnce() -> V) -> &mut V {
        match self.find(&key) {
            Ok((at, index)) => &mut self.0[at][index].1,
            Err((at, index)) => self.insert_at(at, index, (key, default())),
        }
    }

    /// Inserts a value, and returns the key's previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok((at, index)) => Some(std::mem::replace(&mut self.0[at][index].1, value)),
            Err((at, index)) => {
                self.insert_at(at, index, (key, value));
                None
            }
        }
    }

    /// Adds `value` to the value of a key, by `add`. For a missing key, inserts `value`.
    pub fn merge(&mut self, key: K, value: V, add: impl FnOnce(&mut V, V)) {
        match self.find(&key) {
            Ok((at, index)) => add(&mut self.0[at][index].1, value),
            Err((at, index)) => {
                self.insert_at(at, index, (key, value));
            }
        }
    }

    /// Removes a key, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, index) = self.find(key).ok()?;
        Some(self.take(at, index).1)
    }

    /// The first key.
    pub fn first(&self) -> Option<&K> {
        Some(&self.0.first()?[0].0)
    }

    /// Removes the first key, and returns it with its value.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.is_empty()).then(|| self.take(0, 0))
    }

    /// Removes all entries for which `is_kept` returns `false`.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        self.0.retain_mut(|list| {
            list.retain(|(key, value)| is_kept(key, value));
            !list.is_empty()
        });
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys with their values.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let (lists, list) = (self.0.iter(), [].iter());
        Iter { lists, list }
    }

    /// The keys after a key, or all keys, with their values.
    pub fn after<Q: Ord + ?Sized>(&self, key: Option<&Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let index = key.map_or(Err((0, 0)), |key| self.find(key));
        let (at, passed) = index.map_or_else(|index| index, |(at, index)| (at, index + 1));
        let mut lists = self.0[at..].iter();
        let list = lists.next().map_or([].iter(), |list| list[passed..].iter());
        Iter { lists, list }
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The values, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().flatten().map(|(_, value)| value)
    }
}

/// An iterator over the keys of a [`Map`] with their values. The standard library's `Flatten` compiles to many times as
/// much code.
pub struct Iter<'a, K, V> {
    lists: std::slice::Iter<'a, Vec<(K, V)>>,
    list: std::slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.list.next() {
                return Some((key, value));
            }
            self.list = self.lists.next()?.iter();
        }
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        let lists = self.0.into_iter();
        let all = lists.reduce(|mut all, mut list| {
            all.append(&mut list);
            all
        });
        all.unwrap_or_default().into_iter()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(entries: T) -> Self {
        let mut map = Self::default();
        entries.into_iter().for_each(|(key, value)| {
            map.insert(key, value);
        });
        map
    }
}

impl<K: Packed + Ord, V: Packed> Packed for Map<K, V> {
    fn write(&self, out: &mut Writer) {
        self.len().write(out);
        for (key, value) in self.iter() {
            key.write(out);
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        <(K, V)>::read_list(from).map(Self::from_iter)
    }
}

#[cfg(test)]
impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> std::ops::Index<&Q> for Map<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key is in it")
    }
}

/// A short set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(Vec<i64>);

packed!(Set { 0 } if |set| set.0.is_sorted_by(|a, b| a < b));

impl Set {
    /// Inserts a number.
    pub fn insert(&mut self, number: i64) {
        if let Err(index) = self.0.binary_search(&number) {
            self.0.insert(index, number);
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, number: i64) {
        if let Ok(index) = self.0.binary_search(&number) {
            self.0.remove(index);
        }
    }

    /// The numbers below a limit, smallest first.
    pub fn below(&self, limit: i64) -> &[i64] {
        &self.0[..self.0.partition_point(|number| *number < limit)]
    }

    /// Removes the numbers below a limit.
    pub fn remove_below(&mut self, limit: i64) {
        self.0.retain(|number| *number >= limit);
    }
}

impl std::ops::Deref for Set {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        &self.0
    }
}

impl Extend<i64> for Set {
    fn extend<T: IntoIterator<Item = i64>>(&mut self, numbers: T) {
        numbers.into_iter().for_each(|number| self.insert(number));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::pack::{pack, unpack};
    use proptest::prelude::*;

    #[test]
    fn keys_are_sorted_and_appear_once() {
        let mut list = Vec::new();
        for key in ["b", "c", "a", "b"] {
            *entry(&mut list, key, || 10) += 1;
        }
        assert_eq!(list, [("a", 11), ("b", 12), ("c", 11)]);
    }

    proptest! {
        #[test]
        fn a_map_behaves_like_a_btree_map(operations in proptest::collection::vec((0..9u8, 0..900u16), 0..2_000), ascending in any::<bool>()) {
            let (mut map, mut expected) = (Map::default(), BTreeMap::new());
            for (number, (operation, key)) in operations.into_iter().enumerate() {
                let key = if ascending && operation < 6 { number as u16 } else { key };
                match operation {
                    0..5 => prop_assert_eq!(map.insert(key, number), expected.insert(key, number)),
                    5 => prop_assert_eq!(map.or_insert_with(key, || number), expected.entry(key).or_insert(number)),
                    6 => prop_assert_eq!(map.remove(&key), expected.remove(&key)),
                    7 => prop_assert_eq!(map.pop_first(), expected.pop_first()),
                    _ => {
                        let is_kept = |of: &u16| !(of + key).is_multiple_of(50);
                        map.retain(|of, _| is_kept(of));
                        expected.retain(|of, _| is_kept(of));
                    }
                }
                prop_assert_eq!(map.get(&key), expected.get(&key));
                prop_assert_eq!(map.first(), expected.keys().next());
                prop_assert!(map.0.iter().all(|list| (1..=MOST).contains(&list.len())));
            }
            prop_assert!(map.iter().eq(&expected) && map.len() == expected.len());
            prop_assert!(map.after(Some(&450)).eq(expected.range(451..)));
            prop_assert!(map.after(None::<&u16>).eq(&expected));
            // The packed form does not depend on how the map divides its keys into lists.
            let back: Map<u16, usize> = unpack(&pack(&map)).expect("it is packed");
            prop_assert_eq!(back, map);
        }
    }
}
