//! Reads of tables, for folding and for queries. Each store answers these reads; all stores share the code that
//! interprets the answers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::table::Table;
use crate::error::Result;
use crate::store::StoreFuture;
use tower_pulse_model::context::fnv1a;
use tower_pulse_model::pack::{from_hex, packed, unpack};
use tower_pulse_model::recorded::Gap;
use tower_pulse_model::tier::{Revision, RolledUp, TierSlice};

/// The maximum number of fields whose names are read from an ordered table.
pub const MAX_NAMES: usize = 20_000;

/// A read of a table. A table whose key is missing or has another type reads as empty. Only [`Values`](Self::Values),
/// [`Count`](Self::Count), [`Ranks`](Self::Ranks) and [`Places`](Self::Places) read an [ordered](Table::is_ordered)
/// table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableRead {
    /// The values of some fields.
    Values(Table, Arc<[Vec<u8>]>),
    /// A page of fields with their values, unordered: the page at the cursor, or the first page. The page has several
    /// hundred fields, or fewer if the fields are large. A field that exists while all pages are read is on at least
    /// one page.
    Page(Table, Option<String>),
    /// All fields with their values, of a table that is never large.
    All(Table),
    /// The number of fields.
    Count(Table),
    /// The fields of an ordered table at these ranks, with their values, highest first. Fields with equal values are in
    /// descending order.
    Ranks(Table, Range<usize>),
    /// The places of fields in an ordered table: each value is a packed [`RankingPlace`].
    Places(Table, Vec<Vec<u8>>),
    /// The values of a [`RecordState`].
    State,
    /// The fields from which [`revisions`] are read.
    Revisions,
}

/// The purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Folding, which must read all data.
    Fold,
    /// A query. A table that another program has made too large reads as empty, and a warning names the table.
    Query,
}

/// The name of a field, and its value.
pub type Field = (Vec<u8>, Vec<u8>);

/// An answer to a read of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablePage {
    /// The values of the fields that were asked for by name, in the order of the names; `None` for a missing field.
    pub values: Vec<Option<Vec<u8>>>,
    /// Fields with their values. Other pages may have some of the same fields.
    pub fields: Vec<Field>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<String>,
    /// The number of fields, if it was asked for.
    pub count: usize,
}

impl TablePage {
    /// An answer with the values of fields that were asked for by name.
    pub fn of_values(values: Vec<Option<Vec<u8>>>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// An answer with a whole table, or with a range of its ranks.
    pub fn of_fields(fields: Vec<Field>) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }

    /// An answer with the number of fields of a table.
    pub fn of_count(count: usize) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }

    /// Takes the value of the last field that was asked for by name.
    pub fn value(&mut self) -> Option<Vec<u8>> {
        self.values.pop().flatten()
    }

    /// The fields whose values are integers, with these integers.
    pub fn numbers(self) -> impl Iterator<Item = (Vec<u8>, i64)> {
        let fields = self.fields.into_iter();
        fields.filter_map(|(field, value)| Some((field, number(&value)?)))
    }

    /// The names of the fields that are valid text.
    pub fn names(self) -> impl Iterator<Item = String> {
        let fields = self.fields.into_iter();
        fields.filter_map(|(name, _)| String::from_utf8(name).ok())
    }
}

/// Reads an integer in decimal form.
pub fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

packed! {
    /// The place of an id in a ranking.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RankingPlace {
        /// The sum of all additions within the window.
        pub score: i64,
        /// The number of ids before this id.
        pub rank: usize,
    }
}

/// The revision of each slice of the records. A field is `{tier}:{place}`, with the value `{slice} {version}`. In
/// Redis, a tier has a fixed number of places, and a later slice overwrites an earlier one in its place. So a slice
/// that is not listed has no records, or its revision was overwritten and is unknown.
pub fn revisions(page: &TablePage) -> HashMap<TierSlice, Revision> {
    let revision = |(field, value): &Field| {
        let (seconds, _) = std::str::from_utf8(field).ok()?.split_once(':')?;
        let (slice, version) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let at = (seconds.parse().ok()?, slice.parse().ok()?);
        Some((at, fnv1a(version.bytes())))
    };
    page.fields.iter().filter_map(revision).collect()
}

