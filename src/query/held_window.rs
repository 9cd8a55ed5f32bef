//! The slices of a window that have settled: their sums, and each of them by itself.

use super::window_points::SlicePoints;
use crate::clock::Tick;
use crate::model::records::{Record, RecordId};
use crate::model::tier::Revision;
use crate::model::window::{RunningSums, Window};

/// The sums of a window and of the one before it.
pub(crate) struct HeldWindow {
    pub(crate) window: Window,
    pub(crate) asked_at: Tick,
    pub(crate) sums: [RunningSums; 2],
    /// The slices of the first of these sums, one by one.
    pub(crate) points: SlicePoints,
}

impl HeldWindow {
    pub(crate) fn new(window: Window, asked_at: Tick) -> Self {
        Self {
            window,
            asked_at,
            sums: Default::default(),
            points: SlicePoints::default(),
        }
    }

    /// Adds a slice to the sums of the window, which are part 0, or to those of the window before.
    pub(crate) fn add(
        &mut self,
        part: usize,
        start: i64,
        revision: Revision,
        records: &[(RecordId, Record)],
    ) {
        self.sums[part].add(start, revision, records);
        if part == 0 {
            self.points.add(start, records);
        }
    }

    /// Takes a slice out, with the same records that were added.
    pub(crate) fn remove(&mut self, part: usize, start: i64, records: &[(RecordId, Record)]) {
        self.sums[part].remove(start, records);
        if part == 0 {
            self.points.remove(start);
        }
    }

    /// Takes everything out of a part.
    pub(crate) fn clear(&mut self, part: usize) {
        self.sums[part].clear();
        if part == 0 {
            self.points.clear();
        }
    }
}
