//! Marks: moments at which an operator, or a deploy, did something.

use std::sync::Arc;

use crate::model::context::escape_hidden;

/// The most marks with a version that a store retains, and the most without.
pub const MAX_MARKS: usize = 50;

/// The longest text of a mark, in bytes.
pub const MAX_MARK_BYTES: usize = 200;

/// A text that a mark may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadText;

impl std::fmt::Display for BadText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "must be 1 to {MAX_MARK_BYTES} bytes without control characters"
        )
    }
}

impl std::error::Error for BadText {}

/// A moment at which somebody did something to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mark {
    /// Names the mark.
    pub id: Arc<str>,
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

impl Mark {
    /// A mark of an operator, whose text has hidden characters escaped.
    ///
    /// # Errors
    /// The text is empty, too long, or has control characters.
    pub(crate) fn of_text(id: String, at: i64, text: &str) -> Result<Self, BadText> {
        let text = text.trim();
        let is_good = (1..=MAX_MARK_BYTES).contains(&text.len());
        if !is_good || text.chars().any(char::is_control) {
            return Err(BadText);
        }
        Ok(Self {
            id: id.into(),
            at,
            text: escape_hidden(text).into(),
            version: None,
        })
    }

    /// The mark of an instance whose version is new.
    pub(crate) fn of_version(at: i64, version: &Arc<str>) -> Self {
        Self {
            id: format!("{at}-{version}").into(),
            at,
            text: escape_hidden(&format!("version {version}")).into(),
            version: Some(version.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_trimmed_and_bounded() {
        let of = |text: &str| Mark::of_text("1".to_owned(), 7, text).map(|mark| mark.text);
        assert_eq!(of(" new cache "), Ok("new cache".into()));
        let longest = "x".repeat(MAX_MARK_BYTES);
        assert_eq!(of(&longest), Ok(longest.as_str().into()));
        assert_eq!(of("a\u{202e}b"), Ok("a\\u{202e}b".into()));
        for bad in ["", "  ", "a\nb", &format!("{longest}x")] {
            assert_eq!(of(bad), Err(BadText), "{bad:?}");
        }
    }
}
