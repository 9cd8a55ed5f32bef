//! The index of the records: which records exist, without their content.

use std::collections::HashMap;

use crate::store::StoreFuture;
use crate::store::table::CONTEXTS;
use crate::store::table_reads::{
    MAX_NAMES, Purpose, RecordState, TableRead, TableReader, revisions,
};
use tower_pulse_model::context::{ALL, ContextId};
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::tier::{Revision, RolledUp, TierSlice};

/// The records that a store holds, without their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordIndex {
    /// The contexts that may have records, without [`ALL`].
    pub contexts: Vec<ContextId>,
    /// The revision of each slice. A slice that is not listed has no records, or its changes are unknown.
    pub revisions: HashMap<TierSlice, Revision>,
    /// Which slices of the finest tier are part of coarser tiers.
    pub rolled: RolledUp,
    /// When the store's generation began, in Unix seconds.
    pub created: i64,
    /// The time that the store has recorded.
    pub recorded: RecordedTime,
}

pub(in crate::store) fn record_index<'a>(
    reader: &'a dyn TableReader,
    now: i64,
) -> StoreFuture<'a, RecordIndex> {
    Box::pin(async move {
        // The state is read first, so a minute that is rolled up after this read counts as pending. The record of the
        // wider slice is read later, and says that it includes the minute.
        let mut reads = vec![TableRead::State, TableRead::Revisions];
        reads.extend(CONTEXTS.map(|(_, table)| TableRead::Ranks(table, 0..MAX_NAMES)));
        let mut answers = reader.read_tables(Purpose::Query, &reads).await?;
        let state = RecordState::new(answers.page());
        let revisions = revisions(&answers.page());
        let mut contexts = Vec::new();
        for (kind, _) in CONTEXTS {
            // Reading many names blocks the runtime for a while.
            tokio::task::yield_now().await;
            let names = answers.page().names().filter(|name| name != ALL);
            contexts.extend(names.map(|name| ContextId::new(kind, name)));
        }
        Ok(RecordIndex {
            contexts,
            revisions,
            rolled: state.rolled_at(now),
            created: state.created.unwrap_or(now),
            recorded: RecordedTime::new(state.since.unwrap_or(now), state.gaps.unwrap_or_default()),
        })
    })
}
