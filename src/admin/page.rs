//! The page as it is served: the HTML with the URLs of its files.

use std::sync::Mutex;

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, header};

use super::assets::{self, INDEX};
use super::encoding::{self, ACCEPT_ENCODING};
use super::response;
use crate::task::lock;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Bases whose page is kept. There is one with a slash at the end of the path and one without, unless a segment of the
/// mount path is a parameter.
const MAX_BASES: usize = 8;

/// The page, in an encoding for each base that it was asked for.
#[derive(Default)]
pub(super) struct Page(Mutex<Vec<Compressed>>);

struct Compressed {
    base: String,
    page: Bytes,
}

impl Page {
    /// The page as served at `path`, the path that the browser may have requested.
    pub(super) fn serve(&self, parts: &Parts, path: &str) -> Response {
        let base = base(path);
        let compressed = encoding::accepts_gzip(&parts.headers).then(|| self.compressed(&base));
        let mut response = match compressed.flatten() {
            Some(page) => response::gzip(page, HTML),
            None => response::body(index(&base), HTML),
        };
        let headers = response.headers_mut();
        headers.insert(header::VARY, ACCEPT_ENCODING);
        response
    }

    /// The compressed page. `None` if it is kept for as many other bases as there may be: compressing it for each
    /// request would be slower than to send it as it is.
    fn compressed(&self, base: &str) -> Option<Bytes> {
        let mut kept = lock(&self.0);
        if let Some(kept) = kept.iter().find(|kept| kept.base == base) {
            return Some(kept.page.clone());
        }
        if kept.len() >= MAX_BASES {
            return None;
        }
        let page = Bytes::from(encoding::gzip(index(base).as_bytes()));
        kept.push(Compressed {
            base: base.to_owned(),
            page: page.clone(),
        });
        Some(page)
    }
}

fn index(base: &str) -> String {
    // The base is inserted last, so that placeholders in it are not replaced.
    INDEX
        .replace("{{hash}}", assets::hash())
        .replace("{{base}}", &escaped(base))
}

/// The prefix of all relative URLs of the page at `path`. Only the end of the path is used, because a proxy
/// may have removed its beginning.
fn base(path: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("") => String::new(),
        // "a:b/" alone would be a URL of the scheme "a".
        Some(last) if last.contains(':') => format!("./{last}/"),
        Some(last) => format!("{last}/"),
    }
}

/// Escapes text for an HTML attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_relative_to_the_last_slash() {
        assert_eq!(base("/admin/pulse"), "pulse/");
        assert_eq!(base("/admin/pulse/"), "");
        assert_eq!(base("/"), "");
        assert_eq!(base("/a:b"), "./a:b/");
        assert_eq!(escaped("<'\"&>"), "&lt;&#39;&quot;&amp;&gt;");
    }

    #[test]
    fn few_bases_are_kept() {
        let page = Page::default();
        for number in 0..2 * MAX_BASES {
            let compressed = page.compressed(&format!("{number}/"));
            assert_eq!(compressed.is_some(), number < MAX_BASES);
        }
        assert!(page.compressed("0/").is_some());
        assert_eq!(lock(&page.0).len(), MAX_BASES);
    }
}
