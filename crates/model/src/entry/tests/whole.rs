//! Tests of whole records in an entry: they come back as they were, and have a version of their own.

use super::*;
use crate::context::ContextId;
use crate::context_delta::VERSION_WITH_WHOLE_RECORDS;
use crate::tier::DAY;

const NOW: i64 = 1_700_000_000;

fn start(seconds: u32, ago: i64) -> i64 {
    Precision::new(seconds, 1).slice(NOW - ago)
}

/// A record of each tier, and of a tier that no store has.
fn batch() -> Batch {
    let mut batch = Batch::new(Precisions::default());
    let sums = aggregate(&[5, 7], vec![(0, 1), (1, 1)], 1);
    for (seconds, ago) in [
        (60, 600),
        (1_800, 7_200),
        (21_600, 90_000),
        (DAY, 30 * 86_400),
        (77, 500),
    ] {
        let context = ContextId::new(Kind::Http, "GET /");
        batch.add_whole(&context, NOW - 500, (seconds, start(seconds, ago)), &sums);
    }
    batch
}

#[test]
fn whole_records_come_back_in_an_entry_of_their_version() {
    let batch = batch();
    let packed = pack(&batch);
    assert_eq!(packed[0], VERSION_WITH_WHOLE_RECORDS);
    assert_eq!(unpacked(&packed).as_ref(), Ok(&batch));
    // They are no requests that could be lost or late.
    assert_eq!((batch.requests_and_late(), batch.len()), (0, 1));
    let mut rest = batch.clone();
    assert_eq!(rest.split(1), batch);
    assert!(rest.is_empty());
    let mut both = batch.clone();
    both.merge(batch.clone());
    let counts = both
        .contexts
        .values()
        .flat_map(|delta| delta.whole.values());
    assert!(counts.map(|sums| sums.times.count).eq([4; 5]));
    for cut in 0..packed.len() {
        assert_eq!(unpacked(&packed[..cut]), Err(Undecodable));
    }
}

#[test]
fn a_record_that_begins_within_a_slice_is_refused() {
    let mut batch = batch();
    for delta in batch.contexts.values_mut() {
        let sums = delta.whole.pop_first().map(|(_, sums)| sums);
        delta.whole.insert((60, 30), sums.unwrap_or_default());
    }
    assert_eq!(unpacked(&pack(&batch)), Err(Undecodable));
}
