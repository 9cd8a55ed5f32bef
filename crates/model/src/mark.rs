//! Marks: moments of an operator's action, or of a deploy.

use super::sorted::Map;
use crate::order::InOrder;
use std::sync::Arc;

use super::context::escape_hidden;
use super::pack::{self, Packed, Writer, is_name, packed};
use super::section::{EntryHead, Room, Section};

/// The most marks with a version that a store retains, and the most marks without a version.
pub const MAX_MARKS: usize = 50;

/// The longest text of a mark, in bytes.
pub const MAX_MARK_BYTES: usize = 200;

/// The longest text of a mark with escaped hidden characters, in bytes. The escape of a hidden character that a mark
/// may have is less than four times as long as the character.
pub const MAX_ESCAPED_BYTES: usize = 4 * MAX_MARK_BYTES;

/// The most marks that wait in a process for a flush, and the most in an entry of the journal.
pub const MAX_PENDING_MARKS: usize = 100;

/// The approximate bytes of a mark in memory, without its texts.
const PER_MARK: usize = 200;

/// The error of a text that a mark may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadText;

impl std::fmt::Display for BadText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "must be 1 to {MAX_MARK_BYTES} bytes without control characters"
        )
    }
}

impl std::error::Error for BadText {}

/// The error of a mark when too many marks wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyMarks;

impl std::fmt::Display for TooManyMarks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{MAX_PENDING_MARKS} marks wait already: see store.last_error in health"
        )
    }
}

impl std::error::Error for TooManyMarks {}

/// A moment with a text, such as a deploy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mark {
    /// Identifies the mark.
    pub id: Arc<str>,
    /// The time of the action, in Unix seconds.
    pub at: i64,
    /// The description of the action.
    pub text: Arc<str>,
    /// The new version, if `app_version` made the mark.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub version: Option<Arc<str>>,
}

packed!(Mark { id, at, text, version } if |mark| {
    let is_named = !mark.id.is_empty() && is_name(&mark.id);
    is_named && mark.text.len() <= MAX_ESCAPED_BYTES && mark.version.iter().all(is_name)
});

impl Mark {
    /// A mark of an operator. Hidden characters of the text are escaped.
    ///
    /// # Errors
    /// The text is empty, too long, or has control characters.
    #[doc(hidden)]
    pub fn of_text(id: String, at: i64, text: &str) -> Result<Self, BadText> {
        let text = text.trim();
        let is_good = (1..=MAX_MARK_BYTES).contains(&text.len());
        if !is_good || text.chars().any(char::is_control) {
            return Err(BadText);
        }
        Ok(Self {
            id: id.into(),
            at,
            text: escape_hidden(text).into(),
            version: None,
        })
    }

    /// The mark of an instance with a new version.
    #[doc(hidden)]
    pub fn of_version(at: i64, version: &Arc<str>) -> Self {
        Self {
            id: format!("{at}-{version}").into(),
            at,
            text: escape_hidden(&format!("version {version}")).into(),
            version: Some(version.clone()),
        }
    }

    fn sort_key(&self) -> (i64, &str) {
        (self.at, &self.id)
    }

    fn is_same_kind(&self, other: &Self) -> bool {
        self.version.is_some() == other.version.is_some()
    }
}

/// A mark as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMark {
    /// The mark.
    pub mark: Mark,
    /// Whether the mark was removed. A removed mark stays in the store until newer marks need its room. So an instance
    /// that starts with the version of a removed mark does not add the mark again.
    pub is_removed: bool,
}

packed!(StoredMark { mark, is_removed });

impl StoredMark {
    /// Unpacks the mark of this id; `None` if the bytes are not this mark.
    pub fn unpack(id: &[u8], bytes: &[u8]) -> Option<Self> {
        pack::unpack(bytes).filter(|stored: &Self| stored.mark.id.as_bytes() == id)
    }
}

type PendingMarks = Map<Arc<str>, Mark>;

impl Section for PendingMarks {
    fn split(&mut self, room: &mut Room) -> Self {
        let mut part = Self::default();
        while room.has(1)
            && part.len() < MAX_PENDING_MARKS
            && let Some((id, mark)) = self.pop_first()
        {
            room.take(1, 0);
            part.insert(id, mark);
        }
        part
    }

    fn bytes(&self) -> usize {
        let marks = self.values();
        let marks = marks.map(|mark| PER_MARK + mark.id.len() + mark.text.len());
        marks.sum()
    }

