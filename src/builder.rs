//! The settings of a `Pulse`. `validate` checks them, and `build` makes the `Pulse`.

mod build;
#[cfg(all(feature = "query", feature = "redis"))]
mod dashboard;
#[cfg(feature = "redis")]
mod redis_settings;
mod stores;
mod targets;
mod trace_url;
mod validate;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

#[cfg(all(feature = "query", feature = "redis"))]
pub use self::dashboard::DashboardBuilder;
#[cfg(feature = "redis")]
use self::redis_settings::RedisChange;
use crate::layer::ResponseHead;
use crate::pulse::Pulse;
use tower_pulse_core::cleaner::Retention;
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::flush::FlushOptions;
use tower_pulse_core::handle::HandleOptions;
use tower_pulse_core::health::Notices;
use tower_pulse_core::recorder::{Limits, MaybeErrorRule};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::memory::RECORD_BYTES;
use tower_pulse_core::targets::Targets;
#[cfg(feature = "file")]
use tower_pulse_file::{DURABLE_EVERY, FILE_BYTES, FileOptions};
use tower_pulse_model::slice::{DEFAULT_PRECISIONS, DEFAULT_RETAINED, Precisions};
#[cfg(feature = "redis")]
use tower_pulse_redis::RedisOptions;

/// Configures a [`Pulse`]. Every setting has a default. [`build`](Self::build) refuses a value that is out of range,
/// with an error that names the setting. A clone is independent of the original.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
/// use std::time::Duration;
///
/// let pulse = tower_pulse::Pulse::builder()
///     .flush_interval(Duration::from_millis(500))
///     .ignore(["/healthz", "/assets/*"])
///     .build()?;
/// # pulse.shutdown().await.unwrap();
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<Of = Pulse> {
    of: PhantomData<fn() -> Of>,
    backend: Backend,
    store_set_by: Vec<&'static str>,
    options: HandleOptions,
    prefix: Option<String>,
    service: Option<String>,
    precisions: Vec<u32>,
    retained_slices: u32,
    history: Option<Duration>,
    memory_bytes: usize,
    #[cfg(feature = "file")]
    file_bytes: u64,
    #[cfg(feature = "file")]
    durable_every: Duration,
    journal_bytes: u64,
    redis_connection_timeout: Option<Duration>,
    redis_response_timeout: Option<Duration>,
    #[cfg(feature = "redis")]
    redis_changes: Vec<RedisChange>,
    expire_idle_keys: bool,
    book_keys: bool,
    ignore: Vec<String>,
    queue_header: Option<String>,
    trace_url: Option<String>,
    record_panics: bool,
    #[cfg(feature = "tracing")]
    tracing: Option<crate::tracing::SpanTimers>,
}

#[derive(Clone)]
enum Backend {
    Memory,
    #[cfg(feature = "file")]
    File(Result<FileOptions, BuildError>),
    #[cfg(feature = "redis")]
    Redis(Result<Box<RedisOptions>, BuildError>),
    Custom(Arc<dyn Store>),
    /// The chosen store needs a Cargo feature that is off.
    #[cfg(not(all(feature = "file", feature = "redis")))]
    Missing(BuildError),
}

