//! The files of the page, compiled in. Their URLs are `assets/{hash}/{file}`, where the hash is that of all files
//! together: a browser keeps them for ever, modules import each other by relative paths, and another version of the
//! crate has other URLs.
//!
//! While two versions serve behind one load balancer, an instance may be asked for a file under the hash of the other
//! version. It serves its own file, to be revalidated before each use: 404 would break every page that is opened during
//! a rolling deploy, and the wrong file must not be kept under that URL.

use std::sync::{LazyLock, OnceLock};

use axum::response::Response;
use bytes::Bytes;
use hmac_sha256::Hash;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::encoding::{self, ACCEPT_ENCODING};
use super::response::{self, ApiError};
use super::scripts::{self, Module};

const KEPT_FOR_EVER: HeaderValue = HeaderValue::from_static("private, immutable, max-age=31536000");
const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

/// The page. It has the URLs of its style and of its first script, with placeholders.
pub(super) const INDEX: &str = include_str!("assets/index.html");

/// Digits of the hash in URLs: half a SHA-256.
const HASH_DIGITS: usize = 32;

/// The style that the page names.
const STYLE: &str = "app.css";

/// The script that the page names.
const FIRST_SCRIPT: &str = "app.js";

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("assets/", $name)))),*] };
}

/// They are served as one file.
static STYLES: &[Module] = files!("app.css" "chart.css");

/// The style of the screens other than the overview, which is loaded with them.
static LATER_STYLES: &[Module] = files!("screens.css");

/// The modules of the first paint, each behind those that it imports. They are served as one file.
static FIRST_MODULES: &[Module] = files!(
    "dom.js" "format.js" "change.js" "state.js" "api.js" "poll.js" "problems.js" "context.js" "card.js" "tiles.js" "table.js"
    "attention.js" "axis.js" "slices.js" "chart.js" "trends.js" "fix_first.js" "overview.js" "app.js");

/// The modules that are loaded when they are needed.
static LATER_MODULES: &[Module] = files!(
    "advice.js" "burning.js" "chart_controls.js" "chart_pointer.js" "chart_readout.js" "chart_table.js" "choice.js" "empty.js" "export.js" "filter.js"
    "heatmap.js" "hist.js" "instances.js" "outcomes.js" "overview_more.js" "pager.js" "path_target.js" "requests.js" "run_by.js"
    "screen_counters.js" "screen_deploy.js" "screen_health.js" "screen_instance.js" "screen_path.js" "screen_paths.js"
    "screen_slowest.js" "screen_timers.js" "send.js" "spark.js" "taking.js" "time_goes.js" "trace.js"
    "verdict.js" "week.js"
);

/// A file in each of its encodings.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    content: Bytes,
    etag: HeaderValue,
    /// The compressed content and its ETag, once it was asked for.
    gzip: OnceLock<(Bytes, HeaderValue)>,
}

impl Asset {
    fn new(name: &'static str, content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        Self {
            name,
            content_type,
            etag: response::etag(&content),
            content,
            gzip: OnceLock::new(),
        }
    }

    fn gzip(&self) -> &(Bytes, HeaderValue) {
        self.gzip.get_or_init(|| {
            let content = encoding::gzip(&self.content);
            let etag = response::etag(&content);
            (content.into(), etag)
        })
    }
}

/// All files, for all routers of the process.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let style = Asset::new(STYLE, CSS, scripts::style(STYLES));
    let first = scripts::joined(FIRST_MODULES);
    let first = Asset::new(FIRST_SCRIPT, JAVASCRIPT, first);
    let later = LATER_MODULES.iter().map(|(name, text)| {
        let script = scripts::separate(text, FIRST_MODULES, FIRST_SCRIPT);
        Asset::new(name, JAVASCRIPT, script)
    });
    let later_styles = LATER_STYLES.iter();
    let later_styles =
        later_styles.map(|style| Asset::new(style.0, CSS, scripts::style(&[*style])));
    [style, first]
        .into_iter()
        .chain(later_styles)
        .chain(later)
        .collect()
});

/// The hash of all files in their URLs.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Hash::new();
    for asset in ASSETS.iter() {
        // With its length before it, so that no two sets of files are the same bytes.
        for part in [asset.name.as_bytes(), &asset.content] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    response::half_of(digest.finalize())
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
        let exists = ASSETS.iter().any(|asset| asset.name == name) && hash.is_none_or(is_hash);
        exists.then_some(Self { hash, name })
    }
}

