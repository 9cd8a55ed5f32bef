//! Checks the documents: links have targets, the guide lists each of its pages, and README stays short.

use std::fs;
use std::path::{Path, PathBuf};

const MAX_README_WORDS: usize = 1_000;
/// The URL of the guide, for documents outside of it.
const GUIDE: &str = "https://docs.rs/tower-pulse/latest/tower_pulse/guide/";
/// Pages of the guide whose files are in `docs/`.
const EVIDENCE: [&str; 3] = ["faults", "detector", "cost"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documents(folder: &str) -> Vec<PathBuf> {
    files(folder, "md")
}

fn files(folder: &str, kind: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(root().join(folder)).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == kind))
        .collect()
}

/// The file of a page of the guide.
fn page(name: &str) -> PathBuf {
    let folder = if EVIDENCE.contains(&name) {
        "docs"
    } else {
        "src/guide"
    };
    root().join(folder).join(format!("{name}.md"))
}

/// The targets of a document's links: `[text](target)` on one or two lines, and `[name]: target`.
fn targets(text: &str) -> Vec<&str> {
    let inline = text
        .split("](")
        .skip(1)
        .filter_map(|tail| tail.split_once(')'));
    let named = text
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    let inline = inline.map(|(target, _)| target);
    let targets: Vec<&str> = inline.chain(named.map(|(_, target)| target)).collect();
    targets
        .into_iter()
        .filter(|target| !target.contains([' ', '\n']))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || "-_".contains(c) => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(kept)
        .collect()
}

fn has_anchor(page: &Path, name: &str) -> bool {
    let text = read(page);
    text.lines()
        .any(|line| line.starts_with('#') && anchor(line) == name)
}

/// A description of a link without a target; `None` if the target exists.
fn fault(document: &Path, target: &str) -> Option<String> {
    let (target, name) = target.split_once('#').unwrap_or((target, ""));
    let file = if let Some(page_name) = target.strip_prefix(GUIDE) {
        match page_name.trim_end_matches('/') {
            "" => return None,
            name => page(name),
        }
    } else if let Some(item) = target.trim_start_matches("mod@").strip_prefix("crate::") {
        // rustdoc checks the links to all other items.
        page(item.strip_prefix("guide::")?)
    } else if target.starts_with("https://") || target.starts_with("http://") {
        return None;
    } else if target.is_empty() {
        document.to_owned()
    } else if document.starts_with(root().join("src/guide")) {
        page(target.trim_start_matches("mod@"))
    } else {
        document.with_file_name(target)
    };
    let is_there = file.exists() && (name.is_empty() || has_anchor(&file, name));
    (!is_there).then(|| format!("{} links to {target}#{name}", document.display()))
}

#[test]
fn every_link_has_a_target() {
    let mut all = documents("");
    all.extend(documents("docs"));
    all.extend(documents("src/guide"));
    all.extend(documents("tests"));
    assert!(all.len() > 25, "{all:?}");
    let mut followed = 0;
    let mut faults = Vec::new();
    for document in all {
        let text = read(&document);
        for target in targets(&text) {
            followed += 1;
            faults.extend(fault(&document, target));
        }
    }
    assert!(followed > 200, "only {followed} links");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_guide_lists_each_page() {
    let guide = read(&root().join("src/guide/mod.rs"));
    let mut pages: Vec<String> = (documents("src/guide").iter())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    pages.extend(EVIDENCE.map(str::to_owned));
    for page in pages {
        let is_listed = ["", "mod@"]
            .iter()
            .any(|kind| guide.contains(&format!("]({kind}{page})")));
        let is_shown = guide.contains(&format!("{page}.md\")]\npub mod {page} {{}}"));
        assert!(is_listed && is_shown, "{page}");
    }
}

#[test]
fn readme_is_short() {
    let words = read(&root().join("README.md")).split_whitespace().count();
    assert!(words <= MAX_README_WORDS, "{words} words");
}

/// ARCHITECTURE.md and the map of tests name files and folders that exist.
#[test]
fn files_that_documents_name_exist() {
    let map = read(&root().join("tests/README.md"));
    let (map, _) = map.split_once("## Helpers").unwrap();
    let rows = map.lines().filter_map(|line| line.strip_prefix("| "));
    let tests = rows.filter_map(|row| row.split(" | ").nth(1));
    let tests = tests.flat_map(|tests| tests.split('`').skip(1).step_by(2));
    let tests = tests.filter(|name| !name.starts_with("make "));
    let mut named: Vec<_> = tests.map(|name| format!("tests/{name}")).collect();
    assert!(named.len() > 50, "{named:?}");
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let names = architecture.split('`').skip(1).step_by(2);
    let folders = ["src/", "crates/", "tests/"];
    let is_path = |name: &&str| folders.iter().any(|folder| name.starts_with(folder));
    named.extend(names.filter(is_path).map(str::to_owned));
    assert!(named.len() > 90, "{named:?}");
    let is_there = |name: &str| {
        ["", ".rs"]
            .iter()
            .any(|end| root().join(format!("{name}{end}")).exists())
    };
    named.retain(|name| !is_there(name));
    assert_eq!(named, [""; 0]);
}

/// Checks the code of documents and examples.
#[test]
fn no_example_fails_if_its_store_is_away_at_the_shutdown() {
    let mut all = documents("");
    for folder in ["docs", "src/guide"] {
        all.extend(documents(folder));
    }
    for folder in [
        "src",
        "src/builder",
        "src/pulse",
        "examples",
        "examples/webhook",
        "examples/row_cache",
    ] {
        all.extend(files(folder, "rs"));
    }
    for path in all {
        let fails = read(&path).contains("shutdown().await?");
        assert!(!fails, "{}", path.display());
    }
}
