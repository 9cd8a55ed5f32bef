//! The records that are read at once to move slices into a window and out of it.

use std::collections::VecDeque;
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

/// Pages that are read one after the other.
pub(crate) struct Pages(VecDeque<Page>);

impl From<Vec<Page>> for Pages {
    fn from(pages: Vec<Page>) -> Self {
        Self(pages.into())
    }
}

impl Pages {
    /// Takes the next page, or only so many slices of it.
    pub(crate) fn next(&mut self, slices: usize) -> Option<Page> {
        let mut page = self.0.pop_front()?;
        if page.moves.len() > slices {
            let moves = page.moves.split_off(slices);
            let contexts = page.contexts.clone();
            self.0.push_front(Page {
                contexts,
                moves,
                ..page
            });
        }
        Some(page)
    }
}

/// The mean bytes of the records of a page; `None` if it has none.
pub(crate) fn record_bytes(read: &[PackedRecords]) -> Option<usize> {
    let records = || read.iter().flatten().flatten();
    let bytes: usize = records().map(Vec::len).sum();
    bytes.checked_div(records().count())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::model::window::Window;
    use crate::query::windows::held::HeldWindow;

    #[test]
    fn a_page_of_large_records_is_read_in_parts() {
        let (clock, _) = Clock::manual(0);
        let mut held = HeldWindow::new(Window::Last(300), clock.tick());
        held.set_seconds(60);
        let moves = (0..5).filter_map(|at| held.plan(0, 60 * at, [Some(1), None]));
        let moves: Vec<Move> = moves.collect();
        let mut all = Pages::from(pages(&[[].into()], &[moves], 5));
        let starts = |page: Page| {
            page.moves
                .iter()
                .map(|of| of.start / 60)
                .collect::<Vec<_>>()
        };
        let parts = [2, 2, 9, 9].map(|slices| all.next(slices).map(starts));
        let expected = [Some(vec![0, 1]), Some(vec![2, 3]), Some(vec![4]), None];
        assert_eq!(parts, expected);
        let read = [vec![Some(vec![0; 10]), None], vec![Some(vec![0; 20]), None]];
        assert_eq!((record_bytes(&read), record_bytes(&[])), (Some(15), None));
    }
}
