//! Looks for the suspects of a change.

use std::collections::HashMap;
use std::sync::Arc;

use super::MINUTE;
use crate::error::StoreError;
use crate::model::changes::change::{Change, ChangeKind};
use crate::model::changes::suspects::{self, Sides};
use crate::model::context::{ALL, ContextId, Kind};
use crate::model::records::RecordId;
use crate::model::tier::FINEST;
use crate::store::changes::Changes;
use crate::store::{RecordQuery, Store};

/// Seconds before a change that its timers are compared with.
const PAST: i64 = 3_600;

/// Sets the suspects of a change that stands at `end`, most likely first.
pub(super) async fn find(
    store: &dyn Store,
    changes: &dyn Changes,
    change: &mut Change,
    end: i64,
) -> Result<(), StoreError> {
    let marks = changes.marks().await?;
    let mut deploys = suspects::deploys(change, &marks);
    let mut timers = Vec::new();
    if matches!(change.kind, ChangeKind::Slower | ChangeKind::Faster) && *change.context != *ALL {
        let query = RecordQuery {
            contexts: vec![ContextId::new(Kind::Http, change.context.clone())],
            width: FINEST.seconds,
            now: end + MINUTE,
        };
        let records = store.records(&query).await?;
        let slices = records.into_iter().flat_map(|records| records.slices);
        let slices: Vec<_> = slices.collect();
        let sides = Sides::new(&slices, change.since, end, PAST);
        if !sides.now.timers.is_empty() {
            let index = store.record_index(end).await?;
            let names = index.contexts.into_iter();
            let names = names.filter(|context| context.kind == Kind::Timer);
            let names: HashMap<RecordId, Arc<str>> = names
                .map(|context| (RecordId::new(Kind::Timer, &context.name), context.name))
                .collect();
            timers = suspects::timers(&sides, |id| names.get(&id).cloned());
        }
    }
    change.suspects.clear();
    change.suspects.append(&mut deploys);
    change.suspects.append(&mut timers);
    Ok(())
}
