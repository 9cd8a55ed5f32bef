//! What passes could not understand, as the last pass notes it for all instances: it stays noted
//! until its key was due again.

use super::clean::PROBLEMS_TOLD;
use super::keys::Keys;
use super::sweep::LOOKED_THROUGH_EVERY;
use super::value;
use crate::model::snapshot::Problem;
use crate::store::Pass;

const FIELD: char = '\u{1f}';
const LINE: char = '\u{1e}';

/// A problem, and when it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProblemRecord {
    pub(super) seen: i64,
    pub(super) problem: Problem,
}

/// What a pass found, and what earlier ones found in keys that were not looked at since.
pub(super) fn carry_over(
    found: &[Problem],
    before: Vec<ProblemRecord>,
    pass: &Pass,
    keys: &Keys,
) -> Vec<ProblemRecord> {
    let found: Vec<_> = found
        .iter()
        .map(|problem| ProblemRecord {
            seen: pass.now,
            problem: problem.clone(),
        })
        .collect();
    let count = keys.count_prefix();
    let stays = |noted: &ProblemRecord| {
        let of_counter = noted.problem.key.strip_prefix(&*count);
        let precision = of_counter.and_then(|rest| rest.split(':').next()?.parse::<i64>().ok());
        let Some(precision) = precision else {
            // Everything else is looked at in each pass.
            return false;
        };
        // One that is dated in the future is none of this crate's, and would never go.
        if noted.seen > pass.now.saturating_add(pass.interval) {
            return false;
        }
        // Whether it seems to be in order or not.
        let looked_through = pass.interval.saturating_mul(LOOKED_THROUGH_EVERY as i64);
        let again = precision.max(looked_through);
        let again = noted
            .seen
            .saturating_add(again)
            .saturating_add(2 * pass.interval);
        pass.now <= again && found.iter().all(|new| new.problem.key != noted.problem.key)
    };
    let mut before = before;
    before.retain(stays);
    let mut all = found;
    all.extend(before);
    all.truncate(PROBLEMS_TOLD);
    all
}

pub(super) fn encode(noted: &[ProblemRecord]) -> String {
    let mut text = String::new();
    let clean = |text: &str| text.replace([FIELD, LINE], " ");
    for ProblemRecord { seen, problem } in noted {
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
        .take(PROBLEMS_TOLD)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(key: &str) -> Problem {
        Problem {
            key: key.to_owned(),
            reason: "is a list".to_owned(),
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let noted = vec![ProblemRecord {
            seen: 7,
            problem: problem("count:5:a b"),
        }];
        assert_eq!(decode(&encode(&noted)), noted);
        let forged = decode("7\u{1f}count:5:a\u{1f}y\nFORGED line\u{1e}");
        assert_eq!(forged[0].problem.reason, r"y\nFORGED line");
        assert_eq!(decode("garbage\u{1e}x\u{1f}y\u{1e}"), []);
    }

    #[test]
    fn it_stays_until_its_key_was_due_again() {
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
        let told: Vec<_> = later.iter().map(|noted| &*noted.problem.key).collect();
        assert_eq!(told, ["p:count:5:y", "p:count:86400:x"]);
        let later = carry_over(&[], later, &pass(3_000), &keys);
        assert_eq!(later.len(), 1);
        assert_eq!(carry_over(&[], later, &pass(90_000), &keys), []);
        // From a clock that is a little ahead, and from none.
        for (seen, stays) in [(60, 1), (387_420_489, 0)] {
            let problem = problem("p:count:60:x");
            let noted = vec![ProblemRecord { seen, problem }];
            assert_eq!(carry_over(&[], noted, &pass(0), &keys).len(), stays);
        }
    }
}
