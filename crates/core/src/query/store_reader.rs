//! Reads of the store. Most answers are cached for a second. A read takes at most the deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::against::Against;
use super::book::Book;
use super::error::QueryError;
use super::instance_minutes::Comparison;
use super::key::Key;
use super::reads;
use super::source::Source;
use super::span::Span;
use super::windows::points::WindowPoints;
use super::windows::sums::{RunningTimer, TargetSums, WindowSums};
use crate::error::StoreError;
use crate::query::window::{Window, WindowSlices, recorded_until};
#[cfg(feature = "row-cache")]
use crate::row_lists::{ListRows, RowList, RowsQuery};
use crate::store::errors::{self, SeenError};
use crate::store::judgement::{ChangeLog, read_changes_after};
use crate::store::table_reads::Purpose;
use crate::store::{
    CounterQuery, CounterSeries, RecordQuery, SlowRequestQuery, StoreStatus, history, marks,
    profiles,
};
#[cfg(feature = "rankings")]
use crate::store::{RankingPage, RankingQuery};
use crate::task::{boxed, lock};
use tower_pulse_detect::side_by_side::Versions;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::mark::Marks;
use tower_pulse_model::profile::{Profile, ProfileHour, WEEK_HOURS};
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::records::{RecordId, SliceSums};
use tower_pulse_model::slice::Precision;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::slowest::{RANKING_LEN, RankedContext};
use tower_pulse_model::snapshot::{ContextSnapshot, FleetSnapshot};
use tower_pulse_model::tiers::Tiers;
use tower_pulse_model::timer_sums;

const PROFILE_BYTES: usize = WEEK_HOURS * size_of::<ProfileHour>();

/// A cached answer, which all callers share.
type Cached<T> = Result<Arc<T>, QueryError>;

/// The status of the store, and the recorded time.
pub struct ReadStatus {
    pub store: StoreStatus,
    span: Span,
}

/// The names of contexts by the ids of their records.
pub(super) type Names = HashMap<RecordId, Arc<str>>;

impl Source {
    /// Approximate bytes of the windows, minute reports and answers that are held.
    pub fn held_bytes(&self) -> usize {
        let (windows, minutes) = (&self.windows.held_bytes, &self.instance_minutes.held_bytes);
        self.reads.bytes() + windows.load(Relaxed) + minutes.load(Relaxed)
    }

    /// The current state of the fleet.
    pub async fn fleet(&self) -> Cached<FleetSnapshot> {
        let read = async { self.store.query().fleet(self.now()).await };
        self.reads.get(Key::Fleet, |_| 0, read).await
    }

    /// The additions of other programs to the book. Pages are read at a rate that does not depend on the number of
    /// contexts.
    pub async fn book(&self) -> Cached<Book> {
        let read = async {
            let (last, at) = lock(&self.last_book).clone();
            if at.is_some_and(|at| self.clock.since(at) < last.pause()) {
                return Ok::<_, StoreError>(last);
            }
            let page = (self.store.query()).book_statistics(last.offset, self.now());
            let book = Arc::new(last.with(page.await?));
            *lock(&self.last_book) = (book.clone(), Some(self.clock.tick()));
            Ok(book)
        };
        self.reads.get(Key::Book, |_| 0, read).await
    }

    /// The contexts with this name, which differ in kind.
    pub async fn contexts(&self, name: &str) -> Cached<Vec<ContextSnapshot>> {
        let read = async { self.store.query().contexts(name, self.now()).await };
        let key = Key::Contexts(name.to_owned());
        self.reads.list(key, |_| 0, read).await
    }

    /// Counters, in the order of the query.
    pub async fn counters(&self, query: &CounterQuery) -> Cached<Vec<CounterSeries>> {
        let read = async { self.store.query().counters(query).await };
        let bytes = |counter: &CounterSeries| size_of_val(&*counter.slices);
        let key = Key::Counters(query.clone());
        self.reads.list(key, bytes, read).await
    }

    /// The sorted names of the user's counters that the store has at any of the precisions.
    pub async fn counter_names(&self, precisions: Vec<u32>) -> Cached<Vec<String>> {
        let read = async { self.store.query().counter_names(&precisions).await };
        let key = Key::CounterNames(precisions.clone());
        self.reads.list(key, |_| 0, read).await
    }

