//! Timers from the spans and events of `tracing`: where a request's time goes, without a line around each call.
//!
//! A layer for `tracing-subscriber` turns these into timers of the request that they belong to:
//!
//! - sqlx's statements, which sqlx 0.8 and 0.9 report as events: `sql SELECT users`. So it is with libraries on sqlx,
//!   such as sea-orm.
//! - spans of calls to other services, which say `otel.kind = "client"`: `http GET api.example.com` with
//!   `reqwest-tracing`.
//! - spans with the field `pulse.timer`: `#[tracing::instrument(fields(pulse.timer))]`.
//! - spans that [`SpanTimers`] chooses.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
//! use tracing_subscriber::prelude::*;
//! use tracing_subscriber::{filter::LevelFilter, fmt};
//!
//! let pulse = tower_pulse::Pulse::builder().build()?;
//! tracing_subscriber::registry()
//!     .with(pulse.tracing())
//!     .with(fmt::layer().with_filter(LevelFilter::INFO))
//!     .init();
//! # Ok(()) }
//! ```
//!
//! The log stays as it is: the layer has a filter of its own, and the others keep theirs. See
//! [the guide](crate::guide::spans).

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
use tracing::{Event, Metadata, Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use self::collector::{Collector, Wanted};
use tower_pulse_core::error::BuildError;
use tower_pulse_core::recorder::Recorder;
use tower_pulse_core::recorder::spans::SpanCollection;

/// The target of the span of a request.
pub(crate) const REQUEST_TARGET: &str = "tower_pulse";

/// The spans and events that become timers. With [`layer`](Self::layer), the subscriber can be installed before the
/// `Pulse` is built, so that its first warnings are logged. Clones share their `Pulse`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
/// use tower_pulse::{Pulse, tracing::SpanTimers};
/// use tracing_subscriber::prelude::*;
/// use tracing_subscriber::{filter::LevelFilter, fmt};
///
/// let timers = SpanTimers::new().targets(["shop::search"]).spans(["render"]);
/// tracing_subscriber::registry()
///     .with(timers.layer())
///     .with(fmt::layer().with_filter(LevelFilter::INFO))
///     .init();
/// let pulse = Pulse::builder().tracing(&timers).build()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use = "span timers need a layer"]
pub struct SpanTimers {
    choice: Arc<Choice>,
    state: Arc<State>,
}

/// The user's choice of spans and names.
#[derive(Clone)]
struct Choice {
    targets: Vec<String>,
    spans: Vec<String>,
    level: LevelFilter,
    statements: bool,
    name_by: Option<Arc<NameFn>>,
}

type NameFn = dyn Fn(&Call<'_>) -> Option<String> + Send + Sync;

#[derive(Default)]
struct State {
    /// The recorder of the `Pulse`, once it is built.
    recorder: OnceLock<Arc<Recorder>>,
    collection: Arc<SpanCollection>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            spans: Vec::new(),
            level: LevelFilter::DEBUG,
            statements: true,
            name_by: None,
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

    /// Adds all spans of these targets and of the modules below: `shop::search` is also `shop::search::index`. The
    /// target of a span is the path of its module, unless the span names another one.
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        let targets = targets.into_iter().map(Into::into);
        self.choice_mut().targets.extend(targets);
        self
    }

    /// Adds all spans of these names. The name of a span of `#[instrument]` is that of its function.
    pub fn spans<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into);
        self.choice_mut().spans.extend(names);
        self
    }

    /// The most verbose level of spans that become timers: DEBUG by default.
    pub fn level(mut self, level: impl Into<LevelFilter>) -> Self {
        self.choice_mut().level = level.into();
        self
    }

    /// Whether statements of sqlx become timers. On by default. Switch it off in a service without sqlx whose health
    /// warns that its statements are hidden.
    pub fn statements(mut self, on: bool) -> Self {
        self.choice_mut().statements = on;
        self
    }

    /// Sets a function that names timers. For a call for which it returns `None`, the name is the default one. Names
    /// must be few, never an id or a text from outside: a process has at most 200, of 64 bytes, and further ones count
    /// as `<other>`. The function runs for each call, so it must be fast. It must not panic, and not use `tracing`.
    ///
    /// ```
    /// use tower_pulse::tracing::SpanTimers;
    ///
    /// let timers = SpanTimers::new()
    ///     .targets(["fred"])
    ///     .name_by(|call| Some(format!("redis {}", call.text("cmd.name")?)));
    /// ```
    pub fn name_by<F>(mut self, name: F) -> Self
    where
        F: Fn(&Call<'_>) -> Option<String> + Send + Sync + 'static,
    {
        self.choice_mut().name_by = Some(Arc::new(name));
        self
    }

    fn choice_mut(&mut self) -> &mut Choice {
        Arc::make_mut(&mut self.choice)
    }

    /// The layer, which records once a `Pulse` has been built with [`Builder::tracing`](crate::Builder::tracing). The
    /// layer has a filter of its own, so it changes nothing for other layers.
    ///
    /// A service has one such layer. Methods that are called after this one do not change it.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Layer::<S>::with_filter(Collector::new(self.clone()), Wanted(self.clone()))
    }

    /// Records in this recorder from now on.
    pub(crate) fn attach(&self, recorder: &Arc<Recorder>) -> Result<(), BuildError> {
        let attached = self.state.recorder.set(recorder.clone());
        attached.map_err(|_| {
            let allowed = "each Pulse needs span timers of its own";
            BuildError::new("tracing", "the span timers of another Pulse", allowed)
        })?;
        let collection = self.state.collection.clone();
        recorder.recording.collect_spans(collection);
        Ok(())
    }
}

/// A span or event that becomes a timer, as it is passed to [`SpanTimers::name_by`].
#[derive(Debug)]
pub struct Call<'a> {
    metadata: &'static Metadata<'static>,
    fields: Fields<'a>,
}

#[derive(Debug)]
enum Fields<'a> {
    Span(&'a span::Attributes<'a>),
    Event(&'a Event<'a>),
}

impl Call<'_> {
    /// The name, target, level and fields of the span or event.
    pub fn metadata(&self) -> &'static Metadata<'static> {
        self.metadata
    }

    /// The value of a field as a text; `None` if the span began without a value, or the event has none.
    pub fn text(&self, field: &str) -> Option<String> {
        let mut found = FoundText { field, text: None };
        match self.fields {
            Fields::Span(span) => span.record(&mut found),
            Fields::Event(event) => event.record(&mut found),
        }
        found.text
    }
}

/// The value of one field.
struct FoundText<'a> {
    field: &'a str,
    text: Option<String>,
}

impl Visit for FoundText<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == self.field {
            self.text = Some(format!("{value:?}"));
        }
    }
}
