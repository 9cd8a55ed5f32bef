//! The features: what is recorded, each in a file of its own. [`all`] lists them.

mod marks;
mod minute_reports;
mod rankings;
mod records;
mod slow_requests;

use self::rankings::Rankings;
use self::records::RecordTables;
use crate::fold::feature::{Feature, PlanOnly};

/// All features, in the order in which a round plans them. The records are remembered, up to `max_records`, from one
/// round to the next; `history_days` are asked for beside the tiers that every store has.
pub(super) fn all(max_records: usize, history_days: Option<u32>) -> Vec<Box<dyn Feature>> {
    vec![
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(slow_requests::merge(ground, round, plans))
        })),
        Box::new(Rankings::default()),
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(minute_reports::merge(ground, round, plans))
        })),
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(marks::merge(ground, round, plans))
        })),
        Box::new(RecordTables::new(max_records, history_days)),
    ]
}
