//! The kinds of errors: how often each occurred in a context since the last drain.

use std::sync::{Arc, Mutex, OnceLock};

use super::{ContextHandle, active};
use crate::task::lock;
use tower_pulse_model::failure::Failure;
use tower_pulse_model::tally::MAX_KINDS;
use tower_pulse_model::timer_sums::OTHER;

/// The most kinds of a process that are counted separately.
const MAX_NAMES: usize = 256;

/// The most kinds of a context between two drains that are counted separately. Of these, the [`MAX_KINDS`] with the
/// largest counts are sent.
const MAX_LIVE: usize = 2 * MAX_KINDS;

/// The kinds of a process. Contexts share the names.
#[derive(Debug, Default)]
pub(super) struct KindNames {
    names: Mutex<Vec<Arc<str>>>,
    warned: OnceLock<()>,
}

impl KindNames {
    /// The shared name of a kind; `None` if there are too many kinds. Allocates nothing for a known kind.
    fn get(&self, kind: &str) -> Option<Arc<str>> {
        let mut names = lock(&self.names);
        let index = match names.binary_search_by(|name| (**name).cmp(kind)) {
            Ok(index) => return Some(names[index].clone()),
            Err(index) => index,
        };
        // `OTHER` stands for all kinds beyond the maximum, and gets no name of its own.
        if kind == OTHER {
            return None;
        }
        if names.len() == MAX_NAMES {
            drop(names);
            self.warned.get_or_init(|| {
                tracing::warn!(
                    %kind,
                    "there are more than {MAX_NAMES} kinds of errors: this kind and all further kinds are counted \
                     together as {OTHER}. Name a kind by what failed, and put ids and texts into the message"
                );
            });
            return None;
        }
        let name: Arc<str> = kind.into();
        names.insert(index, name.clone());
        Some(name)
    }
}

impl ContextHandle {
    /// Counts the kind of a failure. The request must be recorded before, so that no drained kind lacks its request.
    pub fn count_failure(&self, failure: &Failure) {
        let kind = self.recording.kinds.get(failure.kind());
        let mut kinds = lock(&self.kinds);
        match kind {
            Some(kind) if kinds.iter().len() < MAX_LIVE || kinds.get(&*kind) > 0 => {
                kinds.add(kind, 1);
            }
            _ => kinds.add_other(1),
        }
        drop(kinds);
        self.cells.touch();
    }

    /// Counts the kind of a timer's failure. Passes the failure to this thread's request, in case the request ends as
    /// an error without a failure of its own.
    pub fn fail_timer(&self, failure: Failure) {
        self.count_failure(&failure);
        if let Some(scope) = active::scope(&self.recording) {
            scope.fail(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{TestRecorder, root};
    use tower_pulse_model::aggregate::Aggregate;
    use tower_pulse_model::batch::Batch;
    use tower_pulse_model::context::{ContextId, Kind};

    fn sums(batch: &Batch, context: &ContextId) -> Aggregate {
        let delta = batch.contexts.get(context);
        let record = delta.and_then(|delta| delta.records[0].iter().next());
        record.map_or_else(Aggregate::default, |(_, sums)| sums.clone())
    }

    #[test]
    fn kinds_beyond_the_limits_are_counted_together() {
        let recorder = TestRecorder::new(999);
        let fail = |context: &str, kind: String| {
            let handle = recorder.context(Kind::Http, context);
            handle.count_failure(&Failure::new(kind));
        };
        (0..10_000).for_each(|kind| fail("GET /", format!("{}", kind % 5_000)));
        fail("GET /", OTHER.to_owned());
        let counted = sums(&recorder.drained(), &root()).kinds;
        let names: Vec<_> = counted.iter().map(|(kind, _)| &**kind).collect();
        assert_eq!(names, ["0", "1", "10", "11", "12", "13", "14", "15"]);
        assert_eq!((counted.get("15"), counted.total()), (2, 10_001));
        // Another context counts the names that the process has, but no further names.
        for kind in ["255", "256"] {
            fail("GET /b", kind.to_owned());
        }
        let context = ContextId::new(Kind::Http, "GET /b");
        let counted = sums(&recorder.drained(), &context).kinds;
        assert_eq!((counted.get("255"), counted.other()), (1, 1));
    }

    #[test]
    fn a_kind_that_is_drained_after_its_request_counts_in_its_context_and_in_all() {
        let recorder = TestRecorder::new(9);
        let handle = recorder.context(Kind::Http, "GET /");
        handle.count_failure(&Failure::new("late"));
        let batch = recorder.drained();
        for context in [root(), ContextId::all()] {
            let sums = sums(&batch, &context);
            assert_eq!((sums.times.count, sums.kinds.get("late")), (0, 1));
        }
        assert!(recorder.drained().is_empty());
        recorder.recording.close();
        handle.count_failure(&Failure::new("late"));
        assert!(recorder.drained().is_empty());
    }
}
