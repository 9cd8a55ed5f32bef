//! The errors of this crate: one for a wrong configuration, one for a store that could not do
//! what it was asked.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// A configuration that cannot work, refused when [`Builder::build`](crate::Builder::build) is
/// called.
///
/// Its text names the field, the value that was given and what is allowed, so that it can be
/// printed as it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// let error = tower_pulse::Pulse::builder()
///     .flush_interval(Duration::from_millis(1))
///     .build()
///     .unwrap_err();
/// assert_eq!(error.field(), "flush_interval");
/// assert!(error.to_string().contains("10 ms"));
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{field} is {value}: {allowed}")]
pub struct BuildError {
    field: &'static str,
    value: String,
    allowed: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl BuildError {
    pub(crate) fn new(
        field: &'static str,
        value: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field,
            value: value.to_string(),
            allowed: allowed.into(),
            source: None,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The builder's method whose value was refused.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

/// What kind of trouble a store is in, which decides how soon it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Nobody answers: no connection, or the connection broke.
    Unreachable,
    /// No answer within the response timeout. What was asked may or may not have been done.
    TimedOut,
    /// The server may not be used like this: a password or an ACL rule is missing. Asked again
    /// every 30 seconds.
    Forbidden,
    /// The server is there and refuses for now: loading, out of memory, read-only, disk full.
    Refused,
    /// The server answered something that this crate does not understand.
    Unexpected,
}

/// A store could not do what it was asked.
///
/// The text says what happened and, where this crate knows it, what to do. Passwords never appear
/// in it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// An error of `kind`, with a text for people.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same error with the one that caused it.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}
