//! Reads of tables.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::{ControlFlow, Range};

use super::state::State;
use super::tables::{Tables, number};
use crate::error::StoreError;
use crate::store::table::Table;
use crate::store::table_reads::{
    FieldPage, MAX_NAMES, RankingPlace, RecordState, TableAnswer, TableRead,
};

/// Values that are read at once.
const VALUES_AT_ONCE: usize = 1_000;

/// How many of some reads are answered at once.
pub(super) fn len_of_part(reads: &[TableRead]) -> usize {
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
    /// Answers a read.
    pub(super) fn answer(&self, read: &TableRead, now: i64) -> Result<TableAnswer, StoreError> {
        let tables = &self.tables;
        let whole = |fields| TableAnswer::Page(FieldPage { fields, next: None });
        Ok(match read {
            TableRead::Values(table, fields) => {
                TableAnswer::Values(tables.get(table, fields, now)?)
            }
            TableRead::Page(table, from) => {
                TableAnswer::Page(tables.page(table, from.as_deref(), now)?)
            }
            TableRead::All(table) => whole(tables.all(table, now)?),
            TableRead::Names(table) => {
                let names = ids_at(tables, table, &(0..MAX_NAMES), now)?.into_iter();
                whole(names.map(|(name, _)| (name, Vec::new())).collect())
            }
            TableRead::Count(table) => TableAnswer::Count(tables.count(table, now)),
            TableRead::Ranks(table, ranks) => {
                TableAnswer::Ranks(ids_at(tables, table, ranks, now)?)
            }
            TableRead::Places(table, ids) => TableAnswer::Places(places(tables, table, ids, now)?),
            TableRead::State => TableAnswer::State(RecordState {
                version: self.kept.journal.version.clone(),
                rolled: Some(self.kept.rolled.clone()),
                created: Some(self.kept.created),
                since: Some(self.kept.since),
                gaps: Some(self.kept.gaps.clone()),
            }),
            TableRead::Revisions => TableAnswer::Revisions(tables.revisions(now).collect()),
        })
    }
}

/// An id of a ranking with its sum, in the order of rank: highest sums first, equal ones in descending order of the ids.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranked {
    id: Vec<u8>,
    sum: i64,
}

impl Ranked {
    fn is_before(&self, id: &[u8], sum: i64) -> bool {
        (self.sum, &*self.id) > (sum, id)
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.sum, &other.id).cmp(&(self.sum, &self.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The ids at some ranks. No others are held.
fn ids_at(
    tables: &Tables,
    table: &Table,
    ranks: &Range<usize>,
    now: i64,
) -> Result<Vec<(Vec<u8>, i64)>, StoreError> {
    if ranks.is_empty() {
        return Ok(Vec::new());
    }
    // The last one is at its top.
    let mut first = BinaryHeap::new();
    tables.visit(table, None, now, &mut |id, sum| {
        let Some(sum) = number(sum) else {
            return ControlFlow::Continue(());
        };
        if first.len() == ranks.end {
            if first
                .peek()
                .is_some_and(|last: &Ranked| last.is_before(id, sum))
            {
                return ControlFlow::Continue(());
            }
            first.pop();
        }
        let id = id.to_vec();
        first.push(Ranked { id, sum });
        ControlFlow::Continue(())
    })?;
    let ids = first.into_sorted_vec().into_iter().skip(ranks.start);
    Ok(ids.map(|ranked| (ranked.id, ranked.sum)).collect())
}

/// The places of some ids among all ids.
fn places(
    tables: &Tables,
    table: &Table,
    ids: &[Vec<u8>],
    now: i64,
) -> Result<Vec<Option<RankingPlace>>, StoreError> {
    let sums = tables.get(table, ids, now)?;
    let asked: Vec<_> = ids
        .iter()
        .zip(sums)
        .map(|(id, sum)| {
            let (id, sum) = (id.clone(), number(&sum?)?);
            Some(Ranked { id, sum })
        })
        .collect();
    let mut sorted: Vec<_> = asked.iter().flatten().collect();
    if sorted.is_empty() {
        return Ok(vec![None; asked.len()]);
    }
    sorted.sort_unstable();
    // How many ids there are before each of these, and behind the one before it.
    let mut between = vec![0; sorted.len() + 1];
    tables.visit(table, None, now, &mut |id, sum| {
        if let Some(sum) = number(sum) {
            let is_not_behind = |other: &&Ranked| other.is_before(id, sum) || *other.id == *id;
            between[sorted.partition_point(is_not_behind)] += 1;
        }
        ControlFlow::Continue(())
    })?;
    let place = |ranked: &Ranked| RankingPlace {
        score: ranked.sum,
        rank: {
            let at = sorted.partition_point(|other| *other < ranked);
            between[..=at].iter().sum()
        },
    };
    Ok(asked.iter().map(|id| id.as_ref().map(place)).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::in_process::memory_fields::MemoryFields;
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
        let mut state = State::new(String::new(), NOW, Box::new(MemoryFields::default()));
        state.tables.write(&write, NOW).unwrap();
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
            let answer = state.answer(&read, NOW).unwrap();
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
        let answer = state.answer(&TableRead::Places(table, ids), NOW).unwrap();
        assert_eq!(answer, TableAnswer::Places(places));
    }
}
