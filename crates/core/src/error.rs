//! The errors of this crate. [`BuildError`]: a configuration is invalid. [`StoreError`]: a call of a store failed.
//! [`AmendError`]: a change or a mark could not be amended. [`ShutdownError`]: a shutdown has lost data.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tower_pulse_model::amounts::Amounts;

/// The result of a call of a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The error of a builder for an invalid configuration.
///
/// The text names the field, the given value and the allowed values, and can be printed as it is.
#[derive(Clone, Debug)]
pub struct BuildError {
    field: &'static str,
    value: String,
    allowed: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: {}", self.field, self.value, self.allowed)
    }
}

impl StdError for BuildError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // Returns the error within the `Arc`: a caller can downcast the error, but not an `Arc`.
        Some(&**self.source.as_ref()?)
    }
}

impl BuildError {
    /// The error of a field, with its value and the allowed values.
    #[doc(hidden)]
    pub fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self {
            field,
            value: value.to_string(),
            allowed: allowed.into(),
            source: None,
        }
    }

    /// Adds the cause to this error.
    #[doc(hidden)]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The builder's method that was given the value.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

/// The kind of a store's error, which decides how soon the call is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The server does not answer: there is no connection, or the connection broke.
    Unreachable,
    /// No answer came within the response timeout. The server may or may not have executed the call.
    TimedOut,
    /// The server denies access: a password or an ACL rule is missing. Every two seconds, an instance tries one of its
    /// calls again.
    Forbidden,
    /// The server answers, but refuses the call for now: it is loading, out of memory, read-only, or its disk is full.
    Refused,
    /// The server gave an answer that this crate does not understand.
    Unexpected,
}

impl StoreErrorKind {
    pub(crate) fn is_without_answer(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut)
    }
}

/// The error of a failed call of a store.
///
/// The text says what happened and, if this crate knows a remedy, what to do. The text never contains passwords.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}

impl StoreError {
    /// An error of `kind` with a text for the operator.
    #[doc(hidden)]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the cause to this error.
    #[doc(hidden)]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

/// The error of a call that could not acknowledge or unacknowledge a change, or could not remove a mark.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AmendError {
    /// There is no change or mark with the given id. The field is a text for the user.
    NotFound(&'static str),
    /// The change or mark cannot be amended in its present state: for example, the change has ended.
    Conflict(String),
    /// The store failed. The text says whether the amendment may still take effect.
    Store(StoreError),
}

impl fmt::Display for AmendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(message) => f.write_str(message),
            Self::Conflict(message) => f.write_str(message),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl StdError for AmendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::NotFound(_) | Self::Conflict(_) => None,
        }
    }
}

impl From<StoreError> for AmendError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The error of a shutdown that could not flush all recorded data, or has found that the store lost acknowledged data.
/// The text says why, and the [`source`](StdError::source) is the cause.
#[derive(Debug)]
pub struct ShutdownError {
    pub(crate) lost: Amounts,
    pub(crate) error: StoreError,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, error } = self;
        // Includes the cause, because most programs print only this text before they end.
        write!(
            f,
            "{lost} could not be flushed before the shutdown: {error}"
        )
    }
}

impl StdError for ShutdownError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.error)
    }
}

impl ShutdownError {
    /// The number of requests and runs of timers that are lost, or at least in doubt.
    pub fn requests(&self) -> u64 {
        self.lost.samples
    }

    /// The amount of additions to counters and rankings that is lost, or at least in doubt: the sum of the absolute
    /// values. A removal from a ranking counts as 1.
    pub fn additions(&self) -> u64 {
        self.lost.additions
    }

    /// The number of details that are lost, or at least in doubt: marks, entries in lists of slow and failed requests,
    /// and an instance's figures for a minute. The requests in these entries and figures count in
    /// [`requests`](Self::requests), or are in the store.
    pub fn details(&self) -> u64 {
        self.lost.details
    }
}
