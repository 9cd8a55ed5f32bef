//! The cache of windows, which lasts from one question to the next, and the answers that need only the cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::groups::{ContextGroups, PER_CONTEXT};
use super::held::{HeldWindow, Move};
use super::open_slices::{OpenSlice, SETTLED_FOR, is_open};
use super::pages::{Page, Pages};
use super::points::{Point, longest_poll};
use super::sums::{PartSums, PollSums, Summary};
use crate::clock::{Clock, Tick};
use crate::query::coop_budget::CoopBudget;
use crate::query::window::WindowSlices;
use crate::query::{Covered, QueryError, Window};
use crate::store::RecordIndex;
use crate::targets::Targets;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::measures::Measure;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::slices::Merge;
use tower_pulse_model::sorted::Map;
use tower_pulse_model::tier::{FINEST, Revision, TierSlice};

/// The time after which the sums of an unused window are dropped.
const UNUSED_TTL: Duration = Duration::from_secs(120);

/// The maximum number of cached windows: as many as there are window names. A screen of the dashboard asks for one or
/// two windows at a time.
const MAX_WINDOWS: usize = 10;

/// The assumed size of a record in bytes before any record is read. Most records are smaller.
const UNKNOWN_RECORD_BYTES: usize = 1_024;

/// Approximate bytes of a context in the index and in `contexts`, without its name.
const PER_NAME: usize = 120;

/// Approximate bytes of an error kind's name.
const PER_KIND: usize = 80;

/// A window whose slices were read, as far as time allowed.
pub(super) struct Ready {
    /// The window's position in the cache.
    pub at: usize,
    /// The window, and the window before it.
    pub parts: [WindowSlices; 2],
    pub open: [Vec<TierSlice>; 2],
    /// The number of slices of each part that were not read because time ran out.
    pub unread: [usize; 2],
    pub now: i64,
}

impl Ready {
    pub(super) fn seconds(&self) -> u32 {
        self.parts[0].tier.seconds
    }

    /// For each part, whether the part has this slice, and the slice has settled.
    fn has_settled(&self, start: i64) -> [bool; 2] {
        let at = (self.seconds(), start);
        [0, 1].map(|part| {
            let slices = self.parts[part].retained(self.now);
            slices.contains(start) && !self.open[part].contains(&at)
        })
    }
}

#[derive(Default)]
pub(super) struct WindowState {
    index: RecordIndex,
    pub contexts: Arc<HashMap<RecordId, ContextId>>,
    /// Bytes of the names of the contexts.
    name_bytes: usize,
    pub groups: ContextGroups,
    /// The open slices that were read.
    pub open: HashMap<TierSlice, OpenSlice>,
    /// Of the slices that were read, the start of the oldest slice that has records, but ended before the recorded time
    /// of the index begins. Instances send samples of that time if they could not reach a store before, or after a
    /// reset.
    first: Option<i64>,
    pub read_at: Option<Tick>,
    pub held: Vec<HeldWindow>,
}

/// The revision of a slice. A slice without a revision was never written, or the revisions were lost.
fn revision(index: &RecordIndex, at: TierSlice) -> Revision {
    index.revisions.get(&at).copied().unwrap_or(0)
}

impl WindowState {
    /// Stores a new index. Drops settled slices from `open`, and clears each part of a window in which a slice has
    /// changed.
    pub(super) fn take_index(&mut self, index: RecordIndex, now: i64) {
        let mut is_obsolete = false;
        if index.contexts != self.index.contexts || self.contexts.is_empty() {
            let contexts = index.contexts.iter().cloned().chain([ContextId::all()]);
            let contexts = contexts.map(|id| (RecordId::new(id.kind, &id.name), id));
            self.contexts = Arc::new(contexts.collect());
            let names = self.contexts.values();
            self.name_bytes = names.map(|id| id.name.len() + PER_NAME).sum();
            is_obsolete = self.groups.include(self.contexts.keys().copied());
        }
        if index.created != self.index.created {
            // A reset of the store has begun another generation, with other data.
            (self.first, is_obsolete) = (None, true);
        }
        if is_obsolete {
            self.open.clear();
            self.held.clear();
        }
        let earlier = now.saturating_sub(SETTLED_FOR);
        let is_pending = |at: &TierSlice| at.0 == FINEST.seconds && index.rolled.is_pending(at.1);
        (self.open).retain(|at, _| is_open(*at, earlier) || is_pending(at));
        for held in &mut self.held {
            let seconds = held.seconds;
            held.verify(|start| revision(&index, (seconds, start)));
        }
        self.index = index;
    }

