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
use tower_pulse_model::failure::Failure;
use tower_pulse_model::outcome::Outcome;

/// Records what a service does, and shows it. Clones are cheap and share all state. See the [crate's page](crate) for a
/// tour.
#[derive(Clone)]
pub struct Pulse(Arc<Inner>);

/// Settings that only the dashboard uses.
#[derive(Clone)]
#[cfg_attr(not(feature = "admin"), allow(dead_code))]
pub(crate) struct ViewOptions {
    pub(crate) service: Option<String>,
    /// The URL of a trace, with a placeholder for its id.
    pub(crate) trace_url: Option<String>,
}

struct Inner {
    handle: Handle,
    store: Store,
    skips: IgnoreList,
    #[cfg_attr(not(feature = "admin"), allow(dead_code))]
    view: ViewOptions,
    #[cfg(feature = "admin")]
    write_limit: Arc<tower_pulse_admin::WriteLimit>,
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
    pub(crate) fn new(handle: Handle, skips: IgnoreList, view: ViewOptions) -> Self {
        #[cfg(feature = "admin")]
        let write_limit = Arc::new(tower_pulse_admin::WriteLimit::new(handle.clock().clone()));
        Self(Arc::new(Inner {
            store: Store::from(handle.store().clone()),
            handle,
            skips,
            view,
            #[cfg(feature = "admin")]
            write_limit,
        }))
    }

    pub(crate) fn join_later(&self, tasks: impl Iterator<Item = tokio::task::JoinHandle<()>>) {
        self.0.handle.join_later(tasks);
    }

    /// Returns the middleware, which times each request to the head of its response, under the method and route
    /// template. Add the middleware with axum's `Router::layer`.
    #[cfg(feature = "axum")]
    pub fn layer(&self) -> PulseLayer {
        self.make_layer(Source::Matched { has_method: true })
    }

    /// Returns the middleware for any tower service, with or without axum. The function returns the context of each
    /// request, or `None` if the request is not recorded. The contexts must be few: never return a raw path.
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

    /// Returns a layer for `tracing-subscriber`, which turns statements of sqlx, calls of other services, and spans
    /// with the field `pulse.timer` into timers of their requests. The module [`tracing`](crate::tracing) has an
    /// example. To choose other spans and names, use [`Builder::tracing`](crate::Builder::tracing) instead.
    #[cfg(feature = "tracing")]
    pub fn tracing<S>(&self) -> impl tracing_subscriber::Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    {
        let timers = crate::tracing::SpanTimers::new();
        timers.attach(self.recorder());
        timers.layer()
    }

