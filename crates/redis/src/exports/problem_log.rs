//! The problems of cleaning passes, which the last pass stores for all instances. A problem stays in the log until
//! its key has been due again.

use super::pass::MAX_PROBLEMS;
use super::sweep::FULL_CHECK_EVERY;
use crate::keys::Keys;
use crate::value;
use tower_pulse_core::store::Pass;
use tower_pulse_model::snapshot::Problem;

const FIELD: char = '\u{1f}';
const LINE: char = '\u{1e}';

/// A problem, and the time at which a pass last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProblemRecord {
    pub(super) seen: i64,
    pub(super) problem: Problem,
}

/// The problems of a pass, and the problems of earlier passes whose keys were not examined since.
pub(super) fn carry_over(
    new: &[Problem],
    before: Vec<ProblemRecord>,
    pass: &Pass,
    keys: &Keys,
) -> Vec<ProblemRecord> {
    let new: Vec<_> = new
        .iter()
        .map(|problem| ProblemRecord {
            seen: pass.now,
            problem: problem.clone(),
        })
        .collect();
    let count = keys.count_prefix();
    let stays = |record: &ProblemRecord| {
        let member = record.problem.key.strip_prefix(&*count);
        let precision = member.and_then(|member| member.split(':').next()?.parse::<i64>().ok());
        let Some(precision) = precision else {
            // All keys other than counters are examined in each pass.
            return false;
        };
        // This crate writes no time in the future; such a record would never be removed.
        if record.seen > pass.now.saturating_add(pass.interval) {
            return false;
        }
        // The slices of a counter that seems to be in order are listed rarely.
        let full_check = pass.interval.saturating_mul(FULL_CHECK_EVERY as i64);
        let again = precision.max(full_check);
        let again = record
            .seen
            .saturating_add(again)
            .saturating_add(2 * pass.interval);
        pass.now <= again && new.iter().all(|new| new.problem.key != record.problem.key)
    };
    let mut before = before;
    before.retain(stays);
    let mut all = new;
    all.extend(before);
    all.truncate(MAX_PROBLEMS);
    all
}

pub(super) fn encode(records: &[ProblemRecord]) -> String {
    let mut text = String::new();
    let clean = |text: &str| text.replace([FIELD, LINE], " ");
    for ProblemRecord { seen, problem } in records {
        let (key, reason) = (clean(&problem.key), clean(&problem.reason));
        text += &format!("{seen}{FIELD}{key}{FIELD}{reason}{LINE}");
    }
    text
}

pub(super) fn decode(text: &str) -> Vec<ProblemRecord> {
    let lines = text.split_terminator(LINE);
    lines
        .filter_map(|line| {
            let mut fields = line.splitn(3, FIELD);
            let seen = fields.next()?.parse().ok()?;
            let problem = value::problem(fields.next()?.as_bytes(), fields.next()?);
            Some(ProblemRecord { seen, problem })
        })
        .take(MAX_PROBLEMS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(key: &str) -> Problem {
        Problem::new(key, "is a list")
    }

    #[test]
    fn a_log_reads_back_as_it_was_written() {
        let records = vec![ProblemRecord {
            seen: 7,
            problem: problem("count:5:a b"),
        }];
        assert_eq!(decode(&encode(&records)), records);
        let forged = decode("7\u{1f}count:5:a\u{1f}y\nFORGED line\u{1e}");
        assert_eq!(forged[0].problem.reason, r"y\nFORGED line");
        assert_eq!(decode("garbage\u{1e}x\u{1f}y\u{1e}"), []);
    }

    #[test]
    fn a_problem_stays_until_its_key_was_due_again() {
        let keys = Keys::new("p:".to_owned());
        let pass = |now| Pass {
            instance: "i".to_owned(),
            now,
            interval: 60,
            ranking_retention: 0,
            context_retention: 0,
        };
        let before = carry_over(
            &[problem("p:count:86400:x"), problem("p:known:")],
            Vec::new(),
            &pass(0),
            &keys,
        );
        let later = carry_over(&[problem("p:count:5:y")], before, &pass(60), &keys);
        let keys_in_log: Vec<_> = later.iter().map(|record| &*record.problem.key).collect();
        assert_eq!(keys_in_log, ["p:count:5:y", "p:count:86400:x"]);
        let later = carry_over(&[], later, &pass(3_000), &keys);
        assert_eq!(later.len(), 1);
        assert_eq!(carry_over(&[], later, &pass(90_000), &keys), []);
        // A time from a clock that is a little ahead, and a time that no clock of this crate gave.
        for (seen, stays) in [(60, 1), (387_420_489, 0)] {
            let problem = problem("p:count:60:x");
            let records = vec![ProblemRecord { seen, problem }];
            assert_eq!(carry_over(&[], records, &pass(0), &keys).len(), stays);
        }
    }
}
