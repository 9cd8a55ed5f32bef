//! The sums of all contexts over windows, brought up to date as time passes: a window that was asked for before
//! takes the slices that have entered and left it since, and not all slices again.
//!
//! The newest slices still change. They are *open*: their records are held as they are, and read again when they
//! have another revision. All other slices are in [`RunningSums`]. If one of these changes after all, as when an
//! instance flushes after an outage, the sums are made again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::held_window::HeldWindow;
use super::window_points::{Point, WindowPoints};
use super::window_sums::{PartSums, Summary, WindowSums};
use crate::clock::{Clock, Tick};
use crate::error::StoreError;
use crate::model::aggregate::Aggregate;
use crate::model::context::ContextId;
use crate::model::pack;
use crate::model::records::{Record, RecordId};
use crate::model::slices::Merge;
use crate::model::tier::{FINEST, Revision, TierSlice};
use crate::model::window::{Window, WindowSlices};
use crate::store::{RecordIndex, Store};

/// Age up to which the records are not read again.
const FRESH: Duration = Duration::from_secs(1);

/// Seconds after its end during which a slice is open, as instances may still flush samples of it.
const OPEN_FOR: i64 = 150;

/// Time after which an answer is given with those slices that were read until then.
const PATIENCE: Duration = Duration::from_millis(800);

/// Time after which the sums of a window that nobody asks for are dropped.
const UNUSED_TTL: Duration = Duration::from_secs(120);

/// Contexts that are summed up before other tasks may run.
const CONTEXTS_AT_ONCE: usize = 64;

/// The most windows whose sums are held: all that have a name. A page asks for one or two at a time.
const MAX_WINDOWS: usize = 8;

/// The records of a slice that is open, packed.
struct OpenSlice {
    revision: Option<Revision>,
    records: HashMap<RecordId, Box<[u8]>>,
}

impl OpenSlice {
    fn new(revision: Option<Revision>, records: &[(RecordId, Record)]) -> Self {
        let records = records.iter();
        let records = records.map(|(id, record)| (*id, pack::record(record).into()));
        Self {
            revision,
            records: records.collect(),
        }
    }

    fn get(&self, id: RecordId) -> Option<Record> {
        pack::read_record(self.records.get(&id)?)
    }
}

/// A window whose slices are read.
struct Ready {
    /// Its place among the windows that are held.
    at: usize,
    /// The window, and the window before it.
    parts: [WindowSlices; 2],
    open: [Vec<TierSlice>; 2],
    /// How many slices time did not suffice for.
    unread: [usize; 2],
    now: i64,
}

/// Adds up the records of all contexts.
pub(crate) struct Windows {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The time that requests should stay below, in seconds.
    target: Option<f64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    index: RecordIndex,
    contexts: Arc<HashMap<RecordId, ContextId>>,
    open: HashMap<TierSlice, OpenSlice>,
    /// The oldest start of a slice that had records and ended before the store was created, as far as slices were read.
    first: Option<i64>,
    read_at: Option<Tick>,
    held: Vec<HeldWindow>,
}

