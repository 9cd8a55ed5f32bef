//! The features: what is recorded, each in a file of its own. [`all`] lists them.

mod marks;
mod minute_reports;
mod rankings;
mod records;
mod slow_requests;

use self::marks::MarkTable;
use self::minute_reports::MinuteReports;
use self::rankings::Rankings;
use self::records::RecordTables;
use self::slow_requests::SlowRequestLists;
use crate::fold::feature::Feature;

/// All features, in the order in which a round plans them. The records are remembered, up to `max_records`, from one
/// round to the next.
pub(super) fn all(max_records: usize) -> Vec<Box<dyn Feature>> {
    vec![
        Box::new(SlowRequestLists),
        Box::new(Rankings::default()),
        Box::new(MinuteReports),
        Box::new(MarkTable),
        Box::new(RecordTables::new(max_records)),
    ]
}
