//! The records that are read at once to move slices into a window and out of it.

use std::sync::Arc;

use super::held::Move;
use crate::error::StoreError;
use crate::model::records::RecordId;
use crate::model::tier::TierSlice;
use crate::store::{PackedRecords, Store};

/// Some slices of a group of contexts.
pub(crate) struct Page {
    /// The number of the group.
    pub(crate) group: usize,
    pub(crate) contexts: Arc<[RecordId]>,
    pub(crate) moves: Vec<Move>,
}

/// Reads a page, but for slices that were open.
pub(crate) async fn read_page(
    store: &dyn Store,
    page: Page,
    seconds: u32,
) -> Result<(Page, Vec<PackedRecords>), StoreError> {
    let unread = page.moves.iter().filter(|of| !of.was_open);
    let unread: Vec<TierSlice> = unread.map(|of| (seconds, of.start)).collect();
    let records = match unread.is_empty() {
        true => Vec::new(),
        false => store.packed_records(&unread, &page.contexts).await?,
    };
    Ok((page, records))
}

/// Pages of at most so many slices, from the moves of each group in their order: the first page of each group, then the
/// second of each, and so on.
pub(crate) fn pages(groups: &[Arc<[RecordId]>], moves: &[Vec<Move>], slices: usize) -> Vec<Page> {
    let most = moves.iter().map(Vec::len).max().unwrap_or(0);
    let mut pages = Vec::new();
    for first in (0..most).step_by(slices) {
        for (group, moves) in moves.iter().enumerate() {
            let moves = moves.iter().skip(first).take(slices);
            let moves: Vec<Move> = moves.copied().collect();
            if !moves.is_empty() {
                pages.push(Page {
                    group,
                    contexts: groups[group].clone(),
                    moves,
                });
            }
        }
    }
    pages
}