impl Windows {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, target: Option<f64>) -> Self {
        Self {
            store,
            clock,
            target,
            state: Mutex::default(),
        }
    }

    /// What all contexts measured in a window. `until` is the end of the time that counts as recorded.
    ///
    /// Cancel safe: what was read so far stays.
    pub(crate) async fn sums(&self, window: Window, until: i64) -> Result<WindowSums, StoreError> {
        let mut state = self.state.lock().await;
        let ready = self.bring_up_to_date(&mut state, window).await?;
        let now = state.summaries(&ready, 0, until, self.target).await;
        let before = state.summaries(&ready, 1, until, self.target).await;
        Ok(WindowSums {
            contexts: state.contexts.clone(),
            now,
            before,
        })
    }

    /// The sums of one context in a window and in the window before.
    ///
    /// Cancel safe: what was read so far stays.
    pub(crate) async fn context(
        &self,
        window: Window,
        context: &ContextId,
    ) -> Result<[Aggregate; 2], StoreError> {
        let mut state = self.state.lock().await;
        let ready = self.bring_up_to_date(&mut state, window).await?;
        let id = RecordId::new(context.kind, &context.name);
        let sums = |part: usize| {
            let running = state.held[ready.at].sums[part].get(id);
            let mut sums = running.unwrap_or_default();
            state
                .open_sums(&ready, part, Some(id))
                .values()
                .for_each(|open| sums.merge(open));
            sums
        };
        Ok([sums(0), sums(1)])
    }

    /// What some contexts measured in each slice of a window that is retained. `as_of` is the moment up to which
    /// everything can be read. After [`sums`](Self::sums) of the same window it reads nothing more.
    ///
    /// Cancel safe: what was read so far stays.
    pub(crate) async fn points(
        &self,
        window: Window,
        contexts: &[RecordId],
        as_of: i64,
    ) -> Result<WindowPoints, StoreError> {
        let mut state = self.state.lock().await;
        let ready = self.bring_up_to_date(&mut state, window).await?;
        let rows = contexts.iter().map(|id| state.points(&ready, *id, as_of));
        let slices = ready.parts[0].retained(ready.now);
        Ok(WindowPoints {
            precision: slices.tier.seconds,
            from: slices.from,
            to: slices.to,
            rows: rows.collect(),
        })
    }

    /// Reads what has changed, as far as time allows.
    async fn bring_up_to_date(
        &self,
        state: &mut State,
        window: Window,
    ) -> Result<Ready, StoreError> {
        let (began, now) = (self.clock.tick(), self.clock.now_seconds());
        self.refresh(state, now).await?;
        let at = self.hold(state, window);
        let slices = window.slices(now);
        let parts = [slices, slices.before()];
        let open = parts.each_ref().map(|part| state.open_slices(part, now));
        for open in &open {
            self.read_open(state, open).await?;
        }
        let mut unread = [0; 2];
        for (part, slices) in parts.iter().enumerate() {
            let advanced = self.advance(state, (at, part), slices, &open[part], (began, now));
            unread[part] = advanced.await?;
        }
        Ok(Ready {
            at,
            parts,
            open,
            unread,
            now,
        })
    }

    /// Reads the index, and the open slices that have changed.
    async fn refresh(&self, state: &mut State, now: i64) -> Result<(), StoreError> {
        if state.read_at.is_some_and(|at| self.clock.since(at) < FRESH) {
            return Ok(());
        }
        let index = self.store.record_index(now).await?;
        if index.contexts != state.index.contexts || state.contexts.is_empty() {
            let contexts = index.contexts.iter().cloned().chain([ContextId::all()]);
            let contexts = contexts.map(|id| (RecordId::new(id.kind, &id.name), id));
            state.contexts = Arc::new(contexts.collect());
        }
        if index.created != state.index.created {
            // Another generation of the store has other data.
            (state.open, state.first) = (HashMap::new(), None);
            state.held.clear();
        }
        state.index = index;
        let index = &state.index;
        let is_pending = |at: &TierSlice| at.0 == FINEST.seconds && index.rolled.is_pending(at.1);
        state
            .open
            .retain(|at, _| is_open(*at, now) || is_pending(at));
        state.read_at = Some(self.clock.tick());
        Ok(())
    }

    /// Reads open slices that are not read yet, or have changed since.
    async fn read_open(&self, state: &mut State, slices: &[TierSlice]) -> Result<(), StoreError> {
        for at in slices {
            let revision = state.index.revisions.get(at).copied();
            // A slice without a revision was never written, unless the revisions were lost.
            let has_revisions = revision.is_some() || !state.index.revisions.is_empty();
            let open = state.open.get(at);
            if has_revisions && open.is_some_and(|open| open.revision == revision) {
                continue;
            }
            let mut records = self.store.slice_records(std::slice::from_ref(at)).await?;
            let records = records.pop().unwrap_or_default().records;
            state.include_first(*at, &records);
            state.open.insert(*at, OpenSlice::new(revision, &records));
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Brings the sums of the settled slices of a window up to date. Returns the number of slices that are still
    /// to be read.
    async fn advance(
        &self,
        state: &mut State,
        (at, part): (usize, usize),
        slices: &WindowSlices,
        open: &[TierSlice],
        (began, now): (Tick, i64),
    ) -> Result<usize, StoreError> {
        let seconds = slices.tier.seconds;
        let settled = slices
            .starts(now)
            .filter(|start| !open.contains(&(seconds, *start)));
        let settled: Vec<i64> = settled.collect();
        let revision = |state: &State, start: i64| {
            state
                .index
                .revisions
                .get(&(seconds, start))
                .copied()
                .unwrap_or(0)
        };
        let running = &state.held[at].sums[part];
        let is_leaving = |start: &i64| settled.binary_search(start).is_err();
        let mut leaving: Vec<i64> = running.starts().filter(is_leaving).collect();
        leaving.sort_unstable();
        let has_changed = |state: &State| {
            let running = &state.held[at].sums[part];
            let mut starts = running.starts();
            starts.any(|start| running.revision(start) != Some(revision(state, start)))
        };
        if has_changed(state) || leaving.len() > settled.len() {
            state.held[at].clear(part);
        } else if !leaving.is_empty() {
            let slices: Vec<TierSlice> = leaving.iter().map(|start| (seconds, *start)).collect();
            let records = self.store.slice_records(&slices).await?;
            // The records must be those that were added: they may have changed since the index was read.
            state.index = self.store.record_index(now).await?;
            if has_changed(state) {
                state.held[at].clear(part);
            } else {
                for (start, slice) in leaving.iter().zip(&records) {
                    state.held[at].remove(part, *start, &slice.records);
                }
            }
        }
        let running = &state.held[at].sums[part];
        let mut unread = settled;
        unread.retain(|start| running.revision(*start).is_none());
        // The newest first: an answer before everything is read tells about the end of the window.
        while let Some(start) = unread.pop() {
            if self.clock.since(began) >= PATIENCE {
                unread.push(start);
                break;
            }
            let records = self.store.slice_records(&[(seconds, start)]).await?;
            let records = records.into_iter().next().unwrap_or_default().records;
            state.include_first((seconds, start), &records);
            let revision = revision(state, start);
            state.held[at].add(part, start, revision, &records);
            // A store in memory answers at once.
            tokio::task::yield_now().await;
        }
        Ok(unread.len())
    }

    /// The place of a window among those that are held, which it joins.
    fn hold(&self, state: &mut State, window: Window) -> usize {
        let now = self.clock.tick();
        let is_used = |held: &HeldWindow| {
            held.window == window || self.clock.since(held.asked_at) < UNUSED_TTL
        };
        state.held.retain(is_used);
        if let Some(at) = state.held.iter().position(|held| held.window == window) {
            state.held[at].asked_at = now;
            return at;
        }
        if state.held.len() >= MAX_WINDOWS {
            let oldest = state
                .held
                .iter()
                .enumerate()
                .min_by_key(|(_, held)| held.asked_at);
            let oldest = oldest.map_or(0, |(at, _)| at);
            state.held.swap_remove(oldest);
        }
        state.held.push(HeldWindow::new(window, now));
        state.held.len() - 1
    }
}

/// Whether a slice may still change.
fn is_open((seconds, start): TierSlice, now: i64) -> bool {
    start
        .saturating_add(i64::from(seconds))
        .saturating_add(OPEN_FOR)
        > now
}

impl State {
    /// Remembers the oldest slice that has records from before the store was created. Of the slice within which it was
    /// created, only the part since then was recorded.
    fn include_first(&mut self, (seconds, start): TierSlice, records: &[(RecordId, Record)]) {
        let is_before = start.saturating_add(i64::from(seconds)) <= self.index.since;
        if is_before && !records.is_empty() {
            self.first = Some(self.first.map_or(start, |first| first.min(start)));
        }
    }

    /// The slices of a window that may still change, with slices of the finest tier that are not part of the
    /// others yet.
    fn open_slices(&self, slices: &WindowSlices, now: i64) -> Vec<TierSlice> {
        let seconds = slices.tier.seconds;
        let pending = self.index.rolled.pending();
        let pending: Vec<i64> = pending.filter(|minute| slices.contains(*minute)).collect();
        let starts = slices.starts(now);
        let mut open: Vec<TierSlice> = starts
            .map(|start| (seconds, start))
            .filter(|at| is_open(*at, now))
            .collect();
        if slices.tier != FINEST {
            for minute in pending {
                open.push((seconds, slices.tier.slice(minute)));
                open.push((FINEST.seconds, minute));
            }
        }
        open.sort_unstable();
        open.dedup();
        open
    }

    /// The sums of the open slices, of one context or of all.
    fn open_sums(
        &self,
        ready: &Ready,
        part: usize,
        only: Option<RecordId>,
    ) -> HashMap<RecordId, Aggregate> {
        let mut sums: HashMap<RecordId, Aggregate> = HashMap::new();
        self.each_open_record(ready, part, only, |_, id, record| {
            sums.entry(id).or_default().merge(&record.sums);
        });
        sums
    }

    /// Calls a function with the records of the open slices, of one context or of all, and with the start of the slice
    /// of the window's tier that each is in.
    fn each_open_record(
        &self,
        ready: &Ready,
        part: usize,
        only: Option<RecordId>,
        mut each: impl FnMut(i64, RecordId, &Record),
    ) {
        let tier = ready.parts[part].tier;
        for at in &ready.open[part] {
            let Some(slice) = self.open.get(at) else {
                continue;
            };
            let wide = (tier.seconds, tier.slice(at.1));
            let of_tier = self.open.get(&wide).filter(|_| at.0 != tier.seconds);
            let mut include = |id: RecordId| {
                // A minute may be part of the wider slice already.
                let rolled = of_tier.and_then(|slice| slice.get(id));
                let is_part = rolled.is_some_and(|rolled| at.1 < rolled.rolled_until);
                if let Some(record) = slice.get(id).filter(|_| !is_part) {
                    each(wide.1, id, &record);
                }
            };
            match only {
                Some(id) => include(id),
                None => slice.records.keys().copied().for_each(include),
            }
        }
    }

    /// What a context measured in each slice of a window that is retained.
    fn points(&self, ready: &Ready, id: RecordId, as_of: i64) -> Vec<Option<Point>> {
        let (slices, held) = (ready.parts[0], &self.held[ready.at].points);
        let starts = slices.starts(ready.now);
        let mut open: HashMap<i64, Aggregate> = HashMap::new();
        self.each_open_record(ready, 0, Some(id), |start, _, record| {
            open.entry(start).or_default().merge(&record.sums);
        });
        let (seconds, since) = (slices.tier.seconds, self.since());
        let point = |start: i64| {
            let is_open = ready.open[0].contains(&(seconds, start));
            let point = match is_open {
                true => Some(open.get(&start).map_or_else(Point::default, Point::from)),
                false => held.get(start, id),
            };
            let was_recorded = start + i64::from(seconds) > since && start < as_of;
            point.filter(|point| was_recorded || point.hits > 0)
        };
        starts.map(point).collect()
    }

    /// When the records begin, in Unix seconds.
    fn since(&self) -> i64 {
        let since = self.index.since;
        self.first.map_or(since, |first| first.min(since))
    }

    /// What all contexts measured in a part of a window. Lets other tasks run meanwhile.
    async fn summaries(
        &self,
        ready: &Ready,
        part: usize,
        until: i64,
        target: Option<f64>,
    ) -> PartSums {
        let (slices, running) = (ready.parts[part], &self.held[ready.at].sums[part]);
        let mut open = self.open_sums(ready, part, None);
        let mut ids: HashSet<RecordId> = running.ids().collect();
        ids.extend(open.keys());
        let (mut summaries, mut error) = (HashMap::with_capacity(ids.len()), 0f64);
        for (at, id) in ids.into_iter().enumerate() {
            let mut sums = open.remove(&id).unwrap_or_default();
            if let Some(running) = running.get(id) {
                sums.merge(&running);
            }
            error = error.max(sums.histogram.error());
            let summary = Summary::new(&sums, running.has_exact_bounds(), target);
            summaries.insert(id, summary);
            if at % CONTEXTS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        let since = self.since();
        let mut part_sums = PartSums {
            slices,
            complete: slices.complete(since, until, ready.now),
            covered: slices.covered(since, until, ready.now),
            error,
            summaries,
        };
        part_sums.leave_out(ready.unread[part], ready.now);
        part_sums
    }
}
