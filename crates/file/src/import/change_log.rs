//! Bringing the log of changes over. A change has an id, so that it is there once however often it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use tower_pulse_core::changes::{Findings, Tables};
use tower_pulse_core::error::{StoreError, StoreErrorKind};
use tower_pulse_core::fold::Folder;
use tower_pulse_core::store::Store;
use tower_pulse_core::store::conditional_write::{BetweenRounds, Written};
use tower_pulse_core::store::judgement::{read_changes, read_judgement};
use tower_pulse_detect::change::Change;
use tower_pulse_detect::log::MAX_CHANGES;

/// How often the log is written while others judge.
const MAX_WRITES: usize = 10;

/// Adds the changes of one store to the log of another. Those that stood have ended when they were last judged, so that
/// they are none that the other store's detector knows. Returns how many are new.
pub(super) async fn bring_over(
    from: &dyn Store,
    into: &dyn Store,
    folder: &Folder,
) -> Result<u64, StoreError> {
    let (Some(from), Some(journal)) = (from.journal(), into.journal()) else {
        return Ok(0);
    };
    let log = read_changes(from).await?;
    let judged_until = log.judged.until;
    let mut changes = log.changes;
    for change in &mut changes {
        change
            .ended
            .get_or_insert(judged_until.max(change.detected));
    }
    changes.sort_unstable_by_key(|change| std::cmp::Reverse(change.detected));
    for _ in 0..MAX_WRITES {
        let (mut tables, detector, known) = Tables::new(read_judgement(journal).await?);
        let room = MAX_CHANGES.saturating_sub(known.len());
        let known: BTreeSet<Arc<str>> = known.into_iter().map(|change| change.id).collect();
        let new = changes.iter().filter(|change| !known.contains(&change.id));
        let new: Vec<&Change> = new.take(room).collect();
        let count = new.len() as u64;
        if new.is_empty() {
            return Ok(0);
        }
        let findings = Findings {
            judged: tables.judged().clone(),
            parts: detector.parts(),
            changes: new,
            removed: Vec::new(),
        };
        if folder.write_by_hand(&tables.next(findings)).await? == Written::Done {
            return Ok(count);
        }
    }
    Err(StoreError::new(
        StoreErrorKind::Unexpected,
        "the log of changes was written each time that the import wrote it",
    ))
}
