//! Marks are read back unchanged, in an entry and in a table.

use super::*;
use crate::batch::MAX_CALL_COST;
use crate::context::MAX_NAME;
use crate::fleet::MAX_VERSION_BYTES;
use crate::mark::{MAX_ESCAPED_BYTES, MAX_MARK_BYTES, MAX_PENDING_MARKS, StoredMark};
use crate::tests::stored;

const NOW: i64 = 1_700_000_000;

/// A mark, which has a version if the number is even.
pub(super) fn mark_of(id: &str, at: i64, number: u64) -> Mark {
    Mark {
        id: id.into(),
        at,
        text: format!("text {number}").into(),
        version: number.is_multiple_of(2).then(|| number.to_string().into()),
    }
}

fn batch_of(marks: impl IntoIterator<Item = Mark>) -> Batch {
    let mut batch = Batch::new(Precisions::new([60], 120));
    batch.count(&"sales".into(), NOW, 3);
    // Inserted directly, because `add_mark` limits the number of marks.
    for mark in marks {
        batch.marks.insert(mark.id.clone(), mark);
    }
    batch
}

/// The longest mark that is allowed. Among the hidden characters that a mark may have, U+061C grows most by its escape.
fn longest(number: usize) -> Mark {
    if number.is_multiple_of(2) {
        let version = "\u{61c}".repeat(MAX_VERSION_BYTES / 2).into();
        return Mark::of_version(i64::MIN + number as i64, &version);
    }
    let hidden = "\u{61c}".repeat(MAX_MARK_BYTES / 2);
    Mark::of_text(number.to_string(), NOW, &hidden).expect("it is short")
}

#[test]
fn the_most_pending_marks_of_the_greatest_length_are_read_back() {
    let mut batch = batch_of((0..MAX_PENDING_MARKS).map(longest));
    assert_eq!(batch.marks.len(), MAX_PENDING_MARKS);
    let packed = pack(&batch);
    assert_eq!(unpacked(&packed), Ok(batch.clone()));
    assert_eq!(unpacked(&packed[..packed.len() - 1]), Err(Undecodable));
    assert_eq!(unpacked(&[&packed[..], &[0]].concat()), Err(Undecodable));
    let part = batch.split(MAX_CALL_COST);
    assert_eq!(part.marks.len(), MAX_PENDING_MARKS);
    assert!(batch.is_empty());
}

#[test]
fn marks_that_no_sender_makes_are_refused() {
    let refused = |mark: Mark| {
        let packed = crate::pack::pack(&stored(mark.clone()));
        let is_mark = StoredMark::unpack(mark.id.as_bytes(), &packed).is_some();
        let is_read = unpacked(&pack(&batch_of([mark]))).is_ok();
        assert_eq!(is_mark, is_read);
        !is_read
    };
    let with_text = |bytes: usize| Mark {
        text: "x".repeat(bytes).into(),
        ..mark_of("a", NOW, 1)
    };
    assert!(!refused(with_text(MAX_ESCAPED_BYTES)));
    assert!(refused(with_text(MAX_ESCAPED_BYTES + 1)));
    assert!(refused(mark_of("", NOW, 1)));
    assert!(refused(mark_of(&"x".repeat(MAX_NAME + 2), NOW, 1)));
    let packed = crate::pack::pack(&stored(mark_of("a", NOW, 1)));
    assert_eq!(StoredMark::unpack(b"\xff", &packed), None);
    for garbage in [&b""[..], b"garbage", b"{}", &[0xff; 40]] {
        assert_eq!(StoredMark::unpack(b"a", garbage), None);
    }
}