impl<Of> std::fmt::Debug for Builder<Of> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The backend's URL may have a password.
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl<Of> Default for Builder<Of> {
    fn default() -> Self {
        let limits = Limits {
            pending_bytes: 64 * 1024 * 1024,
            ..Limits::new(2_000, 1_000)
        };
        Self {
            of: PhantomData,
            backend: Backend::Memory,
            store_set_by: Vec::new(),
            options: HandleOptions {
                clock: Clock::system(),
                precisions: Precisions::default(),
                limits,
                flush: FlushOptions {
                    interval: None,
                    replay_bytes: 8 * 1024 * 1024,
                    name: None,
                },
                fold_step_contexts: None,
                history_days: None,
                clean_interval: Duration::from_secs(60),
                retention: Retention {
                    ranking_retention: Duration::from_secs(24 * 3_600),
                    context_retention: Duration::from_secs(7 * 24 * 3_600),
                },
                counters: Vec::new(),
                targets: Targets::default(),
                query_bytes: 64 * 1024 * 1024,
                shutdown_timeout: Duration::from_millis(900),
                notices: Notices::default(),
            },
            prefix: None,
            service: None,
            precisions: DEFAULT_PRECISIONS.to_vec(),
            retained_slices: DEFAULT_RETAINED,
            history: None,
            memory_bytes: RECORD_BYTES,
            #[cfg(feature = "file")]
            file_bytes: FILE_BYTES,
            #[cfg(feature = "file")]
            durable_every: DURABLE_EVERY,
            journal_bytes: 64 * 1024 * 1024,
            redis_connection_timeout: None,
            redis_response_timeout: None,
            #[cfg(feature = "redis")]
            redis_changes: Vec::new(),
            expire_idle_keys: true,
            book_keys: true,
            ignore: Vec::new(),
            queue_header: None,
            trace_url: None,
            record_panics: false,
            #[cfg(feature = "tracing")]
            tracing: None,
        }
    }
}

impl Pulse {
    /// Returns a builder with the defaults, which keep everything in memory.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// The settings that an instance and a [`Dashboard`](crate::Dashboard) share.
impl<Of> Builder<Of> {
    /// The prefix of every key in Redis: at most 128 bytes without control characters. The default is `pulse:`, in a
    /// cluster `{pulse}:`. With an empty prefix, the [book's
    /// keys](crate::guide::counters_rankings_rows#keys-that-other-programs-can-read) have the book's names.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The name of the service, 1 to 100 bytes without control characters. The dashboard shows the name. Without a
    /// [`prefix`](Self::prefix), the keys in Redis begin with `pulse:{service}:`, which keeps several services apart.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// The precisions of all counters, in seconds: 1 to 31,536,000, at most 16 different ones. By default 1, 5, 60,
    /// 300, 3600, 18000, 86400.
    pub fn precisions(mut self, seconds: impl IntoIterator<Item = u32>) -> Self {
        self.precisions = seconds.into_iter().collect();
        self
    }

    /// The number of slices that each counter keeps at each precision: 1 to 10,000, 120 by default. Older slices are
    /// removed.
    pub fn retained_slices(mut self, slices: u32) -> Self {
        self.retained_slices = slices;
        self
    }

    /// The approximate bytes of windows and answers that are kept for the admin router and [`Pulse::query`]: 1 MiB to 1
    /// TiB, 64 MiB by default. The default is enough for 2,000 busy contexts in all named windows.
    ///
    /// Above this bound, the least recently used windows are removed. The next question about such a window reads the
    /// store again. If a single window does not fit, the answer is an error that names this setting. With 2,000 busy
    /// contexts, one window takes about 25 MiB of the process, and eight windows take 35 MiB. Answers that are being
    /// sent do not count.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().max_contexts(20_000).query_bytes(256 << 20).build()?;
    /// # Ok(()) }
    /// ```
    pub fn query_bytes(mut self, bytes: usize) -> Self {
        self.options.query_bytes = bytes;
        self
    }

    /// Whether the [book's keys](crate::guide::counters_rankings_rows#keys-that-other-programs-can-read) are written to
    /// Redis. On by default. If not, the keys that only other programs read are omitted, Redis does about a third of the
    /// work, single contexts have counters only at precisions of whole minutes, and `ranking_retention` has no effect.
    pub fn book_keys(mut self, on: bool) -> Self {
        self.book_keys = on;
        self
    }

    /// The clock of the instance, for tests that move the time.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = clock;
        self
    }
}

