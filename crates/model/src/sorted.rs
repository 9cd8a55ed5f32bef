//! Short maps in the order of their keys, as sorted lists of pairs. For each pair of types, the code of a `BTreeMap` is
//! fifteen times as large.

/// The value of a key. A key that is not in the list is inserted with a default value.
pub fn entry<K: Ord, V>(list: &mut Vec<(K, V)>, key: K, default: impl FnOnce() -> V) -> &mut V {
    let place = list.binary_search_by(|(other, _)| other.cmp(&key));
    let place = place.unwrap_or_else(|place| {
        list.insert(place, (key, default()));
        place
    });
    &mut list[place].1
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
