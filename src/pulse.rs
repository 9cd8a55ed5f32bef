//! The handle that a service holds.

#[cfg(feature = "admin")]
mod admin;
mod changes;
#[cfg(feature = "query")]
mod query;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::Simulation;
use crate::layer::{Head, IgnoreList, PulseLayer, Source};
use crate::store::Store;
use tower_pulse_core::error::{BuildError, StoreError};
use tower_pulse_core::handle::{Handle, ShutdownError};
use tower_pulse_core::health::Health;
use tower_pulse_core::recorder::{
    Counter, Recorder, RequestOutcome, Timed, Timer, Within, check_counter,
};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;

/// Records what a service does, and shows it. Cheap to clone; all clones are one. See the
/// [crate's page](crate) for a tour.
#[derive(Clone)]
pub struct Pulse(Arc<Inner>);

/// What only the page shows.
#[derive(Clone)]
pub(crate) struct PageOptions {
    /// The name of the service.
    #[cfg_attr(not(feature = "admin"), allow(dead_code))]
    pub(crate) service: Option<String>,
    /// Where a trace is shown, with a placeholder for its id.
    #[cfg_attr(not(feature = "admin"), allow(dead_code))]
    pub(crate) trace_url: Option<String>,
}

struct Inner {
    handle: Handle,
    store: Store,
    skips: IgnoreList,
    #[cfg(feature = "admin")]
    page: PageOptions,
    #[cfg(feature = "admin")]
    posts: Arc<tower_pulse_admin::PostLimit>,
}

#[cfg(feature = "row-cache")]
impl AsRef<Handle> for Pulse {
    fn as_ref(&self) -> &Handle {
        &self.0.handle
    }
}

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulse")
            .field("store", &self.0.handle.store().describe())
            .finish_non_exhaustive()
    }
}

impl Pulse {
    pub(crate) fn new(handle: Handle, skips: IgnoreList, page: PageOptions) -> Self {
        #[cfg(not(feature = "admin"))]
        drop(page);
        #[cfg(feature = "admin")]
        let posts = Arc::new(tower_pulse_admin::PostLimit::new(handle.clock().clone()));
        Self(Arc::new(Inner {
            store: Store::from(handle.store().clone()),
            handle,
            skips,
            #[cfg(feature = "admin")]
            page,
            #[cfg(feature = "admin")]
            posts,
        }))
    }

    pub(crate) fn join_later(&self, tasks: impl Iterator<Item = tokio::task::JoinHandle<()>>) {
        self.0.handle.join_later(tasks);
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
        PulseLayer::new(self.recorder().clone(), source, self.0.skips.clone())
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
    ///
    /// # let is_cached = true;
    /// let timer = pulse.timer("db:find_user");
    /// if is_cached {
    ///     timer.discard(); // no query, no value
    /// }
    /// # Ok(()) }
    /// ```
    pub fn timer(&self, context: &str) -> Timer {
        Timer::start(self.recorder().entry(Kind::Timer, context))
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
        let entry = self.recorder().entry(Kind::Timer, context);
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
        let entry = self.recorder().entry(Kind::Timer, context);
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
        Within::new(&self.recorder().recording, future)
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
        self.recorder()
            .record_request(context, duration, outcome.into());
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
        let entry = self.recorder().entry(Kind::Timer, context);
        entry.record_measured(duration, Outcome::Completed, false);
    }

    /// The counter of this name: the recipe
    /// [time-series counters](crate::guide::recipes#1-time-series-counters). One of the reserved names
    /// (`hits`, `errors`, `micros`, alone or before a colon) is counted with a backslash before it, and
    /// logged once; see [`try_counter`](Self::try_counter).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let sales = pulse.counter("sales");
    /// sales.increment();
    /// sales.add(3);
    /// # Ok(()) }
    /// ```
    pub fn counter(&self, name: &str) -> Counter {
        self.recorder().counter(name)
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
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let pulse = tower_pulse::Pulse::builder().build()?;
    /// let hour = Duration::from_secs(3_600);
    /// let posts = pulse.ranking("posts").period(24 * hour).interval(hour).build()?;
    /// posts.add("7", 1);
    /// posts.add("9", 2);
    /// posts.add_now("7", 5).await?;
    /// let top = posts.top(0, 10).await?;
    /// assert_eq!((&*top[0].id, top[0].score), ("7", 6));
    /// assert_eq!(posts.rank("9").await?, Some(1));
    ///
    /// let error = pulse.ranking("likes").interval(7 * hour).build().unwrap_err();
    /// assert_eq!(error.field(), "interval");
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "rankings")]
    pub fn ranking(&self, name: &str) -> tower_pulse_core::handle::RankingBuilder {
        tower_pulse_core::handle::RankingBuilder::new(self.0.handle.clone(), name)
    }

    /// Where everything is kept, to read it in code.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Drives this instance by hand, where the caller drives its clock: a log that is played, a test.
    pub fn simulation(&self) -> Simulation<'_> {
        Simulation::new(&self.0.handle)
    }

    /// Takes everything recorded so far to the store, now, and returns when it can be read. A question that was answered
    /// before, by the admin router or a query, has the same answer for a second of the clock: with
    /// [`Clock::manual`](crate::Clock::manual), advance it by a second before the question is asked again.
    ///
    /// # Errors
    /// The store failed, or nobody has folded it within 5 s. Nothing is lost: it is tried again at the
    /// next interval, and what is in the journal is folded later. Or a key holds something else, so that a part was
    /// dropped meanwhile: the error names the key. All other data is in the store.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing and doubles nothing.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.0.handle.flush().await
    }

    /// How recording and flushing are doing.
    pub fn health(&self) -> Health {
        self.0.handle.health()
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
        self.0.handle.shutdown().await
    }

    fn recorder(&self) -> &Arc<Recorder> {
        self.0.handle.recorder()
    }
}
