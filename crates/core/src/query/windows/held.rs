//! The settled slices of a window: their sums, and the points of each slice.

use std::collections::HashMap;

use super::points::Point;
use crate::clock::Tick;
use crate::query::window::Window;
use tower_pulse_model::running_sums::{PackedSums, RunningSums};
use tower_pulse_model::tier::Revision;

/// Approximate bytes of a list of points, without the points.
const PER_LIST: usize = 64;

/// A change of the sums of a group of contexts: a slice is added to parts of the window, or removed from parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Move {
    pub start: i64,
    /// The revision with which the slice is added to each part; `None` if the slice is not added.
    pub added: [Option<Revision>; 2],
    pub is_removed: [bool; 2],
    /// Whether the slice's records are cached, because the slice was open.
    pub was_open: bool,
}

impl Move {
    pub(super) fn is_leaving(&self) -> bool {
        self.is_removed.contains(&true)
    }
}

/// The new sums and points of a group of contexts after some moves.
#[derive(Default)]
pub(super) struct Moved {
    pub group: usize,
    pub sums: [Vec<PackedSums>; 2],
    /// The points of each slice that enters the window.
    pub points: Vec<(i64, Vec<Point>)>,
}

pub(super) struct HeldWindow {
    pub window: Window,
    pub asked_at: Tick,
    pub sums: [RunningSums; 2],
    /// The points of the contexts of a group, in the order of the group, by the number of the group and the start of
    /// the slice.
    pub points: HashMap<(usize, i64), Vec<Point>>,
    /// The length of the slices, in seconds.
    pub seconds: u32,
    /// For each part, the subtracted slices with their revisions. Records may have changed between their addition and
    /// their subtraction, so the revisions are compared with a newer index.
    unverified: [Vec<(i64, Revision)>; 2],
}

impl HeldWindow {
    pub(super) fn new(window: Window, asked_at: Tick) -> Self {
        Self {
            window,
            asked_at,
            sums: Default::default(),
            points: HashMap::new(),
            seconds: 0,
            unverified: Default::default(),
        }
    }

    /// Sets the length of the slices. If the length changes, clears both parts.
    pub(super) fn set_seconds(&mut self, seconds: u32) {
        if self.seconds != seconds {
            self.clear();
            self.seconds = seconds;
        }
    }

    /// The move that a slice of a group of contexts needs, if any. For each part, `revisions` has the revision of the
    /// slice; `None` if the part must not have the slice.
    pub(super) fn plan(
        &self,
        group: usize,
        start: i64,
        revisions: [Option<Revision>; 2],
    ) -> Option<Move> {
        let mut plan = Move {
            start,
            ..Move::default()
        };
        for (part, revision) in revisions.into_iter().enumerate() {
            let is_held = self.sums[part].revision(group, start).is_some();
            plan.added[part] = revision.filter(|_| !is_held);
            plan.is_removed[part] = is_held && revision.is_none();
        }
        let is_added = plan.added.iter().any(Option::is_some);
        (is_added || plan.is_leaving()).then_some(plan)
    }

    pub(super) fn change(&mut self, moves: &[Move], moved: Moved) {
        let group = moved.group;
        for (part, sums) in moved.sums.into_iter().enumerate() {
            let running = &mut self.sums[part];
            let removed = moves.iter().filter(|m| m.is_removed[part]);
            let removed = removed.map(|m| m.start);
            let added = moves.iter();
            let added = added.filter_map(|m| Some((m.start, m.added[part]?)));
            let revisions = removed.clone();
            let revisions =
                revisions.filter_map(|start| Some((start, running.revision(group, start)?)));
            self.unverified[part].extend(revisions);
            running.change(group, removed.clone(), added, sums);
            if part == 0 {
                removed.for_each(|start| drop(self.points.remove(&(group, start))));
            }
        }
        let points = moved.points.into_iter();
        (self.points).extend(points.map(|(start, points)| ((group, start), points)));
    }

    /// Whether slices were subtracted since the index was read.
    pub(super) fn is_unverified(&self) -> bool {
        self.unverified.iter().any(|slices| !slices.is_empty())
    }

    /// Clears each part in which a slice has changed since the slice was added. Checks subtracted slices too.
    pub(super) fn verify(&mut self, revision: impl Fn(i64) -> Revision) {
        for (part, removed) in std::mem::take(&mut self.unverified).into_iter().enumerate() {
            let sums = &self.sums[part];
            let slices = (0..sums.groups()).flat_map(|group| sums.slices(group));
            let has_changed = slices
                .chain(removed)
                .any(|(start, held)| held != revision(start));
            if has_changed {
                self.clear_part(part);
            }
        }
    }

    pub(super) fn clear_part(&mut self, part: usize) {
        self.sums[part].clear();
        self.unverified[part].clear();
        if part == 0 {
            self.points.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        (0..2).for_each(|part| self.clear_part(part));
    }

    pub(super) fn bytes(&self) -> usize {
        let sums = self.sums.iter().map(RunningSums::bytes);
        let points = self.points.values();
        let points = points.map(|points| size_of_val(&**points) + PER_LIST);
        sums.chain(points).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::clock::Clock;

    /// A window that holds the minutes with these starts, at revision 1.
    pub(in crate::query::windows) fn window(starts: &[i64]) -> HeldWindow {
        let (clock, _) = Clock::manual(0);
        let mut held = HeldWindow::new(Window::seconds(300), clock.tick());
        held.set_seconds(60);
        for start in starts {
            let plan = held.plan(0, *start, [Some(1), None]).expect("it is added");
            held.change(&[plan], Moved::default());
        }
        held
    }

    #[test]
    fn a_part_is_cleared_if_a_held_or_a_subtracted_slice_has_changed() {
        for changed in [0, 60] {
            let mut held = window(&[0, 60]);
            let plan = held.plan(0, 0, [None, None]).expect("it leaves");
            held.change(&[plan], Moved::default());
            held.verify(|start| 1 + Revision::from(start == changed));
            assert!(held.sums[0].slices(0).next().is_none(), "{changed}");
            assert_eq!(held.bytes(), 0, "{changed}");
        }
    }
}