    /// The records of a context in slices of `width` seconds, combined from records of a tier, oldest first.
    pub async fn records(
        &self,
        context: &ContextId,
        width: u32,
        tier: Precision,
    ) -> Cached<Vec<SliceSums>> {
        let read = async {
            let query = RecordQuery {
                contexts: vec![context.clone()],
                width,
                tier,
                now: self.now(),
            };
            let records = self.store.query().records(&query).await?;
            Ok::<Vec<_>, StoreError>(records.into_iter().flatten().collect())
        };
        let key = Key::Records(context.clone(), width, tier);
        self.reads.list(key, |slice| slice.sums.bytes(), read).await
    }

    pub(super) async fn sums(
        &self,
        context: &ContextId,
        slices: WindowSlices,
    ) -> Result<Aggregate, QueryError> {
        let tier = slices.tier;
        let records = self.records(context, tier.seconds, tier).await?;
        let mut sums = Aggregate::default();
        for slice in records.iter().filter(|slice| slices.contains(slice.start)) {
            sums.merge(&slice.sums);
        }
        Ok(sums)
    }

    /// The sums of all contexts over a window, and over the window before it.
    pub async fn window(&self, window: Window) -> Cached<WindowSums> {
        let span = self.recorded_span().await?;
        let window = window.rounded(span.tiers, self.now());
        let read = self.windows.sums(window, span);
        let key = Key::Window(window);
        self.reads.get(key, WindowSums::bytes, read).await
    }

    /// The sums of all contexts over a window, and over the window with which it is compared.
    pub async fn compared(&self, window: Window, against: Against) -> Cached<WindowSums> {
        let sums = self.window(window).await?;
        let Some(other) = against.of(window, self.now()) else {
            return Ok(sums);
        };
        let other = self.window(other).await?;
        Ok(Arc::new(WindowSums {
            contexts: sums.contexts.clone(),
            now: sums.now.clone(),
            before: other.now.clone(),
        }))
    }

    /// The sums of one context over a part of a window: over the window itself if `part` is 0, over the window before
    /// if `part` is 1.
    async fn part_of(
        &self,
        window: Window,
        part: usize,
        context: &ContextId,
    ) -> Result<Aggregate, QueryError> {
        let tiers = self.tiers().await?;
        let window = window.rounded(tiers, self.now());
        let read = Box::pin(self.windows.context(window, part, tiers, context));
        self.reads.within(read).await
    }

    /// The sums of one context over a window, and over the window with which it is compared.
    pub async fn compared_of(
        &self,
        window: Window,
        against: Against,
        context: &ContextId,
    ) -> Result<[Aggregate; 2], QueryError> {
        let other = against.of(window, self.now());
        let (other, part) = other.map_or((window, 1), |other| (other, 0));
        Ok([
            self.part_of(window, 0, context).await?,
            self.part_of(other, part, context).await?,
        ])
    }

    /// The contexts whose requests ran a timer in a window.
    pub async fn running(&self, window: Window, timer: RecordId) -> Cached<Vec<RunningTimer>> {
        let tiers = self.tiers().await?;
        let window = window.rounded(tiers, self.now());
        let read = self.windows.running(window, tiers, timer);
        let key = Key::Running(window, timer);
        self.reads.list(key, |_| 0, read).await
    }

    /// The request counts of each `PathTarget`, in a window.
    pub async fn path_targets(&self, window: Window) -> Cached<TargetSums> {
        let span = self.recorded_span().await?;
        let read = self.windows.targets(window, span);
        let bytes = |sums: &TargetSums| size_of_val(&*sums.counts);
        self.reads.get(Key::PathTargets(window), bytes, read).await
    }

    /// The number of slices of each context in [`window_points`](Self::window_points).
    pub async fn slices_of(&self, window: Window) -> Result<usize, QueryError> {
        let (tiers, now) = (self.tiers().await?, self.now());
        Ok(window.slices(tiers, now).starts(now).count())
    }

    /// The measurements of some contexts in each retained slice of a window.
    pub async fn window_points(
        &self,
        window: Window,
        contexts: &[RecordId],
    ) -> Result<WindowPoints, QueryError> {
        let span = self.recorded_span().await?;
        let window = window.rounded(span.tiers, self.now());
        let read = Box::pin(self.windows.points(window, contexts, span));
        self.reads.within(read).await
    }

    /// The names of all contexts in the record index.
    pub(super) async fn names(&self) -> Cached<Names> {
        let read = async {
            let index = self.store.query().record_index(self.now()).await?;
            let contexts = index.contexts.into_iter();
            let names = contexts.map(|id| (RecordId::new(id.kind, &id.name), id.name));
            let other = (timer_sums::other(), timer_sums::OTHER.into());
            Ok::<Names, StoreError>(names.chain([other]).collect())
        };
        let bytes = |names: &Names| names.len() * reads::PER_TEXT;
        self.reads.get(Key::Names, bytes, read).await
    }

