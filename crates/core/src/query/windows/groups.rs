//! The contexts whose records are read, in groups. A group bounds the size of a read. New contexts get new groups, so
//! that existing groups need not be read again.

use std::collections::HashMap;
use std::sync::Arc;

use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;

/// The maximum number of contexts in a group. A group's records are read slice by slice: a server finds many records of
/// one slice faster than records of alternating slices.
const MAX_CONTEXTS: usize = 1_000;

/// The maximum number of records that are read at once.
const RECORDS_AT_ONCE: usize = 8_000;

/// The approximate maximum size, in bytes, of the records that are read at once. The records of a group in one slice
/// are read at once even if they exceed this size.
const BYTES_AT_ONCE: usize = 2 * 1024 * 1024;

/// The maximum number of slices whose records are read at once.
const SLICES_AT_ONCE: usize = 16;

/// If there are more than this many groups beyond the number that the contexts need, all contexts are grouped anew.
const SPARE_GROUPS: usize = 8;

/// Approximate bytes of a context.
pub(super) const PER_CONTEXT: usize = 48;

/// The groups of contexts. A context keeps its position until all contexts are grouped anew.
#[derive(Debug, Default)]
pub(super) struct ContextGroups {
    pub groups: Vec<Arc<[RecordId]>>,
    /// The number of each context's group, and the index of the context in the group.
    positions: HashMap<RecordId, (usize, usize)>,
}

impl ContextGroups {
    /// Adds new contexts. Returns whether all contexts were grouped anew.
    pub(super) fn include(&mut self, contexts: impl ExactSizeIterator<Item = RecordId>) -> bool {
        let count = contexts.len();
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for id in contexts {
            match self.positions.contains_key(&id) {
                true => old.push(id),
                false => new.push(id),
            }
        }
        let groups = self.groups.len() + new.len().div_ceil(MAX_CONTEXTS);
        // Removed contexts stay in their groups until all contexts are grouped anew.
        let gone = self.positions.len().saturating_sub(old.len());
        let is_regrouped = !self.groups.is_empty()
            && (groups > count.div_ceil(MAX_CONTEXTS) + SPARE_GROUPS
                || gone > MAX_CONTEXTS.max(count));
        if is_regrouped {
            *self = Self::default();
            new.append(&mut old);
        }
        new.order();
        for group in new.chunks(MAX_CONTEXTS) {
            let number = self.groups.len();
            let positions = group.iter().zip(0..);
            (self.positions).extend(positions.map(|(id, at)| (*id, (number, at))));
            self.groups.push(group.into());
        }
        is_regrouped
    }

    /// The number of slices whose records are read at once for a group, if a record has about `record_bytes`.
    pub(super) fn slices_at_once(&self, record_bytes: usize) -> usize {
        let contexts = self.groups.iter().map(|group| group.len()).max();
        let records = RECORDS_AT_ONCE.min(BYTES_AT_ONCE / record_bytes.max(1));
        (records / contexts.unwrap_or(1)).clamp(1, SLICES_AT_ONCE)
    }

    pub(super) fn contexts(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn position(&self, id: RecordId) -> Option<(usize, usize)> {
        self.positions.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;

    fn ids(numbers: std::ops::Range<usize>) -> impl ExactSizeIterator<Item = RecordId> {
        numbers.map(|n| RecordId::new(Kind::Http, &n.to_string()))
    }

    fn sizes(groups: &ContextGroups) -> Vec<usize> {
        groups.groups.iter().map(|group| group.len()).collect()
    }

    #[test]
    fn a_new_context_changes_no_group() {
        let mut groups = ContextGroups::default();
        assert!(!groups.include(ids(0..2_400)));
        assert_eq!(sizes(&groups), [1_000, 1_000, 400]);
        let positions: Vec<_> = ids(0..2_400).map(|id| groups.position(id)).collect();
        assert!(!groups.include(ids(0..2_403)));
        assert_eq!(sizes(&groups), [1_000, 1_000, 400, 3]);
        assert!(!groups.include(ids(3..2_403)));
        let now: Vec<_> = ids(0..2_400).map(|id| groups.position(id)).collect();
        assert_eq!((positions, groups.contexts()), (now, 2_403));
        for id in ids(0..2_403) {
            let (group, at) = groups.position(id).expect("it has a position");
            assert_eq!(groups.groups[group][at], id);
        }
    }

    #[test]
    fn fewer_slices_of_large_records_are_read_at_once() {
        let mut groups = ContextGroups::default();
        groups.include(ids(0..1_200));
        let slices = [100, 500, 1_000, 1 << 20].map(|bytes| groups.slices_at_once(bytes));
        assert_eq!(slices, [8, 4, 2, 1]);
    }

    #[test]
    fn contexts_are_grouped_anew_when_groups_are_small_or_many_contexts_are_gone() {
        let mut groups = ContextGroups::default();
        let regrouped = (1..=20).filter(|n| groups.include(ids(0..*n)));
        assert_eq!(regrouped.collect::<Vec<_>>(), [10, 19]);
        assert_eq!(sizes(&groups), [19, 1]);
        let mut groups = ContextGroups::default();
        groups.include(ids(0..1_100));
        assert!(!groups.include(ids(1_000..1_100)));
        assert!(groups.include(ids(1_001..1_100)));
        assert_eq!((sizes(&groups), groups.contexts()), (vec![99], 99));
    }
}
