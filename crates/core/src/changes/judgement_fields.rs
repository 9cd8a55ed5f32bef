//! The fields that the last judgement left, and those that the next one writes.
//!
//! The name of a field begins with the number of its judgement. A field counts if the stored judgement has this number
//! or a higher one. So a large judgement is written in several steps: all but the last add fields that do not count
//! yet; the last sets the judgement, and removes the fields that the new ones replace. After a crash in between, the
//! next judge ignores the unfinished fields, and judges the same minute again.

use std::sync::Arc;

use crate::random::random_name;
use crate::store::conditional_write::ConditionalWrite;
use crate::store::judgement::{
    JUDGED, JUDGEMENT_TTL, Judgement, NumberedFields, StoredJudged, changes_in, field_name,
};
use crate::store::table::{FieldWrites, Table};
use tower_pulse_detect::change::Change;
use tower_pulse_detect::detector::DetectorState;
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_model::pack::pack;

/// The approximate number of bytes that one step writes.
const STEP_BYTES: usize = 256 * 1024;

/// The fields of a judgement in the store.
pub struct JudgementFields {
    stored: StoredJudged,
    /// The highest number in the name of any field.
    number: u64,
    /// The fields of the changes, without their values.
    changes: NumberedFields,
    detector: NumberedFields,
}

/// The results of a judgement.
pub struct Findings<'a> {
    /// The judgement. Its revision and number are set when it is written.
    pub judged: LastJudgement,
    /// The packed parts of the detector's state.
    pub parts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Changes that are new or different.
    pub changes: Vec<&'a Change>,
    /// The ids of changes that are removed.
    pub removed: Vec<Arc<str>>,
}

/// A field to set.
type Set = (Table, (Vec<u8>, Vec<u8>));

impl JudgementFields {
    /// The fields of the last judgement, with the detector's state and the changes that they hold.
    pub fn new(judgement: Judgement) -> (Self, DetectorState, Vec<Change>) {
        let Judgement {
            mut stored,
            mut changes,
            detector,
        } = judgement;
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
        };
        (fields, state, log)
    }

    /// The last judgement.
    pub fn judged(&self) -> &LastJudgement {
        &self.stored.judged
    }

    /// Whether these are the fields of this judgement.
    pub fn are_of(&self, stored: &StoredJudged) -> bool {
        self.stored.value == stored.value
    }

    /// The write of the next judgement. Afterwards `self` has the fields that the store has after the write.
    pub fn next(&mut self, findings: Findings<'_>) -> ConditionalWrite {
        let before = std::mem::take(&mut self.stored);
        self.number += 1;
        let mut judged = findings.judged;
        (judged.revision, judged.number) = (random_name().into(), self.number);
        let (mut set, mut removals) = (Vec::new(), Vec::new());
        self.replace_parts(findings.parts, &mut set, &mut removals);
        self.replace_changes(
            &findings.changes,
            &findings.removed,
            &mut set,
            &mut removals,
        );
        let mut steps: Vec<Vec<FieldWrites>> = Vec::new();
        let mut step = Step::default();
        for (table, field) in set {
            if step.bytes + size(&field) > STEP_BYTES && step.bytes > 0 {
                let mut begun = std::mem::take(&mut step);
                // The last judgement still counts. The new revision tells other instances that a write has begun.
                let unfinished = LastJudgement {
                    revision: random_name().into(),
                    ..before.judged.clone()
                };
                begun.set(Table::Judgement, (JUDGED.to_vec(), pack(&unfinished)));
                steps.push(begun.writes);
            }
            step.set(table, field);
        }
        for (table, field) in removals {
            step.writes_of(table).removed.push(field);
        }
        let value = pack(&judged);
        step.set(Table::Judgement, (JUDGED.to_vec(), value.clone()));
        // All tables get the same time to live, even those that do not change.
        for table in [Table::Changes, Table::Detector] {
            step.writes_of(table);
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

    /// Replaces the parts of the detector's state that differ.
    fn replace_parts(
        &mut self,
        parts: Vec<(Vec<u8>, Vec<u8>)>,
        set: &mut Vec<Set>,
        removals: &mut Vec<(Table, Vec<u8>)>,
    ) {
        let mut before = std::mem::take(&mut self.detector.by_name);
        for (name, part) in parts {
            let old = before.remove(&name);
            if let Some(old) = old.as_ref().filter(|(_, old)| *old == part) {
                self.detector.by_name.insert(name, (old.0, part));
                continue;
            }
            let old = old.map(|(number, _)| (Table::Detector, field_name(number, &name)));
            removals.extend(old);
            let field = (field_name(self.number, &name), part.clone());
            set.push((Table::Detector, field));
            self.detector.by_name.insert(name, (self.number, part));
        }
        let ended = before.into_iter();
        let ended = ended.map(|(name, (number, _))| field_name(number, &name));
        let obsolete = ended.chain(self.detector.obsolete.drain(..));
        removals.extend(obsolete.map(|field| (Table::Detector, field)));
    }

    /// Writes changes that are new or different, and deletes removed changes.
    fn replace_changes(
        &mut self,
        changes: &[&Change],
        removed: &[Arc<str>],
        set: &mut Vec<Set>,
        removals: &mut Vec<(Table, Vec<u8>)>,
    ) {
        let by_name = &mut self.changes.by_name;
        let mut obsolete: Vec<_> = self.changes.obsolete.drain(..).collect();
        for change in changes {
            let id = change.id.as_bytes();
            let old = by_name.insert(id.to_vec(), (self.number, Vec::new()));
            let old = old.filter(|(number, _)| *number < self.number);
            obsolete.extend(old.map(|(number, _)| field_name(number, id)));
            let field = (field_name(self.number, id), pack(*change));
            set.push((Table::Changes, field));
        }
        for id in removed {
            let old = by_name.remove(id.as_bytes());
            obsolete.extend(old.map(|(number, _)| field_name(number, id.as_bytes())));
        }
        removals.extend(obsolete.into_iter().map(|field| (Table::Changes, field)));
    }
}

fn size((name, value): &(Vec<u8>, Vec<u8>)) -> usize {
    name.len() + value.len()
}

/// The writes of one step.
#[derive(Default)]
struct Step {
    writes: Vec<FieldWrites>,
    bytes: usize,
}

impl Step {
    fn writes_of(&mut self, table: Table) -> &mut FieldWrites {
        let place = self.writes.iter().position(|writes| writes.table == table);
        let place = place.unwrap_or_else(|| {
            self.writes
                .push(FieldWrites::new(table, Some(JUDGEMENT_TTL)));
            self.writes.len() - 1
        });
        &mut self.writes[place]
    }

    fn set(&mut self, table: Table, field: (Vec<u8>, Vec<u8>)) {
        self.bytes += size(&field);
        self.writes_of(table).set.push(field);
    }
}