    /// The ranking of the slowest contexts.
    pub async fn slowest(&self) -> Cached<Vec<RankedContext>> {
        let read = async { self.store.query().slowest(RANKING_LEN).await };
        self.reads.get(Key::Slowest, |_| 0, read).await
    }

    /// All rankings of the store without their ids, by name.
    #[cfg(feature = "rankings")]
    pub async fn rankings(&self) -> Cached<Vec<(String, RankingPage)>> {
        let read = async {
            let mut rankings = Vec::new();
            for name in self.store.query().rankings().await? {
                let query = RankingQuery {
                    name,
                    now: self.now(),
                    ..RankingQuery::default()
                };
                let page = self.store.query().ranking(&query).await?;
                rankings.extend(page.map(|page| (query.name, page)));
            }
            Ok::<_, StoreError>(rankings)
        };
        self.reads.get(Key::Rankings, |_| 0, read).await
    }

    /// A part of the scheduled rows of a cache, and the number of all rows.
    #[cfg(feature = "row-cache")]
    pub async fn rows(&self, list: &ListRows, query: RowsQuery) -> Cached<RowList> {
        let read = async { list(query.clone()).await };
        let bytes = |list: &RowList| reads::bytes_of(&list.rows, |_| 0);
        self.reads.get(Key::Rows(query.clone()), bytes, read).await
    }

    /// A part of a ranking; `None` if the store does not have the ranking.
    #[cfg(feature = "rankings")]
    pub async fn ranking(
        &self,
        name: &str,
        offset: usize,
        limit: usize,
    ) -> Result<Option<Arc<RankingPage>>, QueryError> {
        let read = async {
            let query = RankingQuery {
                name: name.to_owned(),
                now: self.now(),
                offset,
                limit,
                ids: Vec::new(),
            };
            let page = self.store.query().ranking(&query).await?;
            Ok::<_, StoreError>(page.map(Arc::new))
        };
        let key = Key::Ranking(name.to_owned(), offset, limit);
        let bytes = |page: &Option<Arc<RankingPage>>| {
            page.iter().map(|p| reads::bytes_of(&p.top, |_| 0)).sum()
        };
        Ok(Option::clone(&*self.reads.get(key, bytes, read).await?))
    }

    /// The slowest and the newest failed requests of contexts in an hour: a list for each context, in the order of
    /// `contexts`.
    pub async fn slow_requests(
        &self,
        contexts: &[ContextId],
        hour: i64,
    ) -> Cached<Vec<SlowRequests>> {
        let contexts = contexts.to_vec();
        let query = SlowRequestQuery { contexts, hour };
        let read = async { self.store.query().slow_requests(&query).await };
        let key = Key::SlowRequests(query.clone());
        let bytes = |requests: &SlowRequests| requests.bytes() + requests.len() * reads::PER_TEXT;
        self.reads.list(key, bytes, read).await
    }

    /// The hour-of-week profile of a context; `None` if the context has no profile.
    pub async fn profile(&self, context: &ContextId) -> Cached<Option<Profile>> {
        let id = RecordId::new(context.kind, &context.name);
        let read = async { profiles::profile(self.store.journal(), id, self.now()).await };
        let key = Key::Profile(context.clone());
        self.reads.get(key, |_| PROFILE_BYTES, read).await
    }

    /// The moment up to which all samples can be read, in Unix seconds.
    pub async fn as_of(&self) -> Result<i64, QueryError> {
        Ok(self.recorded_span().await?.as_of)
    }

    /// The time that the store has recorded.
    pub async fn recorded_span(&self) -> Result<Span, QueryError> {
        Ok(self.status().await?.span.clone())
    }

    /// The time since the store last returned its status; `None` if it never has.
    pub fn contact_age(&self) -> Option<Duration> {
        lock(&self.contacted_at).map(|at| self.clock.since(at))
    }

    /// The tiers of the store.
    pub async fn tiers(&self) -> Result<Tiers, QueryError> {
        let read = async {
            let history = history::read(self.store.journal(), Purpose::Query).await?;
            Ok::<_, StoreError>(Tiers { history })
        };
        Ok(*self.reads.get(Key::Tiers, |_| 0, read).await?)
    }

