//! Marks come back, in an entry of a version of its own and in a table.

use super::*;
use crate::batch::MAX_CALL_COST;
use crate::context::MAX_NAME;
use crate::fleet::MAX_VERSION_BYTES;
use crate::mark::{MAX_ESCAPED_BYTES, MAX_MARK_BYTES, MAX_PENDING_MARKS, StoredMark};

const NOW: i64 = 1_700_000_000;

/// A mark, with a version for an even number.
pub(super) fn of(id: &str, at: i64, number: u64) -> Mark {
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
    // Without the limit of a process.
    let marks = marks.into_iter().map(|mark| (mark.id.clone(), mark));
    batch.marks.extend(marks);
    batch
}

/// The longest that there are.
fn longest(number: usize) -> Mark {
    let version: Arc<str> = "v".repeat(MAX_VERSION_BYTES).into();
    let hidden = "\u{ad}".repeat(MAX_MARK_BYTES / 2);
    let posted = Mark::of_text(number.to_string(), NOW, &hidden).expect("it is short");
    match number % 2 {
        0 => Mark::of_version(i64::MIN + number as i64, &version),
        _ => posted,
    }
}

#[test]
fn only_an_entry_with_marks_has_the_newest_version() {
    let packed = pack(&batch_of([]));
    assert_eq!((packed[0], version(&batch_of([]))), (3, 3));
    let batch = batch_of([of("a", NOW, 1), of("b", -NOW, 2)]);
    let packed = pack(&batch);
    assert_eq!((packed[0], version(&batch)), (4, 4));
    assert_eq!(unpacked(&packed), Ok(batch));
    for length in 0..packed.len() {
        // Without the whole section it is an entry that has none.
        let is_whole = length == pack(&batch_of([])).len();
        assert_eq!(unpacked(&packed[..length]).is_err(), !is_whole, "{length}");
    }
    let mut older = packed;
    older[0] = 3;
    assert_eq!(unpacked(&older), Err(Undecodable));
}

#[test]
fn as_many_of_the_longest_as_may_wait_are_read_and_no_more() {
    let mut batch = batch_of((0..MAX_PENDING_MARKS).map(longest));
    assert_eq!(batch.marks.len(), MAX_PENDING_MARKS);
    assert_eq!(unpacked(&pack(&batch)), Ok(batch.clone()));
    let surplus = batch_of((0..=MAX_PENDING_MARKS).map(longest));
    assert_eq!(unpacked(&pack(&surplus)), Err(Undecodable));
    let part = batch.split(MAX_CALL_COST);
    assert_eq!(
        (part.marks.len(), batch.is_empty()),
        (MAX_PENDING_MARKS, true)
    );
}

#[test]
fn what_no_sender_makes_is_refused() {
    let refused = |mark: Mark| {
        let stored = StoredMark::from(mark.clone());
        let is_mark = StoredMark::unpack(mark.id.as_bytes(), &stored.pack()) == Some(stored);
        let is_read = unpacked(&pack(&batch_of([mark]))).is_ok();
        assert_eq!(is_mark, is_read);
        !is_read
    };
    let with_text = |bytes: usize| Mark {
        text: "x".repeat(bytes).into(),
        ..of("a", NOW, 1)
    };
    assert!(!refused(with_text(MAX_ESCAPED_BYTES)));
    assert!(refused(with_text(MAX_ESCAPED_BYTES + 1)));
    assert!(refused(of("", NOW, 1)));
    assert!(refused(of(&"x".repeat(MAX_NAME + 2), NOW, 1)));
    let stored = StoredMark::from(of("a", NOW, 1));
    assert_eq!(StoredMark::unpack(b"\xff", &stored.pack()), None);
    for garbage in [&b""[..], b"garbage", b"{}", &[0xff; 40]] {
        assert_eq!(StoredMark::unpack(b"a", garbage), None);
    }
}

#[test]
fn a_section_that_is_not_known_or_is_there_twice_makes_an_entry_unreadable() {
    let batch = batch_of([of("a", NOW, 1)]);
    let with = |tag: u64, body: &[u8]| {
        let mut out = Writer(pack(&batch));
        out.section(tag, |out| out.0.extend_from_slice(body));
        unpacked(&out.0)
    };
    assert_eq!(with(mark::SECTION, &[0]), Err(Undecodable));
    assert_eq!(with(mark::SECTION + 1, &[0]), Err(Undecodable));
    // Bytes behind the marks, in their section.
    let (empty, packed) = (pack(&batch_of([])), pack(&batch));
    let mut section = Reader(&packed[empty.len()..]);
    assert_eq!(section.uint(), Some(mark::SECTION));
    let marks = section.bytes().expect("it is a section");
    let mut out = Writer(empty);
    out.0[0] = ENTRY_VERSION;
    out.section(mark::SECTION, |out| {
        out.0.extend_from_slice(marks);
        out.uint(0);
    });
    assert_eq!(unpacked(&out.0), Err(Undecodable));
}
