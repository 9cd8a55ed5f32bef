//! The pages of records that are read to move slices into a window and out of it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::held::Move;
use crate::error::StoreError;
use crate::store::{PackedRecords, Store};
use tower_pulse_model::records::RecordId;
use tower_pulse_model::tier::TierSlice;

pub(super) struct Page {
    pub group: usize,
    pub contexts: Arc<[RecordId]>,
    pub moves: Vec<Move>,
}

/// The slices of each group that must still be read.
pub(super) struct Pages(pub VecDeque<Page>);

impl Pages {
    /// The next page of at most `slices` slices. The first page of each group comes before the second page of any
    /// group.
    pub(super) fn next(&mut self, slices: usize) -> Option<Page> {
        let mut page = self.0.pop_front()?;
        if page.moves.len() > slices {
            let moves = page.moves.split_off(slices);
            let contexts = page.contexts.clone();
            self.0.push_back(Page {
                contexts,
                moves,
                ..page
            });
        }
        Some(page)
    }
}

/// The mean size of the records of a page in bytes; `None` if the page has no records.
pub(super) fn record_bytes(read: &[PackedRecords]) -> Option<usize> {
    let records = || read.iter().flatten().flatten();
    let bytes: usize = records().map(Vec::len).sum();
    bytes.checked_div(records().count())
}

/// Reads a page. Leaves out slices whose records are cached because the slices were open.
pub(super) async fn read_page(
    store: &dyn Store,
    page: Page,
    seconds: u32,
) -> Result<(Page, Vec<PackedRecords>), StoreError> {
    let unread = page.moves.iter().filter(|m| !m.was_open);
    let unread: Vec<TierSlice> = unread.map(|m| (seconds, m.start)).collect();
    let query = store.query();
    let records = match unread.is_empty() {
        true => Vec::new(),
        false => query.packed_records(&unread, &page.contexts).await?,
    };
    Ok((page, records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::windows::held::tests::window;

    #[test]
    fn the_first_page_of_each_group_is_read_before_further_pages() {
        let held = window(&[]);
        let page = |(group, slices)| Page {
            group,
            contexts: [].into(),
            moves: (0..slices)
                .filter_map(|at| held.plan(0, 60 * at, [Some(1), None]))
                .collect(),
        };
        let mut pages = Pages([(0, 5), (2, 3)].map(page).into());
        let mut next = |slices| {
            let page = pages.next(slices)?;
            let starts = page.moves.iter().map(|slice_move| slice_move.start / 60);
            Some((page.group, starts.collect::<Vec<_>>()))
        };
        assert_eq!(next(2), Some((0, vec![0, 1])));
        assert_eq!(next(2), Some((2, vec![0, 1])));
        // The maximum number of slices changes with the size of the records.
        assert_eq!(next(1), Some((0, vec![2])));
        assert_eq!(next(9), Some((2, vec![2])));
        assert_eq!(next(9), Some((0, vec![3, 4])));
        assert_eq!(next(9), None);
    }
}
