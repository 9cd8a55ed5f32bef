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
    /// Of an ordered table, the names of the [`MAX_NAMES`] fields that rank first, with empty values.
    Names(Table),
    /// The number of fields.
    Count(Table),
    /// Of an ordered table, the fields at some ranks with their values, highest first. Equal values are in descending
    /// order of the fields.
    Ranks(Table, Range<usize>),
    /// Of an ordered table, the places of some fields.
    Places(Table, Vec<Vec<u8>>),
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
    /// The version of the journal's state. Another one tells that a step of folding came in between.
    pub version: String,
    /// Which slices of the finest tier are part of the coarser ones; `None` if that cannot be read.
    pub rolled: Option<RolledUp>,
    /// When the store's generation began, in Unix seconds, if that can be read.
    pub created: Option<i64>,
    /// When the first sample that the store holds was recorded, in Unix seconds, if that can be read.
    pub since: Option<i64>,
    /// The times in which no instance recorded, in Unix seconds from the first to before the second: ascending,
    /// disjoint, at most 1,000. `None` where the absence of all instances is not known, as in Redis.
    pub gaps: Option<Vec<Gap>>,
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

/// Declares the answers to reads, and the methods of [`Answers`] that take them.
macro_rules! answers {
    ($($(#[$doc:meta])* $method:ident, $kind:ident: $answer:ty;)*) => {
        /// The answer to a read.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum TableAnswer {
            $($(#[$doc])* $kind($answer),)*
        }

        impl Answers {
            $(
                $(#[$doc])*
                pub fn $method(&mut self) -> $answer {
                    match self.0.next() {
                        Some(TableAnswer::$kind(answer)) => answer,
                        other => {
                            debug_assert!(false, "{other:?} is not of its read's kind");
                            Default::default()
                        }
                    }
                }
            )*
        }
    };
}

answers! {
    /// To [`TableRead::Values`]: as many as were asked for; `None` for a missing one.
    values, Values: Vec<Option<Vec<u8>>>;
    /// To [`TableRead::Page`], [`TableRead::All`] and [`TableRead::Names`].
    page, Page: FieldPage;
    /// To [`TableRead::Count`].
    count, Count: usize;
    /// To [`TableRead::Ranks`].
    ranks, Ranks: Vec<(Vec<u8>, i64)>;
    /// To [`TableRead::Places`]: as many as were asked for; `None` for an id that is not in the ranking.
    places, Places: Vec<Option<RankingPlace>>;
    /// To [`TableRead::State`].
    state, State: RecordState;
    /// To [`TableRead::Revisions`].
    revisions, Revisions: HashMap<TierSlice, Revision>;
}

/// The answers to some reads. Each method takes the next one, and is for a read of its kind; another one reads as empty.
#[derive(Clone, Debug)]
pub struct Answers(std::vec::IntoIter<TableAnswer>);

impl Answers {
    /// The answers to reads in their order.
    pub fn new(answers: Vec<TableAnswer>) -> Self {
        Self(answers.into_iter())
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
