//! Tests of measures in an entry: an entry that has some is left to folders that know them.

use super::*;
use crate::measures::Measure;

#[test]
fn an_entry_with_a_measure_has_its_version() {
    let batch_with = |polls: u64| {
        let mut sums = aggregate(&[5, 7], vec![(0, 1), (1, 1)], 1);
        sums.measures.add(Measure::Polls, polls);
        let mut batch = Batch::new(Precisions::default());
        batch.add(&"GET /".into(), Kind::Http, 1_700_000_000, &sums);
        batch.since = None;
        batch
    };
    for (polls, version) in [(0, VERSION_WITHOUT_SECTIONS), (3, Measure::Polls.since())] {
        let batch = batch_with(polls);
        let packed = pack(&batch);
        assert_eq!(packed[0], version);
        assert_eq!(unpacked(&packed), Ok(batch));
    }
    // The same through a merge of both.
    let mut both = batch_with(0);
    both.merge(batch_with(3));
    assert_eq!(version(&both), Measure::Polls.since());
}
