//! Answers to queries that are not made of the tables alone: `contexts` reads the statistics of contexts, `fleet` what
//! goes on now, `series` what has a value per slice, and the slowest contexts, `counter_names` the list of the user's
//! counters, and `record_index` what records there are. `record_cache` holds what `series` has read.

mod contexts;
mod counter_names;
mod fleet;
mod record_cache;
mod record_index;
mod series;

pub(super) use record_cache::RecordCache;
use redis::Value;

use super::oversized::Reply;
use super::value::{problem, text};
use crate::model::snapshot::Problem;
use crate::model::tier::RolledUp;

/// The field of the state that holds which slices are part of the coarser tiers. It is read before any record: a
/// record says itself which slices were rolled up into it meanwhile.
const ROLLED: &str = "rolled";

/// The most names of contexts, or of instances, that are read from one key.
const MAX_NAMES: usize = 20_000;

/// Replies whose errors become problems of the key.
struct Replies<'a> {
    replies: std::vec::IntoIter<Reply>,
    problems: &'a mut Vec<Problem>,
}

impl Replies<'_> {
    /// The next reply; `None` when the key is of another type, which becomes a problem.
    fn next(&mut self, key: &str) -> Option<Value> {
        match self.replies.next()? {
            Ok(value) => Some(value),
            Err(reason) => {
                self.problem(key, reason);
                None
            }
        }
    }

    fn problem(&mut self, key: &str, reason: impl Into<String>) {
        self.problems.push(problem(key.as_bytes(), &reason.into()));
    }
}

/// Reads the field `rolled` of the state. A new state lacks the field until a round is folded, although records of
/// an earlier generation may exist. If the field cannot be read, slices that are not rolled up are left out.
fn rolled_up(field: Option<&Value>, now: i64) -> RolledUp {
    let mut rolled = RolledUp::from_text(field.and_then(text).unwrap_or_default());
    if field.is_some() && rolled.is_new() {
        rolled.advance(now);
    }
    rolled
}
