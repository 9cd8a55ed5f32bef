//! The one file that knows axum's MatchedPath.

pub(super) use axum::extract::MatchedPath;
use http::Extensions;

/// A route template.
#[derive(Clone, Debug)]
pub(super) struct Template(MatchedPath);

impl Template {
    /// That of a request, `None` when no route matched or the layer sees none.
    #[inline]
    pub(super) fn of(extensions: &Extensions) -> Option<&MatchedPath> {
        extensions.get::<MatchedPath>()
    }

    pub(super) fn new(path: &MatchedPath) -> Self {
        Self(path.clone())
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is this one. Mostly it is even the same allocation, which it keeps alive.
    #[inline]
    pub(super) fn is(&self, path: &MatchedPath) -> bool {
        let (mine, theirs) = (self.0.as_str(), path.as_str());
        std::ptr::eq(mine, theirs) || mine == theirs
    }
}
