use super::*;
use crate::mark::MAX_PENDING_MARKS;

#[test]
fn marks_are_merged_by_id_and_refused_if_there_is_no_room() {
    let mark = |number: usize| {
        let mark = Mark::of_text(number.to_string(), number as i64, "deploy");
        mark.expect("it is short")
    };
    let (mut batch, mut other) = (Batch::default(), Batch::default());
    for number in 0..MAX_PENDING_MARKS {
        assert_eq!(batch.add_mark(mark(number)), Ok(()));
    }
    assert_eq!(batch.add_mark(mark(0)), Ok(()), "the batch has this mark");
    assert_eq!(batch.add_mark(mark(MAX_PENDING_MARKS)), Err(TooManyMarks));
    assert_eq!((batch.len(), batch.amounts().details), (100, 100));
    assert!(batch.approximate_bytes() > 100 * 200);
    for mark in [mark(7), mark(1_000)] {
        other.marks.insert(mark.id.clone(), mark);
    }
    batch.merge(other);
    assert_eq!(batch.marks.len(), MAX_PENDING_MARKS + 1);

    // Marks are sent first, because an operator waits for them.
    batch.count(&"sales".into(), 60, 1);
    let parts = parts_of(&batch, 150).into_iter();
    let lens = parts.map(|part| (part.marks.len(), part.counters.len()));
    assert!(lens.eq([(MAX_PENDING_MARKS, 1), (1, 0)]));
}
