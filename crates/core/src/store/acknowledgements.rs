//! The acknowledgements of changes, in a field beside the judgement. A judgement, by any version of this crate, does
//! not change this field, and an acknowledgement does not change the judgement.

use std::sync::Arc;

use super::conditional_write::ConditionalWrite;
use super::judgement::JUDGEMENT_TTL;
use super::table::{FieldWrites, Table};
use tower_pulse_detect::change::{Acknowledgement, Change};
use tower_pulse_model::pack;

/// The field of [`Table::Judgement`] that holds the acknowledgements.
pub const ACKNOWLEDGED_FIELD: &[u8] = b"acknowledged";

/// The maximum number of changes that may be acknowledged at the same time.
pub const MAX_ACKNOWLEDGED: usize = 100;

/// The acknowledgements of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acknowledgements {
    /// The value of the field; `None` if the field is missing.
    value: Option<Vec<u8>>,
    /// The ids of changes, each with its acknowledgement.
    by_id: Vec<(Arc<str>, Acknowledgement)>,
}

impl Acknowledgements {
    /// Reads the value of the field. An unreadable value reads as no acknowledgements.
    pub fn new(value: Option<Vec<u8>>) -> Self {
        let by_id = value.as_deref().and_then(pack::unpack);
        Self {
            by_id: by_id.unwrap_or_default(),
            value,
        }
    }

    fn of(&self, id: &str) -> Option<&Acknowledgement> {
        let mut all = self.by_id.iter();
        all.find_map(|(other, acknowledged)| (**other == *id).then_some(acknowledged))
    }

    /// Sets the acknowledgement of each ongoing change. An ended change has no acknowledgement.
    pub fn attach_to(&self, changes: &mut [Change]) {
        for change in changes {
            let acknowledged = self.of(&change.id).filter(|_| change.ended.is_none());
            change.acknowledged = acknowledged.cloned();
        }
    }

    /// The write that acknowledges a change, or removes the acknowledgement if `acknowledged` is `None`. The write also
    /// removes the acknowledgements of ended changes. Returns `None` if there is no room for another acknowledgement.
    pub fn write(
        &self,
        change: &str,
        acknowledged: Option<&Acknowledgement>,
        changes: &[Change],
    ) -> Option<ConditionalWrite> {
        let others = changes.iter().filter(|other| *other.id != *change);
        let mut by_id: Vec<(Arc<str>, Acknowledgement)> = others
            .filter_map(|other| Some((other.id.clone(), other.acknowledged.clone()?)))
            .collect();
        by_id.extend(acknowledged.map(|acknowledged| (change.into(), acknowledged.clone())));
        if by_id.len() > MAX_ACKNOWLEDGED {
            return None;
        }
        let (table, value) = (Table::Judgement, Some(pack::pack(&by_id)));
        let writes = FieldWrites::of(table, Some(JUDGEMENT_TTL), ACKNOWLEDGED_FIELD, value);
        Some(ConditionalWrite {
            compared: (Table::Judgement, ACKNOWLEDGED_FIELD.to_vec()),
            expected: self.value.clone(),
            steps: vec![vec![writes]],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_field_reads_as_no_acknowledgements() {
        for bytes in [&b""[..], b"garbage", &[0xff; 40], &[9]] {
            let read = Acknowledgements::new(Some(bytes.to_vec()));
            assert_eq!(read.by_id, [], "{bytes:?}");
        }
        let one: Arc<str> = "1".into();
        let by_id = vec![(one.clone(), Acknowledgement::new("ada", 7))];
        let mut packed = pack::pack(&by_id);
        // A later version of this crate may append data.
        packed.extend_from_slice(b"more");
        assert_eq!(Acknowledgements::new(Some(packed)).by_id, by_id);
    }
}
