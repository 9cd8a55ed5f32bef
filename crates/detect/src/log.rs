//! The log of ongoing and ended changes.

use std::sync::Arc;
use tower_pulse_model::order::InOrder;

use super::change::Change;
use super::minute::Verdict;
use tower_pulse_model::context::fnv1a;

/// The maximum number of changes in a log. The changes that ended first are removed first.
pub const MAX_CHANGES: usize = 1_000;

/// Changes, sorted by their ids.
#[derive(Clone, Debug, Default)]
pub struct Log {
    changes: Vec<Change>,
}

/// The effect of a minute's verdicts on a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// The ids of changes that have begun.
    pub began: Vec<Arc<str>>,
    /// The ids of changes that have ended.
    pub ended: Vec<Arc<str>>,
    /// The ids of changes that are still ongoing, or ongoing again after they had ended.
    pub ongoing: Vec<Arc<str>>,
    /// The ids of changes that were removed because the log was full.
    pub removed: Vec<Arc<str>>,
}

impl Log {
    /// A log of these changes.
    pub fn new(mut changes: Vec<Change>) -> Self {
        changes.order_by(|a, b| a.id.cmp(&b.id));
        Self { changes }
    }

    /// The index of a change. For a missing change, the error is where to insert it.
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.changes.binary_search_by(|change| (*change.id).cmp(id))
    }

    /// The change with this id.
    pub fn get(&self, id: &str) -> Option<&Change> {
        self.position(id).ok().map(|at| &self.changes[at])
    }

    /// The change with this id, to add details to it.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Change> {
        self.position(id).ok().map(|at| &mut self.changes[at])
    }

    /// Whether a change with the kind and subject of a verdict is ongoing.
    pub fn has_ongoing(&self, context: &str, verdict: &Verdict) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| is_ongoing(change, context, verdict))
    }

    /// The ongoing change for a verdict. A verdict that begins after this change was detected is a further slowdown,
    /// with a change of its own.
    fn ongoing(&mut self, context: &str, verdict: &Verdict) -> Option<&mut Change> {
        let mut changes = self.changes.iter_mut();
        changes.find(|c| is_ongoing(c, context, verdict) && verdict.since < c.detected)
    }

    /// Applies the verdicts at `end`, the end of a minute in Unix seconds. An ongoing change without a verdict ends.
    pub fn apply(&mut self, verdicts: &[(Arc<str>, Verdict)], end: i64) -> Difference {
        let mut difference = Difference::default();
        for (context, verdict) in verdicts {
            let ongoing = self.ongoing(context, verdict);
            if let Some(change) = ongoing {
                update(change, verdict);
                difference.ongoing.push(change.id.clone());
                continue;
            }
            let change = begun(context, verdict);
            match self.position(&change.id) {
                // The change had ended when a further slowdown replaced it. Now the further slowdown is over.
                Ok(at) => {
                    let change = &mut self.changes[at];
                    change.ended = None;
                    update(change, verdict);
                    difference.ongoing.push(change.id.clone());
                }
                Err(at) => {
                    difference.began.push(change.id.clone());
                    self.changes.insert(at, change);
                }
            }
        }
        for change in self.changes.iter_mut().filter(|c| c.ended.is_none()) {
            let ongoing = [&difference.began, &difference.ongoing];
            if !ongoing.iter().any(|ids| ids.contains(&change.id)) {
                change.ended = Some(end);
                difference.ended.push(change.id.clone());
            }
        }
        while self.changes.len() > MAX_CHANGES {
            let changes = self.changes.iter().enumerate();
            let oldest = changes.min_by_key(|(_, c)| (c.ended.unwrap_or(i64::MAX), c.detected));
            if let Some((at, _)) = oldest {
                difference.removed.push(self.changes.remove(at).id);
            }
        }
        difference
    }
}

fn is_ongoing(change: &Change, context: &str, verdict: &Verdict) -> bool {
    let is_same = change.kind == verdict.kind && change.instance == verdict.instance;
    let is_same = is_same && change.error == verdict.error;
    change.ended.is_none() && is_same && *change.context == *context
}

/// The change of a new verdict, without the details that come from the store.
fn begun(context: &Arc<str>, verdict: &Verdict) -> Change {
    let part = verdict.instance.as_deref().or(verdict.error.as_deref());
    let subject = [verdict.kind.as_str(), &**context, part.unwrap_or_default()].join("\n");
    let mut change = Change {
        id: format!("{:x}-{:016x}", verdict.detected, fnv1a(subject.bytes())).into(),
        kind: verdict.kind,
        context: context.clone(),
        instance: verdict.instance.clone(),
        since: verdict.since,
        detected: verdict.detected,
        ended: None,
        then: 0.0,
        now: 0.0,
        ratio: 1.0,
        is_tail: false,
        confidence: 0.0,
        requests: 0,
        minutes: 0,
        seconds_per_minute: 0.0,
        extra_seconds_per_minute: 0.0,
        from_traffic: 0.0,
        from_code: 0.0,
        suspects: Vec::new(),
        yesterday: None,
        week_ago: None,
        error: verdict.error.clone(),
        acknowledged: None,
    };
    update(&mut change, verdict);
    change
}

