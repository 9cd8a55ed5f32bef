//! The files of the page, compiled in. Their URLs are `assets/{hash}/{file}`, where the hash is that of all files
//! together: a browser keeps them for ever, modules import each other by relative paths, and another version of the
//! crate has other URLs.
//!
//! While two versions serve behind one load balancer, an instance may be asked for a file under the hash of the other
//! version. It serves its own file, to be revalidated before each use: 404 would break every page that is opened during
//! a rolling deploy, and the wrong file must not be kept under that URL.

use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use super::encoding::{self, ACCEPT_ENCODING};
use super::response::{self, ApiError};

const KEPT_FOR_EVER: HeaderValue = HeaderValue::from_static("private, immutable, max-age=31536000");
const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

/// The page. It has the URLs of its style and of its first script, with placeholders.
pub(super) const INDEX: &str = include_str!("assets/index.html");

/// Digits of the hash in URLs: half a SHA-256.
const HASH_DIGITS: usize = 32;

struct File {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

macro_rules! files {
    ($content_type:literal: $($name:literal)*) => {
        [$(File {
            name: $name,
            content_type: $content_type,
            content: include_bytes!(concat!("assets/", $name)),
        }),*]
    };
}

static STYLES: &[File] = &files!("text/css; charset=utf-8": "app.css");
static SCRIPTS: &[File] = &files!("text/javascript; charset=utf-8":
    "api.js" "app.js" "changes.js" "chart.js" "context.js" "detail.js" "dom.js" "format.js" "health.js"
    "overview.js" "poll.js" "slowest.js" "state.js" "table.js");

fn files() -> impl Iterator<Item = &'static File> {
    STYLES.iter().chain(SCRIPTS)
}

/// A file in each of its encodings.
struct Asset {
    file: &'static File,
    etag: HeaderValue,
    /// Compressed when it is first asked for.
    gzip: OnceLock<Encoded>,
}

/// A compressed file.
struct Encoded {
    content: Bytes,
    etag: HeaderValue,
}

impl Asset {
    fn gzip(&self) -> &Encoded {
        self.gzip.get_or_init(|| {
            let content = encoding::gzip(self.file.content);
            Encoded {
                etag: response::etag(&content),
                content: content.into(),
            }
        })
    }
}

/// All files, for all routers of the process.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |file: &'static File| Asset {
        file,
        etag: response::etag(file.content),
        gzip: OnceLock::new(),
    };
    files().map(asset).collect()
});

/// The hash of all files in their URLs.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for file in files() {
        // With its length before it, so that no two sets of files are the same bytes.
        for part in [file.name.as_bytes(), file.content] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    let mut hash = String::new();
    for byte in &digest.finalize()[..HASH_DIGITS / 2] {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
});

/// The hash of all files, as it stands in their URLs.
pub(super) fn hash() -> &'static str {
    &HASH
}

/// The URL of a file below `assets/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssetPath<'a> {
    /// The hash; `None` where the URL has none.
    hash: Option<&'a str>,
    name: &'a str,
}

impl<'a> AssetPath<'a> {
    /// Reads `{hash}/{file}` or `{file}`. `None` if there is no such file, or the hash cannot be one.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let (hash, name) = match path.split_once('/') {
            Some((hash, name)) => (Some(hash), name),
            None => (None, path),
        };
        let is_hash = |hash: &str| {
            hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let exists = files().any(|file| file.name == name) && hash.is_none_or(is_hash);
        exists.then_some(Self { hash, name })
    }
}

