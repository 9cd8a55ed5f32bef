//! The page: one HTML file, its style and its modules, compiled in.

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::VERSION;
use super::response::{self, ApiError};

const INDEX: &str = include_str!("assets/index.html");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

struct Asset {
    file: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($content_type:literal: $($file:literal)*) => {
        [$(Asset {
            file: $file,
            content_type: $content_type,
            bytes: include_bytes!(concat!("assets/", $file)),
        }),*]
    };
}

static STYLES: &[Asset] = &assets!("text/css; charset=utf-8": "app.css");
static SCRIPTS: &[Asset] = &assets!("text/javascript; charset=utf-8":
    "api.js" "app.js" "changes.js" "chart.js" "context.js" "detail.js" "dom.js" "format.js" "health.js"
    "overview.js" "poll.js" "slowest.js" "state.js" "table.js");

fn assets() -> impl Iterator<Item = &'static Asset> {
    STYLES.iter().chain(SCRIPTS)
}

/// The page's files and their ETags.
pub(super) struct Page {
    etags: Vec<HeaderValue>,
}

impl Page {
    pub(super) fn new() -> Self {
        Self {
            etags: assets().map(|asset| response::etag(asset.bytes)).collect(),
        }
    }

    /// Whether this file exists.
    pub(super) fn has(file: &str) -> bool {
        assets().any(|asset| asset.file == file)
    }

    /// The page as served at `path`, the path that the browser may have requested.
    pub(super) fn index(&self, path: &str) -> Response {
        // The base is inserted last, so that placeholders in it are not replaced.
        let page = INDEX
            .replace("{{version}}", &escaped(VERSION))
            .replace("{{base}}", &escaped(&base(path)));
        response::body(page, HTML)
    }

    /// A file of the page. The browser caches it and revalidates it with its ETag.
    pub(super) fn asset(&self, parts: &Parts, file: &str) -> Result<Response, ApiError> {
        let (asset, etag) = assets()
            .zip(&self.etags)
            .find(|(asset, _)| asset.file == file)
            .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "there is no such file"))?;
        let mut response = if response::is_known(parts, etag) {
            response::not_modified(etag.clone())
        } else {
            let content_type = HeaderValue::from_static(asset.content_type);
            response::body(asset.bytes, content_type)
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, etag.clone());
        let no_cache = HeaderValue::from_static("no-cache");
        headers.insert(header::CACHE_CONTROL, no_cache);
        Ok(response)
    }
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
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/assets");
        let files: BTreeSet<_> = fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().into_string())
            .map(|name| name.expect("UTF-8"))
            .filter(|name| name != "index.html")
            .collect();
        let served: BTreeSet<_> = assets().map(|asset| asset.file.to_owned()).collect();
        assert_eq!(served, files);
    }

    #[test]
    fn every_import_is_served_and_the_tokens_are_known() {
        for asset in SCRIPTS {
            let text = std::str::from_utf8(asset.bytes).expect("UTF-8");
            for import in text.split("from './").skip(1) {
                let file = import.split('\'').next().unwrap_or_default();
                assert!(Page::has(file), "{} imports {file}", asset.file);
            }
        }
        let inserted = INDEX.replace("{{version}}", "").replace("{{base}}", "");
        assert!(!inserted.contains("{{"));
        for url in INDEX.split("=\"{{base}}assets/").skip(1) {
            let file = url.split(['"', '?']).next().unwrap_or_default();
            assert!(Page::has(file), "{file}");
        }
    }

    #[test]
    fn urls_are_relative_to_the_last_slash() {
        assert_eq!(base("/admin/pulse"), "pulse/");
        assert_eq!(base("/admin/pulse/"), "");
        assert_eq!(base("/"), "");
        assert_eq!(base("/a:b"), "./a:b/");
        assert_eq!(escaped("<'\"&>"), "&lt;&#39;&quot;&amp;&gt;");
    }
}