    /// Whether slices were subtracted from a window since the index was read.
    pub(super) fn is_unverified(&self) -> bool {
        self.held.iter().any(HeldWindow::is_unverified)
    }

    /// Clears each part of a window in which a slice has another revision in `index`. `index` must have been read after
    /// the last subtraction.
    pub(super) fn verify(&mut self, at: usize, index: &RecordIndex) {
        let held = &mut self.held[at];
        let seconds = held.seconds;
        held.verify(|start| revision(index, (seconds, start)));
        if index.created != self.index.created {
            held.clear();
        }
        // The slices that are added next get these revisions. The revisions are read before the records, so a later
        // change of the records is noticed.
        self.index.revisions.clone_from(&index.revisions);
    }

    /// Remembers the oldest slice that has records from before the recorded time of the index. The slice in which the
    /// recorded time begins does not count, because it was recorded only in part.
    pub(super) fn include_first(&mut self, (seconds, start): TierSlice, has_records: bool) {
        let is_before = start.saturating_add(i64::from(seconds)) <= self.index.recorded.since();
        if is_before && has_records {
            self.first = Some(self.first.map_or(start, |first| first.min(start)));
        }
    }

    /// The slices of a window that may still change, and the minutes that are not yet in wider slices.
    pub(super) fn open_slices(&self, slices: &WindowSlices, now: i64) -> Vec<TierSlice> {
        let seconds = slices.tier.seconds;
        let pending = self.index.rolled.pending();
        let starts = slices.starts(now).map(|start| (seconds, start));
        let mut open: Vec<TierSlice> = starts.filter(|at| is_open(*at, now)).collect();
        if slices.tier != FINEST {
            for minute in pending.filter(|minute| slices.contains(*minute)) {
                open.push((seconds, slices.tier.slice(minute)));
                open.push((FINEST.seconds, minute));
            }
        }
        open.order();
        open.dedup();
        open
    }

    /// An open slice, if the slice was read completely and has not changed since the read.
    pub(super) fn whole_open(&self, at: TierSlice) -> Option<&OpenSlice> {
        let revision = self.index.revisions.get(&at).copied();
        // If the index has no revisions at all, the revisions were lost, and changes would go unnoticed.
        let has_revisions = revision.is_some() || !self.index.revisions.is_empty();
        let groups = self.groups.groups.len();
        let is_whole = |slice: &&OpenSlice| slice.revision == revision && slice.groups == groups;
        let slice = self.open.get(&at).filter(is_whole);
        slice.filter(|_| has_revisions)
    }

    /// An open slice without records yet, with its current revision.
    pub(super) fn new_open(&self, at: TierSlice) -> OpenSlice {
        OpenSlice {
            revision: self.index.revisions.get(&at).copied(),
            ..OpenSlice::default()
        }
    }

    /// The position of a window in the cache. Adds the window if the cache lacks it.
    pub(super) fn hold(&mut self, window: Window, clock: &Clock) -> usize {
        let now = clock.tick();
        let is_used =
            |held: &HeldWindow| held.window == window || clock.since(held.asked_at) < UNUSED_TTL;
        self.held.retain(is_used);
        if let Some(at) = self.held.iter().position(|held| held.window == window) {
            self.held[at].asked_at = now;
            return at;
        }
        if self.held.len() >= MAX_WINDOWS {
            let windows = self.held.iter().enumerate();
            let oldest = windows.min_by_key(|(_, held)| held.asked_at);
            let oldest = oldest.map_or(0, |(at, _)| at);
            self.held.swap_remove(oldest);
        }
        self.held.push(HeldWindow::new(window, now));
        self.held.len() - 1
    }

    pub(super) fn bytes(&self) -> usize {
        let held = self.held.iter().map(HeldWindow::bytes);
        let open = self.open.values().map(|slice| slice.bytes);
        let groups = self.groups.contexts() * PER_CONTEXT;
        held.chain(open).sum::<usize>() + groups + self.name_bytes
    }

    /// Drops the sums of the least recently requested windows until the cache fits. Keeps the window at `at`. Returns
    /// an error if this window alone does not fit.
    pub(super) fn make_room(&mut self, at: usize, most_bytes: usize) -> Result<(), QueryError> {
        while self.bytes() > most_bytes {
            let others = self.held.iter_mut().enumerate();
            let others = others.filter(|(other, held)| *other != at && held.bytes() > 0);
            let Some((_, oldest)) = others.min_by_key(|(_, held)| held.asked_at) else {
                self.held[at].clear();
                self.open.clear();
                return Err(QueryError::no_room(self.groups.contexts(), most_bytes));
            };
            oldest.clear();
        }
        Ok(())
    }

