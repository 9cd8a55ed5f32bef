//! Short maps and sets in the order of their keys, as sorted lists. For each pair of types, the code of a `BTreeMap` is
//! fifteen times as large. An insertion moves all that come after it: they are for names of which there are few.

use std::borrow::Borrow;

use super::pack::{Packed, Reader, Writer};

/// The value of a key. A key that is not in the list is inserted with a default value.
pub fn entry<K: Ord, V>(list: &mut Vec<(K, V)>, key: K, default: impl FnOnce() -> V) -> &mut V {
    let place = list.binary_search_by(|(other, _)| other.cmp(&key));
    let place = place.unwrap_or_else(|place| {
        list.insert(place, (key, default()));
        place
    });
    &mut list[place].1
}

/// A short map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Map<K, V> {
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0
            .binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    /// The value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|place| &mut self.0[place].1)
    }

    /// Whether a key is in it.
    pub fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    /// The value of a key, which is inserted with a default value if it is not in the map.
    pub fn or_insert_with(&mut self, key: K, default: impl FnOnce() -> V) -> &mut V {
        entry(&mut self.0, key, default)
    }

    /// Inserts a value, in place of the key's other one.
    pub fn insert(&mut self, key: K, value: V) {
        match self.place(&key) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    /// Takes a key out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    /// Takes the first key out.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Drops all others.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K) -> bool) {
        self.0.retain(|(key, _)| is_kept(key));
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys with their values.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A short set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(Vec<i64>);

impl Set {
    /// Inserts a number.
    pub fn insert(&mut self, number: i64) {
        if let Err(place) = self.0.binary_search(&number) {
            self.0.insert(place, number);
        }
    }

    /// Takes a number out.
    pub fn remove(&mut self, number: i64) {
        if let Ok(place) = self.0.binary_search(&number) {
            self.0.remove(place);
        }
    }

    /// The numbers below a limit, smallest first.
    pub fn below(&self, limit: i64) -> &[i64] {
        &self.0[..self.0.partition_point(|number| *number < limit)]
    }

    /// Takes out the numbers below a limit.
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

impl FromIterator<i64> for Set {
    fn from_iter<T: IntoIterator<Item = i64>>(numbers: T) -> Self {
        let mut set = Self::default();
        set.extend(numbers);
        set
    }
}

impl Packed for Set {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Vec::read(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn keys_are_sorted_and_appear_once() {
        let mut list = Vec::new();
        for key in ["b", "c", "a", "b"] {
            *entry(&mut list, key, || 10) += 1;
        }
        assert_eq!(list, [("a", 11), ("b", 12), ("c", 11)]);
    }
}