/// The part of the journal's state that reads of records need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordState {
    /// The version of the journal's state. If two reads have different versions, a step of folding came between them.
    pub version: String,
    /// Which slices of the finest tier are part of coarser tiers; `None` if the field cannot be read.
    pub rolled: Option<RolledUp>,
    /// When the store's generation began, in Unix seconds; `None` if unknown.
    pub created: Option<i64>,
    /// When the first sample that the store holds was recorded or, if earlier, when the generation began, in Unix
    /// seconds; `None` if unknown.
    pub since: Option<i64>,
    /// The times in which no instance recorded, as half-open ranges of Unix seconds: ascending, disjoint, at most
    /// 1,000. `None` in a store that does not know these times, such as Redis.
    pub gaps: Option<Vec<Gap>>,
}

impl RecordState {
    /// The state from the values of a page, in this order: the version, the slices that are rolled up, when the
    /// generation began, [`since`](Self::since), and the gaps.
    pub fn new(page: TablePage) -> Self {
        let mut values = page.values.into_iter();
        let Some(version) = values.next() else {
            return Self::default();
        };
        let mut next = || values.next().flatten();
        let text = |value: Vec<u8>| String::from_utf8(value).ok();
        let rolled = match next() {
            // A field that is too large to be read has an empty value.
            Some(rolled) if rolled.is_empty() => None,
            rolled => Some(rolled.and_then(text).and_then(|rolled| from_hex(&rolled))),
        };
        let (created, since) = (next(), next());
        let created = created.and_then(|created| number(&created));
        Self {
            version: version.and_then(text).unwrap_or_default(),
            rolled: rolled.map(Option::unwrap_or_default),
            created,
            since: since.and_then(|since| number(&since)).or(created),
            gaps: next().and_then(|gaps| unpack(&gaps)),
        }
    }

    /// Which slices of the finest tier are part of coarser tiers at `now`. A new state knows no slices until a round is
    /// folded. Until then, every retained slice counts as pending, because records of an earlier generation may exist.
    /// If [`rolled`](Self::rolled) is `None`, the result has no pending slices, so a query misses minutes that are not
    /// yet rolled up.
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

/// The answers to reads, in the order of the reads.
#[derive(Clone, Debug)]
pub struct Answers(std::vec::IntoIter<TablePage>);

impl Answers {
    /// The answers to reads, in the order of the reads.
    pub fn new(answers: Vec<TablePage>) -> Self {
        Self(answers.into_iter())
    }

    /// The answer to the next read.
    pub fn page(&mut self) -> TablePage {
        self.0.next().unwrap_or_default()
    }
}

/// Answers one read.
pub fn read_table<'a>(
    reader: &'a dyn TableReader,
    purpose: Purpose,
    read: TableRead,
) -> StoreFuture<'a, TablePage> {
    Box::pin(async move { Ok(reader.read_tables(purpose, &[read]).await?.page()) })
}

/// Reads one field.
pub async fn read_value(
    reader: &dyn TableReader,
    purpose: Purpose,
    table: Table,
    field: &[u8],
) -> Result<Option<Vec<u8>>> {
    let read = TableRead::Values(table, [field.to_vec()].into());
    Ok(read_table(reader, purpose, read).await?.value())
}

/// Reads at most `most` pages of a table that may be large. A field that is on two pages is returned twice.
pub async fn read_pages(
    reader: &dyn TableReader,
    purpose: Purpose,
    table: &Table,
    most: usize,
) -> Result<Vec<Field>> {
    let (mut fields, mut from) = (Vec::new(), None);
    for _ in 0..most {
        let mut page = read_table(reader, purpose, TableRead::Page(table.clone(), from)).await?;
        fields.append(&mut page.fields);
        from = page.next;
        if from.is_none() {
            break;
        }
        tokio::task::yield_now().await;
    }
    Ok(fields)
}

/// Reads the tables of a store.
///
/// # Cancel safety
/// Dropping a future of this trait changes nothing.
pub trait TableReader: Send + Sync {
    /// The name under which the store keeps a table, for messages.
    fn name_of(&self, table: &Table) -> String {
        format!("{table:?}")
    }

    /// Answers reads, in the order of the reads and in few round trips. A step of folding may come between two reads.
    fn read_tables<'a>(
        &'a self,
        purpose: Purpose,
        reads: &'a [TableRead],
    ) -> StoreFuture<'a, Answers>;
}
