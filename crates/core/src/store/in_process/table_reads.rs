//! Reads of tables.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{ControlFlow, Range};
use tower_pulse_model::order::InOrder;

use super::state::State;
use super::tables::Tables;
use crate::error::Result;
use crate::store::table::Table;
use crate::store::table_reads::{Field, RankingPlace, TablePage, TableRead, number};
use tower_pulse_model::pack::{pack, to_hex};
use tower_pulse_model::tier::{Revision, TierSlice};

/// The most values that are read before the task yields, unless a single read asks for more.
const VALUES_AT_ONCE: usize = 1_000;

/// How many of the reads, from the first on, are answered before the task yields.
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
    pub(super) fn answer(&self, read: &TableRead, now: i64) -> Result<TablePage> {
        let (tables, kept) = (&self.tables, &self.kept);
        Ok(match read {
            TableRead::Values(table, fields) => {
                TablePage::of_values(tables.get(table, fields, now)?)
            }
            TableRead::Page(table, from) => tables.page(table, from.as_deref(), now)?,
            TableRead::All(table) => TablePage::of_fields(tables.all(table, now)?),
            TableRead::Count(table) => TablePage::of_count(tables.count(table, now)),
            TableRead::Ranks(table, ranks) => {
                TablePage::of_fields(ids_at(tables, table, ranks, now)?)
            }
            TableRead::Places(table, ids) => TablePage::of_values(places(tables, table, ids, now)?),
            TableRead::State => {
                let number = |n: i64| n.to_string().into_bytes();
                let values = [
                    kept.journal.progress.version.clone().into_bytes(),
                    to_hex(&kept.rolled).into_bytes(),
                    number(kept.created),
                    number(kept.since),
                    pack(&kept.gaps),
                ];
                TablePage::of_values(values.map(Some).into())
            }
            TableRead::Revisions => {
                let field = |((seconds, start), revision): (TierSlice, Revision)| {
                    let name = format!("{seconds}:{start}").into_bytes();
                    (name, format!("{start} {revision}").into_bytes())
                };
                TablePage::of_fields(tables.revisions(now).map(field).collect())
            }
        })
    }
}

/// The ids at these ranks, highest sums first. Ids with equal sums are in descending order. The heap holds only the ids
/// up to the last rank.
fn ids_at(tables: &Tables, table: &Table, ranks: &Range<usize>, now: i64) -> Result<Vec<Field>> {
    if ranks.is_empty() {
        return Ok(Vec::new());
    }
    // The first ids so far. The last of these ids is on top.
    let mut first: BinaryHeap<Reverse<(i64, Vec<u8>)>> = BinaryHeap::new();
    tables.visit(table, None, now, &mut |id, sum| {
        if let Some(sum) = number(sum) {
            let is_full = first.len() == ranks.end;
            let last = first.peek().map(|Reverse((sum, id))| (*sum, &**id));
            if !is_full || last < Some((sum, id)) {
                if is_full {
                    first.pop();
                }
                first.push(Reverse((sum, id.to_vec())));
            }
        }
        ControlFlow::Continue(())
    })?;
    let ids = first.into_sorted_vec().into_iter().skip(ranks.start);
    Ok(ids
        .map(|Reverse((sum, id))| (id, sum.to_string().into_bytes()))
        .collect())
}

/// The packed places of `ids` in the ranking of all ids.
fn places(
    tables: &Tables,
    table: &Table,
    ids: &[Vec<u8>],
    now: i64,
) -> Result<Vec<Option<Vec<u8>>>> {
    let sums = tables.get(table, ids, now)?.into_iter();
    let asked = ids.iter().zip(sums);
    let asked = asked.map(|(id, sum)| Some(Reverse((number(&sum?)?, &**id))));
    let asked: Vec<_> = asked.collect();
    let mut sorted: Vec<_> = asked.iter().flatten().copied().collect();
    if sorted.is_empty() {
        return Ok(vec![None; asked.len()]);
    }
    sorted.order();
    // `between[n]` counts the ids that come after `sorted[n - 1]`, or are equal to it, and come before `sorted[n]`.
    let mut between = vec![0; sorted.len() + 1];
    tables.visit(table, None, now, &mut |id, sum| {
        if let Some(sum) = number(sum) {
            between[sorted.partition_point(|other| *other <= Reverse((sum, id)))] += 1;
        }
        ControlFlow::Continue(())
    })?;
    let place = |ranked: &Reverse<(i64, &[u8])>| {
        let at = sorted.partition_point(|other| other < ranked);
        let rank = between[..=at].iter().sum();
        pack(&RankingPlace {
            score: ranked.0.0,
            rank,
        })
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
        let few = [0..1, 0..7, 3..50, 98..100, 5..5];
        let beyond = [99..200, 0..usize::MAX, 100..101];
        for ranks in few.into_iter().chain(beyond) {
            let within = expected.iter().skip(ranks.start);
            let within: Vec<_> = within.take(ranks.len()).cloned().collect();
            let read = TableRead::Ranks(table.clone(), ranks.clone());
            let answer = state.answer(&read, NOW).unwrap();
            assert_eq!(answer.numbers().collect::<Vec<_>>(), within, "{ranks:?}");
        }
        let place = |score, rank| Some(pack(&RankingPlace { score, rank }));
        let places = expected.into_iter().enumerate();
        let places = places.map(|(rank, (id, sum))| (id, place(sum, rank)));
        let mut places: Vec<_> = places.collect();
        places.extend([(b"none".to_vec(), None), places[3].clone()]);
        let (ids, places): (Vec<_>, Vec<_>) = places.into_iter().rev().unzip();
        let answer = state.answer(&TableRead::Places(table, ids), NOW).unwrap();
        assert_eq!(answer.values, places);
    }
}