    fn write(&self, out: &mut Writer, _: &EntryHead) {
        out.uint(self.len() as u64);
        self.values().for_each(|mark| mark.write(out));
    }
}

/// The marks that a store retains: the newest [`MAX_MARKS`] with a version, and the newest [`MAX_MARKS`] without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<StoredMark>);

impl Marks {
    /// Retains the newest of these marks, which may be in any order.
    pub fn new(marks: impl IntoIterator<Item = StoredMark>) -> Self {
        let mut marks: Vec<_> = marks.into_iter().collect();
        marks.order_by(|a, b| a.mark.sort_key().cmp(&b.mark.sort_key()));
        let mut left = [MAX_MARKS; 2];
        let mut newest: Vec<_> = marks.into_iter().rev().collect();
        newest.retain(|stored| {
            let left = &mut left[usize::from(stored.mark.version.is_some())];
            std::mem::replace(left, left.saturating_sub(1)) > 0
        });
        newest.reverse();
        Self(newest)
    }

    /// The marks as they are stored, oldest first.
    pub fn as_slice(&self) -> &[StoredMark] {
        &self.0
    }

    /// The marks that were not removed, oldest first.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &Mark> {
        let shown = self.0.iter().filter(|stored| !stored.is_removed);
        shown.map(|stored| &stored.mark)
    }

    /// Whether the store still has a removed mark of this id.
    pub fn has_removed(&self, id: &str) -> bool {
        let mut removed = self.0.iter().filter(|stored| stored.is_removed);
        removed.any(|stored| *stored.mark.id == *id)
    }

    /// Adds a mark. If there is no room, drops the oldest removed mark, or else the oldest mark. Marks with a version
    /// only replace marks with a version, and other marks only other marks.
    pub fn add(&mut self, mark: Mark) {
        if self.ignores(&mark) {
            return;
        }
        let is_same_kind = |stored: &&StoredMark| stored.mark.is_same_kind(&mark);
        if self.0.iter().filter(is_same_kind).count() >= MAX_MARKS {
            let removed = |stored: &StoredMark| is_same_kind(&stored) && stored.is_removed;
            let at = self.0.iter().position(removed);
            let at = at.or_else(|| self.0.iter().position(|stored| is_same_kind(&stored)));
            at.map(|at| self.0.remove(at));
        }
        let at = self.index_of(&mark);
        let is_removed = false;
        self.0.insert(at, StoredMark { mark, is_removed });
    }

    /// Whether adding a mark changes nothing: the mark is known (removed or not), or is too old, or repeats the version
    /// before it or the version after it. Clocks differ, so the version after it may come from an instance that started
    /// earlier.
    pub fn ignores(&self, mark: &Mark) -> bool {
        let (before, after) = self.0.split_at(self.index_of(mark));
        let version = |stored: &'_ StoredMark| stored.mark.version.clone();
        let versions = [
            before.iter().rev().find_map(version),
            after.iter().find_map(version),
        ];
        let is_repeated = mark.version.is_some() && versions.contains(&mark.version);
        let shown = after.iter().filter(|stored| !stored.is_removed);
        let newer = shown.filter(|stored| stored.mark.is_same_kind(mark));
        is_repeated
            || newer.count() >= MAX_MARKS
            || self.0.iter().any(|stored| stored.mark.id == mark.id)
    }

    fn index_of(&self, mark: &Mark) -> usize {
        self.0
            .partition_point(|stored| stored.mark.sort_key() < mark.sort_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::is_hidden;
    use crate::tests::stored;

    #[test]
    fn no_escape_is_longer_than_the_limit_of_a_text_allows() {
        let ratio = MAX_ESCAPED_BYTES / MAX_MARK_BYTES;
        let hidden = ('\u{80}'..=char::MAX).filter(|c| is_hidden(*c) && !c.is_control());
        for c in hidden {
            assert!(c.escape_default().len() <= ratio * c.len_utf8(), "{c:?}");
        }
    }

    #[test]
    fn a_text_is_trimmed_and_bounded() {
        let text_of = |text: &str| Mark::of_text("1".to_owned(), 7, text).map(|mark| mark.text);
        assert_eq!(text_of(" new cache "), Ok("new cache".into()));
        let longest = "x".repeat(MAX_MARK_BYTES);
        assert_eq!(text_of(&longest), Ok(longest.as_str().into()));
        assert_eq!(text_of("a\u{202e}b"), Ok("a\\u{202e}b".into()));
        for bad in ["", "  ", "a\nb", &format!("{longest}x")] {
            assert_eq!(text_of(bad), Err(BadText), "{bad:?}");
        }
    }

    fn plain(at: i64) -> Mark {
        Mark::of_text(format!("p{at}"), at, "x").expect("it is short")
    }

    fn of_version(at: i64, version: &str) -> Mark {
        Mark::of_version(at, &version.into())
    }

    fn versions(marks: &Marks) -> Vec<(i64, &str)> {
        let shown = marks.shown();
        let versions = shown.filter_map(|mark| Some((mark.at, mark.version.as_deref()?)));
        versions.collect()
    }

    #[test]
    fn a_version_is_marked_when_it_follows_another() {
        let mut marks = Marks::default();
        for (at, version) in [(10, "1"), (11, "1"), (20, "2"), (30, "1"), (31, "1")] {
            marks.add(of_version(at, version));
            marks.add(plain(at));
        }
        assert_eq!(versions(&marks), [(10, "1"), (20, "2"), (30, "1")]);
        // The clocks of these instances are behind.
        for (at, version) in [(29, "1"), (25, "2"), (5, "1")] {
            assert!(marks.ignores(&of_version(at, version)));
        }
        assert!(!marks.ignores(&of_version(25, "3")));
        assert_eq!(marks.as_slice().len(), 3 + 5);
    }

    #[test]
    fn the_newest_of_each_kind_are_retained_and_a_mark_is_added_once() {
        let mut marks = Marks::default();
        for at in 0..MAX_MARKS as i64 + 3 {
            for _ in 0..2 {
                marks.add(of_version(at, &at.to_string()));
                marks.add(plain(at));
            }
        }
        assert_eq!(marks.as_slice().len(), 2 * MAX_MARKS);
        assert_eq!(marks.as_slice()[0].mark.at, 3);
        assert!(marks.ignores(&plain(2)) && marks.ignores(&of_version(2, "2")));
        let before = marks.clone();
        marks.add(plain(0));
        assert_eq!(marks, before);
        let unordered = marks.as_slice().iter().rev().cloned();
        let others = (0..3).map(plain).map(stored);
        assert_eq!(Marks::new(unordered.chain(others)), before);
    }

    fn without(marks: &Marks, id: &str) -> Marks {
        let marks = marks.as_slice().iter().cloned();
        Marks::new(marks.map(|stored| StoredMark {
            is_removed: stored.is_removed || *stored.mark.id == *id,
            ..stored
        }))
    }

    #[test]
    fn a_version_whose_mark_was_removed_is_marked_again_only_after_another_version() {
        let mut marks = Marks::default();
        marks.add(of_version(10, "1"));
        marks.add(of_version(20, "2"));
        let mut marks = without(&marks, "20-2");
        assert_eq!(versions(&marks), [(10, "1")]);
        assert!(marks.has_removed("20-2") && !marks.has_removed("10-1"));
        // The version repeats in the same instance, in another instance, and after a restart of all instances.
        for at in [20, 21, 900] {
            assert!(marks.ignores(&of_version(at, "2")));
        }
        marks.add(of_version(30, "1"));
        marks.add(of_version(40, "2"));
        assert_eq!(versions(&marks), [(10, "1"), (30, "1"), (40, "2")]);
    }

    #[test]
    fn marks_that_were_removed_make_room_first() {
        let mut marks = Marks::default();
        for at in 0..MAX_MARKS as i64 {
            marks.add(plain(at));
        }
        let mut marks = without(&without(&marks, "p7"), "p9");
        assert!(marks.ignores(&plain(7)));
        for at in [100, 101] {
            marks.add(plain(at));
        }
        let shown: Vec<_> = marks.shown().map(|mark| mark.at).collect();
        assert_eq!(shown.len(), MAX_MARKS);
        assert_eq!((shown[0], shown[7]), (0, 8));
        marks.add(plain(102));
        assert_eq!(marks.shown().next().map(|mark| mark.at), Some(1));
        // A mark that arrives late is not too old while a removed mark can make room.
        let mut marks = without(&marks, "p102");
        assert!(!marks.ignores(&plain(0)));
        marks.add(plain(0));
        assert_eq!(marks.shown().next().map(|mark| mark.at), Some(0));
        assert!(marks.ignores(&plain(-1)));
    }
}
