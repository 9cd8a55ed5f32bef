//! The handle that a service holds.

#[cfg(feature = "admin")]
mod admin;
mod changes;
mod health;
#[cfg(feature = "query")]
mod query;
mod ranking;
mod shared_flush;
mod shutdown_error;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

pub use self::ranking::{Ranking, RankingBuilder, RankingError};
use self::shared_flush::SharedFlush;
pub use self::shutdown_error::ShutdownError;
use crate::changes::Judge;
use crate::cleaner::CleanerStatus;
use crate::clock::Clock;
use crate::error::{BuildError, StoreError, StoreErrorKind};
use crate::flush::{Flushed, Flusher};
use crate::fold::Folder;
use crate::health::Health;
use crate::layer::{Head, IgnoreList, PulseLayer, Source};
use crate::recorder::{Counter, Recorder, RequestOutcome, Timed, Timer, Within, check_counter};
use crate::store::Store;
use crate::task::{BoxFuture, Stop};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::Precisions;
use tower_pulse_model::worst_case::{Bounds, WorstCase};

/// How long [`Pulse::flush`] waits until what it has appended can be read.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);
/// Wait of [`Pulse::flush`] when the store has lost again what was to be read, doubled each time.
const LOST_WAIT: Duration = Duration::from_millis(10);
/// How long a shutdown may take to let another instance fold.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(50);

/// Records what a service does, and shows it. Cheap to clone; all clones are one. See the
/// [crate's page](crate) for a tour.
#[derive(Clone)]
pub struct Pulse(Arc<Inner>);

struct Inner {
    parts: Arc<Parts>,
    stop: Stop,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    flushes: SharedFlush,
    #[cfg(feature = "query")]
    query: std::sync::OnceLock<crate::query::Reader>,
    #[cfg(feature = "admin")]
    posts: Arc<crate::admin::PostLimit>,
}

/// What the builder has put together.
pub(crate) struct Parts {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) folder: Arc<Folder>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) clock: Clock,
    #[cfg(feature = "admin")]
    pub(crate) service: Option<String>,
    pub(crate) precisions: Precisions,
    #[cfg(feature = "query")]
    pub(crate) target: Option<Duration>,
    #[cfg(feature = "query")]
    pub(crate) query_bytes: usize,
    pub(crate) skips: IgnoreList,
    #[cfg(feature = "row-cache")]
    pub(crate) row_caches: crate::row_cache::RowCaches,
    pub(crate) cleaning: Arc<Mutex<CleanerStatus>>,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) worst: WorstCase,
    pub(crate) bounds: Bounds,
    pub(crate) memory_warning: Option<String>,
}

#[cfg(feature = "row-cache")]
impl crate::row_cache::Host for Pulse {}

#[cfg(feature = "row-cache")]
impl crate::row_cache::sealed::Sealed for Pulse {
    fn parts(&self) -> crate::row_cache::Parts {
        let runtime = tokio::runtime::Handle::try_current().ok();
        let pulse = self.clone();
        crate::row_cache::Parts {
            store: self.0.parts.store.clone(),
            recorder: self.0.parts.recorder.clone(),
            clock: self.0.parts.clock.clone(),
            stopped: self.0.stop.stopped(),
            caches: self.0.parts.row_caches.clone(),
            shutdown_timeout: self.0.parts.shutdown_timeout,
            spawn: runtime.map(|runtime| -> Box<dyn FnOnce(crate::Task)> {
                Box::new(move |task| pulse.join_later(std::iter::once(runtime.spawn(task))))
            }),
        }
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulse")
            .field("store", &self.0.parts.store.describe())
            .finish_non_exhaustive()
    }
}

impl Pulse {
    pub(crate) fn new(parts: Parts, stop: Stop) -> Self {
        #[cfg(feature = "admin")]
        let posts = Arc::new(crate::admin::PostLimit::new(parts.clock.clone()));
        Self(Arc::new(Inner {
            parts: Arc::new(parts),
            stop,
            tasks: Mutex::default(),
            flushes: SharedFlush::default(),
            #[cfg(feature = "query")]
            query: std::sync::OnceLock::new(),
            #[cfg(feature = "admin")]
            posts,
        }))
    }

    pub(crate) fn join_later(&self, tasks: impl Iterator<Item = JoinHandle<()>>) {
        let mut joined = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        joined.extend(tasks);
    }