impl Builder {
    /// The name of this instance in slow and failed requests, in lists of instances and in [`Health`](crate::Health): 1
    /// to 100 bytes without control characters. Other invisible characters, and those that change the direction of
    /// text, are escaped. The default is the name of the host with a short random suffix, such as `web-1-3fa9c2`.
    ///
    /// Instances of the same name are shown as one; nothing else depends on the name. In Redis, the keys
    /// `{prefix}pulse:lease:fold` and `{prefix}pulse:lease:clean` contain `{name}:{id}` of the instance that folds or
    /// cleans.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().instance("web-1").build()?;
    /// assert_eq!(pulse.health().instance, "web-1");
    /// # Ok(()) }
    /// ```
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.options.flush.name = Some(name.into());
        self
    }

    /// The time between two flushes: 10 ms to 60 s. By default 1 s, and up to 10 s in a fleet of more than 400
    /// instances. An instance flushes earlier if many ids of a [ranking](crate::Pulse::ranking) wait: at least 1,000,
    /// and at least half of the ranking's `max_ids`. Otherwise, the ranking would soon have no room.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.options.flush.interval = Some(interval);
        self
    }

    /// The time between two cleanings, which remove old data from the store: 1 s to 1 h, 60 s by default.
    pub fn clean_interval(mut self, interval: Duration) -> Self {
        self.options.clean_interval = interval;
        self
    }

    /// The time without a request after which a context leaves the ranking of the slowest contexts: 1 min to 1 year, 24
    /// h by default.
    pub fn ranking_retention(mut self, idle: Duration) -> Self {
        self.options.retention.ranking_retention = idle;
        self
    }

    /// The time without a request after which a context is forgotten altogether: 1 h to 10 years, 7 days by default.
    pub fn context_retention(mut self, idle: Duration) -> Self {
        self.options.retention.context_retention = idle;
        self
    }

    /// The length of the history, which has slices of a day: 15 to 400 days, rounded up to whole days. Without a
    /// history (the default), data is kept for 15 days, in slices of six hours.
    ///
    /// A history adds one record for each context and day (UTC). The record has all that the dashboard shows of a
    /// window: see the [sizes](crate::guide::sizing#a-history). The windows `30d` and `90d`, and the windows with which
    /// they are compared, cover only the days of the history. The history begins when an instance first asks for it:
    /// earlier days are shown as not recorded. A store in memory keeps the history until the process ends, within
    /// [`memory_bytes`](Self::memory_bytes).
    ///
    /// Set the same length in all instances of a service. Otherwise the longest length applies within half a minute,
    /// and health warns in the instances with another length. A history ends when no instance has asked for it for a
    /// week. Paths that had no request for [`context_retention`](Self::context_retention) are not listed in any window.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use std::time::Duration;
    ///
    /// const DAY: Duration = Duration::from_secs(86_400);
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .history(180 * DAY)
    ///     .context_retention(180 * DAY)
    ///     .build()?;
    /// # pulse.shutdown().await.unwrap();
    /// let error = tower_pulse::Pulse::builder().history(7 * DAY).build().unwrap_err();
    /// assert_eq!(error.field(), "history");
    /// # Ok(()) }
    /// ```
    pub fn history(mut self, length: Duration) -> Self {
        self.history = Some(length);
        self
    }

    /// The time that [`Pulse::shutdown`] has to flush pending samples: 0 to 60 s, 900 ms by default.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.options.shutdown_timeout = timeout;
        self
    }

    /// The most contexts, timers included, that are recorded one by one: 1 to 100,000, 2,000 by default. Further
    /// contexts are counted together as `<overflow>`, and health warns.
    pub fn max_contexts(mut self, contexts: usize) -> Self {
        self.options.limits.max_contexts = contexts;
        self
    }

    /// The most named counters that are counted one by one: 1 to 100,000, 1,000 by default. Further counters are
    /// counted together as `<overflow>`.
    pub fn max_counters(mut self, counters: usize) -> Self {
        self.options.limits.max_counters = counters;
        self
    }

    /// The most bytes of acknowledged calls that are kept to be sent again after a failover: 0 to 1 GiB, 8 MiB by
    /// default.
    pub fn replay_bytes(mut self, bytes: usize) -> Self {
        self.options.flush.replay_bytes = bytes;
        self
    }

    /// The approximate bytes of records that may wait for the store: at least 1 MiB, 64 MiB by default.
    ///
    /// Above this bound, for example after hours without Redis, slices are merged into wider ones and histograms become
    /// coarser. No request is lost, but percentiles of that time are available by the half hour or by six hours only.
    pub fn pending_bytes(mut self, bytes: usize) -> Self {
        self.options.limits.pending_bytes = bytes;
        self
    }

    /// The approximate bytes of the records of a store in memory: at least 1 MiB, 256 MiB by default. Above this bound,
    /// the oldest minutes are removed first, then the oldest half hours.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The most bytes of calls that wait in Redis to be folded: 1 MiB to 1 GiB, 64 MiB by default. At the bound, every
    /// instance keeps its samples in its own memory, as during an outage of Redis.
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = bytes;
        self
    }

    /// The number of contexts in a step of folding, for tests that stop in the middle of a round.
    #[cfg(any(test, feature = "__test_store"))]
    pub fn fold_step_contexts(mut self, contexts: usize) -> Self {
        self.options.fold_step_contexts = Some(contexts.max(1));
        self
    }

    /// Whether keys of counters in Redis expire by themselves when they are idle. On by default. Switch this off only
    /// if other programs go on writing the same keys while no instance of this crate runs: only an instance prolongs
    /// the life of keys that are in use.
    pub fn expire_idle_keys(mut self, on: bool) -> Self {
        self.expire_idle_keys = on;
        self
    }

    /// Paths or route templates that are not recorded. `/assets/*` stands for `/assets` and all paths below. A request
    /// is ignored if one of them matches its route template, or the whole path that the client sends, even within a
    /// nested router. Requests to the admin router are never recorded.
    pub fn ignore<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.ignore.extend(paths.into_iter().map(Into::into));
        self
    }

    /// The version of the application, such as a release or a commit: 1 to 200 bytes without control characters. Other
    /// invisible characters, and those that change the direction of text, are escaped. Without a version, instances of
    /// an old and of a new release cannot be told apart.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .app_version(env!("CARGO_PKG_VERSION"))
    ///     .build()?;
    /// # pulse.shutdown().await.unwrap();
    /// let error = tower_pulse::Pulse::builder().app_version("").build().unwrap_err();
    /// assert_eq!(error.field(), "app_version");
    /// # Ok(()) }
    /// ```
    ///
    /// Each instance sends its version to the store. While several versions run side by side, as during a deploy, the
    /// statistics of each are recorded by the minute.
    pub fn app_version(mut self, version: impl Into<String>) -> Self {
        self.options.limits.app_version = Some(version.into().into());
        self
    }

    /// Sets a function that returns whether a response counts as an error. The function replaces the default rule,
    /// [`ResponseHead::is_error`]. The function runs once for each response, so it must be fast and must not panic.
    /// Service errors, panics and bodies that fail always count as errors. The function does not change the outcome
    /// (`4xx`, `5xx`, …).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use http::StatusCode;
    ///
    /// // A request beyond a rate limit (429), and a request that tower-http's `TimeoutLayer` stops (408), count as
    /// // errors; an upstream's maintenance page does not.
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .count_as_error(|response| match response.status {
    ///         StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => true,
    ///         StatusCode::SERVICE_UNAVAILABLE => !response.headers.contains_key("x-maintenance"),
    ///         _ => response.is_error(),
    ///     })
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn count_as_error<F>(mut self, is_error: F) -> Self
    where
        F: Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static,
    {
        self.options.limits.error_rule = MaybeErrorRule(Some(Arc::new(is_error)));
        self
    }

    /// Whether the [slowest requests](crate::guide::slow_requests) and the newest failed ones are listed with their
    /// trace id. The id is read from the header `traceparent`, or else from `x-request-id`. At most 64 bytes of visible
    /// ASCII are recorded. A scraper that asks `metrics` for OpenMetrics gets some of the ids, as exemplars. Off by
    /// default.
    ///
    /// The layer reads the id before it calls the inner service, so a middleware that sets `x-request-id` must be
    /// outside of the layer. Each request then costs one or two header look-ups, and no allocation.
    pub fn keep_trace_ids(mut self, on: bool) -> Self {
        self.options.limits.details.trace_ids = on;
        self
    }

    /// Whether the [slowest requests](crate::guide::slow_requests) and the newest failed ones are listed with their
    /// path, such as `/users/7` instead of `/users/{id}` alone. At most 256 bytes are recorded, and never the query.
    /// Off by default.
    ///
    /// A path may hold personal data, such as a name or an address. The path is stored until ten minutes after the end
    /// of the next hour, and shown to all who may see the admin router.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .keep_trace_ids(true)
    ///     .keep_request_paths(true)
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn keep_request_paths(mut self, on: bool) -> Self {
        self.options.limits.details.paths = on;
        self
    }

    /// Whether failed requests are listed with the message of their [`Failure`](crate::Failure), cut at 200 bytes. On
    /// by default. The kind of a failure is always recorded.
    ///
    /// A message may hold personal data, such as a name in a text of the database. The message is stored until ten
    /// minutes after the end of the next hour, and shown to all who may see the admin router.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().failure_messages(false).build()?;
    /// # Ok(()) }
    /// ```
    pub fn failure_messages(mut self, on: bool) -> Self {
        self.options.limits.details.hides_messages = !on;
        self
    }

    /// Records the panics within requests: a request that fails by a panic has the kind `panic at src/orders.rs:88`,
    /// and the text of the panic as its message. A panic that a middleware within the layer turns into a 500, as
    /// tower-http's `CatchPanicLayer` does, is recorded too. Without this setting, a panic is an outcome without a
    /// kind.
    ///
    /// [`build`](Self::build) installs a panic hook for the whole process, once. The hook calls the hook that was
    /// installed before, and costs nothing as long as nothing panics. If the application sets another hook later, the
    /// new hook must call the hook that it replaces.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder().record_panics().build()?;
    /// # Ok(()) }
    /// ```
    pub fn record_panics(mut self) -> Self {
        self.record_panics = true;
        self
    }

    /// Sets which spans and events become timers of this `Pulse`. Also add the layer of `timers` to the subscriber:
    /// [`SpanTimers`](crate::tracing::SpanTimers) has an example.
    #[cfg(feature = "tracing")]
    pub fn tracing(mut self, timers: &crate::tracing::SpanTimers) -> Self {
        self.tracing = Some(timers.clone());
        self
    }

    /// The header in which the proxy in front of the service gives the time at which the proxy received a request. The
    /// usual name is `x-request-start`. The wait from that time until the layer begins is recorded per path, as the
    /// timer `queue`. The wait is not a part of the request's time. The value is a Unix time in seconds, milliseconds,
    /// microseconds or nanoseconds, with or without `t=` before it. [Where the time
    /// goes](crate::guide::request_timers#the-queue-in-front) shows the setting of each proxy.
    ///
    /// Off by default: a client can send the header too, so the proxy must replace the client's header. A wait below
    /// zero counts as 0, and a wait of more than a minute is ignored; [`Health`](crate::Health) counts both.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .queue_time_header("x-request-start")
    ///     .build()?;
    /// let error = tower_pulse::Pulse::builder()
    ///     .queue_time_header("x request start")
    ///     .build()
    ///     .unwrap_err();
    /// assert_eq!(error.field(), "queue_time_header");
    /// # Ok(()) }
    /// ```
    pub fn queue_time_header(mut self, name: impl Into<String>) -> Self {
        self.queue_header = Some(name.into());
        self
    }

    /// Declares names of counters that are used later. [`build`](Self::build) then refuses reserved names: `hits`,
    /// `errors` and `micros`, alone or before a colon.
    pub fn declare_counters<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into);
        self.options.counters.extend(names);
        self
    }
}
