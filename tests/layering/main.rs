//! The layers, as DESIGN.md draws them: nothing imports upwards or in a circle, and modules of one rank do
//! not import each other. Items count where they are defined, whatever path or re-export names them, in
//! tests too. What is one module to others (a module and its children) is free within.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod made_up;
mod source;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use tree::Tree;

/// The modules of each rank, lowest first. `lib.rs` is above all.
const RANKS: [&[&str]; 8] = [
    &["error", "clock", "random", "task", "health"],
    &["store", "recorder"],
    &["flush", "fold", "cleaner", "row_cache", "changes"],
    &["query", "import"],
    &["layer", "admin", "testing"],
    &["pulse", "dashboard"],
    &["builder"],
    &["guide"],
];

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

/// This crate.
fn tree() -> Tree {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let sources = files.iter().map(|file| {
        let relative = file.strip_prefix(&src).unwrap().to_str().unwrap();
        (relative.to_owned(), fs::read_to_string(file).unwrap())
    });
    let sources: Vec<_> = sources.collect();
    let sources = sources.iter();
    Tree::read(sources.map(|(file, source)| (file.as_str(), source.as_str())))
}

#[test]
fn nothing_imports_upwards_or_sideways() {
    let tree = tree();
    assert!(tree.edges() > 300, "only {} imports", tree.edges());
    assert_eq!(tree.upwards(&RANKS), [""; 0]);
}

#[test]
fn nothing_imports_in_a_circle() {
    assert_eq!(tree().circles(), [""; 0]);
}

/// The files that name a crate, but for those in one folder.
fn users_outside(name: &str, folder: &str) -> Vec<String> {
    let mut users = tree().users_of(name);
    let all = users.len();
    users.retain(|user| user != folder && !user.starts_with(&format!("{folder}::")));
    assert!(users.len() < all, "{folder} does not name {name}");
    users
}

#[test]
fn redis_types_stay_in_the_redis_store() {
    // A user hands in a `redis::Client`.
    assert_eq!(
        users_outside("redis", "store::redis"),
        ["builder::dashboard", "builder::stores"]
    );
}

#[test]
fn axum_types_stay_in_the_admin_and_in_one_file_of_the_layer() {
    // A user is given an `axum::Router`.
    assert_eq!(
        users_outside("axum", "admin"),
        ["dashboard::router", "layer::matched", "pulse::admin"]
    );
}

/// Every file that ARCHITECTURE.md names exists.
#[test]
fn the_architecture_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let named = text.split('`').skip(1).step_by(2);
    let is_path = |name: &&str| {
        ["src/", "crates/", "tests/"]
            .iter()
            .any(|folder| name.starts_with(folder))
    };
    let paths = named.filter(is_path);
    let paths: Vec<_> = paths.collect();
    assert!(paths.len() > 30, "only {} paths", paths.len());
    let missing = paths.into_iter().filter(|path| !root.join(path).exists());
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}