    /// The middleware: times each request to the head of its response, under method and route
    /// template. Add it with axum's `Router::layer`.
    #[cfg(feature = "axum")]
    pub fn layer(&self) -> PulseLayer {
        self.make_layer(Source::Matched { with_method: true })
    }

    /// The middleware for any tower service, with or without axum: the function gives each request
    /// its context, `None` is not recorded. It must return few different ones: never a raw path.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use tower::ServiceBuilder;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let service = ServiceBuilder::new()
    ///     .layer(pulse.layer_with(|head| Some(match head.uri.path() {
    ///         "/" => "home".into(),
    ///         _ => "other".into(),
    ///     })))
    ///     .service_fn(|request: http::Request<String>| async {
    ///         Ok::<_, std::io::Error>(http::Response::new(request.into_body()))
    ///     });
    /// # Ok(()) }
    /// ```
    pub fn layer_with<F>(&self, context: F) -> PulseLayer
    where
        F: Fn(&Head<'_>) -> Option<std::borrow::Cow<'static, str>> + Send + Sync + 'static,
    {
        self.make_layer(Source::Function(Arc::new(context)))
    }

    fn make_layer(&self, source: Source) -> PulseLayer {
        PulseLayer::new(
            self.0.parts.recorder.clone(),
            source,
            self.0.parts.skips.clone(),
        )
    }

    /// Times what happens until the timer is dropped, under a context of its own: a query, a
    /// template, a job. The recipe [access times](crate::guide::recipes#4-access-times-and-the-slowest-100).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # fn query() -> Result<u32, std::io::Error> { Ok(1) }
    /// let mut timer = pulse.timer("db:find_user");
    /// let user = query();
    /// if user.is_err() {
    ///     timer.failed();
    /// }
    /// timer.stop();
    /// # Ok(()) }
    /// ```
    pub fn timer(&self, context: &str) -> Timer {
        Timer::start(self.0.parts.recorder.entry(Kind::Timer, context))
    }

    /// Times a future, from its first poll until it is done, cancelled or panics. Whatever it returns
    /// counts as completed; [`try_time`](Self::try_time) counts an `Err` as an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// let answer = pulse.time("think", async { 42 }).await;
    /// assert_eq!(answer, 42);
    /// # Ok(()) }
    /// ```
    pub fn time<F: Future>(&self, context: &str, future: F) -> Timed<F> {
        let entry = self.0.parts.recorder.entry(Kind::Timer, context);
        Timed::new(entry, future, |_| false)
    }

    /// Times a future of a `Result`, as [`time`](Self::time) does. An `Err` counts as an error of the
    /// context, with the outcome `error`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # async fn find_user(id: u32) -> Result<String, std::io::Error> { Ok(format!("user {id}")) }
    /// let user = pulse.try_time("db:find_user", find_user(7)).await?;
    /// # Ok(()) }
    /// ```
    pub fn try_time<F, T, E>(&self, context: &str, future: F) -> Timed<F>
    where
        F: Future<Output = Result<T, E>>,
    {
        let entry = self.0.parts.recorder.entry(Kind::Timer, context);
        Timed::new(entry, future, Result::is_err)
    }

    /// Wraps a future, so that the timers in it count under the request in which `within` is called, wherever the
    /// future runs: in a spawned task, on another thread, after the response. Outside of requests, and in a request
    /// that is not recorded, it changes nothing. See [where the time goes](crate::guide::request_timers).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # async fn render() {}
    /// // In a handler:
    /// let thumbnail = tokio::spawn(pulse.within({
    ///     let pulse = pulse.clone();
    ///     async move { pulse.time("image:thumbnail", render()).await }
    /// }));
    /// # thumbnail.await.expect("it ends");
    /// # Ok(()) }
    /// ```
    ///
    /// A request that a [`layer`](Self::layer) of this `Pulse` measures within the future has its own timers.
    ///
    /// # Cancel safety
    /// As that of the future.
    pub fn within<F: Future>(&self, future: F) -> Within<F> {
        Within::new(&self.0.parts.recorder.core, future)
    }

    /// Records an HTTP request that was measured elsewhere, as the layer would: in a proxy, in another
    /// protocol's server, in a log. It counts in the clock's current second, under `context` and in the sum of
    /// all requests. A duration above 7 days counts as 7 days.
    ///
    /// `context` must be one of few names, such as method and route template, never a raw path:
    /// [`max_contexts`](crate::Builder::max_contexts) applies, and [`ignore`](crate::Builder::ignore) does not.
    /// `outcome` is the status of the response, or an [`Outcome`] where there was none. Takes some tens of
    /// nanoseconds and does no I/O.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// use std::time::Duration;
    /// use http::StatusCode;
    /// use tower_pulse::Outcome;
    ///
    /// pulse.record("GET /users/{id}", Duration::from_micros(1_250), StatusCode::OK);
    /// pulse.record("GET /users/{id}", Duration::from_secs(30), Outcome::Cancelled);
    /// # Ok(()) }
    /// ```
    pub fn record(&self, context: &str, duration: Duration, outcome: impl Into<RequestOutcome>) {
        let recorder = &self.0.parts.recorder;
        recorder.record_request(context, duration, outcome.into());
    }

    /// Records a duration that was measured elsewhere, as a [`timer`](Self::timer) of this context
    /// would. A duration above 7 days counts as 7 days.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// use std::time::Duration;
    ///
    /// pulse.record_duration("queue:wait", Duration::from_millis(12));
    /// # Ok(()) }
    /// ```
    pub fn record_duration(&self, context: &str, duration: Duration) {
        let entry = self.0.parts.recorder.entry(Kind::Timer, context);
        entry.record_measured(duration, Outcome::Completed, false);
    }

    /// The counter of this name: the recipe
    /// [time-series counters](crate::guide::recipes#1-time-series-counters). One of the reserved names
    /// (`hits`, `errors`, `micros`, alone or before a colon) is counted with a backslash before it, and
    /// logged once; see [`try_counter`](Self::try_counter).
    pub fn counter(&self, name: &str) -> Counter {
        self.0.parts.recorder.counter(name)
    }

    /// The counter of this name.
    ///
    /// # Errors
    /// The name is empty or reserved.
    pub fn try_counter(&self, name: &str) -> Result<Counter, BuildError> {
        check_counter("counter", name)?;
        Ok(self.counter(name))
    }

    /// A ranking of anything within a moving window, 24 hours by the hour unless it is configured otherwise. The
    /// recipe [ranking within a moving time window](crate::guide::recipes#5-ranking-within-a-moving-time-window).
    /// Build it once, and hold on to it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let searches = pulse.ranking("searches").period(60 * minute).interval(minute).build()?;
    /// searches.add("shoes", 1);
    /// let error = pulse.ranking("posts").interval(7 * minute).build().unwrap_err();
    /// assert_eq!(error.field(), "interval");
    /// # Ok(()) }
    /// ```
    pub fn ranking(&self, name: &str) -> RankingBuilder {
        RankingBuilder::new(self.clone(), name)
    }

    /// Where everything is kept, to read it in code.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.parts.store
    }

