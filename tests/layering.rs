//! Rules about the layers of the code, which the compiler does not check. No crate depends on a crate above itself, not
//! even for tests. No module of the core uses a module above itself. Only a few files of the face use types of `redis`,
//! axum and `tracing-subscriber`. The *face* is the crate in `src`, which users depend on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates below the face, and the crates that each may use.
const CRATES: [(&str, &[&str]); 7] = [
    ("model", &[]),
    ("detect", &["model"]),
    ("core", &["detect", "model"]),
    ("admin", &["core", "detect", "model"]),
    ("file", &["core", "detect", "model"]),
    ("redis", &["core", "model"]),
    ("rows", &["core", "model", "redis"]),
];

/// The modules of the core, lowest first. Modules of the same rank do not use each other.
const RANKS: [&[&str]; 8] = [
    &["clock", "condition", "error", "random", "targets"],
    &["task"],
    &["advice", "callbacks", "health", "skew"],
    &["recorder", "store"],
    &["cleaner", "flush", "fold", "machine", "row_lists"],
    &["changes"],
    &["query"],
    &["handle"],
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
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

/// The Rust files of a folder: each with its path in the folder, and its lines without comments.
fn code(folder: &str) -> Vec<(String, String)> {
    let folder = root().join(folder);
    let mut files = Vec::new();
    sources(&folder, &mut files);
    let read = files.into_iter().map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let lines: Vec<_> = lines.collect();
        let name = file.strip_prefix(&folder).unwrap().to_str().unwrap();
        (name.to_owned(), lines.join("\n"))
    });
    read.collect()
}

/// The names that follow a path's beginning, such as `crate::`.
fn names_after<'a>(code: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let begins = code.match_indices(beginning);
    let begins = begins.filter(move |(at, _)| !code[..*at].ends_with(is_name));
    begins.map(move |(at, _)| {
        let name = &code[at + beginning.len()..];
        &name[..name.find(|c| !is_name(c)).unwrap_or(name.len())]
    })
}

#[test]
fn a_crate_depends_only_on_crates_below_it() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = concat!("version = \"=", env!("CARGO_PKG_VERSION"), "\"");
    for (name, below) in CRATES {
        let path = format!("tower-pulse-{name} = {{ path = \"crates/{name}\", {version}");
        assert!(
            workspace.contains(&path),
            "the workspace has {name} {version}"
        );
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let mut dependencies = BTreeSet::new();
        for line in manifest.lines() {
            let dependency = line.strip_prefix("tower-pulse-");
            let Some((dependency, how)) = dependency.and_then(|line| line.split_once(" = ")) else {
                continue;
            };
            dependencies.insert(dependency.to_owned());
            assert!(
                how.starts_with("{ workspace = true"),
                "{name} needs the workspace's {dependency}"
            );
        }
        let below: BTreeSet<_> = below.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(dependencies, below, "the dependencies of {name}");
        let lib = root().join("crates").join(name).join("src/lib.rs");
        let lib = fs::read_to_string(lib).unwrap();
        let about = "//! This crate is internal to tower-pulse and changes without notice: depend on `tower-pulse`.";
        assert!(lib.contains(about), "{name}");
        assert!(
            manifest.contains("description = \"Internal to tower-pulse: "),
            "{name}"
        );
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
    }
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let folders = crates.filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(folders.count(), CRATES.len());
}

#[test]
fn a_module_of_the_core_uses_only_modules_below_it() {
    let rank = |module: &str| RANKS.iter().position(|rank| rank.contains(&module));
    let mut edges = 0;
    for (file, code) in code("crates/core/src") {
        let module = file.split(['/', '.']).next().unwrap();
        if module == "lib" {
            continue;
        }
        let own = rank(module).unwrap_or_else(|| panic!("{module} has no rank"));
        // A name that begins with a capital is a type at the crate's root, which macros for other crates may name.
        let names = names_after(&code, "crate::");
        let used = names.filter(|name| !name.starts_with(char::is_uppercase));
        for used in used.filter(|name| *name != module) {
            edges += 1;
            let is_below = rank(used).is_some_and(|rank| rank < own);
            assert!(is_below, "{file} uses {used}, which is not below it");
        }
    }
    assert!(edges > 200, "only {edges} imports");
}

/// The files of the face that name a crate.
fn users_of(name: &str) -> Vec<String> {
    let beginning = format!("{name}::");
    let files = code("src").into_iter();
    let users = files.filter(|(_, code)| names_after(code, &beginning).next().is_some());
    let mut users: Vec<_> = users.map(|(file, _)| file).collect();
    users.sort();
    users
}

/// The face takes a `redis::Client` and `redis::TlsCertificates`, and returns a layer for `tracing-subscriber` and an
/// `axum::Router`. One file of the layer reads axum's `MatchedPath`.
#[test]
fn types_of_other_crates_stay_in_few_files() {
    let redis = ["builder/redis_settings.rs", "builder/stores.rs"];
    assert_eq!(users_of("redis"), redis);
    let spans = ["pulse.rs", "tracing/collector.rs", "tracing/mod.rs"];
    assert_eq!(users_of("tracing_subscriber"), spans);
    let axum = ["dashboard/router.rs", "layer/matched.rs", "pulse/admin.rs"];
    assert_eq!(users_of("axum"), axum);
}
