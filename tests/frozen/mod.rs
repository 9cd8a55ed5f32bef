//! This version reads a whole Redis and a whole file of 0.1.0, and continues with them. Unless a change is intended,
//! this version stores the same bytes as 0.1.0. `crates/model/tests/frozen` tests each stored form.
//!
//! The bytes of a version are frozen when it is released. To write its fixtures, run
//! `PULSE_FREEZE=1 cargo test --all-features --test integration frozen::`.

pub mod answers;
mod file;
mod mask;
mod past;
mod present;
mod redis_keys;
mod server;

/// The last version whose bytes were frozen.
const LAST: &str = "0.1.0";

/// Advice for a developer whose change alters stored bytes.
const BEFORE_A_CHANGE: &str = "Is the change of the stored bytes intended? Instances of both versions share a Redis \
    while a service is deployed, and a file outlives its process. Raise ENTRY_VERSION (crates/model/src/entry.rs) \
    if an older instance would fold differently, and VERSION (crates/file/src/disk.rs) if an older process cannot \
    continue with the file. Describe each raised version in CHANGELOG.md. Then write the fixtures of this version \
    (PULSE_FREEZE=1), and keep the fixtures of the last version";

fn assert_stored(before: &[String], now: &[String]) {
    let missing: Vec<_> = before.iter().filter(|line| !now.contains(line)).collect();
    let new: Vec<_> = now.iter().filter(|line| !before.contains(line)).collect();
    assert!(
        missing.is_empty() && new.is_empty(),
        "this version stores {new:#?}\nwhere {LAST} stored {missing:#?}\n{BEFORE_A_CHANGE}"
    );
}

fn fixture(version: &str, name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("tests/frozen").join(version).join(name)
}

fn is_freezing() -> bool {
    std::env::var_os("PULSE_FREEZE").is_some()
}

/// Writes a fixture that does not exist yet: the stored bytes of a version never change.
fn write_fixture(name: &str, bytes: &[u8]) {
    let path = fixture(env!("CARGO_PKG_VERSION"), name);
    assert!(!path.exists(), "{} exists", path.display());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