    /// Counts everything recorded so far in the clock's current second, in this process: what
    /// [`flush`](Self::flush) does before it goes to the store, and a background task at each turn of a second.
    /// For those who drive the clock themselves, from one second of a log to the next:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use http::StatusCode;
    /// use tower_pulse::store::CounterQuery;
    /// use tower_pulse::{Clock, Pulse};
    ///
    /// let (clock, time) = Clock::manual(1_700_000_000); // Unix seconds
    /// let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks()?; // nobody else drains
    /// for (second, n) in [(1_700_000_000, 3), (1_700_000_007, 2)] {
    ///     time.set_wall(second);
    ///     pulse.drain(); // the clock's second is this one from now on
    ///     for _ in 0..n {
    ///         pulse.record("GET /", Duration::from_millis(4), StatusCode::OK);
    ///     }
    ///     pulse.drain();
    /// }
    /// pulse.flush().await?;
    /// let seconds = CounterQuery::new(["hits"], 1);
    /// let hits = &pulse.store().counters(&seconds).await?[0];
    /// let hits: Vec<_> = hits.slices.iter().map(|slice| (slice.start, slice.count)).collect();
    /// assert_eq!(hits, [(1_700_000_000, 3), (1_700_000_007, 2)]);
    /// # Ok(()) }
    /// ```
    ///
    /// The first drain after the turn of a second counts in the second that has just ended: a task that comes a
    /// moment late would else count everything a second late.
    pub fn drain(&self) {
        self.0.parts.recorder.drain();
    }

