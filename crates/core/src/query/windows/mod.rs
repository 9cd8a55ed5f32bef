//! The sums of all contexts over windows, updated as time passes. A window has two *parts*: the window itself (part 0),
//! and the window before (part 1). The sums of a part are cached: slices that enter the part are added, and slices that
//! leave the part are subtracted. Other slices are not read again.
//!
//! The newest slices still change. These slices are *open*: their packed records are cached, and read again if the
//! revision of the slice has changed. All other slices are *settled*: their sums are in
//! [`RunningSums`](tower_pulse_model::running_sums::RunningSums). If a settled slice changes, for example because an
//! instance flushes after an outage, the sums are computed anew.
//!
//! The cache is bounded. The least recently requested windows are dropped first, and read again when they are
//! requested. A window that alone exceeds the cache is an error.

// Read this file, then `state.rs` (the cache), `held.rs`, `open_slices.rs`, `groups.rs` and `pages.rs` (the reads).
// `sums.rs` and `points.rs` have the answers.

mod groups;
mod held;
mod open_slices;
mod pages;
pub(super) mod points;
mod state;
pub(super) mod sums;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use self::held::Moved;
use self::pages::{Page, Pages, read_page, record_bytes};
use self::points::{Point, WindowPoints};
use self::state::{Ready, WindowState};
use self::sums::{RunningTimer, TargetCounts, TargetSums, WindowSums};
use crate::clock::{Clock, Tick};
use crate::query::coop_budget::CoopBudget;
use crate::query::span::Span;
use crate::query::{QueryError, Window};
use crate::store::{PackedRecords, Store};
use crate::targets::Targets;
use crate::task::boxed;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::pack;
use tower_pulse_model::records::{Record, RecordId};
use tower_pulse_model::tier::TierSlice;
use tower_pulse_model::tiers::Tiers;

/// The record index is read again when it is older than this.
const FRESH: Duration = Duration::from_secs(1);

/// After this time, a question is answered with the slices that were read so far.
const PATIENCE: Duration = Duration::from_millis(800);

pub(super) struct Windows {
    store: Arc<dyn Store>,
    clock: Clock,
    targets: Arc<Targets>,
    most_bytes: usize,
    state: Mutex<WindowState>,
    /// The size of the cache after the last question, in bytes.
    pub(super) held_bytes: AtomicUsize,
}

