//! Contexts with their samples of the current hour and of the hour before. The samples are in the records, and other
//! programs may have added samples to the exported statistics.

use std::sync::Arc;

use super::records::hourly_records;
use crate::error::Result;
use crate::store::StoreFuture;
use crate::store::exports::{ExportedHours, Exports, kind_of};
use crate::store::table::{CONTEXTS, Table};
use crate::store::table_reads::{Purpose, RecordState, TableRead, TableReader, read_table};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::context::{ALL, ContextId, Kind};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::SliceSums;
use tower_pulse_model::slice::{HOUR, hour_of};
use tower_pulse_model::snapshot::{ContextSnapshot, HourSnapshot, Problem};
use tower_pulse_model::tier::RolledUp;

/// Contexts with exported statistics. Other programs may have added to these statistics. Contexts that only other
/// programs have recorded come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BookStatistics {
    /// The contexts.
    pub contexts: Vec<ContextSnapshot>,
    /// Number of all contexts.
    pub total: usize,
    /// Number of contexts that only other programs have recorded.
    pub foreign: usize,
    /// Keys whose value has the wrong form.
    pub problems: Vec<Problem>,
}

pub(in crate::store) fn contexts<'a>(
    reader: &'a dyn TableReader,
    exports: Option<&'a dyn Exports>,
    name: &'a str,
    now: i64,
) -> StoreFuture<'a, Vec<ContextSnapshot>> {
    Box::pin(async move {
        let fields: Arc<[Vec<u8>]> = [name.as_bytes().to_vec()].into();
        let mut reads = vec![TableRead::State, TableRead::Count(Table::Contexts)];
        reads.extend(CONTEXTS.map(|(_, table)| TableRead::Values(table, fields.clone())));
        let mut answers = reader.read_tables(Purpose::Query, &reads).await?;
        let rolled = RecordState::new(answers.page()).rolled_at(now);
        let has_contexts = answers.page().count > 0;
        let listed = CONTEXTS.map(|(kind, _)| answers.page().value().map(|_| kind));
        // The statistics are read before the records, so that the records contain every sample of the statistics,
        // except for samples that other programs have added.
        let exported = match exports {
            Some(exports) => exports.statistics(name, now).await?,
            None => None,
        };
        let listed = listed.into_iter().flatten();
        let mut kinds: Vec<Kind> = listed.filter(|_| name != ALL).collect();
        kinds.order();
        if kinds.is_empty() && (exported.is_some() || name == ALL) {
            kinds.push(kind_of(name));
        }
        // Two contexts of the same name share statistics that cannot be divided.
        let hours = exported.filter(|_| kinds.len() == 1).unwrap_or_default();
        let contexts = kinds.into_iter();
        let contexts = contexts.map(|kind| (ContextId::new(kind, name), hours.clone()));
        let problems = &mut Vec::new();
        let mut contexts = snapshots(reader, contexts.collect(), &rolled, now, problems).await?;
        // No table of names has `<all>`. So `<all>` is kept if the store has any HTTP context, or if `<all>` has
        // samples in these hours.
        contexts.retain(|context| {
            let is_empty = context.hour.is_none() && context.last_hour.is_none();
            context.kind != Kind::All || has_contexts || !is_empty
        });
        Ok(contexts)
    })
}

pub(in crate::store) fn book_statistics<'a>(
    reader: &'a dyn TableReader,
    exports: Option<&'a dyn Exports>,
    offset: usize,
    now: i64,
) -> StoreFuture<'a, BookStatistics> {
    Box::pin(async move {
        let Some(exports) = exports else {
            return Ok(BookStatistics::default());
        };
        let page = exports.statistics_page(offset, now).await?;
        let state = read_table(reader, Purpose::Query, TableRead::State).await?;
        let rolled = RecordState::new(state).rolled_at(now);
        let mut problems = page.problems;
        let contexts = snapshots(reader, page.contexts, &rolled, now, &mut problems).await?;
        Ok(BookStatistics {
            contexts,
            total: page.total,
            foreign: page.foreign,
            problems,
        })
    })
}

async fn snapshots(
    reader: &dyn TableReader,
    contexts: Vec<(ContextId, ExportedHours)>,
    rolled: &RolledUp,
    now: i64,
    problems: &mut Vec<Problem>,
) -> Result<Vec<ContextSnapshot>> {
    let hour = hour_of(now);
    let ids: Vec<_> = contexts
        .iter()
        .map(|(context, _)| context.clone())
        .collect();
    let hours = hour - HOUR..hour + HOUR;
    let records = hourly_records(reader, &ids, hours, rolled, problems).await?;
    let snapshots = contexts.into_iter().zip(records);
    Ok(snapshots
        .map(|((context, exported), mut recorded)| {
            let mut at = |start| hour_at(start, &exported, &mut recorded);
            ContextSnapshot {
                hour: at(hour),
                last_hour: at(hour - HOUR),
                context: context.name.as_ref().to_owned(),
                kind: context.kind,
            }
        })
        .collect())
}

/// The samples of an hour, from the records or from the exported statistics.
fn hour_at(
    start: i64,
    exported: &ExportedHours,
    recorded: &mut Vec<SliceSums>,
) -> Option<HourSnapshot> {
    let exported = exported.iter().find(|(hour, _)| *hour == start);
    let exported = exported.map(|(_, times)| *times);
    let at = recorded.iter().position(|slice| slice.start == start);
    let aggregate = at.map(|at| recorded.swap_remove(at).sums);
    let recorded = aggregate
        .as_ref()
        .map(|sums| AccessTimeStats::from(&sums.times));
    // Only the records have late samples, and only the exports have samples of other programs. The larger count is
    // right.
    let times = match (exported, recorded) {
        (Some(exported), Some(recorded)) if recorded.count >= exported.count => recorded,
        (Some(times), _) | (None, Some(times)) => times,
        (None, None) => return None,
    };
    Some(HourSnapshot {
        start,
        times,
        aggregate: aggregate.unwrap_or_default(),
    })
}
