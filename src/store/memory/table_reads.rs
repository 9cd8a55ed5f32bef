//! Reads of tables.

use std::cmp::Ordering;
use std::ops::Range;

use super::tables::{Tables, number};
use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::store::table::Table;
use crate::store::table_reads::{
    Answers, FieldPage, MAX_NAMES, Purpose, RankingPlace, RecordState, TableAnswer, TableRead,
    TableReader,
};
use crate::task::BoxFuture;

/// Values that are read at once.
const VALUES_AT_ONCE: usize = 1_000;

impl TableReader for MemoryStore {
    fn read_tables<'a>(
        &'a self,
        _: Purpose,
        reads: &'a [TableRead],
    ) -> BoxFuture<'a, Result<Answers, StoreError>> {
        Box::pin(async move {
            let now = self.clock.now_seconds();
            let (mut answers, mut unread) = (Vec::with_capacity(reads.len()), reads);
            while !unread.is_empty() {
                if !answers.is_empty() {
                    // Neither the store nor this thread is held for long.
                    tokio::task::yield_now().await;
                }
                let (part, later) = unread.split_at(len_of_part(unread));
                let state = self.state();
                answers.extend(part.iter().map(|read| state.answer(read, now)));
                unread = later;
            }
            Ok(Answers::new(answers))
        })
    }
}

/// How many of some reads are answered at once.
fn len_of_part(reads: &[TableRead]) -> usize {
    let mut values = 0;
    let is_within = |read: &&TableRead| {
        values += match read {
            TableRead::Values(_, fields) => fields.len(),
            _ => 0,
        };
        values <= VALUES_AT_ONCE
    };
    reads.iter().take_while(is_within).count().max(1)
}

impl State {
    fn answer(&self, read: &TableRead, now: i64) -> TableAnswer {
        let tables = &self.tables;
        let whole = |fields| TableAnswer::Page(FieldPage { fields, next: None });
        match read {
            TableRead::Values(table, fields) => {
                let value = |field: &Vec<u8>| tables.get(table, field, now).map(<[u8]>::to_vec);
                TableAnswer::Values(fields.iter().map(value).collect())
            }
            TableRead::Page(table, from) => {
                TableAnswer::Page(tables.page(table, from.as_deref(), now))
            }
            TableRead::All(table) => {
                let fields = tables.fields(table, now);
                whole(
                    fields
                        .map(|(field, value)| (field.into(), value.into()))
                        .collect(),
                )
            }
            TableRead::Names(table) if table.is_ordered() => {
                let names = ids_at(&(0..MAX_NAMES), ids_of(tables, table, now));
                whole(
                    names
                        .into_iter()
                        .map(|(name, _)| (name, Vec::new()))
                        .collect(),
                )
            }
            TableRead::Names(table) => {
                let fields = tables.fields(table, now);
                whole(
                    fields
                        .map(|(field, _)| (field.into(), Vec::new()))
                        .collect(),
                )
            }
            TableRead::Count(table) => TableAnswer::Count(tables.count(table, now)),
            TableRead::Ranks(table, ranks) => {
                TableAnswer::Ranks(ids_at(ranks, ids_of(tables, table, now)))
            }
            TableRead::Places(table, ids) => {
                let sum = |id: &Vec<u8>| number(tables.get(table, id, now)?);
                let sums = ids.iter().map(|id| Some((&**id, sum(id)?)));
                let sums: Vec<_> = sums.collect();
                TableAnswer::Places(places(&sums, ids_of(tables, table, now)))
            }
            TableRead::Version => {
                let version = self.journal.version.clone().into_bytes();
                TableAnswer::Values(vec![Some(version)])
            }
            TableRead::State => TableAnswer::State(RecordState {
                rolled: Some(self.rolled.clone()),
                created: Some(self.created),
                since: Some(self.since),
                gaps: self.gaps.clone(),
            }),
            TableRead::Revisions => TableAnswer::Revisions(tables.revisions(now).collect()),
        }
    }
}

/// An id of a ranking with its sum.
type Ranked<'a> = (&'a [u8], i64);

