//! Answers that need more than the tables: `counters` and `counter_names` read counters, and `fleet` the current
//! activity.

mod counter_names;
mod counters;
mod fleet;

use redis::Value;

use super::large_keys::Reply;
use super::value::problem;
use tower_pulse_model::snapshot::Problem;

/// Replies whose errors are reported as problems of their keys.
pub(super) struct Replies<'a> {
    pub(super) replies: std::vec::IntoIter<Reply>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Replies<'a> {
    pub(super) fn new(replies: Vec<Reply>, problems: &'a mut Vec<Problem>) -> Self {
        let replies = replies.into_iter();
        Self { replies, problems }
    }

    /// The next reply; `None` if the key is of another type or too large, which is reported as a problem.
    pub(super) fn next(&mut self, key: &str) -> Option<Value> {
        match self.replies.next()? {
            Ok(value) => Some(value),
            Err(reason) => {
                self.problem(key, reason);
                None
            }
        }
    }

    pub(super) fn problem(&mut self, key: &str, reason: impl Into<String>) {
        self.problems.push(problem(key.as_bytes(), &reason.into()));
    }
}
