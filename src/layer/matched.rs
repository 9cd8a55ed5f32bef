//! axum's `MatchedPath` and `OriginalUri`.

pub(super) use axum::extract::MatchedPath;
use axum::extract::OriginalUri;
use http::{Extensions, Uri};

#[derive(Clone, Debug)]
pub(super) struct Template(MatchedPath);

impl Template {
    /// The template of a request; `None` if no route matched, or if the layer does not see the route.
    #[inline]
    pub(super) fn matched_path(extensions: &Extensions) -> Option<&MatchedPath> {
        extensions.get::<MatchedPath>()
    }

    pub(super) fn new(path: &MatchedPath) -> Self {
        Self(path.clone())
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the templates are equal. Equal templates usually share an allocation. Comparing addresses is safe,
    /// because this template keeps its allocation alive.
    #[inline]
    pub(super) fn equals(&self, path: &MatchedPath) -> bool {
        let (mine, theirs) = (self.0.as_str(), path.as_str());
        mine.len() == theirs.len() && (mine.as_ptr() == theirs.as_ptr() || mine == theirs)
    }
}

/// The URI before nested routers removed their prefixes, if a router has stored that URI.
pub(super) fn original_uri(extensions: &Extensions) -> Option<&Uri> {
    let original = extensions.get::<OriginalUri>();
    original.map(|OriginalUri(uri)| uri)
}