impl Windows {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        targets: Arc<Targets>,
        most_bytes: usize,
    ) -> Self {
        Self {
            store,
            clock,
            targets,
            most_bytes,
            state: Mutex::default(),
            held_bytes: AtomicUsize::new(0),
        }
    }

    /// Cancel safe: records that were read are kept.
    pub(super) async fn sums(&self, window: Window, span: Span) -> Result<WindowSums, QueryError> {
        let (state, mut budget, ready) = boxed(self.update(window, span.tiers)).await?;
        let (until, targets) = (span.recorded_until, &self.targets);
        let now = state.summaries(&ready, 0, until, targets, &mut budget);
        let now = now.await.into();
        let before = state.summaries(&ready, 1, until, targets, &mut budget);
        Ok(WindowSums {
            contexts: state.contexts.clone(),
            now,
            before: before.await.into(),
        })
    }

    /// Cancel safe: records that were read are kept.
    pub(super) async fn context(
        &self,
        window: Window,
        part: usize,
        tiers: Tiers,
        context: &ContextId,
    ) -> Result<Aggregate, QueryError> {
        let (state, _, ready) = boxed(self.update(window, tiers)).await?;
        let id = RecordId::new(context.kind, &context.name);
        Ok(state.sums_of(&ready, part, id).unwrap_or_default())
    }

    /// The contexts whose requests ran a timer in a window, with their sums. After [`sums`](Self::sums) of the same
    /// window, nothing is read. Takes time in proportion to the number of contexts.
    ///
    /// Cancel safe: records that were read are kept.
    pub(super) async fn running(
        &self,
        window: Window,
        tiers: Tiers,
        timer: RecordId,
    ) -> Result<Vec<RunningTimer>, QueryError> {
        let (state, mut budget, ready) = boxed(self.update(window, tiers)).await?;
        let mut running = Vec::new();
        for (id, context) in state.contexts.iter() {
            if context.kind == Kind::Http
                && let Some(sums) = state.sums_of(&ready, 0, *id)
                && let Some(timer) = sums.timers.get(timer)
            {
                running.push(RunningTimer {
                    context: context.clone(),
                    timer: *timer,
                    times: sums.times,
                });
            }
            budget.yield_if_spent().await;
        }
        Ok(running)
    }

    /// The request counts of each `PathTarget`, in a window.
    ///
    /// Cancel safe: records that were read are kept.
    pub(super) async fn targets(
        &self,
        window: Window,
        span: Span,
    ) -> Result<TargetSums, QueryError> {
        let (state, mut budget, ready) = boxed(self.update(window, span.tiers)).await?;
        let mut counts = Vec::with_capacity(self.targets.of_paths.len());
        for target in &self.targets.of_paths {
            let sums = state.sums_of(&ready, 0, target.id);
            counts.push(sums.map_or_else(TargetCounts::default, |sums| {
                TargetCounts::new(target, &sums)
            }));
            budget.yield_if_spent().await;
        }
        Ok(TargetSums {
            covered: state.covered(&ready, 0, span.recorded_until),
            counts,
        })
    }

    /// The points of some contexts in each retained slice of a window. After [`sums`](Self::sums) of the same window,
    /// nothing is read.
    ///
    /// Cancel safe: records that were read are kept.
    pub(super) async fn points(
        &self,
        window: Window,
        contexts: &[RecordId],
        span: Span,
    ) -> Result<WindowPoints, QueryError> {
        let (state, mut budget, ready) = boxed(self.update(window, span.tiers)).await?;
        let mut rows = Vec::with_capacity(contexts.len());
        for id in contexts {
            rows.push(state.points(&ready, *id, span.as_of));
            budget.yield_if_spent().await;
        }
        let slices = ready.parts[0].retained(ready.now);
        Ok(WindowPoints {
            precision: slices.tier.seconds,
            from: slices.from,
            to: slices.to,
            rows,
        })
    }

    /// Updates a window in the cache. Reads all open slices, and then settled slices until [`PATIENCE`] is over.
    async fn update(
        &self,
        window: Window,
        tiers: Tiers,
    ) -> Result<(MutexGuard<'_, WindowState>, CoopBudget<'_>, Ready), QueryError> {
        let mut state = self.state.lock().await;
        let mut budget = CoopBudget::new(&self.clock);
        let (began, now) = (self.clock.tick(), self.clock.now_seconds());
        let is_old = |at: Tick| self.clock.since(at) >= FRESH;
        if state.read_at.is_none_or(is_old) || state.is_unverified() {
            let index = self.store.query().record_index(now).await?;
            budget.yield_if_spent().await;
            state.take_index(index, now);
            state.read_at = Some(self.clock.tick());
        }
        budget.yield_if_spent().await;
        let at = state.hold(window, &self.clock);
        let parts = window.parts(tiers, now);
        let mut ready = Ready {
            at,
            parts,
            open: parts.each_ref().map(|part| state.open_slices(part, now)),
            unread: [0; 2],
            now,
        };
        for open in &ready.open {
            self.read_open(&mut state, at, open, &mut budget).await?;
        }
        self.advance(&mut state, &ready, began, &mut budget).await?;
        ready.unread = state.unread(&ready);
        self.held_bytes.store(state.bytes(), Relaxed);
        Ok((state, budget, ready))
    }

    /// Reads the open slices that are not cached or have changed.
    async fn read_open(
        &self,
        state: &mut WindowState,
        at: usize,
        slices: &[TierSlice],
        budget: &mut CoopBudget<'_>,
    ) -> Result<(), QueryError> {
        let unread = slices.iter().copied();
        let unread = unread.filter(|at| state.whole_open(*at).is_none());
        let unread: Vec<_> = unread.collect();
        for part in unread.chunks(state.slices_at_once()) {
            let mut read: Vec<_> = part.iter().map(|at| state.new_open(*at)).collect();
            for contexts in &state.groups.groups {
                let records = self.store.query().packed_records(part, contexts).await?;
                for (slice, records) in read.iter_mut().zip(records) {
                    slice.add(contexts, records);
                }
                budget.yield_if_spent().await;
            }
            for (at, slice) in part.iter().zip(read) {
                state.include_first(*at, !slice.records.is_empty());
                state.open.insert(*at, slice);
            }
            state.make_room(at, self.most_bytes)?;
        }
        Ok(())
    }

    /// Updates the sums of the settled slices of a window.
    async fn advance(
        &self,
        state: &mut WindowState,
        ready: &Ready,
        began: Tick,
        budget: &mut CoopBudget<'_>,
    ) -> Result<(), QueryError> {
        state.clear_passed(ready);
        let leaving = state.moves(ready, true);
        budget.yield_if_spent().await;
        self.make_moves(state, ready, leaving, None, budget).await?;
        if state.is_unverified() {
            // A subtracted record must equal the record that was added. A newer index shows whether records have
            // changed in between.
            let index = self.store.query().record_index(ready.now).await?;
            state.verify(ready.at, &index);
        }
        // The newest slices are added first, so an answer that is given early covers the end of the window.
        let entering = state.moves(ready, false);
        budget.yield_if_spent().await;
        self.make_moves(state, ready, entering, Some(began), budget)
            .await
    }

    /// Reads pages of records and applies the moves of their slices. With `began`, stops [`PATIENCE`] after this time.
    /// While a page is processed, the next page is read.
    async fn make_moves(
        &self,
        state: &mut WindowState,
        ready: &Ready,
        mut pages: Pages,
        began: Option<Tick>,
        budget: &mut CoopBudget<'_>,
    ) -> Result<(), QueryError> {
        let has_patience = || began.is_none_or(|began| self.clock.since(began) < PATIENCE);
        let (mut read, mut slices) = (None, state.slices_at_once());
        loop {
            let next = pages.next(slices).filter(|_| has_patience());
            let is_last = next.is_none();
            let reading = async {
                match next {
                    Some(page) => read_page(&*self.store, page, ready.seconds())
                        .await
                        .map(Some),
                    None => Ok(None),
                }
            };
            let taking_in = async {
                match read.take() {
                    Some((page, found)) => self.take_in(state, ready, page, found, budget).await,
                    None => Ok(()),
                }
            };
            let (next, taken_in) = tokio::join!(reading, taking_in);
            taken_in?;
            read = next?;
            // The size of a record is measured anew, because these records may be larger than the records of the open
            // slices.
            let bytes = read.as_ref().and_then(|(_, records)| record_bytes(records));
            slices = bytes.map_or(slices, |bytes| state.groups.slices_at_once(bytes));
            if is_last {
                return Ok(());
            }
            // A store in memory answers at once, so no other task could run during the read.
            budget.yield_if_spent().await;
        }
    }

    /// Applies all moves of a page, or none if the future is dropped.
    async fn take_in(
        &self,
        state: &mut WindowState,
        ready: &Ready,
        page: Page,
        mut read: Vec<PackedRecords>,
        budget: &mut CoopBudget<'_>,
    ) -> Result<(), QueryError> {
        let held = &state.held[ready.at];
        let entering = page.moves.iter().filter(|m| m.added[0].is_some());
        let points = entering.map(|m| (m.start, Vec::with_capacity(page.contexts.len())));
        let mut moved = Moved {
            group: page.group,
            sums: Default::default(),
            points: points.collect(),
        };
        let mut records: Vec<Option<Record>> = Vec::with_capacity(page.moves.len());
        let mut has_records = vec![false; read.len()];
        for (at, id) in page.contexts.iter().enumerate() {
            let mut unopened = read.iter_mut().zip(&mut has_records);
            records.clear();
            records.extend(page.moves.iter().map(|slice_move| {
                if slice_move.was_open {
                    let slice = state.open.get(&(ready.seconds(), slice_move.start))?;
                    return pack::read_record(slice.packed(*id)?);
                }
                let (slice, has_records) = unopened.next()?;
                // Frees the memory of each record at once, instead of at the end of the page.
                let packed = slice.get_mut(at)?.take()?;
                *has_records = true;
                pack::read_record(&packed)
            }));
            let with_records = || page.moves.iter().zip(&records);
            for part in 0..2 {
                let removed = with_records().filter(|(m, _)| m.is_removed[part]);
                let removed = removed.filter_map(|(_, record)| record.as_ref());
                let added = with_records().filter(|(m, _)| m.added[part].is_some());
                let added = added.filter_map(|(_, record)| record.as_ref());
                if removed.clone().chain(added.clone()).next().is_some() {
                    let sums = held.sums[part].changed(*id, removed, added);
                    moved.sums[part].push(sums);
                }
            }
            let entering = with_records().filter(|(m, _)| m.added[0].is_some());
            for ((_, record), (_, points)) in entering.zip(&mut moved.points) {
                let point = record.as_ref().map(|record| Point::from(&record.sums));
                points.push(point.unwrap_or_default());
            }
            budget.yield_if_spent().await;
        }
        let unopened = page.moves.iter().filter(|slice_move| !slice_move.was_open);
        for (slice_move, has_records) in unopened.zip(has_records) {
            state.include_first((ready.seconds(), slice_move.start), has_records);
        }
        budget.yield_if_spent().await;
        state.held[ready.at].change(&page.moves, moved);
        state.make_room(ready.at, self.most_bytes)
    }
}
