//! The features: what is recorded, each in a file of its own. [`all`] lists them.

mod marks;
mod minute_reports;
#[cfg(feature = "fold-rankings")]
mod rankings;
mod records;
mod slow_requests;

use self::records::RecordTables;
use crate::fold::feature::{Feature, PlanOnly};

/// What an instance that folds may remember and keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoldLimits {
    /// The most records that it remembers from one round to the next.
    pub(super) records: usize,
    /// The most profiles in the store.
    pub(super) profiles: usize,
    /// The days of history that it asks for, beside the tiers that every store has.
    pub(super) history_days: Option<u32>,
}

/// All features, in the order in which a round plans them.
pub(super) fn all(limits: FoldLimits) -> Vec<Box<dyn Feature>> {
    vec![
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(slow_requests::merge(ground, round, plans))
        })),
        // In the memory of one process there are only its own.
        #[cfg(feature = "fold-rankings")]
        Box::new(rankings::Rankings::default()),
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(minute_reports::merge(ground, round, plans))
        })),
        Box::new(PlanOnly(|ground, round, plans| {
            Box::pin(marks::merge(ground, round, plans))
        })),
        Box::new(RecordTables::new(limits)),
    ]
}
