//! Reads the store: each question at most once a second and once at a time, however many dashboards are
//! open, and never for longer than the deadline.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::answer_bytes::{self as bytes, AnswerBytes};
use super::book::Book;
use super::error::{DEADLINE, QueryError};
use super::instance_minutes::beside_others::BesideOthers;
use super::instance_minutes::{InstanceMinutes, InstanceSums};
use super::single_flight::{FRESH, SingleFlight, SingleFlightMap, within};
use super::span::Span;
use super::windows::Windows;
use super::windows::points::WindowPoints;
use super::windows::sums::{RunningTimer, TargetSums, WindowSums};
use crate::clock::{Clock, Tick};
use crate::flush::Unsent;
#[cfg(feature = "row-cache")]
use crate::row_lists::{ListRows, RowList, RowsQuery};
use crate::skew::Skew;
use crate::store::judgement::{ChangeLog, read_changes, read_judged_and_taken};
use crate::store::table_reads::Purpose;
use crate::store::{
    ContextQuery, CounterQuery, CounterSeries, RecordQuery, SlowRequestQuery, SlowestQuery, Store,
    StoreStatus, history, marks, profiles,
};
#[cfg(feature = "rankings")]
use crate::store::{RankingPage, RankingQuery};
use crate::targets::Targets;
use crate::task::lock;
use tower_pulse_detect::side_by_side::Versions;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind};
use tower_pulse_model::mark::Marks;
use tower_pulse_model::profile::Profile;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::records::{RecordId, SliceSums};
use tower_pulse_model::slice::Precision;
use tower_pulse_model::slow_request::SlowRequests;
use tower_pulse_model::slowest::RankedContext;
use tower_pulse_model::snapshot::{ContextSnapshot, FleetSnapshot};
use tower_pulse_model::tiers::Tiers;
use tower_pulse_model::timer_sums;
use tower_pulse_model::window::{Window, recorded_until};

/// Returns the samples of this instance that are not known to be in the store.
type UnsentSource = Arc<dyn Fn() -> Option<Unsent> + Send + Sync>;

/// Age up to which records of minutes that have ended, and the tiers, are served again.
const A_MINUTE: Duration = Duration::from_secs(60);

type Answer<T> = Arc<Vec<T>>;

/// The status of the store, and what it says of time.
pub struct ReadStatus {
    pub store: StoreStatus,
    span: Span,
}

/// Reads the store on behalf of all requests.
pub struct StoreReader {
    store: Arc<dyn Store>,
    clock: Clock,
    unsent: UnsentSource,
    /// How wrong the clock is, unless this process is an instance, which knows it.
    pub(super) skew: Option<Skew>,
    fleet: SingleFlight<Arc<FleetSnapshot>>,
    book: SingleFlight<Arc<Book>>,
    last_book: Mutex<Arc<Book>>,
    slowest: SingleFlight<Answer<RankedContext>>,
    slow_requests: SingleFlightMap<SlowRequestQuery, Answer<SlowRequests>>,
    profiles: SingleFlightMap<ContextId, Arc<Option<Profile>>>,
    status: SingleFlight<Arc<ReadStatus>>,
    tiers: SingleFlight<Tiers>,
    contacted: Mutex<Option<Tick>>,
    contexts: SingleFlightMap<String, Answer<ContextSnapshot>>,
    #[cfg(feature = "rankings")]
    rankings: SingleFlight<Answer<(String, RankingPage)>>,
    #[cfg(feature = "rankings")]
    ranking_pages: SingleFlightMap<(String, usize, usize), Option<Arc<RankingPage>>>,
    #[cfg(feature = "row-cache")]
    rows: SingleFlightMap<RowsQuery, Arc<RowList>>,
    counters: SingleFlightMap<CounterQuery, Answer<CounterSeries>>,
    counter_names: SingleFlightMap<Vec<u32>, Answer<String>>,
    records: SingleFlightMap<(ContextId, u32, Precision), Answer<SliceSums>>,
    change_log: SingleFlight<Arc<ChangeLog>>,
    last_log: Mutex<Arc<ChangeLog>>,
    marks: SingleFlight<Arc<Marks>>,
    versions: SingleFlightMap<(Arc<str>, Vec<i64>), Arc<Versions>>,
    instances: SingleFlightMap<(Range<i64>, Option<RecordId>), Answer<InstanceSums>>,
    beside_others: SingleFlightMap<(Range<i64>, Arc<str>), Arc<NamedBeside>>,
    instance_minutes: InstanceMinutes,
    windows: Windows,
    window_sums: SingleFlightMap<Window, Arc<WindowSums>>,
    running: SingleFlightMap<(Window, RecordId), Answer<RunningTimer>>,
    path_targets: SingleFlightMap<Window, Arc<TargetSums>>,
    timer_names: SingleFlight<Arc<TimerNames>>,
}