/// Serves a file. A browser keeps it for ever if the URL has the right hash, and revalidates it otherwise.
pub(super) fn serve(parts: &Parts, path: AssetPath<'_>) -> Result<Response, ApiError> {
    let asset = ASSETS.iter().find(|asset| asset.name == path.name);
    let asset =
        asset.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "there is no such file"))?;
    let encoded = encoding::accepts_gzip(&parts.headers).then(|| asset.gzip());
    let etag = encoded.map_or(&asset.etag, |(_, etag)| etag);
    let content_type = HeaderValue::from_static(asset.content_type);
    let mut response = match encoded {
        _ if response::is_known(parts, etag) => response::not_modified(etag.clone()),
        Some((content, _)) => response::gzip(content.clone(), content_type),
        None => response::body(asset.content.clone(), content_type),
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag.clone());
    headers.insert(header::VARY, ACCEPT_ENCODING);
    let is_current = path.hash == Some(hash());
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

    fn modules() -> impl Iterator<Item = &'static Module> {
        FIRST_MODULES.iter().chain(LATER_MODULES)
    }

    #[test]
    fn every_file_of_the_folder_is_part_of_what_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets");
        let names: BTreeSet<_> = fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").file_name().into_string())
            .map(|name| name.expect("UTF-8"))
            .filter(|name| name != "index.html")
            .collect();
        let served = STYLES.iter().chain(LATER_STYLES).chain(modules());
        let served: BTreeSet<_> = served.map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(served, names);
    }

    /// The modules that a module imports with such a statement.
    fn imports(text: &'static str, statement: &str) -> Vec<&'static str> {
        let imports = text.split(statement).skip(1);
        let name = |import: &'static str| import.split('\'').next().unwrap_or_default();
        imports.map(name).collect()
    }

    #[test]
    fn every_import_is_there() {
        let exists = |name: &str| modules().any(|(other, _)| *other == name);
        for (name, text) in modules() {
            for imported in imports(text, "from './") {
                assert!(exists(imported), "{name} imports {imported}");
            }
            for imported in imports(text, "import('./") {
                let is_later = LATER_MODULES.iter().any(|(other, _)| *other == imported);
                assert!(is_later, "{name} imports {imported} when it needs it");
            }
        }
        for asset in ASSETS.iter() {
            let text = String::from_utf8(asset.content.to_vec()).expect("UTF-8");
            for import in text.split(" from './").skip(1) {
                let imported = import.split('\'').next().unwrap_or_default();
                let is_served = ASSETS.iter().any(|asset| asset.name == imported);
                assert!(is_served, "{} imports {imported}", asset.name);
            }
        }
    }

    /// What joining modules asks of them.
    #[test]
    fn modules_can_be_joined() {
        let mut declared = BTreeSet::new();
        for (at, (name, text)) in FIRST_MODULES.iter().enumerate() {
            for imported in imports(text, "from './") {
                let is_before = FIRST_MODULES[..at]
                    .iter()
                    .any(|(other, _)| *other == imported);
                assert!(
                    is_before,
                    "{imported} stands behind {name}, which imports it"
                );
            }
            for line in text.lines() {
                let declaration = line.strip_prefix("export ").unwrap_or(line);
                let declaration = declaration.strip_prefix("async ").unwrap_or(declaration);
                let keywords = ["const ", "let ", "function ", "class "];
                let rest = keywords
                    .iter()
                    .find_map(|keyword| declaration.strip_prefix(keyword));
                if let Some(rest) = rest {
                    let end = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
                    let name = rest.split(end).next().unwrap_or_default();
                    assert!(declared.insert(name), "{name} is declared twice: {line}");
                }
            }
        }
        for (name, text) in modules() {
            for line in text.lines() {
                assert!(
                    line.matches('`').count() % 2 == 0,
                    "{name}: a text of two lines: {line}"
                );
                let has_alias = line.starts_with("import ") && line.contains(" as ");
                assert!(!has_alias, "{name}: joined modules have no aliases: {line}");
            }
        }
    }

    #[test]
    fn the_placeholders_of_the_page_are_known() {
        let inserted = ["base", "hash", "title", "config"]
            .iter()
            .fold(INDEX.to_owned(), |page, name| {
                page.replace(&format!("{{{{{name}}}}}"), "")
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
            assert!(ASSETS.iter().any(|asset| asset.name == name), "{name}");
        }
    }

    /// The bounds of what a browser loads for the overview, and of everything.
    #[test]
    fn the_page_is_small() {
        const FIRST_PAINT: usize = 30_000;
        const ALL: usize = 80_000;

        let first = [STYLE, FIRST_SCRIPT];
        let size = |asset: &Asset| asset.gzip().0.len();
        let page = encoding::gzip(INDEX.as_bytes()).len();
        let first_paint = ASSETS.iter().filter(|asset| first.contains(&asset.name));
        let first_paint = page + first_paint.map(size).sum::<usize>();
        let all = page + ASSETS.iter().map(size).sum::<usize>();
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