    /// Clears each part of a window that would lose more slices than it will have. To add its slices anew is less work.
    pub(super) fn clear_passed(&mut self, ready: &Ready) {
        let held = &mut self.held[ready.at];
        held.set_seconds(ready.seconds());
        for part in 0..2 {
            let settled = ready.parts[part].starts(ready.now);
            let settled = settled.filter(|start| ready.has_settled(*start)[part]);
            let sums = &held.sums[part];
            let groups = 0..sums.groups();
            let left = |group| {
                sums.slices(group)
                    .filter(|(start, _)| !ready.has_settled(*start)[part])
            };
            let most = groups.map(|group| left(group).count()).max();
            if most.unwrap_or(0) > settled.count() {
                held.clear_part(part);
            }
        }
    }

    pub(super) fn slices_at_once(&self) -> usize {
        let slices = self.open.values();
        // The mean size of a record in the slice with the largest records.
        let means = slices.filter_map(|slice| slice.bytes.checked_div(slice.records.len()));
        (self.groups).slices_at_once(means.max().unwrap_or(UNKNOWN_RECORD_BYTES))
    }

    /// If `are_leaving`, the moves of slices that leave a part of the window, otherwise the moves of slices that enter
    /// a part. The newest slices come first.
    pub(super) fn moves(&self, ready: &Ready, are_leaving: bool) -> Pages {
        let (held, seconds) = (&self.held[ready.at], ready.seconds());
        let of_window = ready.parts.iter();
        let of_window: Vec<i64> = of_window.flat_map(|part| part.starts(ready.now)).collect();
        let of_group = |group: usize| -> Vec<Move> {
            let held_slices = held.sums.iter().flat_map(|sums| sums.slices(group));
            let mut starts: Vec<i64> = held_slices.map(|(start, _)| start).collect();
            starts.extend(&of_window);
            starts.order_by(|a, b| b.cmp(a));
            starts.dedup();
            let moves = starts.into_iter().filter_map(|start| {
                let at = (seconds, start);
                let revision = revision(&self.index, at);
                let revisions = ready
                    .has_settled(start)
                    .map(|is_in| is_in.then_some(revision));
                let plan = held.plan(group, start, revisions)?;
                let was_open = self.whole_open(at).is_some();
                (plan.is_leaving() == are_leaving).then_some(Move { was_open, ..plan })
            });
            moves.collect()
        };
        let groups = self.groups.groups.iter().enumerate();
        let pages = groups.map(|(group, contexts)| Page {
            group,
            contexts: contexts.clone(),
            moves: of_group(group),
        });
        Pages(pages.filter(|page| !page.moves.is_empty()).collect())
    }

    /// The number of slices in each part that are not yet in the sums of all contexts.
    pub(super) fn unread(&self, ready: &Ready) -> [usize; 2] {
        let groups = 0..self.groups.groups.len();
        [0, 1].map(|part| {
            let sums = &self.held[ready.at].sums[part];
            let starts = ready.parts[part].starts(ready.now);
            let is_unread = |start: &i64| {
                ready.has_settled(*start)[part]
                    && groups
                        .clone()
                        .any(|group| sums.revision(group, *start).is_none())
            };
            starts.filter(is_unread).count()
        })
    }

    /// Calls `each` with each open record of a context, and with the start of the window's slice that includes the
    /// record.
    fn each_open_record(
        &self,
        ready: &Ready,
        part: usize,
        id: RecordId,
        mut each: impl FnMut(i64, &Record),
    ) {
        let tier = ready.parts[part].tier;
        for at in &ready.open[part] {
            let record = self.open.get(at).and_then(|slice| slice.get(id));
            let Some(record) = record else {
                continue;
            };
            let wide = (tier.seconds, tier.slice(at.1));
            let of_tier = self.open.get(&wide).filter(|_| at.0 != tier.seconds);
            // The record of the wider slice may already include the minute.
            let rolled = of_tier.and_then(|slice| slice.get(id));
            let is_part = rolled.is_some_and(|rolled| at.1 < rolled.rolled_until);
            if !is_part {
                each(wide.1, &record);
            }
        }
    }

    /// The sums of a context in a part of a window; `None` without samples.
    pub(super) fn sums_of(&self, ready: &Ready, part: usize, id: RecordId) -> Option<Aggregate> {
        self.sums_and_open(ready, part, id).map(|(sums, _)| sums)
    }

