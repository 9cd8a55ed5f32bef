//! The additions of other programs to the book's statistics: contexts of their own, and samples of contexts that this
//! crate records too.
//!
//! The fold writes each sample into the statistics and into the records, late samples only into the records. A surplus
//! of the statistics comes from other programs.

use std::collections::HashMap;
use std::time::Duration;

use crate::store::BookStatistics;
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::snapshot::{ContextSnapshot, HourSnapshot, Problem};

/// In the first pass, pages are read sooner until this many contexts are read.
const FIRST_CONTEXTS: usize = 100;

const MAX_PROBLEMS: usize = 1_000;

/// The start of each hour, and the additions to this hour.
type Hours = Vec<(i64, AccessTimeStats)>;

/// The additions of other programs to the contexts that were read so far. Contexts are read page by page, and after the
/// last page again from the first.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The position of the next context to read.
    pub offset: usize,
    /// Number of contexts that only other programs have recorded.
    pub foreign: usize,
    /// The number of complete passes over all contexts.
    passes: u64,
    /// The additions to each context, and the pass in which the additions were read.
    additions: HashMap<ContextId, (u64, Hours)>,
    /// The problems of the contexts that were read in this pass, and those of the pass before.
    problems: [Vec<Problem>; 2],
}

impl Book {
    /// The state after another page was read.
    pub fn with(&self, page: BookStatistics) -> Self {
        let mut book = self.clone();
        let read = page.contexts.len();
        book.foreign = page.foreign;
        for context in page.contexts {
            let id = ContextId::new(context.kind, context.context.as_str());
            let hours = added_hours(&context);
            if hours.is_empty() || context.kind == Kind::All {
                book.additions.remove(&id);
            } else {
                book.additions.insert(id, (book.passes, hours));
            }
        }
        for problem in page.problems.into_iter().take(MAX_PROBLEMS) {
            let problems = &book.problems[0];
            if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
                book.problems[0].push(problem);
            }
        }
        book.offset += read;
        if read == 0 || book.offset >= page.total {
            // Contexts that this pass did not read were removed from the store.
            book.additions.retain(|_, (pass, _)| *pass == book.passes);
            book.problems = [Vec::new(), std::mem::take(&mut book.problems[0])];
            book.offset = 0;
            book.passes += 1;
        }
        book
    }

    /// The time until the next page is read. Reading a page takes about 50 commands. In the first pass, the time is
    /// shorter for contexts that only other programs have recorded, which come first, and for the first
    /// [`FIRST_CONTEXTS`] contexts.
    pub fn pause(&self) -> Duration {
        Duration::from_secs(match self.passes {
            0 if self.offset < self.foreign => 1,
            0 if self.offset < FIRST_CONTEXTS => 5,
            _ => 10,
        })
    }

    pub fn contexts(&self) -> impl Iterator<Item = &ContextId> {
        self.additions.keys()
    }

    /// The additions of other programs to a context in the hour that begins at `start`.
    pub fn added(&self, context: &ContextId, start: i64) -> Option<&AccessTimeStats> {
        let (_, hours) = self.additions.get(context)?;
        let hour = hours.iter().find(|(hour, _)| *hour == start);
        hour.map(|(_, added)| added)
    }

    /// The keys whose value has the wrong form.
    pub fn problems(&self) -> Vec<Problem> {
        let [this_pass, last] = &self.problems;
        let new = this_pass.iter().filter(|problem| !last.contains(problem));
        last.iter().chain(new).cloned().collect()
    }
}

pub(super) fn added_hours(context: &ContextSnapshot) -> Hours {
    let hours = [&context.hour, &context.last_hour].into_iter().flatten();
    let added = hours.filter_map(|hour| Some((hour.start, added(hour)?)));
    added.collect()
}