fn update(change: &mut Change, verdict: &Verdict) {
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    change.since = verdict.since;
    change.then = finite(verdict.then);
    change.now = finite(verdict.now);
    change.ratio = finite(verdict.ratio);
    change.is_tail = verdict.is_tail;
    change.confidence = finite(verdict.confidence).clamp(0.0, 1.0);
    change.requests = verdict.requests;
    change.minutes = verdict.minutes;
    change.seconds_per_minute = finite(verdict.cost.taken);
    change.from_traffic = finite(verdict.cost.from_traffic);
    change.from_code = finite(verdict.cost.from_code);
    change.extra_seconds_per_minute = change.from_traffic + change.from_code;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::change::ChangeKind;
    use crate::minute::Cost;
    use tower_pulse_model::context::{Kind, RecordId};

    pub(crate) fn slower(context: &str, detected: i64) -> (Arc<str>, Verdict) {
        let verdict = Verdict {
            context: RecordId::new(Kind::Http, context),
            kind: ChangeKind::Slower,
            instance: None,
            error: None,
            since: detected - 180,
            detected,
            then: 0.1,
            now: 0.2,
            ratio: 2.0,
            is_tail: false,
            confidence: 0.999,
            requests: 90,
            minutes: 3,
            cost: Cost {
                taken: 12.0,
                from_traffic: 4.5,
                from_code: 4.5,
            },
            mean_then: 0.1,
            mean_now: 0.2,
        };
        (context.into(), verdict)
    }

    #[test]
    fn a_change_begins_is_ongoing_and_ends() {
        let mut log = Log::default();
        let began = log.apply(&[slower("GET /", 600)], 600);
        assert_eq!(began.began.len(), 1);
        let id = &began.began[0];
        let change = log.get(id).expect("it has begun");
        assert_eq!((change.since, change.detected), (420, 600));
        assert_eq!(change.ended, None);
        let mut verdict = slower("GET /", 600);
        verdict.1.now = 0.3;
        let after = log.apply(&[verdict, slower("GET /a", 660)], 660);
        assert_eq!((&after.ongoing, after.began.len()), (&began.began, 1));
        assert_eq!(log.get(id).map(|change| change.now), Some(0.3));
        let ended = log.apply(&[], 720);
        assert_eq!(ended.ended.len(), 2);
        assert_eq!(log.get(id).and_then(|change| change.ended), Some(720));
        let again = log.apply(&[slower("GET /", 780)], 780);
        assert_ne!(again.began, began.began);
        // A log that was stored resumes in the same way.
        let mut resumed = Log::new(log.changes.clone());
        assert_eq!(resumed.apply(&[], 840), log.apply(&[], 840));
    }

    #[test]
    fn two_new_kinds_of_errors_on_a_page_are_two_changes() {
        let new = |error: &str, detected| {
            let (context, mut verdict) = slower("GET /", detected);
            verdict.kind = ChangeKind::NewError;
            verdict.error = Some(error.into());
            (context, verdict)
        };
        let mut log = Log::default();
        let both = log.apply(&[new("a", 600), new("b", 600)], 600).began;
        let errors = both.iter().filter_map(|id| log.get(id)?.error.as_deref());
        assert_eq!(errors.collect::<Vec<_>>(), ["a", "b"]);
        let difference = log.apply(&[new("b", 600)], 660);
        assert_eq!(
            (difference.ongoing, difference.ended),
            (vec![both[1].clone()], vec![both[0].clone()])
        );
    }

    #[test]
    fn the_changes_that_ended_first_make_room() {
        let mut log = Log::default();
        let ongoing = slower("GET /ongoing", 60);
        let first = log.apply(&[ongoing.clone(), slower("GET /0", 60)], 60);
        let mut removed = Vec::new();
        for n in 1..MAX_CHANGES as i64 {
            let other = slower(&format!("GET /{n}"), 60 * (n + 1));
            removed.extend(log.apply(&[ongoing.clone(), other], 60 * (n + 1)).removed);
        }
        assert_eq!(log.changes.len(), MAX_CHANGES);
        assert_eq!(removed, [first.began[1].clone()]);
    }
}