    /// The sums of a context in a part of a window, and the longest poll of the context within open slices, in
    /// microseconds; `None` without samples.
    fn sums_and_open(&self, ready: &Ready, part: usize, id: RecordId) -> Option<(Aggregate, u32)> {
        let mut sums = self.held[ready.at].sums[part].get(id);
        let mut longest = 0;
        self.each_open_record(ready, part, id, |_, record| {
            longest = longest.max(longest_poll(&record.sums));
            sums.get_or_insert_default().merge(&record.sums);
        });
        sums.map(|sums| (sums, longest))
    }

    /// The points of a context in each retained slice of a window.
    pub(super) fn points(&self, ready: &Ready, id: RecordId, as_of: i64) -> Vec<Option<Point>> {
        let (slices, held) = (ready.parts[0], &self.held[ready.at].points);
        let starts = slices.starts(ready.now);
        let mut open: Map<i64, Aggregate> = Map::default();
        self.each_open_record(ready, 0, id, |start, record| {
            open.or_insert_with(start, Aggregate::default)
                .merge(&record.sums);
        });
        let (seconds, recorded) = (slices.tier.seconds, self.recorded());
        let position = self.groups.position(id);
        let point = |start: i64| {
            let is_open = ready.open[0].contains(&(seconds, start));
            let point = match is_open {
                true => Some(open.get(&start).map_or_else(Point::default, Point::from)),
                false => {
                    position.and_then(|(group, at)| held.get(&(group, start))?.get(at).copied())
                }
            };
            let end = start.saturating_add(i64::from(seconds));
            let was_recorded = recorded.has_any(start.max(slices.since), end) && start < as_of;
            point.filter(|point| was_recorded || point.hits > 0)
        };
        starts.map(point).collect()
    }

    /// The recorded time of the index, extended to the oldest slice with records.
    fn recorded(&self) -> RecordedTime {
        let recorded = &self.index.recorded;
        recorded.extended_to(self.first.unwrap_or(i64::MAX))
    }

    /// The measurements of all contexts in a part of a window. Lets other tasks run between contexts.
    pub(super) async fn summaries(
        &self,
        ready: &Ready,
        part: usize,
        until: i64,
        targets: &Targets,
        budget: &mut CoopBudget<'_>,
    ) -> PartSums {
        let held = &self.held[ready.at];
        let mut summaries = HashMap::with_capacity(self.groups.contexts());
        let (mut error, mut tally_bytes) = (0f64, 0);
        let has_exact_bounds = held.sums[part].has_exact_bounds();
        for (number, group) in self.groups.groups.iter().enumerate() {
            let settled = ready.parts[part].starts(ready.now);
            let settled = settled.filter_map(|start| held.points.get(&(number, start)));
            let settled: Vec<_> = settled.collect();
            for (at, id) in group.iter().enumerate() {
                if let Some((sums, open)) = self.sums_and_open(ready, part, *id) {
                    error = error.max(sums.histogram.error());
                    let target = targets.seconds_of(*id);
                    let mut summary = Summary::new(&sums, has_exact_bounds, target);
                    // When a slice leaves the window, its longest poll cannot be subtracted from the sums. So the
                    // longest poll comes from the points, which the window before does not have.
                    if part == 0 && !has_exact_bounds {
                        let points = settled.iter().filter_map(|points| points.get(at));
                        let longest = points.map(|point| point.longest_poll);
                        let longest = longest.fold(open, u32::max);
                        summary.polls = PollSums::new(&sums, Some(longest));
                    }
                    tally_bytes += summary.codes.bytes() + summary.kinds.bytes();
                    tally_bytes += summary.kinds.iter().len() * PER_KIND;
                    summaries.insert(*id, summary);
                }
                budget.yield_if_spent().await;
            }
        }
        PartSums {
            covered: self.covered(ready, part, until),
            error,
            summaries,
            tally_bytes,
        }
    }

    /// The recorded time and the missing requests of a part of a window, without slices that are not read yet.
    pub(super) fn covered(&self, ready: &Ready, part: usize, until: i64) -> Covered {
        let slices = ready.parts[part];
        let mut covered = slices.covered(&self.recorded(), until, ready.now);
        let unread = i64::from(slices.tier.seconds) * ready.unread[part] as i64;
        let seconds = covered.recorded_seconds.saturating_sub(unread).max(0);
        covered = covered.with_seconds(seconds, slices.passed(ready.now));
        let all = ContextId::all();
        let sums = self.sums_of(ready, part, RecordId::new(all.kind, &all.name));
        covered.missing = sums.map_or(0, |sums| sums.measures.get(Measure::Missing));
        covered
    }
}
