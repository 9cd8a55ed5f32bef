//! The stored fields of the last judgement, and the writes of the next judgement.
//!
//! The name of a field of the changes or of the detector begins with the number of its judgement. A field counts if the
//! stored judgement has this number or a higher one. So several steps can write a large judgement. All steps but the
//! last add fields that do not count yet. The last step sets the judgement and the kinds of errors, and removes the
//! replaced fields. After a crash between two steps, an instance judges the same minute again, and ignores the fields
//! of the unfinished judgement.

use std::sync::Arc;

use crate::random::random_name;
use crate::store::conditional_write::ConditionalWrite;
use crate::store::judgement::{
    JUDGED, JUDGEMENT_TTL, Judgement, NumberedFields, StoredJudged, changes_in, field_name,
};
use crate::store::table::{FieldWrites, Table};
use crate::store::table_reads::Field;
use tower_pulse_detect::change::Change;
use tower_pulse_detect::detector::DetectorState;
use tower_pulse_detect::errors::KnownErrors;
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_model::pack::pack;
use tower_pulse_model::sorted::Map;

/// The approximate number of bytes that one step writes.
const STEP_BYTES: usize = 256 * 1024;

/// The fields of a judgement in the store.
pub struct JudgementFields {
    stored: StoredJudged,
    /// The highest number in the store, of the judgement or of a field.
    number: u64,
    /// The fields of the changes, with empty values.
    changes: NumberedFields,
    detector: NumberedFields,
    /// The fields of the kinds of errors.
    errors: Map<Vec<u8>, Vec<u8>>,
}

/// The results of a judgement.
pub struct Findings<'a> {
    /// The judgement. [`JudgementFields::next`] sets its revision and number.
    pub judged: LastJudgement,
    /// The packed parts of the detector's state.
    pub parts: Vec<Field>,
    /// The packed kinds of errors.
    pub errors: Vec<Field>,
    /// Changes that are new or different.
    pub changes: Vec<&'a Change>,
    /// The ids of changes that are removed.
    pub removed: Vec<Arc<str>>,
}

impl JudgementFields {
    /// Decodes the last judgement. Returns its fields, the detector's state, the kinds of errors and the changes.
    pub fn new(judgement: Judgement) -> (Self, DetectorState, KnownErrors, Vec<Change>) {
        let Judgement {
            mut stored,
            mut changes,
            detector,
            errors,
        } = judgement;
        let kinds = errors.iter().map(|(kind, seen)| (&**kind, &**seen));
        let known = KnownErrors::from_parts(kinds);
        let parts = detector.by_name.iter();
        let parts = parts.map(|(name, (_, part))| (&**name, &**part));
        let (state, log) = (DetectorState::from_parts(parts), changes_in(&changes));
        for (_, change) in changes.by_name.values_mut() {
            *change = Vec::new();
        }
        let highest = changes.highest().max(detector.highest());
        let counting = stored.number().unwrap_or(highest);
        stored.judged.number = counting;
        let fields = Self {
            number: highest.max(counting),
            stored,
            changes,
            detector,
            errors,
        };
        (fields, state, known, log)
    }

    /// The last judgement.
    pub fn judged(&self) -> &LastJudgement {
        &self.stored.judged
    }

    /// Whether these are the fields of the judgement `stored`.
    pub fn are_of(&self, stored: &StoredJudged) -> bool {
        self.stored.value == stored.value
    }

    /// The write of the next judgement. Updates `self` to the fields that the store has after the write.
    pub fn next(&mut self, findings: Findings<'_>) -> ConditionalWrite {
        let before = std::mem::take(&mut self.stored);
        self.number += 1;
        let mut judged = findings.judged;
        (judged.revision, judged.number) = (random_name().into(), self.number);
        let (number, mut set, mut removals) = (self.number, Vec::new(), Vec::new());
        let obsolete = self.detector.obsolete.drain(..);
        removals.extend(obsolete.map(|field| (Table::Detector, field)));
        // Only changed parts of the detector's state are written.
        let mut parts = std::mem::take(&mut self.detector.by_name);
        for (name, part) in findings.parts {
            let field = match parts.remove(&name) {
                Some(old) if old.1 == part => old,
                old => {
                    let old = old.map(|(old, _)| (Table::Detector, field_name(old, &name)));
                    removals.extend(old);
                    set.push((Table::Detector, (field_name(number, &name), part.clone())));
                    (number, part)
                }
            };
            self.detector.by_name.insert(name, field);
        }
        let gone = parts.into_iter();
        let gone = gone.map(|(name, (old, _))| (Table::Detector, field_name(old, &name)));
        removals.extend(gone);
        let obsolete = self.changes.obsolete.drain(..);
        removals.extend(obsolete.map(|field| (Table::Changes, field)));
        let changes = &mut self.changes.by_name;
        for change in findings.changes {
            let id = change.id.as_bytes();
            set.push((Table::Changes, (field_name(number, id), pack(change))));
            let old = changes.insert(id.to_vec(), (number, Vec::new()));
            let old = old.filter(|(old, _)| *old < number);
            removals.extend(old.map(|(old, _)| (Table::Changes, field_name(old, id))));
        }
        for id in findings.removed {
            let id = id.as_bytes();
            let old = changes.remove(id);
            removals.extend(old.map(|(old, _)| (Table::Changes, field_name(old, id))));
        }
        let mut steps: Vec<Vec<FieldWrites>> = Vec::new();
        let mut step = Step::default();
        for (table, field) in set {
            if step.bytes + size(&field) > STEP_BYTES && step.bytes > 0 {
                let mut begun = std::mem::take(&mut step);
                // The previous judgement stays in force. Its new revision tells other instances that a write has begun.
                let unfinished = LastJudgement {
                    revision: random_name().into(),
                    ..before.judged.clone()
                };
                begun.set(Table::Judgement, (JUDGED.to_vec(), pack(&unfinished)));
                steps.push(begun.writes);
            }
            step.set(table, field);
        }
        let mut errors = std::mem::take(&mut self.errors);
        for (kind, seen) in findings.errors {
            if errors.remove(&kind).is_none_or(|old| old != seen) {
                step.set(Table::Errors, (kind.clone(), seen.clone()));
            }
            self.errors.insert(kind, seen);
        }
        let gone = errors.into_iter().map(|(kind, _)| (Table::Errors, kind));
        removals.extend(gone);
        for (table, field) in removals {
            step.writes_to(table).removed.push(field);
        }
        let value = pack(&judged);
        step.set(Table::Judgement, (JUDGED.to_vec(), value.clone()));
        // An empty write renews the time to live of a table without changes.
        for table in [Table::Changes, Table::Detector, Table::Errors] {
            step.writes_to(table);
        }
        steps.push(step.writes);
        self.stored = StoredJudged {
            value: Some(value),
            judged,
        };
        ConditionalWrite {
            compared: (Table::Judgement, JUDGED.to_vec()),
            expected: before.value,
            steps,
        }
    }
}

fn size((name, value): &Field) -> usize {
    name.len() + value.len()
}

#[derive(Default)]
struct Step {
    writes: Vec<FieldWrites>,
    bytes: usize,
}

impl Step {
    fn writes_to(&mut self, table: Table) -> &mut FieldWrites {
        let index = self.writes.iter().position(|writes| writes.table == table);
        let index = index.unwrap_or_else(|| {
            self.writes
                .push(FieldWrites::new(table, Some(JUDGEMENT_TTL)));
            self.writes.len() - 1
        });
        &mut self.writes[index]
    }

    fn set(&mut self, table: Table, field: Field) {
        self.bytes += size(&field);
        self.writes_to(table).set.push(field);
    }
}