/// The order of rank: highest sums first, equal ones in descending order of the ids.
fn by_rank((id, sum): &Ranked<'_>, (other_id, other): &Ranked<'_>) -> Ordering {
    (other, other_id).cmp(&(sum, id))
}

/// The ids of a ranking in the order of the ids.
fn ids_of<'a>(tables: &'a Tables, table: &'a Table, now: i64) -> impl Iterator<Item = Ranked<'a>> {
    let fields = tables.fields(table, now);
    fields.filter_map(|(id, sum)| Some((id, number(sum)?)))
}

/// The ids at some ranks. Only these are sorted.
fn ids_at<'a>(ranks: &Range<usize>, ids: impl Iterator<Item = Ranked<'a>>) -> Vec<(Vec<u8>, i64)> {
    let mut ids: Vec<_> = ids.collect();
    let (start, end) = (ranks.start.min(ids.len()), ranks.end.min(ids.len()));
    if start >= end {
        return Vec::new();
    }
    if end < ids.len() {
        ids.select_nth_unstable_by(end, by_rank);
        ids.truncate(end);
    }
    if start > 0 {
        ids.select_nth_unstable_by(start, by_rank);
    }
    let ids = &mut ids[start..];
    ids.sort_unstable_by(by_rank);
    ids.iter().map(|(id, sum)| (id.to_vec(), *sum)).collect()
}

/// The places of some ids whose sums are known, among all ids.
fn places<'a>(
    asked: &[Option<Ranked<'a>>],
    all: impl Iterator<Item = Ranked<'a>>,
) -> Vec<Option<RankingPlace>> {
    let mut sorted: Vec<_> = asked.iter().copied().flatten().collect();
    if sorted.is_empty() {
        return vec![None; asked.len()];
    }
    sorted.sort_unstable_by(by_rank);
    // How many ids there are before each of these, and behind the one before it.
    let mut between = vec![0; sorted.len() + 1];
    for id in all {
        between[sorted.partition_point(|other| by_rank(other, &id).is_le())] += 1;
    }
    let place = |id: &Ranked<'_>| {
        let at = sorted.partition_point(|other| by_rank(other, id).is_lt());
        RankingPlace {
            score: id.1,
            rank: between[..=at].iter().sum(),
        }
    };
    asked.iter().map(|id| id.as_ref().map(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::FieldWrites;

    const NOW: i64 = 1_700_000_000;

    #[test]
    fn ids_are_in_the_order_of_their_sums_and_then_of_their_names() {
        let table = Table::RankingTotals {
            ranking: "posts".into(),
        };
        let mut write = FieldWrites::new(table.clone(), None);
        let mut expected: Vec<(Vec<u8>, i64)> = Vec::new();
        for n in 0..100 {
            let (id, sum) = (n.to_string().into_bytes(), n * 37 % 20 - 5);
            write.set.push((id.clone(), sum.to_string().into_bytes()));
            expected.push((id, sum));
        }
        expected.sort_by(|(a, x), (b, y)| (y, b).cmp(&(x, a)));
        let mut state = State::default();
        state.tables.write(&write, NOW);
        for ranks in [
            0..1,
            0..7,
            3..50,
            98..100,
            99..200,
            0..usize::MAX,
            100..101,
            5..5,
        ] {
            let within = expected.iter().skip(ranks.start);
            let within: Vec<_> = within.take(ranks.len()).cloned().collect();
            let read = TableRead::Ranks(table.clone(), ranks.clone());
            let answer = state.answer(&read, NOW);
            assert_eq!(answer, TableAnswer::Ranks(within), "{ranks:?}");
        }
        let mut ids: Vec<_> = expected.iter().map(|(id, _)| id.clone()).collect();
        let places = expected.iter().enumerate();
        let places = places.map(|(rank, (_, sum))| Some(RankingPlace { score: *sum, rank }));
        let mut places: Vec<_> = places.collect();
        ids.push(b"none".to_vec());
        places.push(None);
        ids.push(ids[3].clone());
        places.push(places[3]);
        ids.reverse();
        places.reverse();
        let answer = state.answer(&TableRead::Places(table, ids), NOW);
        assert_eq!(answer, TableAnswer::Places(places));
    }
}
