//! Sources of contexts, and the list of ignored requests.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// The head of a request, as it is passed to a context function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URI. A client may send any path: never use the path unchanged as a context.
    pub uri: &'a Uri,
    /// The HTTP version.
    pub version: Version,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The extensions, axum's `MatchedPath` among them.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    pub(crate) fn from_request<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The path as the client sent it, without the query. A nested router does not shorten this path.
    pub(super) fn whole_path(&self) -> &'a str {
        #[cfg(feature = "axum")]
        if let Some(uri) = super::matched::original_uri(self.extensions) {
            return uri.path();
        }
        self.uri.path()
    }
}

pub(crate) type ContextFn = dyn Fn(&Head<'_>) -> Option<Cow<'static, str>> + Send + Sync;

#[derive(Clone)]
pub(crate) enum Source {
    /// axum's route template, with or without the method.
    #[cfg(feature = "axum")]
    Matched {
        has_method: bool,
    },
    Named(Arc<str>),
    Function(Arc<ContextFn>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "axum")]
            Self::Matched { .. } => f.write_str("Matched"),
            Self::Named(name) => f.debug_tuple("Named").field(name).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

/// Paths that are not recorded. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct IgnoreList(Arc<[Skip]>);

#[derive(Debug)]
enum Skip {
    Exactly(String),
    Below(String),
}

impl IgnoreList {
    /// Ignores these paths or route templates. `/admin/*` ignores `/admin` and all paths below.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let skips = paths.into_iter().map(|path| match path.strip_suffix("/*") {
            Some(parent) => Skip::Below(parent.to_owned()),
            None => Skip::Exactly(path.to_owned()),
        });
        Self(skips.collect())
    }

    /// Whether a path that matches this route template may be ignored. If so, each request's path must be looked up.
    #[cfg(feature = "axum")]
    pub(crate) fn may_match(&self, template: &str) -> bool {
        self.0.iter().any(|skip| match skip {
            Skip::Exactly(path) => may_be(template, path, false),
            Skip::Below(parent) => may_be(template, parent, true),
        })
    }

    pub(super) fn contains_path_of(&self, head: &Head<'_>) -> bool {
        !self.0.is_empty() && self.contains(head.whole_path())
    }

    /// Whether requests for this path, or of this route template, are ignored.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.iter().any(|skip| match skip {
            Skip::Exactly(skipped) => skipped == path,
            Skip::Below(parent) => path
                .strip_prefix(parent.as_str())
                .is_some_and(|below| below.is_empty() || below.starts_with('/')),
        })
    }
}

/// Whether a path that matches the template may equal this path, or lie below it.
#[cfg(feature = "axum")]
fn may_be(template: &str, path: &str, includes_below: bool) -> bool {
    let mut segments = template.split('/');
    for wanted in path.split('/') {
        match segments.next() {
            Some(segment) if segment.starts_with("{*") => return true,
            Some(segment) if segment.contains('{') || segment == wanted => {}
            _ => return false,
        }
    }
    includes_below || segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_ignores_all_paths_below_and_no_others() {
        let skips = IgnoreList::new(["/healthz", "/a/pulse/*"]);
        for path in ["/healthz", "/a/pulse", "/a/pulse/", "/a/pulse/api/b"] {
            assert!(skips.contains(path), "{path}");
        }
        for path in ["/", "/healthz/", "/a", "/a/pulses"] {
            assert!(!skips.contains(path), "{path}");
        }
    }

    #[cfg(feature = "axum")]
    #[test]
    fn templates_that_match_an_ignored_path_are_recognized() {
        let skips = IgnoreList::new(["/users/me", "/files/private/*"]);
        for template in [
            "/users/{id}",
            "/{kind}/me",
            "/{*path}",
            "/files/{*path}",
            "/files/{dir}/{name}",
            "/files/{dir}x",
        ] {
            assert!(skips.may_match(template), "{template}");
        }
        for template in ["/", "/users", "/users/{id}/posts", "/posts/{id}"] {
            assert!(!skips.may_match(template), "{template}");
        }
    }
}