/// Age up to which what an instance did beside the others is served again: reports are of minutes.
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// What an instance did beside the others, with the names of its contexts.
pub(super) struct NamedBeside {
    pub(super) beside: BesideOthers,
    pub(super) names: HashMap<RecordId, Arc<str>>,
}

/// The names of timers by the ids of their records.
pub(super) type TimerNames = HashMap<RecordId, Arc<str>>;

impl StoreReader {
    /// A reader of a store. `query_bytes` bounds what is held.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        unsent: UnsentSource,
        targets: Arc<Targets>,
        query_bytes: usize,
    ) -> Self {
        let share = |sixteenths: usize| query_bytes / 16 * sixteenths;
        let [of_windows, of_records, others] = [4, 1, 1].map(|part| AnswerBytes::new(share(part)));
        Self {
            unsent,
            skew: None,
            windows: Windows::new(store.clone(), clock.clone(), targets, share(8)),
            instances: SingleFlightMap::new(&others, bytes::instances),
            beside_others: SingleFlightMap::new(&others, |of: &Arc<NamedBeside>| of.beside.bytes()),
            instance_minutes: InstanceMinutes::new(store.clone(), clock.clone(), share(2)),
            change_log: SingleFlight::default(),
            last_log: Mutex::default(),
            marks: SingleFlight::default(),
            versions: SingleFlightMap::new(&others, bytes::versions),
            window_sums: SingleFlightMap::new(&of_windows, bytes::window),
            running: SingleFlightMap::new(&of_windows, |of| bytes::list(of)),
            path_targets: SingleFlightMap::new(&others, |of| size_of_val(&*of.counts)),
            timer_names: SingleFlight::default(),
            tiers: SingleFlight::default(),
            store,
            clock,
            fleet: SingleFlight::default(),
            book: SingleFlight::default(),
            last_book: Mutex::default(),
            slowest: SingleFlight::default(),
            slow_requests: SingleFlightMap::new(&others, |of| bytes::slow_requests(of)),
            profiles: SingleFlightMap::new(&others, |_| bytes::PROFILE),
            status: SingleFlight::default(),
            contexts: SingleFlightMap::new(&others, |of| bytes::list(of)),
            contacted: Mutex::default(),
            #[cfg(feature = "rankings")]
            rankings: SingleFlight::default(),
            #[cfg(feature = "rankings")]
            ranking_pages: SingleFlightMap::new(&others, |of| {
                of.as_ref().map_or(0, |of| bytes::list(&of.top))
            }),
            #[cfg(feature = "row-cache")]
            rows: SingleFlightMap::new(&others, |of| bytes::list(&of.rows)),
            counters: SingleFlightMap::new(&others, |of| bytes::counters(of)),
            counter_names: SingleFlightMap::new(&others, |of| bytes::list(of)),
            records: SingleFlightMap::new(&of_records, bytes::records),
        }
    }

    /// Finds out by itself whether the clock is wrong, and goes on by the store's then.
    pub fn with_skew(self) -> Self {
        let skew = Some(Skew::default());
        Self { skew, ..self }
    }

    /// What the fleet does now.
    pub async fn fleet(&self) -> Result<Arc<FleetSnapshot>, QueryError> {
        let read = Box::pin(async {
            let now = self.clock.now_seconds();
            Ok(Arc::new(self.store.fleet(now).await?))
        });
        self.fleet.get(&self.clock, |_| FRESH, read).await
    }

    /// What other programs have added to the book's statistics. It is read page by page, so slowly that many contexts
    /// take no more commands than few.
    pub async fn book(&self) -> Result<Arc<Book>, QueryError> {
        let read = Box::pin(async {
            let last = lock(&self.last_book).clone();
            let now = self.clock.now_seconds();
            let page = self.store.book_statistics(last.offset(), now).await?;
            let book = Arc::new(last.with(page));
            *lock(&self.last_book) = book.clone();
            Ok(book)
        });
        self.book.get(&self.clock, |book| book.pause(), read).await
    }

    /// The data of the contexts of one name, which differ in their kind.
    pub async fn contexts(&self, name: &str) -> Result<Answer<ContextSnapshot>, QueryError> {
        let read = Box::pin(async {
            let query = ContextQuery {
                names: vec![name.to_owned()],
                now: self.clock.now_seconds(),
            };
            Ok(Arc::new(self.store.contexts(&query).await?))
        });
        let flight = self.contexts.of(&self.clock, name.to_owned());
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// Counters, in the order of the query.
    pub async fn counters(
        &self,
        query: &CounterQuery,
    ) -> Result<Answer<CounterSeries>, QueryError> {
        let read = Box::pin(async { Ok(Arc::new(self.store.counters(query).await?)) });
        let flight = self.counters.of(&self.clock, query.clone());
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The names of the user's counters that the store has at any of some precisions, in order.
    pub async fn counter_names(&self, precisions: Vec<u32>) -> Result<Answer<String>, QueryError> {
        let flight = self.counter_names.of(&self.clock, precisions.clone());
        let read = Box::pin(async { Ok(Arc::new(self.store.counter_names(&precisions).await?)) });
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The records of a context in slices of `width` seconds, combined from those of a tier, oldest first.
    pub async fn records(
        &self,
        context: &ContextId,
        width: u32,
        tier: Precision,
    ) -> Result<Answer<SliceSums>, QueryError> {
        let read = Box::pin(async {
            let query = RecordQuery {
                contexts: vec![context.clone()],
                width,
                tier,
                now: self.clock.now_seconds(),
            };
            let mut records = self.store.records(&query).await?;
            let records = records.pop().map(|records| records.slices);
            Ok(Arc::new(records.unwrap_or_default()))
        });
        let flight = self.records.of(&self.clock, (context.clone(), width, tier));
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The sums of all contexts over a window, and over the window before it.
    pub async fn window(&self, window: Window) -> Result<Arc<WindowSums>, QueryError> {
        let span = self.recorded_span().await?;
        let window = window.rounded(span.tiers, self.clock.now_seconds());
        let read = Box::pin(async { Ok(Arc::new(self.windows.sums(window, span).await?)) });
        let flight = self.window_sums.of(&self.clock, window);
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The sums of one context over a window, and over the window before it.
    pub async fn window_of(
        &self,
        window: Window,
        context: &ContextId,
    ) -> Result<[Aggregate; 2], QueryError> {
        let tiers = self.tiers().await?;
        let window = window.rounded(tiers, self.clock.now_seconds());
        let read = Box::pin(self.windows.context(window, tiers, context));
        within(&self.clock, DEADLINE, read).await
    }

    /// The contexts within whose requests a timer ran in a window.
    pub async fn running(
        &self,
        window: Window,
        timer: RecordId,
    ) -> Result<Answer<RunningTimer>, QueryError> {
        let tiers = self.tiers().await?;
        let window = window.rounded(tiers, self.clock.now_seconds());
        let read = Box::pin(async {
            let running = self.windows.running(window, tiers, timer).await?;
            Ok(Arc::new(running))
        });
        let flight = self.running.of(&self.clock, (window, timer));
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// How many requests met the targets of single contexts in a window, if there are such targets.
    pub async fn path_targets(&self, window: Window) -> Result<Arc<TargetSums>, QueryError> {
        let span = self.recorded_span().await?;
        let read = Box::pin(async { Ok(Arc::new(self.windows.targets(window, span).await?)) });
        let flight = self.path_targets.of(&self.clock, window);
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The number of slices that [`window_points`](Self::window_points) has of each context.
    pub async fn slices_of(&self, window: Window) -> Result<usize, QueryError> {
        let (tiers, now) = (self.tiers().await?, self.clock.now_seconds());
        Ok(window.slices(tiers, now).starts(now).count())
    }

    /// What some contexts measured in each slice of a window that is retained.
    pub async fn window_points(
        &self,
        window: Window,
        contexts: &[RecordId],
    ) -> Result<WindowPoints, QueryError> {
        let span = self.recorded_span().await?;
        let window = window.rounded(span.tiers, self.clock.now_seconds());
        let read = Box::pin(self.windows.points(window, contexts, span));
        within(&self.clock, DEADLINE, read).await
    }

    /// The names of all timers.
    pub async fn timer_names(&self) -> Result<Arc<TimerNames>, QueryError> {
        let read = Box::pin(async {
            let index = self.store.record_index(self.clock.now_seconds()).await?;
            let timers = index
                .contexts
                .into_iter()
                .filter(|id| id.kind == Kind::Timer);
            let mut names: TimerNames = timers
                .map(|id| (RecordId::new(Kind::Timer, &id.name), id.name))
                .collect();
            names.insert(timer_sums::other(), timer_sums::OTHER.into());
            Ok(Arc::new(names))
        });
        self.timer_names.get(&self.clock, |_| FRESH, read).await
    }

    /// The ranking of the slowest contexts.
    pub async fn slowest(&self) -> Result<Answer<RankedContext>, QueryError> {
        let read = Box::pin(async {
            let query = SlowestQuery::default();
            Ok(Arc::new(self.store.slowest(&query).await?))
        });
        self.slowest.get(&self.clock, |_| FRESH, read).await
    }

    /// All rankings of the store without their ids, by name.
    #[cfg(feature = "rankings")]
    pub async fn rankings(&self) -> Result<Answer<(String, RankingPage)>, QueryError> {
        let read = Box::pin(async {
            let mut rankings = Vec::new();
            for name in self.store.rankings().await? {
                let query = RankingQuery {
                    name,
                    now: self.clock.now_seconds(),
                    ..RankingQuery::default()
                };
                let page = self.store.ranking(&query).await?;
                rankings.extend(page.map(|page| (query.name, page)));
            }
            Ok(Arc::new(rankings))
        });
        self.rankings.get(&self.clock, |_| FRESH, read).await
    }

    /// Some of the scheduled rows of a cache, and the number of all.
    #[cfg(feature = "row-cache")]
    pub async fn rows(
        &self,
        list: &ListRows,
        query: RowsQuery,
    ) -> Result<Arc<RowList>, QueryError> {
        let read = Box::pin(async { Ok(Arc::new(list(query.clone()).await?)) });
        let flight = self.rows.of(&self.clock, query.clone());
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// A part of a ranking; `None` if the store does not have the ranking.
    #[cfg(feature = "rankings")]
    pub async fn ranking(
        &self,
        name: &str,
        offset: usize,
        limit: usize,
    ) -> Result<Option<Arc<RankingPage>>, QueryError> {
        let read = Box::pin(async {
            let query = RankingQuery {
                name: name.to_owned(),
                now: self.clock.now_seconds(),
                offset,
                limit,
                ids: Vec::new(),
            };
            Ok(self.store.ranking(&query).await?.map(Arc::new))
        });
        let key = (name.to_owned(), offset, limit);
        let flight = self.ranking_pages.of(&self.clock, key);
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The slowest requests of some contexts in an hour, and the newest failed ones: a list for each, in their order.
    pub async fn slow_requests(
        &self,
        contexts: &[ContextId],
        hour: i64,
    ) -> Result<Answer<SlowRequests>, QueryError> {
        let query = SlowRequestQuery {
            contexts: contexts.to_vec(),
            hour,
        };
        let flight = self.slow_requests.of(&self.clock, query.clone());
        let read = Box::pin(async { Ok(Arc::new(self.store.slow_requests(&query).await?)) });
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// The hour-of-week profile of a context; `None` if it has none.
    pub async fn profile(&self, context: &ContextId) -> Result<Arc<Option<Profile>>, QueryError> {
        let read = Box::pin(async {
            let journal = self.store.journal();
            let id = RecordId::new(context.kind, &context.name);
            let profile = profiles::profile(journal, id, self.clock.now_seconds());
            Ok(Arc::new(profile.await?))
        });
        let flight = self.profiles.of(&self.clock, context.clone());
        flight.get(&self.clock, |_| A_MINUTE, read).await
    }

    /// The moment, in Unix seconds, up to which all samples can be read.
    pub async fn as_of(&self) -> Result<i64, QueryError> {
        Ok(self.recorded_span().await?.as_of)
    }

    /// The time that the store has recorded.
    pub async fn recorded_span(&self) -> Result<Span, QueryError> {
        Ok(self.status().await?.span.clone())
    }

    /// For how long the store has not told its status; `None` if it never has.
    pub fn contact_age(&self) -> Option<Duration> {
        lock(&self.contacted).map(|at| self.clock.since(at))
    }

    /// The tiers of the store.
    pub async fn tiers(&self) -> Result<Tiers, QueryError> {
        let read = Box::pin(async {
            let history = history::read(self.store.journal(), Purpose::Query).await?;
            Ok(Tiers { history })
        });
        self.tiers.get(&self.clock, |_| A_MINUTE, read).await
    }

    /// The status of the store.
    pub async fn status(&self) -> Result<Arc<ReadStatus>, QueryError> {
        let read = Box::pin(async {
            let now = self.clock.now_seconds();
            let sent = self.clock.wall_nanos();
            // Before the store is asked, which has what is sent meanwhile.
            let unsent = (self.unsent)();
            let (mut store, tiers) =
                tokio::try_join!(async { Ok(self.store.status(now).await?) }, self.tiers())?;
            let gaps = std::mem::take(&mut store.gaps);
            let skew = self.skew.as_ref();
            if let Some(origin) = skew.and_then(|skew| skew.note(&self.clock, sent, store.time)) {
                self.clock.follow(origin);
            }
            *lock(&self.contacted) = Some(self.clock.tick());
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
            Ok(Arc::new(ReadStatus { store, span }))
        });
        self.status.get(&self.clock, |_| FRESH, read).await
    }

    /// The changes. They are read only when there is a new judgement: once a minute. Who has taken them is read each time.
    pub async fn changes(&self) -> Result<Arc<ChangeLog>, QueryError> {
        let read = Box::pin(async {
            let journal = self.store.journal();
            let last = lock(&self.last_log).clone();
            let (stored, taken) = read_judged_and_taken(journal).await?;
            let revision = &stored.judged.revision;
            let is_same = !revision.is_empty() && *revision == last.judged.revision;
            if is_same && taken == last.taken {
                return Ok(last);
            }
            let log = match is_same {
                true => {
                    let mut log = ChangeLog::clone(&last);
                    taken.tell(&mut log.changes);
                    Arc::new(ChangeLog { taken, ..log })
                }
                false => Arc::new(read_changes(journal).await?),
            };
            *lock(&self.last_log) = log.clone();
            Ok(log)
        });
        self.change_log.get(&self.clock, |_| FRESH, read).await
    }

    /// The marks, with those that were removed.
    pub async fn marks(&self) -> Result<Arc<Marks>, QueryError> {
        let read = Box::pin(async { Ok(Arc::new(marks::read(self.store.journal()).await?.marks)) });
        self.marks.get(&self.clock, |_| FRESH, read).await
    }

    /// What a version and the others did in the minutes in which they ran side by side. The records of a minute that
    /// has ended hardly change, so that the same minutes are read once.
    pub async fn versions(
        &self,
        version: &Arc<str>,
        minutes: Vec<i64>,
    ) -> Result<Arc<Versions>, QueryError> {
        let flight = self
            .versions
            .of(&self.clock, (version.clone(), minutes.clone()));
        let read = Box::pin(async {
            let mut versions = Versions::default();
            for minute in &minutes {
                let records = self.store.version_records(&[*minute]).await?;
                let of_each = records.iter().map(|of| (&*of.version, &of.records[..]));
                versions.add_minute(version, of_each);
            }
            Ok(Arc::new(versions))
        });
        flight.get(&self.clock, |_| A_MINUTE, read).await
    }

    /// What each instance did in the minutes that begin within `minutes`, on a context or on all that it reported.
    pub async fn instances(
        &self,
        minutes: Range<i64>,
        context: Option<&ContextId>,
    ) -> Result<Answer<InstanceSums>, QueryError> {
        let created = self.recorded_span().await?.generation;
        let id = context.map(|context| RecordId::new(context.kind, &context.name));
        let flight = self.instances.of(&self.clock, (minutes.clone(), id));
        let read = Box::pin(async {
            let sums = self.instance_minutes.sums(minutes, id, created).await?;
            Ok(Arc::new(sums))
        });
        flight.get(&self.clock, |_| FRESH, read).await
    }

    /// What one instance did in the minutes that begin within `minutes`, beside the others.
    pub(super) async fn beside_others(
        &self,
        minutes: Range<i64>,
        instance: &Arc<str>,
    ) -> Result<Arc<NamedBeside>, QueryError> {
        let created = self.recorded_span().await?.generation;
        let flight = self
            .beside_others
            .of(&self.clock, (minutes.clone(), instance.clone()));
        let read = Box::pin(async {
            let minutes = self
                .instance_minutes
                .beside_others(minutes, instance, created);
            let beside = minutes.await?;
            let index = self.store.record_index(self.clock.now_seconds()).await?;
            let names = index
                .contexts
                .into_iter()
                .map(|id| (RecordId::new(id.kind, &id.name), id.name));
            let names = names.filter(|(id, _)| beside.contexts.contains_key(id));
            let names = names.collect();
            Ok(Arc::new(NamedBeside { beside, names }))
        });
        flight.get(&self.clock, |_| TEN_SECONDS, read).await
    }

    /// Forgets the marks that were read, as there are others.
    pub async fn forget_marks(&self) {
        self.marks.forget().await;
    }

    /// Forgets the changes that were read, as somebody has taken one or given it back.
    pub async fn forget_changes(&self) {
        self.change_log.forget().await;
    }
}