/// The samples of an hour that are in the statistics, but not in the records. The minimum and the maximum are those of
/// all samples of the hour.
fn added(hour: &HourSnapshot) -> Option<AccessTimeStats> {
    let recorded = AccessTimeStats::from(&hour.aggregate.times);
    let count = hour.times.count - recorded.count;
    // The difference is at least 1 if other programs have added samples. The difference is below 0 if late samples are
    // only in the records. Counts that other programs have written may be invalid.
    (count > 0.5 && count.is_finite()).then(|| AccessTimeStats {
        count,
        sum: (hour.times.sum - recorded.sum).max(0.0),
        sumsq: (hour.times.sumsq - recorded.sumsq).max(0.0),
        ..hour.times
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::access_time::DurationSums;
    use tower_pulse_model::aggregate::Aggregate;

    const MS: u64 = 1_000_000;

    fn sums(millis: &[u64]) -> DurationSums {
        let mut sums = DurationSums::default();
        millis.iter().for_each(|millis| sums.record(millis * MS));
        sums
    }

    /// `statistics` and `records` are in milliseconds.
    fn context(name: &str, statistics: &[u64], records: &[u64]) -> ContextSnapshot {
        ContextSnapshot {
            context: name.into(),
            kind: Kind::Http,
            hour: Some(HourSnapshot {
                start: 7_200,
                times: AccessTimeStats::from(&sums(statistics)),
                aggregate: Aggregate {
                    times: sums(records),
                    ..Aggregate::default()
                },
            }),
            last_hour: None,
        }
    }

    fn page(contexts: Vec<ContextSnapshot>, total: usize) -> BookStatistics {
        BookStatistics {
            contexts,
            total,
            foreign: 1,
            problems: Vec::new(),
        }
    }

    fn counts(book: &Book) -> Vec<(String, f64)> {
        let count = |id: &ContextId| Some((id.name.to_string(), book.added(id, 7_200)?.count));
        let mut counts: Vec<_> = book.contexts().filter_map(count).collect();
        counts.sort_by(|a, b| a.0.cmp(&b.0));
        counts
    }

    #[test]
    fn samples_beyond_the_records_are_from_other_programs() {
        let contexts = vec![
            context("/book", &[7, 9], &[]),
            context("/both", &[1, 2, 30], &[1, 2]),
            context("/own", &[1, 2], &[1, 2]),
            // Late samples are in the records alone.
            context("/late", &[1], &[1, 2]),
        ];
        let book = Book::default().with(page(contexts, 4));
        let expected = [("/book".into(), 2.0), ("/both".into(), 1.0)];
        assert_eq!(counts(&book), expected);
        let both = ContextId::new(Kind::Http, "/both");
        let added = book.added(&both, 7_200).expect("there is one");
        assert!((added.sum - 0.030).abs() < 1e-12 && (added.sumsq - 0.0009).abs() < 1e-12);
        assert_eq!((added.min, added.max), (0.001, 0.030));
        assert!(book.added(&both, 3_600).is_none());
        assert_eq!((book.foreign, book.pause().as_secs()), (1, 10));
    }

    #[test]
    fn pages_are_read_in_order_and_removed_contexts_are_forgotten() {
        let foreign = |names: &[&str]| names.iter().map(|name| context(name, &[1], &[])).collect();
        let problem = |key: &str| Problem::new(key, "holds a list");
        let first = BookStatistics {
            problems: vec![problem("a"), problem("a")],
            ..page(foreign(&["/a", "/b"]), 3)
        };
        let book = Book::default().with(first);
        assert_eq!((book.offset, book.pause().as_secs()), (2, 5));
        assert_eq!(book.problems(), [problem("a")]);
        let book = book.with(page(foreign(&["/c"]), 3));
        assert_eq!((book.offset, book.pause().as_secs()), (0, 10));
        assert_eq!(counts(&book).len(), 3);
        assert_eq!(book.problems(), [problem("a")]);
        // The second pass: `/b` no longer exists, and the statistics of `/c` no longer have additions of other
        // programs.
        let book = book.with(page(foreign(&["/a"]), 2));
        assert_eq!(counts(&book).len(), 3);
        let book = book.with(page(vec![context("/c", &[1], &[1])], 2));
        assert_eq!(counts(&book), [("/a".into(), 1.0)]);
        assert_eq!(book.problems(), []);
        // The list is now shorter than the offset.
        let book = book.with(page(foreign(&["/a"]), 9));
        let book = book.with(page(Vec::new(), 1));
        assert_eq!((book.offset, book.pause().as_secs()), (0, 10));
        let many = (0..FIRST_CONTEXTS).map(|n| context(&n.to_string(), &[1], &[1]));
        let book = Book::default().with(page(many.collect(), 9_000));
        assert_eq!(book.pause().as_secs(), 10, "later pages wait for 10 s");
    }
}