    /// Takes everything recorded so far to the store, now, and returns when it can be read.
    ///
    /// # Errors
    /// The store failed, or nobody has folded it within 5 s. Nothing is lost: it is tried again at the
    /// next interval, and what is in the journal is folded later.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing and doubles nothing.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.boxed_flush().await
    }

    /// Boxed, so that this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    fn boxed_flush(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            let flushing = self.0.flushes.run(self.0.parts.flush());
            if self.0.parts.store.is_in_process() {
                // Nothing to wait for, and no timer that a runtime would have to run.
                return flushing.await;
            }
            let flushed = tokio::time::timeout(FLUSH_DEADLINE, flushing).await;
            flushed.unwrap_or_else(|_| Err(not_readable()))
        })
    }

    /// How recording and flushing are doing.
    pub fn health(&self) -> Health {
        self.0.parts.health()
    }

    /// Stops the background tasks, flushes what is left, and waits for both. What is recorded
    /// afterwards is counted as dropped. A second call returns when the first one has done its work.
    ///
    /// # Errors
    /// The store did not take everything within
    /// [`shutdown_timeout`](crate::Builder::shutdown_timeout), be it requests, additions to counters or to rankings;
    /// or it turns out that it has lost what it had taken. Once the store has everything, it may still have to be folded: by
    /// this call as far as there is time, else by another instance, or by the next one that starts.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: call it again.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.boxed_shutdown().await
    }

    /// Boxed, so that this crate compiles the future: see [`BoxFuture`].
    #[inline(never)]
    fn boxed_shutdown(&self) -> BoxFuture<'_, Result<(), ShutdownError>> {
        Box::pin(async {
            let parts = &self.0.parts;
            self.0.stop.stop();
            let tasks = {
                let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *tasks)
            };
            for task in tasks {
                // A task that was aborted with its runtime has nothing left to do.
                let _ = task.await;
            }
            let start = std::time::Instant::now();
            let result = parts.flusher.finish(parts.shutdown_timeout).await;
            // What is in the journal is safe, and folded by whoever comes; the sooner the better.
            let left = parts.shutdown_timeout.saturating_sub(start.elapsed());
            let fold = async {
                let _ = parts.folder.fold().await;
                let _ = parts.store.sync().await;
            };
            let _ = tokio::time::timeout(left, fold).await;
            let _ = tokio::time::timeout(RELEASE_TIMEOUT, parts.folder.release()).await;
            result.map_err(|unflushed| ShutdownError::new(unflushed.lost, unflushed.error))
        })
    }
}

fn not_readable() -> StoreError {
    let message = format!(
        "not readable within {FLUSH_DEADLINE:?}: no instance has folded it; see `journal` in health"
    );
    StoreError::new(StoreErrorKind::TimedOut, message)
}

impl Parts {
    async fn flush(&self) -> Result<(), StoreError> {
        // Each turn but the last finds that the store has lost what it had acknowledged, or got it again
        // at another place meanwhile.
        let mut wait = Duration::ZERO;
        while let Some(newest) = self.append_all().await? {
            let readable = self.folder.until_readable(&newest.call);
            if readable.await? && self.flusher.replays() == newest.replays {
                break;
            }
            // A store that loses again and again what it has acknowledged is not asked without a pause.
            tokio::time::sleep(wait).await;
            wait = (2 * wait).clamp(LOST_WAIT, 20 * LOST_WAIT);
        }
        // So that health tells at once what folding could not use; it is asked again soon anyway.
        let _ = self.flusher.refresh_fleet().await;
        Ok(())
    }

    /// Appends all that was recorded. A journal that refuses it for want of room is folded, again and again as long as
    /// that makes room.
    async fn append_all(&self) -> Result<Option<Flushed>, StoreError> {
        let mut last_call = None;
        loop {
            let flushed = self.flusher.flush().await;
            let appended = Some(self.flusher.last_call());
            let is_refused =
                matches!(&flushed, Err(error) if error.kind() == StoreErrorKind::Refused);
            if !is_refused || last_call == appended {
                return flushed;
            }
            last_call = appended;
            self.folder.fold().await?;
        }
    }
}
