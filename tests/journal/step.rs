//! The effects of a step of a fold.

use std::collections::BTreeSet;

use tower_pulse_core::store::journal::FoldStep;
use tower_pulse_core::store::table::FieldWrites;
use tower_pulse_model::context::ALL;
use tower_pulse_model::round::partition;

use crate::journal::net::Request;

/// Whether a step writes records, and folds no entry.
pub fn is_roll_up_step(step: &FoldStep) -> bool {
    let has_records =
        |fields: &FieldWrites| fields.table.slice().is_some() && !fields.set.is_empty();
    step.round_end.is_none() && step.fields.iter().any(has_records)
}

pub fn is_fold(request: &Request) -> bool {
    matches!(request, Request::Fold(step) if step.round_end.is_some())
}

/// The partitions of the contexts to which a step adds. If the step adds late samples, also the partition of `<all>`.
pub fn partitions(step: &FoldStep) -> BTreeSet<usize> {
    let contexts = step.additions.statistics.iter();
    let names = contexts.map(|added| partition(&added.context.name));
    let late = (step.additions.late > 0).then(|| partition(ALL));
    names.chain(late).collect()
}