/// Serves a file. A browser keeps it for ever if the URL has the right hash, and revalidates it otherwise.
pub(super) fn serve(parts: &Parts, path: AssetPath<'_>) -> Result<Response, ApiError> {
    let asset = ASSETS.iter().find(|asset| asset.file.name == path.name);
    let asset =
        asset.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "there is no such file"))?;
    let encoded = encoding::accepts_gzip(&parts.headers).then(|| asset.gzip());
    let etag = encoded.map_or(&asset.etag, |encoded| &encoded.etag);
    let mut response = if response::is_known(parts, etag) {
        response::not_modified(etag.clone())
    } else {
        let content_type = HeaderValue::from_static(asset.file.content_type);
        match encoded {
            Some(encoded) => response::gzip(encoded.content.clone(), content_type),
            None => response::body(asset.file.content, content_type),
        }
    };
    let is_current = path.hash == Some(hash());
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag.clone());
    headers.insert(header::VARY, ACCEPT_ENCODING);
    let cache = if is_current {
        KEPT_FOR_EVER
    } else {
        REVALIDATED
    };
    headers.insert(header::CACHE_CONTROL, cache);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/assets");
        let names: BTreeSet<_> = fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().into_string())
            .map(|name| name.expect("UTF-8"))
            .filter(|name| name != "index.html")
            .collect();
        let served: BTreeSet<_> = files().map(|file| file.name.to_owned()).collect();
        assert_eq!(served, names);
    }

    /// The files that a script imports with such a statement.
    fn imports(file: &File, statement: &str) -> Vec<&'static str> {
        let text = std::str::from_utf8(file.content).expect("UTF-8");
        let imports = text.split(statement).skip(1);
        let name = |import: &str| {
            let name = import.split('\'').next().unwrap_or_default();
            let imported = files().find(|file| file.name == name);
            imported
                .unwrap_or_else(|| panic!("{} imports {name}", file.name))
                .name
        };
        imports.map(name).collect()
    }

    fn imports_at_start(file: &File) -> Vec<&'static str> {
        [imports(file, "from './"), imports(file, "import './")].concat()
    }

    #[test]
    fn every_import_is_served_and_the_placeholders_are_known() {
        for file in SCRIPTS {
            imports_at_start(file);
            imports(file, "import('./");
        }
        let placeholders = ["{{base}}", "{{hash}}", "{{title}}", "{{config}}"];
        let inserted = placeholders
            .iter()
            .fold(INDEX.to_owned(), |html, placeholder| {
                html.replace(placeholder, "")
            });
        assert!(!inserted.contains("{{"));
        let urls = INDEX.matches("=\"{{base}}assets/{{hash}}/").count();
        assert_eq!(
            INDEX.matches("assets/").count(),
            urls,
            "a URL without a hash"
        );
        for url in INDEX.split("=\"{{base}}assets/{{hash}}/").skip(1) {
            let name = url.split('"').next().unwrap_or_default();
            assert!(files().any(|file| file.name == name), "{name}");
        }
    }

    /// The bounds of what a browser loads: the page with its style and the modules that are imported before it runs,
    /// and everything.
    #[test]
    fn the_page_is_small() {
        const FIRST_PAINT: usize = 28_000;
        const ALL: usize = 60_000;

        let size = |name: &str| {
            let asset = ASSETS.iter().find(|asset| asset.file.name == name);
            asset.expect("served").gzip().content.len()
        };
        let mut first: BTreeSet<&str> = ["app.css", "app.js"].into();
        loop {
            let before = first.len();
            let scripts = SCRIPTS.iter().filter(|file| first.contains(file.name));
            let imported: Vec<_> = scripts.flat_map(imports_at_start).collect();
            first.extend(imported);
            if first.len() == before {
                break;
            }
        }
        let page = encoding::gzip(INDEX.as_bytes()).len();
        let first_paint = page + first.into_iter().map(size).sum::<usize>();
        let all = page + files().map(|file| size(file.name)).sum::<usize>();
        eprintln!("first paint: {first_paint} bytes, in all: {all} bytes");
        assert!(first_paint <= FIRST_PAINT, "{first_paint} bytes");
        assert!(all <= ALL, "{all} bytes");
    }

    #[test]
    fn only_files_that_exist_have_a_path() {
        let hash = hash();
        assert_eq!(hash.len(), HASH_DIGITS);
        let name = "app.js";
        assert_eq!(AssetPath::parse(name), Some(AssetPath { hash: None, name }));
        let current = format!("{hash}/{name}");
        let hash = Some(hash);
        assert_eq!(AssetPath::parse(&current), Some(AssetPath { hash, name }));
        assert!(AssetPath::parse(&format!("{}/{name}", "0".repeat(HASH_DIGITS))).is_some());
        for path in [
            "",
            "/",
            "none.js",
            "/app.js",
            "1.2.3/app.js",
            "index.html",
            "../app.js",
        ] {
            assert_eq!(AssetPath::parse(path), None, "{path}");
        }
        assert_eq!(AssetPath::parse(&format!("{current}/")), None);
        assert_eq!(AssetPath::parse(&format!("{current}/{name}")), None);
    }
}