    /// Starts a timer of a query, a job or any other code, under its own context. The timer runs until it is dropped.
    /// See [where the time goes](crate::guide::request_timers).
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
        Timer::start(self.recorder().context(Kind::Timer, context))
    }

    /// Times a future, from its first poll until it completes, is cancelled or panics. Any output counts as
    /// `completed`, even an `Err`. [`try_time`](Self::try_time) counts an `Err` as an error, and
    /// [`try_time_as`](Self::try_time_as) also records the kind of the error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// let answer = pulse.time("think", async { 42 }).await;
    /// assert_eq!(answer, 42);
    /// # Ok(()) }
    /// ```
    pub fn time<F: Future>(&self, context: &str, future: F) -> Timed<F> {
        let timer = self.recorder().context(Kind::Timer, context);
        Timed::new(timer, future, |_| false)
    }

    /// Times a future of a `Result`, as [`time`](Self::time) does. An `Err` counts as an error of the context, with the
    /// outcome `error`.
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
        let timer = self.recorder().context(Kind::Timer, context);
        Timed::new(timer, future, Result::is_err)
    }

    /// Times a future of a `Result`, as [`try_time`](Self::try_time) does. The function `failure` turns an `Err` into a
    /// [`Failure`], whose kind is counted under the timer. A request that ends as an error without a `Failure` of its
    /// own gets the last `Failure` of its timers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pulse = tower_pulse::Pulse::builder().build()?;
    /// # async fn find_user(id: u32) -> Result<String, std::io::Error> { Ok(format!("user {id}")) }
    /// use tower_pulse::Failure;
    ///
    /// let failure = |error: &std::io::Error| Failure::new("db_timeout").with_message(error);
    /// let user = pulse.try_time_as("db:find_user", find_user(7), failure).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// The same as that of the timed future.
    pub fn try_time_as<F, T, E, K>(
        &self,
        context: &str,
        future: F,
        failure: K,
    ) -> impl Future<Output = Result<T, E>> + use<F, T, E, K>
    where
        F: Future<Output = Result<T, E>>,
        K: FnOnce(&E) -> Failure,
    {
        let timer = self.recorder().context(Kind::Timer, context);
        let timed = Timed::new(timer.clone(), future, Result::is_err);
        async move {
            let result = timed.await;
            if let Err(error) = &result {
                timer.fail_timer(failure(error));
            }
            result
        }
    }

    /// Wraps a future, so that its timers count under the request in which `within` is called. The future may run in a
    /// spawned task, on another thread, or after the response. Has no effect outside of a recorded request. See [where
    /// the time goes](crate::guide::request_timers).
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
    /// If the future itself sends a request through a [`layer`](Self::layer) of this `Pulse`, the timers in that inner
    /// request count under the inner request.
    ///
    /// # Cancel safety
    /// The same as that of the wrapped future.
    pub fn within<F: Future>(&self, future: F) -> Within<F> {
        Within::new(&self.recorder().recording, future)
    }

    /// Records an HTTP request that was measured elsewhere, for example in a proxy or a log. The request counts in the
    /// clock's current second, under `context` and in the sum of all requests, as with the layer. A duration above 7
    /// days counts as 7 days.
    ///
    /// The contexts must be few, such as method and route template: never a raw path.
    /// [`max_contexts`](crate::Builder::max_contexts) applies, and [`ignore`](crate::Builder::ignore) does not.
    /// `outcome` is the status of the response, or an [`Outcome`] if there was no response. The call does no I/O.
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

    /// Records a duration that was measured elsewhere, as a [`timer`](Self::timer) of this context would. A duration
    /// above 7 days counts as 7 days.
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
        let timer = self.recorder().context(Kind::Timer, context);
        timer.record_measured(duration, Outcome::Completed);
    }

    /// Returns the counter of this name. See [counters](crate::guide::counters_rankings_rows#counters). A reserved name
    /// (`hits`, `errors`, `micros`, alone or before a colon) is counted with a backslash before it, and logged once;
    /// [`try_counter`](Self::try_counter) refuses it.
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

    /// Returns the counter of this name, as [`counter`](Self::counter) does, or an error.
    ///
    /// # Errors
    /// The name is empty or reserved.
    pub fn try_counter(&self, name: &str) -> Result<Counter, BuildError> {
        check_counter("counter", name)?;
        Ok(self.counter(name))
    }

    /// Configures a ranking of ids within a moving window, which by default is 24 hours long and moves each hour. See
    /// [rankings](crate::guide::counters_rankings_rows#rankings-within-a-moving-window). Build the ranking once, and
    /// keep it.
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

    /// Returns the store of this `Pulse`, to read the recorded data in code.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns functions that do the work of the background tasks, for a caller that moves the clock, such as a test or
    /// a replay of a log.
    pub fn simulation(&self) -> Simulation<'_> {
        Simulation::new(&self.0.handle)
    }

    /// Sends everything recorded so far to the store, and returns when the data can be read. An answer of the admin
    /// router or of a query is reused for a second. With [`Clock::manual`](crate::Clock::manual), advance the clock by
    /// a second before you ask the same question again.
    ///
    /// # Errors
    /// The store failed, or no instance has folded the samples within 5 s. Nothing is lost in these cases: the next
    /// flush sends the samples again, and the journal is folded later. If a key has a foreign value, the error names
    /// the key. The data for this key was omitted; all other data is in the store.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing, and nothing counts twice.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.0.handle.flush().await
    }

    /// The health of this instance and of its store.
    pub fn health(&self) -> Health {
        self.0.handle.health()
    }

    /// Stops the background tasks, flushes all pending samples, and returns when both are done. Samples recorded
    /// afterwards are counted as dropped. A second call returns when the first one is done.
    ///
    /// # Errors
    /// The store did not accept all requests and all additions to counters and rankings within
    /// [`shutdown_timeout`](crate::Builder::shutdown_timeout), or it has lost samples that it had acknowledged. Samples
    /// that wait in the journal are no error: this call folds them if there is time. If not, another instance folds
    /// them, now or after it has started.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: call it again.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.0.handle.shutdown().await
    }

    fn recorder(&self) -> &Arc<Recorder> {
        self.0.handle.recorder()
    }
}
