//! Marks: moments at which an operator, or a deploy, did something.

use std::sync::Arc;

/// The most marks that a store retains.
pub const MAX_MARKS: usize = 50;

/// The longest text of a mark, and the longest version, in bytes.
pub const MAX_MARK_BYTES: usize = 200;

/// A moment at which somebody did something to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mark {
    /// Names the mark.
    pub id: u64,
    /// When it happened, in Unix seconds.
    pub at: i64,
    /// What happened.
    pub text: Arc<str>,
    /// The version of the application, if an instance of a new version made the mark.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub version: Option<Arc<str>>,
}
