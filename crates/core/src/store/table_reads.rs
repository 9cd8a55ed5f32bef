//! Reads of tables, as a backend answers them to those who fold and to those who ask. What is made of the answers
//! stands once, for every backend.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::table::Table;
use crate::store::StoreFuture;
use tower_pulse_model::recorded::Gap;
use tower_pulse_model::tier::{Revision, RolledUp, TierSlice};

/// The most fields of an ordered table whose names are read.
pub const MAX_NAMES: usize = 20_000;

/// A read of a table. What is missing, or under a key of another type, reads as empty. An
/// [ordered](Table::is_ordered) table, whose values are integers in decimal form, is read by [`Values`](Self::Values),
/// [`Names`](Self::Names), [`Count`](Self::Count), [`Ranks`](Self::Ranks) and [`Places`](Self::Places) alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableRead {
    /// The values of some fields.
    Values(Table, Arc<[Vec<u8>]>),
    /// A page, from where it is said to begin on: some hundred fields with their values, in no order; fewer large
    /// ones. A field that the table has from the first page to the last is on one of them.
    Page(Table, Option<String>),
    /// All fields with their values, of a table that is never large.
    All(Table),
    /// The names of all fields, with empty values; of an ordered table, of the [`MAX_NAMES`] that rank first.
    Names(Table),
    /// The number of fields.
    Count(Table),
    /// Of an ordered table, the fields at some ranks with their values, highest first. Equal values are in descending
    /// order of the fields.
    Ranks(Table, Range<usize>),
    /// Of an ordered table, the places of some fields.
    Places(Table, Vec<Vec<u8>>),
    /// The version of the journal's state, as one value. Another one tells that a step of folding came in between.
    Version,
    /// What readers of records need of the state.
    State,
    /// Which content each slice of the records has. A slice that is not listed has no records, or its changes are
    /// unknown.
    Revisions,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All must be known, as by an instance that folds.
    Fold,
    /// A question. What another program has made too large reads as empty, and a warning names it.
    Query,
}

/// Some fields of a table with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPage {
    /// The fields, some of which other pages may have as well.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<String>,
}

/// The place of an id in a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankingPlace {
    /// The sum of all additions within the window.
    pub score: i64,
    /// The number of ids before it.
    pub rank: usize,
}

/// What readers of records need of the journal's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordState {
    /// Which slices of the finest tier are part of the coarser ones; `None` if that cannot be read.
    pub rolled: Option<RolledUp>,
    /// When the store's generation began, in Unix seconds, if that can be read.
    pub created: Option<i64>,
    /// When the first sample that the store holds was recorded, in Unix seconds, if that can be read.
    pub since: Option<i64>,
    /// The times in which no instance recorded, in Unix seconds from the first to before the second: ascending,
    /// disjoint, at most 1,000. Empty where the absence of all instances is not known, as in Redis.
    pub gaps: Vec<Gap>,
}

impl RecordState {
    /// Which slices of the finest tier are part of the coarser ones at `now`. A new state does not say so until a round
    /// is folded, although records of an earlier generation may exist. If it cannot be read, slices that are not rolled
    /// up are left out.
    pub fn rolled_at(&self, now: i64) -> RolledUp {
        let Some(mut rolled) = self.rolled.clone() else {
            return RolledUp::default();
        };
        if rolled.is_new() {
            rolled.advance(now);
        }
        rolled
    }
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableAnswer {
    /// To [`TableRead::Values`] and [`TableRead::Version`]: as many as were asked for; `None` for a missing one.
    Values(Vec<Option<Vec<u8>>>),
    /// To [`TableRead::Page`], [`TableRead::All`] and [`TableRead::Names`].
    Page(FieldPage),
    /// To [`TableRead::Count`].
    Count(usize),
    /// To [`TableRead::Ranks`].
    Ranks(Vec<(Vec<u8>, i64)>),
    /// To [`TableRead::Places`]: as many as were asked for; `None` for an id that is not in the ranking.
    Places(Vec<Option<RankingPlace>>),
    /// To [`TableRead::State`].
    State(RecordState),
    /// To [`TableRead::Revisions`].
    Revisions(HashMap<TierSlice, Revision>),
}

/// The answers to some reads. Each method takes the next one, and is for a read of its kind.
#[derive(Clone, Debug)]
pub struct Answers(std::vec::IntoIter<TableAnswer>);

impl Answers {
    /// The answers to reads in their order.
    pub fn new(answers: Vec<TableAnswer>) -> Self {
        Self(answers.into_iter())
    }

    /// Takes the next answer. It reads as empty if it is of another kind.
    fn take<T: Default>(&mut self, in_kind: impl FnOnce(TableAnswer) -> Option<T>) -> T {
        let answer = self.0.next().and_then(in_kind);
        debug_assert!(answer.is_some(), "an answer is not of its read's kind");
        answer.unwrap_or_default()
    }

    /// Values of fields, or the version.
    pub fn values(&mut self) -> Vec<Option<Vec<u8>>> {
        self.take(|answer| match answer {
            TableAnswer::Values(values) => Some(values),
            _ => None,
        })
    }

    /// A page, or a whole table.
    pub fn page(&mut self) -> FieldPage {
        self.take(|answer| match answer {
            TableAnswer::Page(page) => Some(page),
            _ => None,
        })
    }

    /// The number of fields.
    pub fn count(&mut self) -> usize {
        self.take(|answer| match answer {
            TableAnswer::Count(count) => Some(count),
            _ => None,
        })
    }

    /// Ids by rank.
    pub fn ranks(&mut self) -> Vec<(Vec<u8>, i64)> {
        self.take(|answer| match answer {
            TableAnswer::Ranks(ids) => Some(ids),
            _ => None,
        })
    }

    /// The state.
    pub fn state(&mut self) -> RecordState {
        self.take(|answer| match answer {
            TableAnswer::State(state) => Some(state),
            _ => None,
        })
    }

    /// The revisions.
    pub fn revisions(&mut self) -> HashMap<TierSlice, Revision> {
        self.take(|answer| match answer {
            TableAnswer::Revisions(revisions) => Some(revisions),
            _ => None,
        })
    }

    /// Places of ids.
    pub fn places(&mut self) -> Vec<Option<RankingPlace>> {
        self.take(|answer| match answer {
            TableAnswer::Places(places) => Some(places),
            _ => None,
        })
    }
}

/// The tables of a store, as they are read.
///
/// # Cancel safety
/// Dropping a future of this trait changes nothing.
pub trait TableReader: Send + Sync {
    /// The name under which the store keeps a table, for messages.
    fn name_of(&self, table: &Table) -> String {
        format!("{table:?}")
    }

    /// Answers some reads in their order, in few round trips. A step of folding may come in between.
    fn read_tables<'a>(
        &'a self,
        purpose: Purpose,
        reads: &'a [TableRead],
    ) -> StoreFuture<'a, Answers>;
}
