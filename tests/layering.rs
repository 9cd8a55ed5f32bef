//! The direction of imports, as DESIGN.md draws it: nothing imports upwards, and modules of one rank
//! do not import each other.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each rank, lowest first.
const RANKS: [&[&str]; 7] = [
    &["error", "clock", "task"],
    &["model"],
    &["store"],
    &["recorder"],
    &["flush", "fold", "cleaner", "ranking", "row_cache"],
    &["layer", "admin"],
    &["builder", "pulse", "testing", "guide", "lib"],
];

fn rank(module: &str) -> usize {
    RANKS
        .iter()
        .position(|rank| rank.contains(&module))
        .unwrap_or_else(|| panic!("src/{module} has no rank: add it to {}", file!()))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules that a source names by `crate::…`, comments left out, groups (`crate::{a, b}`)
/// included.
fn imports(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split_once('}').unwrap().0.split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let name: String = name
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.push(name);
        }
    }
    found
}

#[test]
fn nothing_imports_upwards_or_sideways() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut checked) = (Vec::new(), 0);
    sources(&src, &mut files);
    for file in files {
        let relative = file.strip_prefix(&src).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap();
        let module = module.trim_end_matches(".rs");
        for import in imports(&fs::read_to_string(&file).unwrap()) {
            // Items of the crate's root, which lib.rs re-exports from below.
            if import.is_empty() || import.starts_with(char::is_uppercase) {
                continue;
            }
            checked += 1;
            let allowed = import == module
                || rank(&import) < rank(module)
                || rank(module) == 0 && rank(&import) == 0
                || module == "builder" && import == "pulse"
                || module == "pulse" && import == "builder"
                || module == "lib";
            assert!(
                allowed,
                "src/{} imports crate::{import}, which is not below it",
                relative.display()
            );
        }
    }
    assert!(checked > 50, "only {checked} imports were found");
}

#[test]
fn redis_types_stay_in_the_redis_store_and_axum_types_in_their_places() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    for file in files {
        let relative = file
            .strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let source = fs::read_to_string(&file).unwrap();
        let code: Vec<_> = source
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect();
        let names = |what: &str| code.iter().any(|line| line.contains(what));
        // A user hands in a `redis::Client`, and is given an `axum::Router`.
        let handle = ["builder.rs", "pulse.rs"].contains(&&*relative);
        assert!(
            !names("redis::Client") || relative.starts_with("store/redis/") || handle,
            "{relative} names redis types"
        );
        assert!(
            !names("axum::")
                || relative.starts_with("admin/")
                || relative == "layer/matched.rs"
                || handle,
            "{relative} names axum types"
        );
    }
}
