//! Timers from the spans and events of `tracing`: where a request's time goes, without a line around each call.
//!
//! A layer for `tracing-subscriber` turns these into timers of their requests:
//!
//! - sqlx's statements, which sqlx 0.8 and 0.9 report as events: `sql SELECT users`. This includes libraries that use
//!   sqlx, such as sea-orm.
//! - spans of calls to other services, which have `otel.kind = "client"`: `http GET api.example.com` with
//!   `reqwest-tracing`.
//! - spans with the field `pulse.timer`: `#[tracing::instrument(fields(pulse.timer))]`.
//! - spans that [`SpanTimers::spans`] chooses.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
//! use tracing_subscriber::prelude::*;
//! use tracing_subscriber::{filter::LevelFilter, fmt};
//!
//! let pulse = tower_pulse::Pulse::builder().build()?;
//! tracing_subscriber::registry()
//!     .with(pulse.tracing())
//!     .with(fmt::layer().with_filter(LevelFilter::INFO)) // instead of `fmt::init()`
//!     .init();
//! # Ok(()) }
//! ```
//!
//! The layer has a filter of its own, which does not affect other layers. See [the guide](crate::guide::spans).

// Read in this order: `collector` (the layer and its filter), `names` (the names of timers), `sql` (the names of
// statements), and `text`.

mod collector;
mod names;
mod sql;
mod text;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use self::collector::{Collector, Wanted};
use tower_pulse_core::recorder::Recorder;
use tower_pulse_core::recorder::spans::SpanCollection;

/// The target of the span of a request.
pub(crate) const REQUEST_TARGET: &str = "tower_pulse";

/// The spans and events that become timers, and their names. With [`layer`](Self::layer), a subscriber can be installed
/// before the `Pulse` is built, so that the first warnings are logged.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
/// use tower_pulse::{Pulse, tracing::SpanTimers};
/// use tracing_subscriber::prelude::*;
/// use tracing_subscriber::{filter::LevelFilter, fmt};
///
/// let timers = SpanTimers::new().spans(|span| span.target().starts_with("shop::search"));
/// tracing_subscriber::registry()
///     .with(timers.layer())
///     .with(fmt::layer().with_filter(LevelFilter::INFO))
///     .init();
/// let pulse = Pulse::builder().tracing(&timers).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "span timers need a layer"]
pub struct SpanTimers {
    level: LevelFilter,
    has_statements: bool,
    chooses: Arc<ChooseFn>,
    names: Arc<NameFn>,
    collection: Arc<SpanCollection>,
    recorder: Arc<OnceLock<Arc<Recorder>>>,
}

type ChooseFn = dyn Fn(&Metadata<'_>) -> bool + Send + Sync;
type NameFn = dyn Fn(&Call<'_>) -> Option<String> + Send + Sync;

impl Default for SpanTimers {
    fn default() -> Self {
        Self {
            level: LevelFilter::DEBUG,
            has_statements: true,
            chooses: Arc::new(|_| false),
            names: Arc::new(|_| None),
            collection: Arc::default(),
            recorder: Arc::default(),
        }
    }
}

impl fmt::Debug for SpanTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanTimers").finish_non_exhaustive()
    }
}

impl SpanTimers {
    /// The timers of sqlx's statements, of calls to other services, and of spans with the field `pulse.timer`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the spans for which a function returns true. The function gets the target, name, level and names of fields
    /// of a span, and must always return the same for the same place in the code.
    pub fn spans(mut self, choose: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.chooses = Arc::new(choose);
        self
    }

    /// The most verbose level of spans and statements that become timers: DEBUG by default.
    pub fn level(mut self, level: impl Into<LevelFilter>) -> Self {
        self.level = level.into();
        self
    }

    /// Whether statements of sqlx become timers. On by default. Switch this off in a service without sqlx if health
    /// warns that the statements are hidden.
    pub fn statements(mut self, on: bool) -> Self {
        self.has_statements = on;
        self
    }

    /// Sets a function that names timers. If the function returns `None`, the timer has its default name. Names must be
    /// few, and never an id or a text of a client. A process has at most 200 names, of at most 64 bytes; further names
    /// count as `<other>`. The function is called for each timer, must not panic, and must not use `tracing`.
    ///
    /// ```
    /// use tower_pulse::tracing::SpanTimers;
    ///
    /// let timers = SpanTimers::new()
    ///     .spans(|span| span.name() == "redis_command")
    ///     .name_by(|call| Some(format!("redis {}", call.text("cmd.name")?)));
    /// ```
    pub fn name_by<F>(mut self, name: F) -> Self
    where
        F: Fn(&Call<'_>) -> Option<String> + Send + Sync + 'static,
    {
        self.names = Arc::new(name);
        self
    }

    /// The layer, which records once a `Pulse` has been built with [`Builder::tracing`](crate::Builder::tracing). Build
    /// only one `Pulse` with these timers. The layer has a filter of its own, which does not affect other layers.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Layer::<S>::with_filter(Collector::new(self.clone()), Wanted(self.clone()))
    }

    pub(crate) fn attach(&self, recorder: &Arc<Recorder>) {
        let _ = self.recorder.set(recorder.clone());
        let _ = recorder.recording.spans.set(self.collection.clone());
    }
}

/// A span or event that becomes a timer, as it is passed to the function of [`SpanTimers::name_by`].
pub struct Call<'a> {
    metadata: &'static Metadata<'static>,
    record: &'a dyn Fn(&mut dyn Visit),
}

impl Call<'_> {
    /// The name, target, level and names of fields.
    pub fn metadata(&self) -> &'static Metadata<'static> {
        self.metadata
    }

    /// The value of a field as a text; `None` if the field has no value when the span begins.
    pub fn text(&self, name: &str) -> Option<String> {
        let mut text = None;
        (self.record)(&mut |field: &Field, value: &dyn fmt::Debug| {
            if field.name() == name {
                text = Some(format!("{value:?}").trim_matches('"').to_owned());
            }
        });
        text
    }
}
