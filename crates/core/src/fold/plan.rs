//! The plan of a round, and its outcome.

use crate::store::conditional_write::Written;
use crate::store::journal::Entry;
use crate::store::table::FieldWrites;
use tower_pulse_model::sorted::Map;

/// A task yields to other tasks each time it has merged this many names, or prepared this many records.
pub(super) const NAMES_AT_ONCE: usize = 64;

pub(super) enum Outcome {
    /// The round is folded, or an entry is set aside. There may be more entries.
    Folded,
    /// The round is folded, and was read up to the end of the journal.
    CaughtUp,
    /// There was no entry to fold.
    Idle,
    /// The next entry is of a newer version, and waits for an instance that can read it.
    Newer(Entry),
    /// No round was left unfinished, so the conditional write was tried.
    Written(Written),
}

/// The changes of a round in a partition.
#[derive(Default)]
pub(super) struct Plan {
    /// The approximate cost of writing these changes, in commands.
    pub(super) cost: usize,
    /// Fields of tables as they are after the step.
    pub(super) fields: Vec<FieldWrites>,
}

/// The plans of a round by partition.
#[derive(Default)]
pub(super) struct Plans(Map<usize, Plan>);

impl Plans {
    pub(super) fn of(&mut self, partition: usize) -> &mut Plan {
        self.0.or_insert_with(partition, Plan::default)
    }

    /// Divides the round into at least one step. Each step costs at most `cost`, unless a single partition costs more.
    pub(super) fn into_steps(self, cost: usize) -> Vec<PlannedStep> {
        let mut steps: Vec<PlannedStep> = Vec::new();
        for (partition, mut plan) in self.0 {
            let step = match steps.last_mut() {
                Some(step) if step.plan.cost + plan.cost <= cost => step,
                _ => {
                    steps.push(PlannedStep::default());
                    let last = steps.len() - 1;
                    &mut steps[last]
                }
            };
            step.partitions.push(partition);
            step.plan.cost += plan.cost;
            step.plan.fields.append(&mut plan.fields);
        }
        if steps.is_empty() {
            steps.push(PlannedStep::default());
        }
        steps
    }
}

#[derive(Default)]
pub(super) struct PlannedStep {
    pub(super) partitions: Vec<usize>,
    pub(super) plan: Plan,
}
