//! The files of the dashboard, compiled in and compressed, because every browser reads gzip. Their URLs are
//! `assets/{hash}/{file}`. A browser keeps files for ever, and modules import each other by relative paths. So all
//! files need a new URL when one of them changes, and the hash covers all files.
//!
//! While two versions serve behind one load balancer, an instance may be asked for a file under the hash of the other
//! version. The instance answers with its own file, because a 404 would break every dashboard that is opened during a
//! rolling deploy. The browser must revalidate this file before each use, so that it does not keep the wrong file under
//! that URL.

use std::sync::LazyLock;

use axum::response::Response;
use bytes::Bytes;
use hmac_sha256::Hash;
use http::request::Parts;
use http::{HeaderValue, header};

use super::response;

const KEPT_FOR_EVER: HeaderValue = HeaderValue::from_static("private, immutable, max-age=31536000");
const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const JAVASCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");

/// The dashboard's HTML, with placeholders for the URLs of its style and of its first script.
pub(super) const INDEX: &str = include_str!("assets/index.html");

/// The digits of the hash in URLs: half a SHA-256.
const HASH_DIGITS: usize = 32;

/// The files as the build script compressed them, by name.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The hash of all files, which the dashboard's URLs contain.
pub(super) static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Hash::new();
    for (name, content) in FILES {
        // The length precedes each part, so that different files never give the same bytes.
        for part in [name.as_bytes(), content] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    response::half_of(digest.finalize())
});

/// The URL of a file below `assets/`, with the file.
pub(super) struct AssetPath<'a> {
    /// The hash; `None` if the URL has none.
    hash: Option<&'a str>,
    name: &'a str,
    file: &'static [u8],
}

impl<'a> AssetPath<'a> {
    /// Parses `{hash}/{file}` or `{file}`. `None` if there is no such file, or the hash has another form.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let (hash, name) = match path.split_once('/') {
            Some((hash, name)) => (Some(hash), name),
            None => (None, path),
        };
        let is_hash = |hash: &str| {
            hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let file = content(name)?;
        hash.is_none_or(is_hash)
            .then_some(Self { hash, name, file })
    }
}

fn content(name: &str) -> Option<&'static [u8]> {
    let mut files = FILES.iter();
    Some(files.find(|(other, _)| *other == name)?.1)
}

/// Serves a file. A browser keeps it for ever if the URL has the right hash, and revalidates it otherwise.
pub(super) fn serve(parts: &Parts, path: AssetPath<'_>) -> Response {
    let content_type = match path.name.ends_with(".css") {
        true => CSS,
        false => JAVASCRIPT,
    };
    let cache = match path.hash == Some(&**HASH) {
        true => KEPT_FOR_EVER,
        false => REVALIDATED,
    };
    let etag = response::etag(format!("\"{}\"", *HASH));
    let mut response = response::tagged(parts, etag, || {
        let mut whole = response::body(Bytes::from_static(path.file), content_type);
        let headers = whole.headers_mut();
        headers.insert(header::CONTENT_ENCODING, GZIP);
        whole
    });
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, cache);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::super::scripts::*;
    use super::*;

    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/assets")
    }

    fn modules() -> Vec<(&'static str, String)> {
        let names = FIRST_MODULES.iter().chain(LATER_MODULES);
        let text = |name| fs::read_to_string(folder().join(name)).expect("the file exists");
        names.map(|name| (*name, text(*name))).collect()
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let names: BTreeSet<_> = fs::read_dir(folder())
            .expect("the folder exists")
            .map(|entry| entry.expect("readable").file_name().into_string())
            .map(|name| name.expect("UTF-8"))
            .filter(|name| name != "index.html")
            .collect();
        let styles = STYLES.iter().chain(LATER_STYLES);
        let served = styles.chain(FIRST_MODULES).chain(LATER_MODULES);
        let served: BTreeSet<_> = served.map(|name| (*name).to_owned()).collect();
        assert_eq!(served, names);
    }

    /// The modules that a module imports by `statement`.
    fn imports<'a>(text: &'a str, statement: &str) -> Vec<&'a str> {
        let imports = text.split(statement).skip(1);
        let name = |import: &'a str| import.split('\'').next().unwrap_or_default();
        imports.map(name).collect()
    }

    #[test]
    fn every_imported_module_exists_and_is_served() {
        let modules = modules();
        for (name, text) in &modules {
            for imported in imports(text, "from './") {
                let exists = modules.iter().any(|(other, _)| *other == imported);
                assert!(exists, "{name} imports {imported}, which is no module");
            }
            for imported in imports(text, "import('./") {
                let is_later = LATER_MODULES.contains(&imported);
                assert!(
                    is_later,
                    "{name} imports {imported} on demand, but LATER_MODULES does not list {imported}"
                );
            }
        }
        let read = |name: &str| fs::read_to_string(folder().join(name));
        let served = served(read).expect("the files exist");
        let names = |(name, _): &(&'static str, _)| *name;
        let compiled_in: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(served.iter().map(names).collect::<Vec<_>>(), compiled_in);
        for (name, text) in served {
            for imported in imports(&text, " from './") {
                assert!(
                    content(imported).is_some(),
                    "{name} imports {imported}, which is not served"
                );
            }
        }
    }

    #[test]
    fn modules_can_be_joined() {
        let mut declared = BTreeSet::new();
        let modules = modules();
        for (at, (name, text)) in modules[..FIRST_MODULES.len()].iter().enumerate() {
            for imported in imports(text, "from './") {
                let is_before = FIRST_MODULES[..at].contains(&imported);
                assert!(
                    is_before,
                    "FIRST_MODULES must list {imported} before {name}, which imports it"
                );
            }
            for line in text.lines() {
                let declaration = line.strip_prefix("export ").unwrap_or(line);
                let declaration = declaration.strip_prefix("async ").unwrap_or(declaration);
                let keywords = ["const ", "let ", "function ", "class "];
                let tail = keywords
                    .iter()
                    .find_map(|one| declaration.strip_prefix(one));
                if let Some(tail) = tail {
                    let end = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
                    let name = tail.split(end).next().unwrap_or_default();
                    assert!(declared.insert(name), "{name} is declared twice: {line}");
                }
            }
        }
        for (name, text) in &modules {
            for line in text.lines() {
                let is_closed = line.matches('`').count() % 2 == 0;
                assert!(
                    is_closed,
                    "{name}: a template literal must not span lines: {line}"
                );
                let has_alias = line.starts_with("import ") && line.contains(" as ");
                assert!(
                    !has_alias,
                    "{name}: joined modules must not import under an alias: {line}"
                );
            }
        }
    }

    #[test]
    fn the_dashboard_is_small() {
        const FIRST_PAINT: usize = 35_000;
        const ALL: usize = 84_000;

        let size = |name: &str| content(name).map_or(0, <[u8]>::len);
        let first_paint = INDEX.len() + size(STYLE) + size(FIRST_SCRIPT);
        let all = INDEX.len() + FILES.iter().map(|(name, _)| size(name)).sum::<usize>();
        eprintln!("first paint: {first_paint} bytes, in all: {all} bytes");
        assert!(first_paint <= FIRST_PAINT, "{first_paint} bytes");
        assert!(all <= ALL, "{all} bytes");
    }
}
