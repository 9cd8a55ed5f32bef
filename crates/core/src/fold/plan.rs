//! The plan of a round: its steps, and the outcome.

use crate::store::conditional_write::Written;
use crate::store::journal::Entry;
use crate::store::table::FieldWrites;
use tower_pulse_model::sorted::Map;

/// The number of names that a task merges, or records that it prepares, before it yields to other tasks.
pub(super) const NAMES_AT_ONCE: usize = 64;

/// How a round ended.
pub(super) enum Outcome {
    /// The round is folded, and there may be more entries.
    Folded,
    /// The round is folded, and there were no more entries when it was read.
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
    /// The approximate cost of a step with these changes: one for each command.
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
                    // There is at least one step.
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

/// The part of a round that one step writes.
#[derive(Default)]
pub(super) struct PlannedStep {
    pub(super) partitions: Vec<usize>,
    pub(super) plan: Plan,
}