    /// The status of the store.
    pub async fn status(&self) -> Cached<ReadStatus> {
        let read = async {
            let now = self.now();
            let sent = self.clock.wall_nanos();
            // `unsent` is read before the store is asked. So the store's answer includes all samples except those in
            // `unsent`.
            let unsent = self.process.as_ref().and_then(|process| process.unsent());
            let (mut store, tiers) = tokio::try_join!(
                async { Ok(self.store.upkeep().status(now).await?) },
                self.tiers()
            )?;
            let gaps = std::mem::take(&mut store.gaps);
            let skew = self.skew.as_ref();
            if let Some(origin) = skew.and_then(|skew| skew.note(&self.clock, sent, store.time)) {
                self.clock.follow(origin);
            }
            *lock(&self.contacted_at) = Some(self.clock.tick());
            let as_of = unsent.map_or(store.as_of, |unsent| store.as_of.min(unsent.since));
            let is_failing = unsent.is_some_and(|unsent| unsent.is_failing);
            let span = Span {
                generation: store.created.unwrap_or(now),
                recorded: RecordedTime::new(store.since.unwrap_or(now), gaps),
                as_of,
                recorded_until: recorded_until(as_of, now, is_failing),
                tiers,
                now,
            };
            Ok::<_, QueryError>(ReadStatus { store, span })
        };
        self.reads.get(Key::Status, |_| 0, read).await
    }

    /// The changes. Each read of the store gets the acknowledgements, but gets the changes only after a judgement,
    /// which happens once a minute.
    pub async fn changes(&self) -> Cached<ChangeLog> {
        let read = async {
            let last = lock(&self.last_log).clone();
            let log = read_changes_after(self.store.journal(), last).await?;
            *lock(&self.last_log) = log.clone();
            Ok::<_, StoreError>(log)
        };
        self.reads.get(Key::Changes, |_| 0, read).await
    }

    /// The known kinds of errors, and when each was first and last seen.
    pub async fn errors(&self) -> Cached<Vec<(Arc<str>, SeenError)>> {
        let read = boxed(errors::read(self.store.journal()));
        self.reads.list(Key::Errors, |_| 0, read).await
    }

    /// The marks, including removed ones.
    pub async fn marks(&self) -> Cached<Marks> {
        let read = boxed(marks::read(self.store.journal()));
        let read = async { Ok::<_, StoreError>(read.await?.marks) };
        self.reads.get(Key::Marks, |_| 0, read).await
    }

    /// The requests of a version, and of the other versions, in the minutes in which the version ran beside others. The
    /// answer is cached for a minute, because the records of an ended minute hardly change.
    pub async fn versions(&self, version: &Arc<str>, minutes: Vec<i64>) -> Cached<Versions> {
        let read = async {
            let mut versions = Versions::default();
            for minute in &minutes {
                for of_minute in self.store.query().version_records(&[*minute]).await? {
                    versions.add_minute(version, &of_minute);
                }
            }
            Ok::<_, StoreError>(versions)
        };
        let key = Key::Versions(version.clone(), minutes.clone());
        self.reads.get(key, Versions::bytes, read).await
    }

    /// The instances, compared with each other in some minutes, on a context or on all reported contexts. Compares
    /// `instance` in detail.
    pub(super) async fn instances(
        &self,
        slices: WindowSlices,
        context: Option<RecordId>,
        instance: Option<&str>,
    ) -> Cached<Comparison> {
        let created = self.recorded_span().await?.generation;
        let minutes = slices.from..slices.to;
        let key = Key::Instances(minutes.clone(), context, instance.map(Arc::from));
        let instance_minutes = &self.instance_minutes;
        let read = instance_minutes.compare(minutes, context, instance, created);
        let bytes = |comparison: &Comparison| {
            let instances = reads::bytes_of(&comparison.instances, |(_, sums)| sums.sums.bytes());
            instances + reads::bytes_of(&comparison.machines, |_| 0) + comparison.beside.bytes()
        };
        self.reads.get(key, bytes, read).await
    }

    /// Forgets the cached marks, after a mark was set or removed.
    pub async fn forget_marks(&self) {
        self.reads.forget(Key::Marks).await;
    }

    /// Forgets the cached changes, after a change was acknowledged or an acknowledgement was withdrawn.
    pub async fn forget_changes(&self) {
        self.reads.forget(Key::Changes).await;
    }

    fn now(&self) -> i64 {
        self.clock.now_seconds()
    }
}
